"""Damaged snapshots: each byte, each JSON value, each length. Each is refused in a sentence, or says what it said.

A quick run tries some of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from purgatorio.admin.cluster import Cluster
from purgatorio.admin.operations.control.damage import Damaged
from purgatorio.admin.operations.control.data_folder import MANIFEST, DataFolder, DataUnusable
from purgatorio.admin.operations.control.saved_format import NewerFormat, read_log, read_manifest
from purgatorio.broker.config import ClusterConfig
from tests.admin.operations.control.saved import snapshot

STRIDES: Final = (pytest.param(61, id="some"), pytest.param(1, id="all", marks=pytest.mark.slow))
"""Every how many bytes are damaged, or values changed."""
VALUES: Final = (
    None,
    True,
    -1,
    0,
    5,
    1 << 70,
    1.5,
    1e308,
    "",
    "x",
    "-1",
    "a/b\n\ud800",
    [],
    [[]],
    [None],
    {},
    {"x": {}},
    {"format": 1, "count": 1 << 70, "id": "", "rows": []},
)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, bytes]:
    """The files of a folder with the small snapshot, by their names."""
    with closing(DataFolder(tmp_path)) as folder:
        folder.write(snapshot())
    return {str(path.relative_to(tmp_path)): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


def refused(read: Callable[[], object]) -> bool:
    """Return whether it is refused, in a sentence."""
    told = ""
    try:
        read()
    except (Damaged, NewerFormat) as error:
        told = str(error)
    assert told.isprintable()
    assert len(told) < 500
    return bool(told)


@pytest.mark.parametrize("stride", STRIDES)
def test_each_byte_of_the_manifest_counts(files: dict[str, bytes], stride: int) -> None:
    """With another byte it is refused, if it does not say the same (a space for a line feed)."""
    content = files[MANIFEST]
    whole = read_manifest(content)
    for position in range(0, len(content), stride):
        for other in {content[position] ^ 1, content[position] ^ 0x80, *b'0 ,}"'} - {content[position]}:
            damaged = content[:position] + bytes([other]) + content[position + 1 :]
            assert refused(lambda damaged=damaged: read_manifest(damaged)) or read_manifest(damaged) == whole


@pytest.mark.parametrize("stride", STRIDES)
def test_a_manifest_that_is_cut_off_is_refused(files: dict[str, bytes], stride: int) -> None:
    content = files[MANIFEST]
    for length in range(0, len(content), stride):
        assert refused(lambda length=length: read_manifest(content[:length]))


@pytest.mark.parametrize("stride", STRIDES)
def test_each_byte_and_each_length_of_a_log_counts(files: dict[str, bytes], tmp_path: Path, stride: int) -> None:
    content = files["snapshot-1/1.log"]
    log = next(log for log in read_manifest(files[MANIFEST]).logs if log.size_bytes)
    path = tmp_path / "log"
    for position in range(0, len(content), stride):
        for damaged in (
            content[:position],
            content[position:] + content[:position][:-1],
            content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :],
        ):
            path.write_bytes(damaged)
            with path.open("rb") as file:
                assert refused(partial(read_log, file, len(damaged), log)) or damaged == content


def changed(value: Any) -> Iterator[Any]:
    """Yield a JSON value with each of its parts, itself among them, gone, twice, or of another type."""
    yield from (each for each in VALUES if each != value or type(each) is not type(value))
    if isinstance(value, dict):
        for key, part in value.items():
            rest = {name: each for name, each in value.items() if name != key}
            yield rest
            yield {**rest, f"{key}0": part}
            for each in changed(part):
                yield {**rest, key: each}
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield value[:index] + value[index + 1 :]
            yield [*value, part]
            for each in changed(part):
                yield [*value[:index], each, *value[index + 1 :]]


def manifests(content: bytes, stride: int) -> Iterator[Any]:
    """Yield changed manifests, which have no CRC, as those that are edited."""
    whole = {name: value for name, value in json.loads(content).items() if name != "crc32"}
    for number, each in enumerate(changed(whole)):
        if number % stride == 0:
            yield each


@pytest.mark.parametrize("stride", STRIDES)
def test_each_value_of_the_manifest_is_checked(files: dict[str, bytes], stride: int) -> None:
    """Those that are not refused are looked at by the next test."""
    for each in manifests(files[MANIFEST], stride):
        content = json.dumps(each).encode()
        refused(lambda content=content: read_manifest(content))


@pytest.mark.ci
@pytest.mark.timeout(300)
async def test_brokers_can_have_what_is_accepted(files: dict[str, bytes], tmp_path: Path) -> None:
    """Each edited manifest that is accepted fills a cluster, which stops in order."""
    (tmp_path / "edited").mkdir()
    with closing(DataFolder(tmp_path / "edited")) as folder:
        folder.write(snapshot())
        for each in manifests(files[MANIFEST], 1):
            (folder.path / MANIFEST).write_text(json.dumps(each))
            try:
                edited = folder.read()
            except DataUnusable:
                continue
            assert edited is not None
            if edited.topics.keys() != snapshot().topics.keys():
                continue
            async with Cluster(ClusterConfig(brokers=2, port=0, admin_port=0), admin=False) as cluster:
                await cluster.restore(edited)
