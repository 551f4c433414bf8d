"""The locks of a share partition are found by member, and forgotten when they end."""

from __future__ import annotations

from purgatorio.broker.share.lock_table import by_lock, held_under
from tests.broker.share.harness import Shared


def test_locks_are_kept_by_member_until_they_end() -> None:
    shared = Shared()
    table = shared.partition._locks
    shared.acquire((0, 4))
    shared.acquire((5, 9), member="bob")
    shared.acquire((10, 14))
    assert [lock.first_offset for lock in table.of_member("ada")] == [0, 10]
    assert [lock.first_offset for lock in table.of_member("bob")] == [5]
    shared.ack((0, 4, 1))
    shared.ack((5, 9, 1), member="bob")
    assert [lock.first_offset for lock in table.of_member("ada")] == [10]
    assert list(table._by_member) == ["ada"]
    shared.advance(30_000)
    assert table._by_member == {}


def test_a_lock_that_ran_out_is_forgotten_even_if_its_records_are_being_written() -> None:
    shared = Shared()
    shared.acquire((0, 4))
    shared.persister.waits = True
    shared.ack((0, 4, 1))
    shared.advance(30_000)
    assert shared.partition._locks._by_member == {}


def test_what_a_lock_holds_is_found_among_what_others_have_acquired_since() -> None:
    shared = Shared()
    shared.acquire((0, 9))
    (lock,) = shared.partition._locks.of_member("ada")
    shared.ack((2, 3, 2), (6, 6, 1))
    shared.acquire((0, 9), member="bob")
    held = held_under(lock, shared.partition.in_flight)
    assert [(batch.first_offset, batch.last_offset) for batch in held] == [(0, 1), (4, 5), (7, 9)]
    assert lock.held_count == 7


def test_batches_are_grouped_by_lock() -> None:
    shared = Shared()
    shared.acquire((0, 1))
    shared.acquire((2, 3))
    shared.partition.in_flight.cut(1, 2)
    grouped = by_lock(shared.partition.in_flight)
    assert [(lock.first_offset, len(batches)) for lock, batches in grouped.items()] == [(0, 2), (2, 2)]
