"""The records in flight are split and joined; counts and the list of those that are available follow."""

from __future__ import annotations

import pytest

from purgatorio.broker.share.in_flight import InFlightBatch, RecordsInFlight, alike
from purgatorio.protocol.share_state import RecordState
from tests.broker.share.harness import Shared

A, Q, K, G, X = RecordState


def records(*states: tuple[RecordState, int], start_offset: int = 0) -> RecordsInFlight:
    """A batch of two records for each state and delivery count."""
    made = RecordsInFlight(start_offset)
    for state, deliveries in states:
        made.append(made.end_offset + 2, state, deliveries)
    return made


def shown(of: RecordsInFlight) -> str:
    return ", ".join(map(repr, of))


def check(of: RecordsInFlight) -> None:
    """Count anew what is counted along the way."""
    batches = list(of)
    assert [each.first_offset for each in batches] == of._firsts
    assert [each.first_offset for each in batches if each.state is A] == of._available
    ends = [of.start_offset - 1, *(each.last_offset for each in batches)]
    assert [end + 1 for end in ends] == [*(each.first_offset for each in batches), of.end_offset + 1]
    assert all(each.count > 0 for each in batches)
    assert of.record_count == sum(each.count for each in batches if not each.is_hole)
    assert of.complete_count == sum(each.count for each in batches if each.is_complete)


def test_without_records_the_end_is_below_the_start() -> None:
    empty = RecordsInFlight(7)
    assert (empty.start_offset, empty.end_offset, len(empty), empty.first_available) == (7, 6, 0, None)
    assert empty.overlapping(0, 100) == []
    assert empty.next_available(0, 100) is None
    assert not empty.advance()


def test_a_batch_says_what_it_is() -> None:
    made = records((Q, 2))
    (batch,) = made
    made.begin(batch, K)
    assert repr(batch) == "0–1 ACQUIRED→ACKNOWLEDGED ×2"


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        (10, 10, [10]),
        (11, 12, [10, 12]),
        (12, 13, [12]),
        (0, 9, []),
        (0, 10, [10]),
        (15, 90, [14]),
        (10, 15, [10, 12, 14]),
    ],
)
def test_batches_are_found_by_offset(first: int, last: int, expected: list[int]) -> None:
    made = records((A, 1), (Q, 1), (A, 2), start_offset=10)
    assert [batch.first_offset for batch in made.overlapping(first, last)] == expected


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        (10, 15, (10, 11)),
        (11, 15, (11, 11)),
        (12, 15, (14, 15)),
        (12, 13, None),
        (13, 14, (14, 15)),
        (15, 15, (15, 15)),
        (15, 14, None),
        (11, 10, None),
        (0, 9, None),
    ],
)
def test_available_batches_are_found_by_offset(first: int, last: int, expected: tuple[int, int] | None) -> None:
    made = records((A, 1), (Q, 1), (A, 2), start_offset=10)
    found = made.next_available(first, last)
    assert (found and (found.first_offset, found.last_offset)) == expected
    check(made)


@pytest.mark.parametrize("state", [A, Q, K, X])
@pytest.mark.parametrize(("first", "last", "count"), [(0, 3, 1), (0, 1, 2), (1, 2, 3), (2, 3, 2), (3, 3, 2), (0, 0, 2)])
def test_a_batch_is_split(state: RecordState, first: int, last: int, count: int) -> None:
    made = RecordsInFlight(0)
    made.append(3, state, 2, 9)
    (part,) = made.cut(first, last)
    assert (part.first_offset, part.last_offset, part.delivery_count, part.delivered_with) == (first, last, 2, 9)
    assert len(made) == count
    check(made)


def test_a_hole_is_not_split() -> None:
    """Members may acknowledge any part of it, as often as they like."""
    made = RecordsInFlight(0)
    made.append(10**9, X, 0)
    assert len(made.cut(5, 7)) == len(made) == 1


def test_parts_of_a_split_batch_have_the_same_lock() -> None:
    shared = Shared()
    shared.acquire((0, 9))
    made = shared.partition.in_flight
    (whole,) = made
    lock = whole.lock
    assert [batch.lock for batch in made.cut(3, 5)] == [lock]
    assert [batch.lock for batch in made] == [lock] * 3


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ([(A, 1), (Q, 1), (A, 1)], "0–5 AVAILABLE ×1"),
        ([(A, 2), (Q, 1), (A, 1)], "0–1 AVAILABLE ×2, 2–5 AVAILABLE ×1"),
        ([(A, 1), (Q, 1), (A, 2)], "0–3 AVAILABLE ×1, 4–5 AVAILABLE ×2"),
        ([(K, 1), (Q, 1), (Q, 1)], "0–1 ACKNOWLEDGED ×1, 2–3 AVAILABLE ×1, 4–5 ACQUIRED ×1"),
    ],
)
def test_neighbours_that_are_alike_are_joined(states: list[tuple[RecordState, int]], expected: str) -> None:
    made = records(*states)
    made.settle(list(made)[1], A)
    assert shown(made) == expected
    check(made)


def test_available_records_that_were_delivered_in_different_parts_are_not_joined() -> None:
    made = RecordsInFlight(0)
    made.append(1, A, 1, 2)
    made.settle(made.append(3, Q, 1, 9), A)
    assert len(made) == 2
    made = RecordsInFlight(0)
    made.append(1, K, 1, 2)
    made.settle(made.append(3, Q, 1, 9), K)
    assert len(made) == 1


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda batch: None, True),
        (lambda batch: setattr(batch, "target", X), False),
        (lambda batch: setattr(batch, "state", A), False),
        (lambda batch: setattr(batch, "delivery_count", 2), False),
        (lambda batch: setattr(batch, "delivered_with", 2), True),
    ],
)
def test_which_neighbours_are_alike(change: object, expected: bool) -> None:
    one, other = InFlightBatch(0, 1, K, 1, 9), InFlightBatch(2, 3, K, 1, 9)
    change(other)  # type: ignore[operator]
    assert alike(one, other) == alike(other, one) == expected


def test_acquired_neighbours_are_not_joined() -> None:
    assert not alike(InFlightBatch(0, 1, Q, 1, 9), InFlightBatch(2, 3, Q, 1, 9))


@pytest.mark.parametrize(
    ("states", "start_offset"),
    [
        ([(K, 1)], 2),
        ([(K, 1), (X, 3), (X, 0), (A, 1)], 6),
        ([(A, 1), (K, 1)], 0),
        ([(Q, 1), (K, 1)], 0),
        ([(G, 1), (K, 1)], 0),
        ([(K, 1), (G, 1)], 2),
    ],
)
def test_the_start_offset_moves_over_what_is_complete(states: list[tuple[RecordState, int]], start_offset: int) -> None:
    made = records(*states)
    assert made.advance() == (start_offset > 0)
    assert made.start_offset == start_offset
    check(made)
    assert not made.advance()


def test_the_start_offset_waits_for_what_is_being_written() -> None:
    made = records((Q, 1), (K, 1))
    first = next(iter(made))
    made.begin(first, K)
    assert not made.advance()
    assert made.complete_count == 4
    check(made)
    made.roll_back(first)
    assert made.complete_count == 2
    made.settle(first, K)
    assert made.advance()
    assert (made.start_offset, made.complete_count, made.record_count) == (4, 0, 0)


@pytest.mark.parametrize("offset", range(1, 14))
def test_records_below_an_offset_are_dropped(offset: int) -> None:
    made = records((A, 1), (K, 1), (Q, 1), (X, 0), (A, 2))
    batches = list(made)
    made.begin(batches[2], K)
    assert made.drop_below(offset) == []
    assert made.start_offset == offset
    assert made.end_offset == max(9, offset - 1)
    assert [batch.last_offset for batch in made] == [end for end in (1, 3, 5, 7, 9) if end >= offset]
    assert (batches[2].target is None) == (offset > 5)
    check(made)


def test_the_locks_of_dropped_records_are_told() -> None:
    shared = Shared()
    shared.acquire((0, 3))
    shared.acquire((4, 7))
    made = shared.partition.in_flight
    made.cut(1, 2)
    locks = list(dict.fromkeys(batch.lock for batch in made))
    assert made.drop_below(6) == [(locks[0], 1), (locks[0], 2), (locks[0], 1), (locks[1], 2)]


@pytest.mark.parametrize(("state", "next_state"), [(K, A), (X, A), (G, A), (A, K), (K, X)])
def test_no_record_takes_a_step_that_the_table_does_not_have(state: RecordState, next_state: RecordState) -> None:
    made = records((state, 1))
    with pytest.raises(AssertionError, match=f"cannot become {next_state.name}"):
        made.settle(next(iter(made)), next_state)


def test_only_available_records_are_acquired() -> None:
    made = records((K, 1))
    with pytest.raises(AssertionError, match="cannot be acquired"):
        made.acquire(next(iter(made)), 2)
