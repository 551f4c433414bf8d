"""Tests of the verifications that are open: which of them an end marker cancels, and which sequences may begin."""

from __future__ import annotations

import pytest

from purgatorio.broker.replica.producing.verification import GuardedAppend, PartitionVerifications, Verification
from purgatorio.protocol.records import MAX_SEQUENCE


def verification(*sequences: int, adds: bool = False) -> Verification:
    """Return a verification for which batches with these sequences wait."""
    asked = Verification(0, adds)
    for sequence in sequences:
        asked.add(GuardedAppend(lambda code: None, sequence))
    return asked


@pytest.mark.parametrize(
    ("marker_epoch", "adds", "stands"),
    [(4, False, True), (4, True, True), (5, False, False), (5, True, True), (6, False, False), (6, True, False)],
)
def test_kafka_18654_a_marker_cancels_what_it_may_have_ended(marker_epoch: int, adds: bool, stands: bool) -> None:
    asked = PartitionVerifications()
    mine, other = verification(adds=adds), verification()
    asked.add(7, 5, mine)
    asked.add(8, 5, other)
    asked.ended(7, marker_epoch)
    assert (asked.get(7, 5) is mine) is stands
    assert asked.get(8, 5) is other


def test_a_question_that_was_replaced_does_not_remove_its_successor() -> None:
    asked = PartitionVerifications()
    first, second = verification(), verification()
    asked.add(7, 5, first)
    asked.add(7, 5, second)
    asked.remove(7, 5, first)
    assert asked.get(7, 5) is second
    asked.remove(7, 5, second)
    assert not asked


@pytest.mark.parametrize(
    ("sequences", "first", "may"),
    [
        ((3, 0), 0, True),
        ((3, 0), 3, False),
        ((3,), 3, True),
        ((MAX_SEQUENCE, 0), MAX_SEQUENCE, True),
        ((0, MAX_SEQUENCE), 0, False),
        ((-1, 3), 3, True),
        ((-1,), -1, True),
    ],
)
def test_kafka_14920_a_transaction_begins_with_the_lowest_sequence_that_came(
    sequences: tuple[int, ...], first: int, may: bool
) -> None:
    assert verification(*sequences).may_begin_with(first) is may


@pytest.mark.parametrize(("sequence", "may"), [(0, True), (-1, True), (1, False)])
def test_with_transaction_version_2_it_begins_with_0(sequence: int, may: bool) -> None:
    assert verification(sequence, adds=True).may_begin_with(sequence) is may
