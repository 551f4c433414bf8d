"""Topics and records that a cluster begins with."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from purgatorio.admin.cluster import Cluster
from purgatorio.admin.operations.control import importing
from purgatorio.admin.operations.control.beginning import Beginning
from purgatorio.admin.operations.control.importing import InitialTopic, NotImported, joined, read_folder, seed_topic
from purgatorio.admin.operations.control.topic_control import led
from purgatorio.admin.operations.reading.records import read_records
from purgatorio.broker.config import ClusterConfig

Write = Callable[..., Path]


@pytest.fixture
def folder(tmp_path: Path) -> Write:
    """Writes files of lines, by name with `_` for the dot; returns the folder."""

    def write(**files: str | bytes) -> Path:
        for name, content in files.items():
            data = content if isinstance(content, bytes) else content.encode()
            (tmp_path / f"{name.replace('_', '.')}.jsonl").write_bytes(data)
        return tmp_path

    return write


def test_seeds_are_names_with_numbers_of_partitions() -> None:
    assert (seed_topic("orders:6"), seed_topic("orders")) == (InitialTopic("orders", 6), InitialTopic("orders"))


@pytest.mark.parametrize("text", ["", "or ders:1", "orders:", "orders:0", "orders:-1", "orders:x", ":6", "a:1:2"])
def test_a_seed_that_cannot_be_is_told(text: str) -> None:
    with pytest.raises(NotImported, match=f"^--seed-topic {text}: "):
        seed_topic(text)


def test_a_folder_has_topics_and_records(folder: Write) -> None:
    """The first line may begin with a byte order mark, and the last one need not end with a line feed."""
    found = read_folder(
        folder(
            topics='{"name": "orders", "partitions": 3, "replicas": 1, "configs": {"cleanup.policy": "compact"}}\n'
            '{"name": "bare", "configs": {"retention.ms": 1}}\n',
            orders='\ufeff{"key": "a"}\n\n  \n{"value": "b"}',
            empty="",
        )
    )
    bare, empty, orders = found
    assert (bare.name, bare.partitions, dict(bare.configs)) == ("bare", -1, {"retention.ms": "1"})
    assert (empty.name, empty.records) == ("empty", [])
    assert (orders.partitions, orders.replicas, dict(orders.configs)) == (3, 1, {"cleanup.policy": "compact"})
    assert [(each.key, each.value) for each in orders.records] == [(b"a", None), (None, b"b")]


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"orders": '{"value": "a"}\n{"value": '}, "orders.jsonl:2: not JSON: expecting value at character 11"),
        ({"orders": b'{"value": "\xff"}'}, "orders.jsonl:1: not UTF-8: invalid start byte at byte 12"),
        ({"orders": '{"vlaue": "a"}'}, "orders.jsonl:1: a record has no 'vlaue', only key,"),
        ({"orders": "[" * 100_000}, "orders.jsonl:1: not JSON"),
        ({"topics": '{"name": "a"}', "a": '{"partition": -1}'}, "a.jsonl:1: partition is a whole number"),
        ({"topics": '{"name": "a", "partitions": 2}', "a": '{"partition": 2}'}, "a.jsonl:1: topic a has 2 partitions"),
        ({"topics": '{"name": "a"}\n{"name": "a"}'}, "topics.jsonl:2: topic a is in an earlier line"),
        ({"topics": '{"name": "a", "partition": 1}'}, "topics.jsonl:1: a topic has no 'partition', only name,"),
        ({"topics": '{"name": "a b"}'}, "topics.jsonl:1: A topic name consists of ASCII letters"),
        ({"topics": '{"name": "a", "partitions": 0}'}, "topics.jsonl:1: partitions is a whole number from 1 to 20000"),
        ({"topics": '{"name": "a", "replicas": -5}'}, "topics.jsonl:1: replicas is a whole number from 1 to 20000"),
        ({"topics": '{"name": "a", "configs": {"retention.ms": "soon"}}'}, "topics.jsonl:1: retention.ms: "),
        ({"topics": '{"name": "a", "configs": {"retention": 1}}'}, "topics.jsonl:1: retention: there is no such topic"),
        ({"a": '{"partition": 2147483647}'}, "a.jsonl:1: a topic has at most 20000 partitions"),
        ({"a": '{"headers": {"\\ud800": ""}}'}, "a.jsonl:1: the name of a header has half of a surrogate pair"),
        ({"topics": '{"name": "a", "configs": []}'}, None),
        ({"topics": '{"name": "a", "configs": ["x"]}'}, "topics.jsonl:1: configs is an object such as"),
        ({"topics": '["a"]'}, "topics.jsonl:1: a topic is an object such as"),
        ({"or ders": ""}, "or ders.jsonl: the file is named like its topic: A topic name"),
        ({}, " has no file such as orders.jsonl"),
    ],
)
def test_a_broken_line_is_told_with_file_number_and_why(
    folder: Write, files: dict[str, str], told: str | None, tmp_path: Path
) -> None:
    if told is None:
        assert read_folder(folder(**files))[0].name == "a"
        return
    with pytest.raises(NotImported) as refused:
        read_folder(folder(**files))
    assert str(refused.value).startswith(str(tmp_path))
    assert told in str(refused.value)


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotImported, match="nowhere: no such file or directory"):
        read_folder(tmp_path / "nowhere")


def test_each_depth_of_a_value_is_imported_or_told(folder: Write) -> None:
    """Reading a value goes as deep as writing it as text, but for some levels."""
    found = []
    for depth in range(900, 1_000, 3):
        path = folder(a='{"value": ' + "[" * depth + "]" * depth + "}")
        try:
            found.append(read_folder(path)[0].records[0].value == b"[" * depth + b"]" * depth)
        except NotImported as refused:
            found.append("nested too deeply" in str(refused) or "maximum recursion depth" in str(refused))
    assert all(found)


def test_what_is_no_file_is_not_waited_for(folder: Write) -> None:
    """A pipe that no process writes to, a folder, a device behind a link; a link to a file is read."""
    path = folder(a='{"value": "a"}')
    (path / "b.jsonl").symlink_to(path / "a.jsonl")
    os.mkfifo(path / "pipe")
    assert [each.name for each in read_folder(path)] == ["a", "b"]
    for kind, make in (
        ("a pipe, not a file", os.mkfifo),
        ("a directory, not a file", Path.mkdir),
        ("not a file", lambda each: each.symlink_to("/dev/zero")),
        ("not a file", lambda each: each.symlink_to("pipe")),
    ):
        make(path / "c.jsonl")
        with pytest.raises(NotImported, match=rf"c\.jsonl is {kind}"):
            read_folder(path)
        (path / "c.jsonl").rmdir() if kind.startswith("a dir") else (path / "c.jsonl").unlink()
    (path / "c.jsonl").symlink_to("nowhere")
    with pytest.raises(NotImported, match=r"c\.jsonl: no such file or directory"):
        read_folder(path)


def test_files_that_memory_does_not_hold_are_not_read(folder: Write) -> None:
    path = folder(a="")
    with (path / "a.jsonl").open("wb") as file:
        file.truncate(1 << 42)
    with pytest.raises(NotImported, match=rf"^{path} has {1 << 42} bytes, and there are [0-9]+ bytes of memory$"):
        read_folder(path)


def test_a_line_has_a_limit(folder: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "MAX_LINE_BYTES", 10)
    with pytest.raises(NotImported, match=r"orders.jsonl:1: the line is longer than 10 bytes"):
        read_folder(folder(orders='{"value": "a"}'))


def test_seeds_win_over_imported_numbers_of_partitions() -> None:
    found = joined([InitialTopic("a", 6), InitialTopic("b")], [InitialTopic("a", 2), InitialTopic("c")])
    assert [(each.name, each.partitions) for each in found] == [("a", 6), ("c", -1), ("b", -1)]
    with pytest.raises(NotImported, match="the same topic is given twice"):
        joined([InitialTopic("a"), InitialTopic("a", 2)], [])


async def test_a_cluster_is_filled_at_its_start_and_again_by_a_reset(
    folder: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a number of partitions a topic has those that its records name; portions keep the order of a key."""
    monkeypatch.setattr(importing, "RECORDS_PER_APPEND", 2)
    lines = [f'{{"key": "k", "value": "{number}", "partition": 4, "timestamp_ms": 9}}\n' for number in range(5)]
    beginning = Beginning(read_folder(folder(orders="".join(lines))))
    cluster = Cluster(ClusterConfig(port=0, admin_port=0), admin=False)
    cluster.beginning = beginning
    async with cluster:
        for _ in range(2):
            assert len(cluster.store.image.topics["orders"].partitions) == 5
            found = list(read_records(led(cluster, "orders", 4), "read_uncommitted"))
            assert [(each.offset, each.value, each.timestamp_ms) for each in found] == [
                (number, b"%d" % number, 9) for number in range(5)
            ]
            await cluster.reset()


async def test_what_brokers_refuse_is_told(folder: Write) -> None:
    path = folder(topics='{"name": "orders", "configs": {"cleanup.policy": "compact"}}', orders='{"value": "keyless"}')
    unknown = [InitialTopic("bills", configs={"cleanup.polcy": "x"})]
    for topics, told in (
        (read_folder(path), r"topics\.jsonl: .*key"),
        (unknown, r"no topic config 'cleanup\.polcy'; did you mean cleanup\.policy"),
    ):
        cluster = Cluster(ClusterConfig(port=0, brokers=1), admin=False)
        cluster.beginning = Beginning(topics)
        with pytest.raises(NotImported, match=told):
            await cluster.start()
        assert not cluster.has_begun


async def test_records_that_do_not_fit_into_memory_are_told(folder: Write) -> None:
    """The cluster was ready, with the last ones of them."""
    line = f'{{"value": "{"x" * 100_000}"}}\n'
    cluster = Cluster(ClusterConfig(port=0, brokers=1, broker={"log_memory_bytes": 4_000_000}), admin=False)
    cluster.beginning = Beginning(read_folder(folder(orders=60 * line)))
    with pytest.raises(NotImported) as refused:
        await cluster.start()
    told = str(refused.value).rpartition("/")[2]
    assert told == (
        "orders.jsonl: the records do not fit into the brokers' memory: --set log.memory.bytes sets it, "
        "and it is 4000000"
    )
    assert not cluster.has_begun
