"""The text that is made of facts."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.admin.operations.reading.report import MAX_CONCLUSIONS, MAX_LINES, MAX_WIDTH, explained, report_of
from purgatorio.broker.cluster.errors import NotThere
from tests.admin.operations.reading.why.documents import facts, group, member, partition, position, start


def offset(number: int, owner: str, committed: int | None) -> dict[str, Any]:
    return {"topic": "orders", "partition": number, "offset": committed, "end_offset": 5, "lag": 0, "owner": owner}


def test_a_report_has_what_people_look_for_when_a_consumer_gets_nothing() -> None:
    began = {"at_ms": 90_000, "epoch": 1, "member_count": 2, "cause": "join", "detail": "member two: no reason given"}
    members = [member("one", ("orders", 0), member_id="one-1"), member("two", member_id="two-2")]
    held = {"says": "held by the transaction of `tx-7`, open 12.0 s"}
    document = facts(
        partitions=[partition(end=5, last_stable_offset=3, held_by=held), partition(number=1)],
        groups=[group("g", *members, offsets=[offset(0, "one-1", 2), offset(1, "", None)], rebalances=[began])],
        group_count=1,
        positions=[position("one", 3, isolation="read_committed")],
    )
    lines = report_of(document).splitlines()
    assert lines[lines.index("topics:") :] == [
        "topics:",
        "  orders-0 ends at offset 5 (read_committed: at 3, held by the transaction of `tx-7`, open 12.0 s), "
        "orders-1 is empty",
        "groups:",
        "  g (classic, Stable, 2 members)",
        "    orders-0 is one's, committed 2 of 5; orders-1 is nobody's, no offset committed; two owns no partition",
        "consumers:",
        "  one reads orders-0 at offset 3 (read_committed) for 2.0 s, where its fetch waits",
        "last rebalances:",
        "  10.000 s ago g, 2 members: join: member two",
    ]


def test_heartbeats_and_polls_that_found_nothing_are_one_line() -> None:
    rows = [("Heartbeat", 14, []), ("Heartbeat", 1, ["REBALANCE_IN_PROGRESS"]), ("Fetch", 2, [])]
    idle = [
        {"client": "late", "api": api, "count": count, "errors": errors, "first_ms": 1, "last_ms": 99 - nth}
        for nth, (api, count, errors) in enumerate(rows)
    ]
    assert report_of(facts(idle_requests=idle)).splitlines()[-2:] == [
        "last requests:",
        "  and without news: 14 Heartbeats of late, 1 Heartbeat of late (REBALANCE_IN_PROGRESS), "
        "2 Fetches of late found nothing",
    ]


def test_ids_of_clients_cannot_control_a_terminal() -> None:
    evil = "\x1b[2Jlate\nbrokers: none\u202e"
    late = {"positions": [position(evil, 1)], "starts": [start(evil, -1, 1)], "clients": [evil], "client_count": 1}
    text = report_of(facts(partitions=[partition(end=1)], **late))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert text.startswith("\\x1b[2Jlate\\nbrokers: none\\u202e reads orders-0 from offset 1, the end: ")


def test_a_report_of_very_much_is_bounded_and_counted() -> None:
    members = [member(f"c{nth}", *([("orders", nth)] if nth < 900 else ())) for nth in range(1_000)]
    parked = [
        {"broker": 1, "purgatory": "Fetch", "client": f"c{nth}", "waited_ms": 1, "remaining_ms": 2, "causes": []}
        | {"missing": "x" * 500, "keys": [], "group": None}
        for nth in range(200)
    ]
    document = facts(
        partitions=[partition(number=nth) for nth in range(1_000)],
        groups=[group("g", *members, offsets=[offset(nth, f"c{nth}-1f", None) for nth in range(900)])],
        group_count=1,
        positions=[position(f"c{nth}", 0, number=nth) for nth in range(900)],
        parked=parked,
        parked_count=10_000,
        clients=[f"c{nth}" for nth in range(1_000)],
        client_count=4_000,
    )
    lines = report_of(document).splitlines()
    assert len(lines) <= MAX_LINES
    assert max(map(len, lines)) <= MAX_WIDTH
    assert lines[0] == (
        "c900, c901, c902, c903, c904 and 95 more own no partition: orders has 900, which c0, c1, c2, c3, c4 and 895 "
        "more own; for them to read, give orders more partitions, or them another group.id"
    )
    assert "  … 9988 more" in lines
    assert "  … 892 more" in lines


def test_what_is_explained_is_of_one_name() -> None:
    members = [member("one", ("orders", 0)), member("two")]
    document = facts(
        partitions=[partition(), partition("bills", end=1)],
        groups=[group("g", *members, offsets=[offset(0, "one-1f", None)]), group("unlike")],
        positions=[position("one", 0), position("reader", 1, topic="bills")],
        clients=["idle"],
    )
    found = explained(document, "g")
    assert found["conclusions"] == [
        {
            "says": "two owns no partition: orders has one, which one owns; for it to read, give orders more "
            "partitions, or two another group.id",
            "about": ("g", "two", "two", "orders"),
            "weight": found["conclusions"][0]["weight"],
        }
    ]
    assert "bills" not in found["text"]
    assert "unlike" not in found["text"]
    assert explained(document, "idle")["text"].splitlines()[0] == (
        "nothing is found that keeps idle from what it wants"
    )
    with pytest.raises(NotThere, match="there is no group, topic or client order; did you mean orders"):
        explained(document, "order")


def test_an_answer_has_so_many_conclusions_and_says_how_many_there_are() -> None:
    document = facts(
        partitions=[partition(number=number) for number in range(MAX_CONCLUSIONS + 7)],
        positions=[position(f"c-{number}", 0, number=number) for number in range(MAX_CONCLUSIONS + 7)],
    )
    found = explained(document, "")
    assert len(found["conclusions"]) == MAX_CONCLUSIONS
    assert found["conclusion_count"] >= MAX_CONCLUSIONS + 7


def test_a_very_long_name_that_is_not_there_is_refused_in_few_words() -> None:
    with pytest.raises(NotThere) as refused:
        explained(facts(clients=["x" * 10_001]), "x" * 10_000)
    assert len(str(refused.value)) < 200
