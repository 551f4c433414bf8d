"""The hidden part of share groups: locks that brokers end before their time, and the brokers' own state of records.

A member learns of the end of its session with its next request, and not at all if it is gone; so the checks of the
history need the brokers' word for it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final
from unittest import mock

from purgatorio.broker.causes.kinds import ACQUISITION_LOCK
from purgatorio.broker.coordinator.share_settings import ShareSettings
from purgatorio.broker.log.log import Log
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.share.acquisition_lock import AcquisitionLock
from purgatorio.broker.share.dead_letters.backlog import Backlog
from purgatorio.broker.share.dead_letters.queue import DeadLetterQueue
from purgatorio.broker.share.giving_up import Archived
from purgatorio.broker.share.in_flight import ACQUIRED, AVAILABLE, InFlightBatch, RecordsInFlight
from purgatorio.broker.share.session_endings import SessionEndings
from purgatorio.broker.share.share_partition import SharePartition, SharePartitionState
from purgatorio.broker.share.share_session import ShareSession
from purgatorio.broker.share.state.coordinator import Answer, ShareCoordinator, StateOutcome
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.share_state import RecordState, SharePartitionKey, StateBatch
from purgatorio.purgatory.clock import Clock
from purgatorio.simulation.history.history import History
from purgatorio.simulation.history.share_events import DeadLettersLost, ShareEnded, ShareGivenUp, ShareWriteFailed
from purgatorio.simulation.world.cluster import SimulatedProcess

START_BACK: Final = "share-start-back"
BROKEN_STATE: Final = "share-state"
SHARE_INVARIANTS: Final = {
    START_BACK: "The start offset of a share partition went back, at its leader or with the next one.",
    BROKEN_STATE: "A share partition's records, their locks, and the locks that are parked contradicted one another.",
}
"""Each invariant's name, and the meaning of a violation in one sentence."""

Violated = Callable[[str, str, str], None]
"""Receives the name of an invariant, where it is violated, and how."""


@contextlib.contextmanager
def recorded_shares(history: History, clock: Clock) -> Iterator[None]:
    """Record locks that end before their time, writes that fail, and dead letters that are lost, in the context."""
    ended, fence, noted, written = (
        SessionEndings.begin,
        SharePartition.fence,
        SharePartition._noted,
        SharePartition._written,
    )

    def end_session(endings: SessionEndings, session: ShareSession, is_last: bool) -> None:
        for partition in session.partitions.values():
            where = session.group_id, session.member_id, str(partition.tp)
            history.record(ShareEnded(clock.now_ms(), *where))
        ended(endings, session, is_last)

    def end_partition(share: SharePartition, error: ErrorCode) -> None:
        if share.state is not SharePartitionState.FENCED:
            history.record(ShareEnded(clock.now_ms(), share.key.group_id, "", str(share.tp)))
        fence(share, error)

    def failed(share: SharePartition, error: ErrorCode) -> None:
        if error:
            history.record(ShareWriteFailed(clock.now_ms(), share.key.group_id, str(share.tp)))

    def note(share: SharePartition, error: ErrorCode) -> None:
        failed(share, error)
        noted(share, error)

    def write(share: SharePartition, changed: list[InFlightBatch], done: Any, error: ErrorCode) -> None:
        failed(share, error)
        written(share, changed, done, error)

    with contextlib.ExitStack() as stack:
        stack.enter_context(_recorded_losses(history, clock))
        stack.enter_context(_recorded_states(history, clock))
        stack.enter_context(mock.patch.object(SessionEndings, "begin", end_session))
        stack.enter_context(mock.patch.object(SharePartition, "fence", end_partition))
        stack.enter_context(mock.patch.object(SharePartition, "_noted", note))
        stack.enter_context(mock.patch.object(SharePartition, "_written", write))
        yield


def _recorded_losses(history: History, clock: Clock) -> contextlib.AbstractContextManager[Any]:
    log_lost = DeadLetterQueue._lost

    def lose(queue: DeadLetterQueue, backlog: Backlog, ranges: Sequence[Archived], why: str) -> None:
        for each in ranges:
            where = backlog.key.group_id, str(backlog.source), each.first_offset, each.last_offset
            history.record(DeadLettersLost(clock.now_ms(), *where, why))
        log_lost(queue, backlog, ranges, why)

    return mock.patch.object(DeadLetterQueue, "_lost", lose)


def _recorded_states(history: History, clock: Clock) -> contextlib.AbstractContextManager[Any]:
    """Record which records are to have dead letters, when that is committed: whatever leader comes then, it owes them.

    The check does not rely on `SharePartition`, so that it can find it wrong.
    """
    write = ShareCoordinator.write

    def write_state(
        coordinator: ShareCoordinator,
        key: SharePartitionKey,
        *,
        batches: Sequence[StateBatch],
        done: Answer,
        **others: Any,
    ) -> None:
        topic = coordinator._services.image().topic_by_id(key.topic_id)

        def written(outcome: StateOutcome) -> None:
            if not outcome.error_code and topic is not None:
                where = key.group_id, str(TopicPartition(topic.name, key.partition))
                for each in batches:
                    if each.delivery_state == RecordState.ARCHIVING:
                        offsets = each.first_offset, each.last_offset
                        history.record(ShareGivenUp(clock.now_ms(), *where, *offsets, each.delivery_count))
            done(outcome)

        write(coordinator, key, batches=batches, done=written, **others)

    return mock.patch.object(ShareCoordinator, "write", write_state)


class WrittenStarts:
    """Knows which start offsets the next leader of a share partition must have.

    A leader is ahead of what is written where a lock has run out at the last delivery, or a dead letter is done with:
    that does not depend on the write, as in Kafka. If the leader dies then, the next one begins before these records.
    """

    def __init__(self) -> None:
        self._ahead: dict[SharePartition, int] = {}  # writes that are under way, or have failed
        self._written: dict[SharePartition, int] = {}

    def watched(self) -> contextlib.AbstractContextManager[Any]:
        """Hear of all writes in the context."""
        persist = SharePartition._persist

        def persist_state(share: SharePartition, batches: list[StateBatch], done: Callable[[ErrorCode], None]) -> None:
            is_ahead, start_offset = done == share._noted, share.start_offset
            self._ahead[share] = self._ahead.get(share, 0) + is_ahead

            def written(error: ErrorCode) -> None:
                if not error:
                    self._ahead[share] -= is_ahead
                    self._written[share] = max(start_offset, self._written.get(share, 0))
                done(error)

            persist(share, batches, written)

        return mock.patch.object(SharePartition, "_persist", persist_state)

    def of(self, share: SharePartition) -> int:
        """Return a start offset that is certainly written, or follows from what is written of the records."""
        return self._written.get(share, 0) if self._ahead.get(share) else share.start_offset


class ShareLook:
    """Looks at the share partitions of brokers, again and again.

    Args:
        violated: called for each violation.

    Attributes:
        written: the starts that the next leaders must have.
    """

    def __init__(self, violated: Violated) -> None:
        self.written = WrittenStarts()
        self._violated = violated
        self._starts: dict[SharePartition, int] = {}
        self._furthest: dict[SharePartitionKey, tuple[int, int]] = {}  # leader epoch, start offset

    def look(self, process: SimulatedProcess) -> None:
        """Check the share partitions that one process leads, and its parked locks; not while it shuts down."""
        parked = [each for each in process.broker.purgatories if each.name == ACQUISITION_LOCK.purgatory]
        if any(purgatory._closed for purgatory in parked):
            return
        shares = [share for share in process.broker.led_shares.partitions if share.state is SharePartitionState.ACTIVE]
        owned: dict[AcquisitionLock, None] = {}
        for share in shares:
            where = f"{process.host.name} {share.key.group_id} {share.tp}"
            start_offset = self._start_before(process, share)
            if share.start_offset < start_offset:
                self._violated(START_BACK, where, f"it went from {start_offset} to {share.start_offset}")
            self._starts[share] = share.start_offset
            owned.update(dict.fromkeys(share.locks()))
            for mistake in (mistake_of_records(share.in_flight), mistake_of_locks(share.in_flight, share.locks())):
                if mistake is not None:
                    self._violated(BROKEN_STATE, where, mistake)
        for purgatory in parked:
            for operation in purgatory._parked.values():
                if operation not in owned:
                    told = f"{operation.keys} is parked for {operation.member_id}, and no share partition has it"
                    self._violated(BROKEN_STATE, process.host.name, told)

    def _start_before(self, process: SimulatedProcess, share: SharePartition) -> int:
        """Return where a share partition began at the last look here, or had to begin after an earlier leader.

        A leader before may have passed records that were deleted, are compacted away, or belong to an aborted
        transaction, and this is not written.
        """
        before = self._starts.get(share, share.start_offset)
        replica = process.broker.replicas.partitions.get(share.tp)
        if replica is None or not keeps_all(replica.log, process.broker.led_shares.settings.of(share.key.group_id)):
            return before
        leader_epoch, furthest = self._furthest.get(share.key, (-1, 0))
        if share.leader_epoch < leader_epoch:
            return before
        self._furthest[share.key] = share.leader_epoch, max(furthest, self.written.of(share))
        return max(before, furthest)


def keeps_all(log: Log, settings: ShareSettings) -> bool:
    """Return whether a share group gets all records of a log."""
    return log.log_start_offset == 0 and not log.config.compact and not settings.reads_committed


def mistake_of_records(records: RecordsInFlight) -> str | None:
    """Return what is wrong with the order and the counts of records in flight, or None."""
    batches = list(records)
    offset = records.start_offset
    for batch in batches:
        if batch.first_offset != offset or batch.last_offset < offset:
            return f"{batch!r} does not begin at {offset}"
        offset = batch.last_offset + 1
    if offset != records.end_offset + 1:
        return f"the batches end before {offset}, the records at {records.end_offset}"
    if batches and batches[0].is_complete and batches[0].target is None:
        return f"{batches[0]!r} is at the start, though nothing can become of it any more"
    if records.complete_count != sum(batch.count for batch in batches if batch.is_complete):
        return f"{records.complete_count} records are counted as complete, not those of {batches}"
    if records.record_count != sum(batch.count for batch in batches if not batch.is_hole):
        return f"{records.record_count} records are counted, not those of {batches}"
    available = next((batch.first_offset for batch in batches if batch.state is AVAILABLE), None)
    if records.first_available != available:
        return f"{records.first_available} is taken for the first that is available, not {available}"
    return None


def mistake_of_locks(records: RecordsInFlight, locks: list[AcquisitionLock]) -> str | None:
    """Return what is wrong with the locks on records in flight, or None.

    A record has a lock if it is acquired; a lock is parked until its time is over, and holds records until then. The
    time of a lock may be over while its records are being acknowledged.
    """
    held: dict[AcquisitionLock, int] = dict.fromkeys(locks, 0)
    for batch in records:
        lock = batch.lock
        if (lock is not None) != (batch.state is ACQUIRED):
            return f"{batch!r} has the lock {lock}"
        if lock is None:
            continue
        if lock in held:
            held[lock] += batch.count
        if lock not in held and not (lock.ran_out and batch.target is not None):
            return f"{batch!r} has a lock of {lock.member_id} that is over"
    for lock, count in held.items():
        which = f"the lock of {lock.member_id} on {lock.first_offset}–{lock.last_offset}"
        if lock.completed:
            return f"{which} is over, and not forgotten"
        if count != lock.held_count or not count:
            return f"{which} counts {lock.held_count} records, and holds {count}"
    return None
