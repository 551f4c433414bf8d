"""The work of a share partition follows the records that a request touches, not those in flight."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable

import pytest

from purgatorio.broker.coordinator.share_settings import ShareSettings
from tests.broker.share.harness import Shared

FEW, MANY = 20, 400


def calls(work: Callable[[], object]) -> int:
    """Count the function calls of some work, those of built-in functions too.

    The collector of garbage stands still meanwhile: what others hang on it would be counted as well.
    """
    count = 0

    def count_calls(frame: object, event: str, arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    gc.disable()
    sys.setprofile(count_calls)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def crowded(count: int) -> Shared:
    """A share partition in which bob has acquired so many records one by one, and ada two."""
    shared = Shared(settings=ShareSettings(max_record_locks=2 * MANY))
    for offset in range(count):
        shared.acquire((offset, offset), member="ada" if offset in (5, count - 5) else "bob", most=1)
    return shared


@pytest.mark.parametrize(
    "work",
    [
        lambda shared: shared.acquire((shared.partition.end_offset + 1, shared.partition.end_offset + 9)),
        lambda shared: shared.ack((5, 5, 1)),
        lambda shared: shared.ack((5, 5, 2)),
        lambda shared: shared.ack((5, 5, 4), renews=True),
        lambda shared: shared.release("ada"),
        lambda shared: shared.release("carl"),
        lambda shared: shared.partition.next_fetch_offset(),
        lambda shared: shared.partition.may_acquire(),
        lambda shared: shared.ack((0, 0, 1), member="bob"),
        lambda shared: shared.partition.log_start_moved(5),
    ],
    ids=["acquire", "accept", "release", "renew", "session end", "no session", "next", "may", "advance", "log start"],
)
def test_work_does_not_grow_with_the_records_in_flight(work: Callable[[Shared], object]) -> None:
    few, many = crowded(FEW), crowded(MANY)
    work(crowded(FEW))  # methods of dataclasses are made at their first use
    assert calls(lambda: work(many)) <= calls(lambda: work(few)) + 2


def test_finding_two_records_that_were_released_far_apart_passes_none_between() -> None:
    work = []
    for count in (FEW, MANY):
        shared = crowded(count)
        shared.ack((5, 5, 2), (count - 5, count - 5, 2))
        work.append(calls(lambda shared=shared, count=count: shared.acquire((0, count - 1), most=2)))  # type: ignore[misc]
        assert shared.partition.next_fetch_offset() == count
    assert work[1] <= work[0] + 2


def test_one_lock_that_runs_out_does_not_look_at_the_others() -> None:
    work = []
    for count in (FEW, MANY):
        shared = Shared(settings=ShareSettings(record_lock_duration_ms=15_000))
        shared.acquire((0, 0))
        shared.settings = ShareSettings()
        for offset in range(1, count):
            shared.acquire((offset, offset), most=1)
        work.append(calls(lambda shared=shared: shared.advance(15_000)))  # type: ignore[misc]
        assert shared.partition.next_fetch_offset() == 0
    assert work[1] <= work[0] + 2


def test_a_batch_of_which_every_other_record_is_decided_is_joined_again() -> None:
    shared = Shared()
    shared.acquire((0, 999), most=1_000)
    for first in (1, 0):
        for offset in range(first, 1_000, 2):
            shared.ack((offset, offset, 2))
    assert len(shared.partition.in_flight) == 1
