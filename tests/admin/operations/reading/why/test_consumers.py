"""The rules about consumers that get nothing."""

from __future__ import annotations

from typing import Any

from purgatorio.admin.operations.reading.why.conclusions import conclude
from purgatorio.admin.operations.reading.why.known import Facts
from tests.admin.operations.reading.why.documents import facts, group, member, partition, position, start


def said(document: dict[str, Any], about: str = "") -> list[str]:
    return [each.says for each in conclude(Facts(document), about)]


def test_a_consumer_that_began_at_the_end_has_missed_the_records_before() -> None:
    late = {"positions": [position("late", 1)], "starts": [start("late", -1, 1)]}
    document = facts(partitions=[partition(end=1)], groups=[group("g", member("late", ("orders", 0)))], **late)
    assert said(document) == [
        "late reads orders-0 from offset 1, the end: it started after the record, and auto.offset.reset=latest"
    ]
    assert said(document, "g") == said(document, "late") == said(document, "orders") == said(document)
    assert said(document, "other") == []


def test_a_consumer_that_has_read_everything_is_not_late() -> None:
    """Its client asks for the ends to show its lag."""
    read = {"positions": [position("c", 1, first_offset=0)], "starts": [start("c", -1, 1)]}
    assert said(facts(partitions=[partition(end=1)], **read)) == []


def test_a_consumer_at_the_end_of_an_empty_partition_has_missed_nothing() -> None:
    assert said(facts(partitions=[partition()], positions=[position("c", 0)], starts=[start("c", -1, 0)])) == []
