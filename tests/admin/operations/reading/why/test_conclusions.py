"""Conclusions of a large cluster: drawn in steps that are short, with the same result."""

from __future__ import annotations

from purgatorio.admin.operations.reading.why.conclusions import conclude, concluding
from purgatorio.admin.operations.reading.why.known import Conclusion, Facts
from purgatorio.broker.time.long_work import take_slice
from tests.admin.operations.reading.why.documents import facts, group, member, partition, position, start

MANY = 500


def test_conclusions_are_drawn_in_slices() -> None:
    clients = [f"client-{number}" for number in range(MANY)]
    document = facts(
        partitions=[partition(number=number, end=5) for number in range(MANY)],
        positions=[position(each, 5, number=number) for number, each in enumerate(clients)],
        starts=[start(each, -1, 5, number=number) for number, each in enumerate(clients)],
    )
    found: list[Conclusion] = []
    steps = concluding(Facts(document), found)
    slices = 1
    while take_slice(steps)[1]:
        slices += 1
        assert not found
    assert slices > 5
    assert found == conclude(Facts(document))
    assert len(found) >= MANY
    assert found[0].says.startswith("client-0 reads orders-0 from offset 5, the end")


def test_the_last_start_and_the_groups_of_a_client_are_found() -> None:
    rows = [start("late", -2, 0), start("late", -1, 5), start("other", -2, 1)]
    rows[0]["at_ms"] = 96_000
    offsets = [{"topic": "orders", "partition": 0, "offset": 3}]
    document = facts(
        starts=rows,
        groups=[group("a", member("late"), offsets=offsets), group("b"), group("c")],
        joined=[{"client": "late", "group": "b", "at_ms": 1}],
    )
    found = Facts(document)
    assert found.start_of("late", "orders", 0) == rows[1]
    assert found.start_of("late", "orders", 1) is None
    assert [each["id"] for each in found.groups_of("late")] == ["a", "b"]
    assert found.committed(found.groups[0], "orders", 0) == 3
    assert found.committed(found.groups[1], "orders", 0) is None
