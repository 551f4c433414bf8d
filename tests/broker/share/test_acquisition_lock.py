"""An acquisition lock ends once: by an acknowledgement, a release, its time, or a fence. A renewal prolongs it."""

from __future__ import annotations

import pytest

from purgatorio.broker.causes.cause import NotAcknowledged
from purgatorio.broker.coordinator.share_settings import ShareSettings
from purgatorio.broker.share.acquisition_lock import AcquisitionLock, LockKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.share_state import RecordState
from tests.broker.share.harness import TP, Shared, stored

NONE = ErrorCode.NONE
A, K, X = RecordState.AVAILABLE, RecordState.ACKNOWLEDGED, RecordState.ARCHIVED
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4


def test_a_lock_tells_the_member_the_records_and_the_time_that_is_left() -> None:
    shared = Shared(batches=[stored(0, 9, A, 1)])
    shared.acquire((0, 9))
    shared.ack((3, 4, ACCEPT))
    shared.advance(1_000)
    (lock,) = shared.parked()
    assert lock.keys == (LockKey("app", "orders", 0, 0, 9),)
    assert lock.causes == (NotAcknowledged("app", "ada", TP, 0, 9, 8, 2),)
    assert (lock.purgatory, lock.deadline_ms - shared.now_ms) == ("AcquisitionLock", 29_000)
    assert shared.said() == [
        "app: orders-0 0–9: orders-0: member ada of app has not acknowledged 0 to 9 (8 of 10 left, delivery 2)"
    ]


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (LockKey("app", "orders", 3, 5, 9), "app: orders-3 5–9"),
        (LockKey("app", "orders", 3, 5, 5), "app: orders-3 5"),
        (LockKey("g" * 200, "orders", 3, 5, 5), f"{'g' * 100}…: orders-3 5"),
    ],
)
def test_the_key_of_a_lock_in_words(key: LockKey, text: str) -> None:
    assert str(key) == text


def test_a_lock_shows_its_member() -> None:
    shared = Shared()
    shared.acquire((0, 0), member="m" * 200)
    shared.advance(30_000)
    assert shared.finished[0].held_by == (f"{'m' * 100}…",)


# --- the deadline ---


def test_records_whose_lock_runs_out_are_delivered_again() -> None:
    shared = Shared()
    shared.acquire((0, 9))
    shared.advance(29_999)
    assert shared.picture == " ".join(["q1"] * 10)
    shared.advance(1)
    assert shared.picture == " ".join(["a1"] * 10)
    assert (shared.outcomes(), shared.changes) == (["expired"], 1)
    assert [write.batches for write in shared.persister.writes] == [[(0, 9, A, 1)]]
    assert shared.partition.counts.timed_out_count == 10
    assert shared.partition.next_fetch_offset() == 0
    assert shared.acquire((0, 9), member="bob") == [(0, 9, 2)]
    assert shared.ack((0, 9, ACCEPT)) == [ErrorCode.INVALID_RECORD_STATE]
    assert shared.ack((0, 9, ACCEPT), member="bob") == [NONE]


def test_each_part_has_a_lock_of_its_own() -> None:
    shared = Shared()
    shared.acquire((0, 4), (5, 9), size=5)
    shared.advance(10_000)
    shared.acquire((10, 14), member="bob")
    assert len(shared.parked()) == 3
    shared.ack((0, 4, ACCEPT))
    shared.advance(20_000)
    assert shared.picture == "a1 a1 a1 a1 a1 q1 q1 q1 q1 q1"
    assert shared.outcomes() == ["completed", "expired"]


def test_only_what_is_left_of_a_lock_runs_out() -> None:
    shared = Shared()
    shared.acquire((0, 9))
    shared.ack((2, 3, ACCEPT), (5, 5, REJECT), (7, 8, RELEASE))
    shared.acquire((0, 9), member="bob")
    shared.advance(29_999)
    shared.acquire((10, 12))
    shared.advance(1)
    assert shared.persister.writes[1].batches == [(0, 1, A, 1), (4, 4, A, 1), (6, 6, A, 1), (9, 9, A, 1)]
    assert shared.persister.writes[2].batches == [(7, 8, A, 2)]
    assert shared.picture == "a1 a1 k1 k1 a1 x1 a1 a2 a2 a1 q1 q1 q1"


def test_a_record_is_given_up_after_the_last_delivery() -> None:
    shared = Shared(batches=[stored(0, 0, A, 4)])
    shared.acquire((0, 0))
    shared.advance(30_000)
    assert shared.persister.writes[-1].batches == [(0, 0, X, 5)]
    assert (shared.partition.start_offset, shared.changes) == (1, 1)


@pytest.mark.parametrize("error", [ErrorCode.NOT_COORDINATOR, ErrorCode.NETWORK_EXCEPTION])
def test_records_are_available_again_even_if_that_cannot_be_written(error: ErrorCode) -> None:
    shared = Shared()
    shared.acquire((0, 1))
    shared.persister.error = error
    shared.advance(30_000)
    assert shared.picture == "a1 a1"


def test_a_broker_that_is_fenced_hears_of_it_at_the_deadline_too() -> None:
    shared = Shared()
    shared.acquire((0, 1))
    shared.persister.error = ErrorCode.FENCED_LEADER_EPOCH
    shared.advance(30_000)
    assert shared.fenced == [ErrorCode.FENCED_LEADER_EPOCH]


def test_records_are_available_again_before_that_is_written() -> None:
    shared = Shared()
    shared.acquire((0, 1))
    shared.persister.waits = True
    shared.advance(30_000)
    assert shared.acquire((0, 1)) == [(0, 1, 2)]
    shared.persister.answer()
    assert shared.picture == "q2 q2"


def test_the_duration_is_that_of_the_group_when_the_records_are_acquired() -> None:
    shared = Shared(settings=ShareSettings(record_lock_duration_ms=15_000))
    shared.acquire((0, 0))
    shared.settings = ShareSettings(record_lock_duration_ms=60_000)
    shared.acquire((1, 1))
    shared.advance(15_000)
    assert shared.picture == "a1 q1"
    shared.advance(45_000)
    assert shared.picture == "a1 a1"


# --- the deadline while something is being written ---


def test_what_is_being_acknowledged_does_not_run_out() -> None:
    shared = Shared()
    shared.acquire((0, 3))
    shared.persister.waits = True
    shared.ack((1, 2, ACCEPT))
    shared.advance(30_000)
    assert shared.picture == "a1 q1! q1! a1"
    assert shared.outcomes() == ["expired"]
    assert [write.batches for write in shared.persister.writes[1:]] == [[(0, 0, A, 1), (3, 3, A, 1)]]
    shared.persister.answer()
    assert shared.picture == "a1 k1 k1 a1"


def test_a_lock_that_runs_out_while_all_of_it_is_being_acknowledged_writes_nothing() -> None:
    shared = Shared()
    shared.acquire((0, 3))
    shared.persister.waits = True
    shared.ack((0, 3, ACCEPT))
    shared.changes = 0
    shared.advance(30_000)
    assert (shared.picture, shared.changes, len(shared.persister.writes)) == ("q1! q1! q1! q1!", 0, 1)
    shared.persister.answer()
    assert shared.partition.start_offset == 4


@pytest.mark.parametrize(("deliveries", "picture", "state"), [(0, "a1 a1 q1 q1", A), (4, "q1 q1", X)])
def test_a_lock_that_ran_out_meanwhile_ends_when_the_write_has_failed(
    deliveries: int, picture: str, state: RecordState
) -> None:
    """And that is written in its turn."""
    shared = Shared(batches=[stored(each, each, A, deliveries) for each in range(2)] if deliveries else [])
    for _ in range(2 if deliveries else 1):
        shared.acquire((0, 1))
    shared.persister.waits = True
    answers = shared.ack((0, 1, ACCEPT))
    shared.advance(15_000)
    shared.acquire((2, 3))
    shared.advance(15_000)
    shared.changes = 0
    shared.persister.answer(ErrorCode.NETWORK_EXCEPTION)
    assert answers == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert shared.picture == picture
    assert shared.persister.writes[-1].batches == [(0, 1, state, deliveries + 1)]
    assert shared.changes == 1


# --- renewals ---


def test_a_renewal_gives_the_whole_time_again() -> None:
    shared = Shared()
    shared.acquire((0, 3))
    shared.advance(29_000)
    assert shared.ack((0, 3, RENEW), renews=True) == [NONE]
    assert shared.persister.writes == []
    (lock,) = shared.parked()
    assert lock.deadline_ms - shared.now_ms == 30_000
    shared.advance(29_999)
    assert shared.picture == "q1 q1 q1 q1"
    shared.advance(1)
    assert shared.picture == "a1 a1 a1 a1"
    assert shared.outcomes() == ["expired"]


def test_a_part_that_is_renewed_gets_a_lock_of_its_own() -> None:
    shared = Shared()
    shared.acquire((0, 3))
    shared.advance(10_000)
    shared.ack((1, 2, RENEW), renews=True)
    assert [str(key) for lock in shared.parked() for key in lock.keys] == ["app: orders-0 0–3", "app: orders-0 1–2"]
    shared.advance(20_000)
    assert shared.picture == "a1 q1 q1 a1"
    shared.advance(10_000)
    assert shared.picture == "a1 a1 a1 a1"


def test_all_that_is_left_of_a_lock_can_be_renewed() -> None:
    shared = Shared()
    shared.acquire((0, 5))
    shared.ack((2, 2, ACCEPT))
    shared.advance(10_000)
    shared.ack((0, 1, RENEW), (3, 5, RENEW), renews=True)
    shared.advance(20_000)
    assert shared.picture == "q1 q1 k1 q1 q1 q1"
    assert shared.outcomes() == []
    shared.advance(10_000)
    assert shared.picture == "a1 a1 k1 a1 a1 a1"


def test_a_renewal_over_several_locks_renews_each() -> None:
    shared = Shared()
    shared.acquire((0, 3), (4, 7), size=4)
    shared.advance(10_000)
    shared.ack((2, 7, RENEW), renews=True)
    shared.advance(20_000)
    assert shared.picture == "a1 a1 q1 q1 q1 q1 q1 q1"


def test_a_renewal_beside_other_acknowledgements_is_not_undone_when_those_cannot_be_written() -> None:
    """As in Kafka: a renewal is not written, so that nothing of it can fail."""
    shared = Shared()
    shared.acquire((0, 3))
    shared.advance(10_000)
    shared.persister.error = ErrorCode.NETWORK_EXCEPTION
    assert shared.ack((0, 3, (RENEW, RENEW, ACCEPT, ACCEPT)), renews=True) == [ErrorCode.UNKNOWN_SERVER_ERROR]
    shared.advance(20_000)
    assert shared.picture == "q1 q1 a1 a1"


# --- other ends ---


def test_a_lock_ends_with_its_last_record() -> None:
    shared = Shared()
    shared.acquire((0, 3))
    for each in (2, 0, 3):
        shared.ack((each, each, ACCEPT))
        assert len(shared.parked()) == 1
    shared.ack((1, 1, RELEASE))
    assert (shared.parked(), shared.outcomes()) == ([], ["completed"])


def test_a_broker_that_stops_ends_locks_without_a_word() -> None:
    shared = Shared()
    shared.acquire((0, 3))
    assert shared.locks.shutdown() == 1
    assert (shared.outcomes(), shared.persister.writes) == (["shutdown"], [])
    shared.acquire((4, 5))
    assert shared.parked() == []


def test_a_lock_can_be_ended_early_from_outside() -> None:
    """As the page and the test kit do."""
    shared = Shared()
    shared.acquire((0, 3))
    (operation,) = shared.locks._parked.values()
    assert isinstance(operation, AcquisitionLock)
    assert operation.expire()
    assert not operation.expire()
    assert shared.picture == "a1 a1 a1 a1"
