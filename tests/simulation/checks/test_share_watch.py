"""The looks at share partitions find what contradicts; in a simulation they find nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from purgatorio.broker.coordinator.share_settings import ShareSettings
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.share.acquisition_lock import AcquisitionLock
from purgatorio.broker.share.in_flight import ACKNOWLEDGED, ACQUIRED, AVAILABLE, RecordsInFlight
from purgatorio.broker.share.share_partition import SharePartition, SharePartitionState
from purgatorio.broker.share.state.coordinator import Answer, ShareCoordinator, StateOutcome
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.share_state import RecordState, SharePartitionKey, StateBatch
from purgatorio.purgatory.clock import ManualClock
from purgatorio.simulation.checks.share_watch import (
    BROKEN_STATE,
    SHARE_INVARIANTS,
    START_BACK,
    ShareLook,
    mistake_of_locks,
    mistake_of_records,
    recorded_shares,
)
from purgatorio.simulation.history.history import History
from purgatorio.simulation.history.share_events import ShareGivenUp

KEY = SharePartitionKey("workers", bytes(16), 0)
TP = TopicPartition("orders", 0)


def records(*states: tuple[int, Any]) -> RecordsInFlight:
    """Return records in flight from offset 10: so many in each of these states."""
    made = RecordsInFlight(10)
    for count, state in states:
        made.append(made.end_offset + count, state, 1)
    return made


@dataclass(eq=False)
class FakeLock:
    """A lock as far as the looks know it."""

    held_count: int = 1
    completed: bool = False
    ran_out: bool = False
    member_id: str = "a"
    first_offset: int = 10
    last_offset: int = 10
    keys: str = "orders-0 10"


def lock(**options: Any) -> AcquisitionLock:
    return cast("AcquisitionLock", FakeLock(**options))


@dataclass(eq=False)
class FakeShare:
    """A share partition as far as the looks know it."""

    start_offset: int
    in_flight: RecordsInFlight
    held: list[AcquisitionLock] = field(default_factory=list)
    leader_epoch: int = 1
    key: SharePartitionKey = KEY
    tp: TopicPartition = TP
    state: SharePartitionState = SharePartitionState.ACTIVE

    def locks(self) -> list[AcquisitionLock]:
        return self.held

    def _noted(self, error: ErrorCode) -> None:
        """Hear whether what this is ahead of has been written."""


def process(share: FakeShare, *parked: AcquisitionLock, closed: bool = False, log_start_offset: int = 0) -> Any:
    purgatory = SimpleNamespace(name="AcquisitionLock", _closed=closed, _parked=dict(enumerate(parked)))
    log = SimpleNamespace(log_start_offset=log_start_offset, config=SimpleNamespace(compact=False))
    broker = SimpleNamespace(
        led_shares=SimpleNamespace(partitions=[share], settings=SimpleNamespace(of=lambda group_id: ShareSettings())),
        purgatories=[purgatory],
        replicas=SimpleNamespace(partitions={TP: SimpleNamespace(log=log)}),
    )
    return SimpleNamespace(broker=broker, host=SimpleNamespace(name="broker-1"))


@pytest.fixture
def found() -> list[str]:
    return []


@pytest.fixture
def look(found: list[str]) -> ShareLook:
    return ShareLook(lambda name, where, message: found.append(name))


def test_every_invariant_has_a_sentence() -> None:
    assert all(meaning.endswith(".") for meaning in SHARE_INVARIANTS.values())


def test_a_start_offset_never_goes_back(look: ShareLook, found: list[str]) -> None:
    share = FakeShare(10, records((2, AVAILABLE)))
    look.look(process(share))
    share.start_offset = 9
    look.look(process(share))
    assert found == [START_BACK]


def test_the_next_leader_begins_no_earlier(look: ShareLook, found: list[str]) -> None:
    look.look(process(FakeShare(10, records((2, AVAILABLE)), leader_epoch=2)))
    look.look(process(FakeShare(8, RecordsInFlight(8), leader_epoch=1)))
    look.look(process(FakeShare(8, RecordsInFlight(8), leader_epoch=3), log_start_offset=7))
    assert found == [], "an earlier leader, and one that may have passed deleted records"
    look.look(process(FakeShare(8, RecordsInFlight(8), leader_epoch=3)))
    assert found == [START_BACK]


@pytest.mark.parametrize(("error", "found_then"), [(None, []), (ErrorCode.NOT_COORDINATOR, []), (0, [START_BACK])])
def test_the_next_leader_may_not_know_what_did_not_wait_for_its_write(
    look: ShareLook, found: list[str], monkeypatch: pytest.MonkeyPatch, error: int | None, found_then: list[str]
) -> None:
    """A lock ran out at the last delivery, and its leader died before that was written: seed 275."""
    waiting: list[Any] = []
    monkeypatch.setattr(SharePartition, "_persist", lambda share, batches, done: waiting.append(done))
    share: Any = FakeShare(10, RecordsInFlight(10))
    with look.written.watched():
        SharePartition._persist(share, [], lambda error: None)
        waiting.pop()(ErrorCode.NONE)
        SharePartition._persist(share, [], share._noted)
    share.start_offset, share.in_flight = 12, RecordsInFlight(12)
    if error is not None:
        waiting.pop()(error)
    look.look(process(share))
    look.look(process(FakeShare(10, RecordsInFlight(10), leader_epoch=2)))
    assert found == found_then
    look.look(process(FakeShare(9, RecordsInFlight(9), leader_epoch=3)))
    assert found == [*found_then, START_BACK], "its first write told of 10"


def test_each_parked_lock_belongs_to_a_share_partition(look: ShareLook, found: list[str]) -> None:
    held = lock()
    share = FakeShare(10, records((1, ACQUIRED)), [held])
    next(iter(share.in_flight)).lock = held
    look.look(process(share, held))
    assert found == []
    look.look(process(share, held, lock()))
    assert found == [BROKEN_STATE]


def test_a_broker_that_shuts_down_is_not_looked_at(look: ShareLook, found: list[str]) -> None:
    look.look(process(FakeShare(10, records((1, ACQUIRED))), closed=True))
    assert found == []


def test_records_in_flight_follow_each_other_and_are_counted() -> None:
    fine = records((2, AVAILABLE), (3, ACKNOWLEDGED), (1, AVAILABLE))
    assert mistake_of_records(fine) is None
    fine.complete_count += 1
    assert "counted as complete" in (mistake_of_records(fine) or "")
    gap = records((2, AVAILABLE), (2, ACKNOWLEDGED))
    list(gap)[1].first_offset += 1
    assert "does not begin at 12" in (mistake_of_records(gap) or "")
    assert "nothing can become of it" in (mistake_of_records(records((1, ACKNOWLEDGED), (1, AVAILABLE))) or "")
    hidden = records((1, AVAILABLE))
    hidden._available.clear()
    assert "the first that is available" in (mistake_of_records(hidden) or "")
    short = records((1, AVAILABLE))
    short.end_offset += 1
    assert "end before 11" in (mistake_of_records(short) or "")
    counted = records((1, AVAILABLE))
    counted.record_count += 1
    assert "records are counted" in (mistake_of_records(counted) or "")


def test_a_record_has_a_lock_if_it_is_acquired() -> None:
    acquired = records((1, ACQUIRED))
    assert "has the lock None" in (mistake_of_locks(acquired, []) or "")
    (batch,) = acquired
    batch.lock = held = lock()
    assert mistake_of_locks(acquired, [held]) is None
    assert "a lock of a that is over" in (mistake_of_locks(acquired, []) or "")
    assert "counts 1 records, and holds 0" in (mistake_of_locks(acquired, [held, lock()]) or "")


def test_a_lock_that_ran_out_may_stay_at_records_that_are_being_acknowledged() -> None:
    acquired = records((1, ACQUIRED))
    (batch,) = acquired
    batch.lock = lock(ran_out=True, completed=True)
    batch.target = ACKNOWLEDGED
    assert mistake_of_locks(acquired, []) is None
    assert "is over, and not forgotten" in (mistake_of_locks(acquired, [batch.lock]) or "")


# --- what is recorded ---


@pytest.mark.parametrize(("error_code", "count"), [(ErrorCode.NONE, 1), (ErrorCode.NOT_COORDINATOR, 0)])
def test_a_state_that_owes_dead_letters_is_recorded_once_it_is_committed(
    monkeypatch: pytest.MonkeyPatch, error_code: ErrorCode, count: int
) -> None:
    waiting: list[Answer] = []
    monkeypatch.setattr(ShareCoordinator, "write", lambda own, key, *, done, **state: waiting.append(done))
    topic = SimpleNamespace(name="orders")
    image = SimpleNamespace(topic_by_id=lambda topic_id: topic)
    coordinator: Any = SimpleNamespace(_services=SimpleNamespace(image=lambda: image))
    history = History()
    answers: list[StateOutcome] = []
    batches = [
        StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=3)
        for first, last, state in ((4, 6, RecordState.ARCHIVING), (7, 7, RecordState.ARCHIVED))
    ]
    with recorded_shares(history, ManualClock(5_000)):
        ShareCoordinator.write(
            coordinator,
            KEY,
            state_epoch=1,
            leader_epoch=2,
            start_offset=4,
            delivery_complete_count=0,
            batches=batches,
            done=answers.append,
        )
        assert list(history) == []
        waiting[0](StateOutcome(error_code))
    assert list(history) == [ShareGivenUp(5_000, "workers", "orders-0", 4, 6, 3)] * count
    assert answers == [StateOutcome(error_code)]
