"""``purgatorio groups`` against a cluster with consumers: what a user reads, and what is sent."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer

from purgatorio.admin.cli import group_commands
from purgatorio.admin.cli import main as cli

PATIENCE_S = 30


class FakeAdmin:
    """An admin HTTP that answers everything alike, and keeps what it was asked."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self.answer = answer
        self.asked: list[tuple[str, Any]] = []

    def get(self, path: str) -> dict[str, Any]:
        self.asked.append((path, None))
        return self.answer

    def post(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        self.asked.append((path, body))
        return self.answer


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[FakeAdmin, str]]:
    """Run a command against an admin HTTP with this answer; returns what was asked and what was printed."""

    def asked(answer: dict[str, Any], *argv: str) -> tuple[FakeAdmin, str]:
        admin = FakeAdmin(answer)
        monkeypatch.setattr("purgatorio.admin.cli.admin_client.AdminClient", lambda *_: admin)
        assert cli.main(["groups", *argv]) == 0
        return admin, capsys.readouterr().out

    return asked


def group(**facts: Any) -> dict[str, Any]:
    """A group as the admin HTTP tells it."""
    known = {
        "id": "billing",
        "type": "classic",
        "state": "Stable",
        "assignor": "range",
        "epoch": 3,
        "coordinator": 2,
        "member_count": 0,
        "offset_count": 0,
        "lag": 12,
        "waits_for": "",
        "members": [],
        "offsets": [],
    }
    return {**known, **facts}


def member(member_id: str, **facts: Any) -> dict[str, Any]:
    """A member that owns orders 0 to 2 and 5."""
    owned = [{"topic": "orders", "partitions": [0, 1, 2, 5], "partition_count": 4}]
    known = {
        "member_id": member_id,
        "instance_id": None,
        "client": "app",
        "host": "127.0.0.1",
        "owned": owned,
        "waits_for": "",
        "session_left_ms": 9_870,
    }
    return {**known, **facts}


def offset(partition: int, **facts: Any) -> dict[str, Any]:
    """A partition that nobody has consumed."""
    known = {"topic": "orders", "offset": None, "end_offset": None, "lag": None, "metadata": "", "owner": ""}
    return {**known, "partition": partition, **facts}


def test_groups_are_listed(run: Any) -> None:
    waiting = group(id="x\x1b[2J", state="PreparingRebalance", lag=None, waits_for="rebalance of x waits for member a")
    answer = {"groups": [group(), waiting], "group_count": 3, "loading_partition_count": 1}
    admin, said = run(answer, "list")
    assert admin.asked == [("groups", None)]
    assert said.splitlines() == [
        "GROUP    STATE               PROTOCOL  MEMBERS  LAG  COORDINATOR  WAITS FOR",
        "billing  Stable              classic   0        12   2",
        "x?[2J    PreparingRebalance  classic   0        -    2            rebalance of x waits for member a",
        "and 1 more",
        "some groups are being loaded by their coordinators, and are not listed yet",
    ]


def test_a_group_is_described(run: Any) -> None:
    long_id = "application-0ae5e1a2-77a5-4f62-9d1c-aaaaaaaaaaaa"
    static = member("b", instance_id="static", owned=None, session_left_ms=None, waits_for="has to join again")
    offsets = [offset(0, offset=30, end_offset=42, lag=12, owner=long_id), offset(1)]
    described = group(members=[member(long_id), static], offsets=offsets, member_count=5, waits_for="waits for static")
    described["offset_count"] = 9
    admin, said = run(described, "describe", "a/b c")
    assert admin.asked == [("groups/a%2Fb%20c", None)]
    assert said.splitlines() == [
        "group billing: Stable, generation 3, assignor range, coordinator broker 2",
        "waits for static",
        "",
        "MEMBER                    CLIENT  HOST       SESSION LEFT  OWNS          WAITS FOR",
        "application-0ae5e1a2-77…  app     127.0.0.1  9.9 s         orders:0-2,5",
        "static                    app     127.0.0.1  -             ?             has to join again",
        "and 3 more members",
        "",
        "PARTITION  OFFSET  END  LAG  MEMBER",
        "orders-0   30      42   12   application-0ae5e1a2-77…",
        "orders-1   -       -    -    -",
        "and 7 more partitions",
    ]


def test_members_whose_short_names_are_the_same_have_their_whole_ids(run: Any) -> None:
    ids = ["application-with-a-long-name-1", "application-with-a-long-name-2"]
    _, said = run(group(members=[member(each) for each in ids]), "describe", "billing")
    assert all(each in said for each in ids)


def test_a_group_without_members_and_offsets_says_so(run: Any) -> None:
    _, said = run(group(type="consumer", state="Empty", assignor="", epoch=0), "describe", "billing")
    lines = ["group billing: Empty, coordinator broker 2", "", "no members", "", "no committed offsets"]
    assert said.splitlines() == lines


@pytest.mark.parametrize(
    ("to", "sent"),
    [
        ("earliest", {"to": "earliest"}),
        ("latest", {"to": "latest"}),
        ("17", {"offset": 17}),
        ("2026-11-21T20:15:00Z", {"timestamp_ms": 1_795_292_100_000}),
        ("2026-11-21T21:15:00.500+01:00", {"timestamp_ms": 1_795_292_100_500}),
    ],
)
def test_offsets_are_reset_to_the_start_the_end_an_offset_or_a_time(run: Any, to: str, sent: dict[str, Any]) -> None:
    rows = [{"topic": "orders", "partition": 0, "before": None, "after": 17}]
    argv = ["reset-offsets", "billing", "--topic", "orders", "--partition", "0", "--to", to]
    admin, said = run({"offsets": rows}, *argv)
    assert admin.asked[-1] == ("groups/billing/reset-offsets", {"topic": "orders", "partition": 0, **sent})
    assert said == "PARTITION  BEFORE  NOW\norders-0   -       17\n"


@pytest.mark.parametrize("to", ["soon", "-1", "2026-13-01", ""])
def test_another_target_is_wrong_usage(to: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(["groups", "reset-offsets", "billing", "--topic", "orders", f"--to={to}"])
    assert left.value.code == 2
    assert f"{to!r} is not earliest, latest, an offset or a time" in capsys.readouterr().err


def test_a_group_is_deleted(run: Any) -> None:
    admin, said = run({}, "delete", "billing")
    assert (admin.asked, said) == ([("groups/billing/delete", None)], "group billing is deleted\n")


def test_runs_of_partitions_are_joined() -> None:
    assert group_commands._ranges([0]) == "0"
    assert group_commands._ranges([0, 1, 3, 5, 6, 7]) == "0-1,3,5-7"


@pytest.mark.process
@pytest.mark.timeout(PATIENCE_S)
def test_a_consumers_group_is_shown_reset_and_deleted(
    start_purgatorio: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    greeting = start_purgatorio("serve", "--port", "0", "--admin-port", "0").greeting()
    port, admin = re.findall(r"(?:127\.0\.0\.1|localhost):(\d+)", greeting)[:2]

    def said(*argv: str, code: int = 0) -> str:
        assert cli.main(["groups", *argv, "--admin", f"http://127.0.0.1:{admin}"]) == code
        outcome = capsys.readouterr()
        return outcome.err if code else outcome.out

    bootstrap = f"127.0.0.1:{port}"
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for value in (b"a", b"b", b"c"):
        producer.send("orders", value)
    producer.close()
    consumer = KafkaConsumer("orders", bootstrap_servers=bootstrap, group_id="billing", auto_offset_reset="earliest")
    assert next(consumer).value == b"a"
    consumer.commit()
    assert cli.main(["topics", "list", "--admin", f"http://127.0.0.1:{admin}"]) == 0
    listed = capsys.readouterr().out
    assert [line.split()[0] for line in listed.splitlines()[1:]] == ["orders-0", "and"]
    assert listed.endswith("and 50 more, those of __consumer_offsets; --topic lists those of one topic\n")
    assert "orders:0" in said("describe", "billing")
    assert said("delete", "billing", code=1).endswith("group billing has members; stop its consumers first\n")
    consumer.close()
    assert re.search(r"billing +Empty +classic +0 +[012] ", said("list"))
    reset = said("reset-offsets", "billing", "--topic", "orders", "--to", "latest")
    assert re.search(r"orders-0 +\d +3\n", reset)
    assert said("delete", "billing") == "group billing is deleted\n"
    assert said("describe", "billing", code=1) == "purgatorio: there is no group billing\n"


def test_a_share_group_is_described_without_offsets(run: Callable[..., tuple[FakeAdmin, str]]) -> None:
    told = group(id="jobs", type="share", assignor="simple", epoch=4, lag=None, member_count=1, members=[member("m-1")])
    _, printed = run(told, "describe", "jobs")
    assert printed.splitlines()[0] == "group jobs: Stable, epoch 4, assignor simple, coordinator broker 2"
    assert printed.splitlines()[-1].startswith("a share group commits no offsets: purgatorio share-groups describe")
