"""Members that never acknowledge, vanish, or renew for ever: nothing is lost, and what they cost has a bound."""

from __future__ import annotations

import pytest

from purgatorio.broker.coordinator.share_settings import ShareSettings
from purgatorio.broker.share import holdings
from purgatorio.protocol.errors import ErrorCode
from tests.broker.share.harness import Shared

ACCEPT, RENEW = 1, 4
LOCK_MS = 30_000


def test_a_member_that_never_acknowledges_is_given_records_until_the_delivery_limit() -> None:
    shared = Shared(settings=ShareSettings(delivery_count_limit=3))
    deliveries = 0
    while acquired := shared.acquire((0, 3)):
        deliveries += sum(last - first + 1 for first, last, _ in acquired)
        assert len(shared.parked()) <= 4
        shared.advance(LOCK_MS)
    assert deliveries == 3 * 4
    assert (shared.partition.start_offset, len(shared.partition.in_flight), shared.parked()) == (4, 0, [])


def test_what_members_that_vanish_had_goes_to_another_one() -> None:
    shared = Shared()
    for number in range(100):
        shared.acquire((2 * number, 2 * number + 1), member=f"gone {number}")
    assert len(shared.parked()) == 100
    shared.advance(LOCK_MS)
    assert (shared.parked(), len(shared.partition.in_flight)) == ([], 1), "neighbours are joined again"
    assert shared.acquire((0, 199), member="ada") == [(0, 199, 2)]
    assert shared.ack((0, 199, ACCEPT)) == [ErrorCode.NONE]
    assert (shared.partition.start_offset, shared.parked()) == (200, [])


def test_a_member_that_renews_for_ever_keeps_one_lock_and_writes_nothing() -> None:
    shared = Shared()
    shared.acquire((0, 9))
    for _ in range(1_000):
        shared.advance(LOCK_MS - 1)
        assert shared.ack((0, 9, RENEW), renews=True) == [ErrorCode.NONE]
    assert (len(shared.parked()), len(shared.partition.in_flight), shared.persister.writes) == (1, 1, [])
    assert shared.timer.size == 1
    shared.advance(LOCK_MS)
    assert shared.acquire((0, 9), member="bob") == [(0, 9, 2)]


def test_ten_thousand_records_that_are_locked_one_by_one_are_all_delivered_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    count = 10_000
    monkeypatch.setattr(holdings, "MAX_RUNS", 2 * count)
    shared = Shared(settings=ShareSettings(max_record_locks=count))
    for offset in range(count):
        shared.acquire((offset, offset), most=1)
    assert shared.acquire((count, count)) == [], "there is no room for more"
    assert (len(shared.parked()), shared.timer.size) == (count, count)
    shared.advance(LOCK_MS)
    assert (shared.parked(), shared.timer.size, len(shared.partition.in_flight)) == ([], 0, 1)
    assert shared.acquire((0, count - 1), member="bob", most=count, size=count) == [(0, count - 1, 2)]
