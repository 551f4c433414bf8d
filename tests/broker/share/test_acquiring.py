"""Which records a fetch acquires: limits, parts, deliveries before, and what is not in the log any more."""

from __future__ import annotations

import pytest

from purgatorio.broker.coordinator.share_settings import ShareSettings
from purgatorio.broker.share.acquiring import AcquireMode, isolated_from
from purgatorio.protocol.share_state import RecordState
from tests.broker.share.harness import Shared, stored

SOFT, HARD = AcquireMode.BATCH_OPTIMIZED, AcquireMode.RECORD_LIMIT
A, X = RecordState.AVAILABLE, RecordState.ARCHIVED
Ranges = list[tuple[int, int]]
Acquired = list[tuple[int, int, int]]


def locked(shared: Shared) -> Ranges:
    """The offsets of the locks, in their order."""
    return sorted((key.first_offset, key.last_offset) for lock in shared.parked() for key in lock.keys)  # type: ignore[attr-defined]


# --- new records ---


@pytest.mark.parametrize(
    ("read", "most", "size", "mode", "acquired"),
    [
        ([(0, 9)], 500, 500, SOFT, [(0, 9)]),
        # the limit of records is soft: to the end of the record batch
        ([(0, 9)], 1, 500, SOFT, [(0, 9)]),
        ([(0, 4), (5, 9), (10, 14)], 5, 500, SOFT, [(0, 4)]),
        ([(0, 4), (5, 9), (10, 14)], 6, 500, SOFT, [(0, 9)]),
        # … in a gap between record batches, which is a part of what is acquired
        ([(0, 4), (8, 9)], 6, 500, SOFT, [(0, 5)]),
        ([(0, 4), (8, 9)], 10, 500, SOFT, [(0, 9)]),
        # or hard
        ([(0, 9)], 1, 500, HARD, [(0, 0)]),
        ([(0, 4), (5, 9), (10, 14)], 6, 500, HARD, [(0, 5)]),
        ([(0, 4), (5, 9)], 500, 2, HARD, [(0, 9)]),
        # parts end with a record batch, as soon as they have so many records
        ([(0, 9)], 500, 3, SOFT, [(0, 9)]),
        ([(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)], 500, 3, SOFT, [(0, 3), (4, 7), (8, 9)]),
        ([(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)], 500, 2, SOFT, [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]),
        ([(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)], 500, 10, SOFT, [(0, 9)]),
        ([(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)], 5, 4, SOFT, [(0, 3), (4, 5)]),
        ([(0, 0), (1, 1), (2, 2)], 500, 0, SOFT, [(0, 0), (1, 1), (2, 2)]),
        # nothing
        ([(0, 9)], 0, 500, SOFT, []),
        ([], 500, 500, SOFT, []),
    ],
)
def test_new_records(read: Ranges, most: int, size: int, mode: AcquireMode, acquired: Ranges) -> None:
    shared = Shared()
    assert shared.acquire(*read, most=most, size=size, mode=mode) == [(*part, 1) for part in acquired]
    assert locked(shared) == acquired
    end_offset = acquired[-1][1] if acquired else -1
    assert (shared.partition.end_offset, shared.partition.next_fetch_offset()) == (end_offset, end_offset + 1)


def test_the_rest_of_a_record_batch_comes_next_in_record_limit_mode() -> None:
    shared = Shared()
    assert shared.acquire((0, 9), most=4, mode=HARD) == [(0, 3, 1)]
    assert shared.acquire((0, 9), most=4, mode=HARD, member="bob") == [(4, 7, 1)]
    assert shared.acquire((0, 9), member="carl") == [(8, 9, 1)]


def test_records_below_the_start_offset_are_not_acquired() -> None:
    """The start offset may be within a record batch."""
    shared = Shared(start_offset=5)
    assert shared.acquire((0, 9)) == [(5, 9, 1)]


def test_the_limit_of_locks_is_about_new_records() -> None:
    shared = Shared(settings=ShareSettings(max_record_locks=10))
    assert shared.acquire((0, 19), mode=HARD) == [(0, 9, 1)]
    assert not shared.partition.may_acquire()
    assert shared.acquire((0, 19), mode=HARD) == []
    shared.ack((5, 6, 2))
    assert shared.partition.may_acquire()
    assert shared.partition.next_fetch_offset() == 5
    assert shared.acquire((0, 19), mode=HARD) == [(5, 6, 2)]
    shared.ack((0, 0, 1))
    assert shared.partition.may_acquire()
    assert shared.acquire((0, 19), mode=HARD) == [(10, 10, 1)]
    assert not shared.partition.may_acquire()


def test_the_limit_of_locks_is_soft_in_batch_optimized_mode() -> None:
    """As in Kafka: the record batch in which the limit is reached is acquired whole."""
    shared = Shared(settings=ShareSettings(max_record_locks=10))
    assert shared.acquire((0, 7), (8, 15), (16, 23)) == [(0, 15, 1)]
    assert not shared.partition.may_acquire()
    assert shared.acquire((16, 23)) == []


# --- records that were in flight ---


def released(*parts: tuple[int, int]) -> Shared:
    """Records 0 to 19, acquired together, of which these are available again."""
    shared = Shared()
    shared.acquire((0, 9), (10, 19))
    shared.ack(*((*part, 2) for part in parts))
    return shared


@pytest.mark.parametrize(
    ("parts", "most", "size", "mode", "acquired"),
    [
        ([(0, 19)], 500, 500, SOFT, [(0, 19, 2)]),
        ([(0, 19)], 3, 500, SOFT, [(0, 9, 2)]),
        ([(0, 19)], 3, 500, HARD, [(0, 2, 2)]),
        ([(0, 19)], 500, 4, SOFT, [(0, 9, 2), (10, 19, 2)]),
        ([(2, 3), (6, 12)], 500, 500, SOFT, [(2, 3, 2), (6, 12, 2), (20, 24, 1)]),
        ([(2, 3), (6, 12)], 3, 500, SOFT, [(2, 3, 2), (6, 9, 2)]),
        ([(2, 3), (6, 12)], 3, 500, HARD, [(2, 3, 2), (6, 6, 2)]),
        ([(19, 19)], 2, 500, SOFT, [(19, 19, 2), (20, 24, 1)]),
        ([(19, 19)], 2, 500, HARD, [(19, 19, 2), (20, 20, 1)]),
        ([(19, 19)], 1, 500, HARD, [(19, 19, 2)]),
    ],
)
def test_available_records_come_before_new_ones(
    parts: Ranges, most: int, size: int, mode: AcquireMode, acquired: Acquired
) -> None:
    shared = released(*parts)
    assert shared.partition.next_fetch_offset() == parts[0][0]
    read = [(0, 9), (10, 19), (20, 24)]
    if parts == [(0, 19)]:
        read.pop()
    assert shared.acquire(*read, most=most, size=size, mode=mode, member="bob") == acquired


def test_available_records_that_were_not_read_are_not_acquired() -> None:
    shared = released((2, 3), (8, 12))
    assert shared.acquire((0, 9)) == [(2, 3, 2), (8, 9, 2)]
    assert shared.partition.next_fetch_offset() == 10


def test_nothing_is_acquired_of_what_was_read_above_the_end_offset() -> None:
    """The records before it, which another fetch had acquired, are unknown again, after a load."""
    shared = Shared(start_offset=5)
    assert shared.acquire((20, 29), at=20) == []
    assert shared.partition.next_fetch_offset() == 5


# --- what the log does not have any more, and what no member gets ---


def test_records_that_were_compacted_away_are_archived() -> None:
    shared = released((2, 15))
    assert shared.acquire((10, 19), at=2) == [(10, 15, 2)]
    assert shared.picture == "q1 q1" + 8 * " x1" + 6 * " q2" + 4 * " q1"


def test_a_hole_above_the_end_offset_is_archived_and_needs_no_lock() -> None:
    shared = Shared(settings=ShareSettings(max_record_locks=20))
    shared.acquire((0, 9))
    assert shared.acquire((5_000, 5_004), (5_005, 5_014)) == [(5_000, 5_014, 1)]
    assert shared.partition.in_flight.record_count == 25
    assert shared.ack((5_000, 5_004, 1), (0, 9, 1)) == [42]
    assert shared.ack((0, 9, 1), (5_000, 5_004, 1)) == [0]
    assert shared.partition.start_offset == 5_005
    assert shared.persister.writes[-1].delivery_complete_count == 10 + 4_990 + 5


def test_a_hole_at_the_start_offset_moves_it() -> None:
    shared = Shared()
    assert shared.acquire((7, 9), at=0) == [(7, 9, 1)]
    assert shared.partition.start_offset == 7
    assert shared.persister.writes == []


def test_a_huge_hole_is_counted_as_far_as_a_stored_count_goes() -> None:
    shared = Shared()
    shared.acquire((0, 0))
    shared.acquire((10**12, 10**12), at=1)
    shared.ack((10**12, 10**12, 1))
    assert shared.persister.writes[-1].delivery_complete_count == 2**31 - 1


@pytest.mark.parametrize(
    ("undelivered", "acquired", "picture"),
    [
        ([(0, 1)], [(2, 9, 1)], " ".join(8 * ["q1"])),
        ([(3, 4)], [(0, 2, 1), (5, 9, 1)], "q1 q1 q1 x0 x0 q1 q1 q1 q1 q1"),
        ([(3, 4), (5, 6)], [(0, 2, 1), (7, 9, 1)], "q1 q1 q1 x0 x0 x0 x0 q1 q1 q1"),
        ([(8, 9)], [(0, 7, 1)], "q1 q1 q1 q1 q1 q1 q1 q1 x0 x0"),
        ([(0, 9)], [], ""),
    ],
)
def test_records_of_aborted_transactions_are_archived(undelivered: Ranges, acquired: Acquired, picture: str) -> None:
    shared = Shared()
    assert shared.acquire((0, 9), undelivered=undelivered) == acquired
    assert shared.picture == picture
    assert shared.partition.next_fetch_offset() == 10


def test_aborted_records_above_a_limit_wait() -> None:
    shared = Shared()
    assert shared.acquire((0, 9), most=3, mode=HARD, undelivered=[(1, 1), (5, 6)]) == [(0, 0, 1), (2, 3, 1)]
    assert shared.partition.next_fetch_offset() == 4


def test_aborted_records_that_were_available_are_archived() -> None:
    shared = released((2, 15))
    assert shared.acquire((0, 9), (10, 19), undelivered=[(0, 3), (12, 30)]) == [(4, 11, 2)]
    assert shared.picture == "q1 q1 x1 x1" + 8 * " q2" + 4 * " x1" + 4 * " q1" + 11 * " x0"


# --- records that were delivered often ---


def delivered(count: int, deliveries: int, limit: int = 5) -> Shared:
    return Shared(settings=ShareSettings(delivery_count_limit=limit), batches=[stored(0, count - 1, A, deliveries)])


@pytest.mark.parametrize(("limit", "first"), [(2, 2), (3, 2), (4, 2), (5, 3), (6, 3), (10, 5)])
def test_after_how_many_deliveries_records_are_isolated(limit: int, first: int) -> None:
    assert isolated_from(limit) == first


@pytest.mark.parametrize(
    ("limit", "deliveries", "acquired"),
    [
        (5, 2, (0, 99, 3)),
        (5, 3, (0, 49, 4)),
        (5, 4, (0, 0, 5)),
        (3, 1, (0, 99, 2)),
        (3, 2, (0, 0, 3)),
        (2, 1, (0, 99, 2)),
        (10, 4, (0, 99, 5)),
        (10, 5, (0, 49, 6)),
    ],
)
def test_a_batch_is_halved_and_at_last_delivered_one_by_one(
    limit: int, deliveries: int, acquired: tuple[int, int, int]
) -> None:
    shared = delivered(100, deliveries, limit)
    assert shared.acquire((0, 99)) == [acquired]


def test_each_delivery_of_a_record_that_fails_is_half_as_large() -> None:
    """With a limit of 10: five times 500, then 250, 125, 62, 31, and alone."""
    shared = delivered(500, 0, 10)
    sizes = []
    for _ in range(10):
        ((first, last, _),) = shared.acquire((0, 499), most=500)
        sizes.append((first, last))
        shared.advance(30_000)
    assert sizes == [*5 * [(0, 499)], (0, 249), (0, 124), (0, 61), (0, 30), (0, 0)]
    assert shared.partition.start_offset == 1
    assert shared.acquire((0, 499)) == [(1, 1, 10)]


def test_the_other_half_follows() -> None:
    shared = delivered(100, 3)
    assert shared.acquire((0, 99)) == [(0, 49, 4)]
    assert shared.acquire((0, 99)) == [(50, 99, 4)]


def test_records_that_were_delivered_often_come_without_others() -> None:
    """Neither after others in one fetch, nor before others."""
    batches = [stored(0, 9, A, 1), stored(10, 19, A, 3), stored(20, 29, A, 1)]
    shared = Shared(batches=batches)
    read = [(0, 9), (10, 19), (20, 29), (30, 39)]
    assert shared.acquire(*read) == [(0, 9, 2)]
    assert shared.acquire(*read) == [(10, 14, 4)]
    assert shared.acquire(*read) == [(15, 19, 4)]
    assert shared.acquire(*read) == [(20, 29, 2), (30, 39, 1)]


def test_scattered_records_that_were_delivered_often_together_may_come_together_again() -> None:
    shared = Shared(batches=[stored(0, 19, A, 2)])
    assert shared.acquire((0, 19)) == [(0, 19, 3)]
    shared.ack(*((each, each, 2 if each % 4 == 0 else 1) for each in range(20)))
    assert shared.acquire((0, 19)) == [(each, each, 4) for each in (0, 4, 8, 12, 16)]


def test_at_most_half_as_many_scattered_records_come_together() -> None:
    shared = Shared(batches=[stored(0, 7, A, 2)])
    shared.acquire((0, 7))
    shared.ack(*((each, each, 2 if each != 1 else 1) for each in range(8)))
    assert shared.acquire((0, 7)) == [(0, 0, 4), (2, 4, 4)]
    assert shared.acquire((0, 7)) == [(5, 7, 4)]


@pytest.mark.parametrize("mode", [SOFT, HARD])
def test_the_limit_of_records_holds_for_those_that_were_delivered_often(mode: AcquireMode) -> None:
    assert delivered(100, 3).acquire((0, 99), most=7, mode=mode) == [(0, 6, 4)]


def test_a_last_attempt_does_not_follow_others() -> None:
    shared = Shared(batches=[stored(0, 9, A, 3), stored(10, 19, A, 4)])
    assert shared.acquire((0, 19)) == [(0, 4, 4)]
    assert shared.acquire((0, 19)) == [(5, 9, 4)]
    assert shared.acquire((0, 19)) == [(10, 10, 5)]


def test_records_are_given_up_that_were_delivered_more_often_than_the_limit_is_now() -> None:
    shared = Shared(batches=[stored(0, 4, A, 3), stored(5, 9, A, 1)])
    shared.settings = ShareSettings(delivery_count_limit=3)
    assert shared.acquire((0, 9)) == [(5, 9, 2)]
    assert shared.partition.start_offset == 5
    assert [write.batches for write in shared.persister.writes] == [[(0, 4, X, 3)]]


def test_what_another_leader_had_delivered_needs_no_lock_when_the_log_does_not_have_it() -> None:
    """Between stored batches, a leader cannot tell records from a hole before it has read."""
    shared = Shared(batches=[stored(0, 0, RecordState.ACKNOWLEDGED, 1), stored(10, 10, A, 1)])
    assert shared.partition.in_flight.record_count == 10
    assert shared.acquire((10, 10), at=1) == [(10, 10, 2)]
    assert (shared.partition.start_offset, shared.partition.in_flight.record_count) == (10, 1)
