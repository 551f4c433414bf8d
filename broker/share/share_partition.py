"""A share partition: a partition as one share group consumes it, at the partition's leader (KIP-932).

It knows of each record from its start offset (SPSO) to its end offset (SPEO) whether it may be acquired, which member
has acquired it until when, and whether it is acknowledged or given up. A change that a member asks for, or that comes
of the end of its share session, is written to the share coordinator first: until then the records are in their old
state, can be neither acquired nor acknowledged, and stay in it if the write fails.

Plain functions, without time and without I/O of its own: the log is read by others, deadlines are those of the
purgatory of acquisition locks, and the persister writes.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from purgatorio.broker.coordinator.share_settings import ShareSettings
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.share.acknowledging import (
    AcknowledgeType,
    ShareAcknowledgementBatch,
    check,
    check_form,
    decisions,
    has_room,
)
from purgatorio.broker.share.acquiring import AcquiredPart, AcquireLimits, Acquisition, Offsets, ReadBatches
from purgatorio.broker.share.acquisition_lock import AcquisitionLock
from purgatorio.broker.share.giving_up import Archived, GiveUpCause
from purgatorio.broker.share.holdings import LockHolder
from purgatorio.broker.share.in_flight import ACKNOWLEDGED, ARCHIVED, AVAILABLE, InFlightBatch, RecordsInFlight
from purgatorio.broker.share.lock_table import LockTable, held_by, held_under
from purgatorio.broker.share.persister import Done, ShareState
from purgatorio.broker.share.services import ShareServices
from purgatorio.broker.share.share_metrics import PartitionCounts
from purgatorio.broker.share.stored_state import FENCING, archived_batches, client_error, in_flight, state_batches
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.share_state import (
    NO_START_OFFSET,
    UNKNOWN_COMPLETE_COUNT,
    RecordState,
    SharePartitionKey,
    StateBatch,
)

FindStart = Callable[[Callable[[ErrorCode, int], None]], None]
"""Finds the offset at which a group begins that has none yet (share.auto.offset.reset), and gives an error or it."""


class SharePartitionState(enum.Enum):
    """How far a share partition has come."""

    EMPTY = "empty"
    """Its state was not asked for yet."""
    INITIALIZING = "initializing"
    """The share coordinator was asked for its state."""
    ACTIVE = "active"
    """It gives records to members."""
    FAILED = "failed"
    """Its state could not be read. It stays so; make another one to try again."""
    FENCED = "fenced"
    """This broker is to have no part in it any more. It stays so."""


_State = SharePartitionState
TRANSITIONS: Final[Mapping[_State, tuple[_State, ...]]] = {
    _State.EMPTY: (_State.INITIALIZING, _State.FENCED),
    _State.INITIALIZING: (_State.ACTIVE, _State.FAILED, _State.FENCED),
    _State.ACTIVE: (_State.FENCED,),
    _State.FAILED: (_State.FENCED,),
    _State.FENCED: (),
}
"""By state of a share partition, the states that may follow."""


_log = logging.getLogger(__name__)

ARCHIVING: Final = RecordState.ARCHIVING
MAX_INT32: Final = 2**31 - 1
"""The most that a count in a stored record can say; a hole may have more offsets."""


class SharePartition:
    """One share partition at the leader of its partition.

    Args:
        tp: the partition by its name, for people.
        leader_epoch: that of this broker's leadership.
        find_start: called once at most, when the state is read.

    Attributes:
        counts: its part of the metrics.
    """

    __slots__ = (
        "_find_start",
        "_locks",
        "_records",
        "_services",
        "_state_epoch",
        "counts",
        "key",
        "leader_epoch",
        "state",
        "tp",
    )

    def __init__(
        self,
        key: SharePartitionKey,
        tp: TopicPartition,
        leader_epoch: int,
        services: ShareServices,
        *,
        find_start: FindStart,
        counts: PartitionCounts,
    ) -> None:
        self.key = key
        self.tp = tp
        self.leader_epoch = leader_epoch
        self.state = SharePartitionState.EMPTY
        self.counts = counts
        self._services = services
        self._find_start = find_start
        self._state_epoch = -1
        self._records = RecordsInFlight(0)
        self._locks = LockTable(services.locks, key.group_id, tp)

    # --- its life ---

    def load(self, done: Done) -> None:
        """Read the state from the share coordinator.

        `done` receives NONE when the share partition is ACTIVE, at once if it was before. Otherwise it receives
        LEADER_NOT_AVAILABLE while a load is under way, or if it is fenced; or the error with which the load failed.
        """
        match self.state:
            case SharePartitionState.EMPTY:
                self._become(SharePartitionState.INITIALIZING)
                self._services.persister.read(
                    self.key, leader_epoch=self.leader_epoch, done=partial(self._loaded, done)
                )
            case SharePartitionState.ACTIVE:
                done(ErrorCode.NONE)
            case SharePartitionState.FAILED:
                done(ErrorCode.UNKNOWN_SERVER_ERROR)
            case _:
                done(ErrorCode.LEADER_NOT_AVAILABLE)

    def _become(self, state: SharePartitionState) -> None:
        assert state in TRANSITIONS[self.state], f"{self.key} is {self.state.value}, it cannot become {state.value}"
        self.state = state

    def _loaded(self, done: Done, error: ErrorCode, stored: ShareState | None) -> None:
        if self.state is not SharePartitionState.INITIALIZING:
            done(ErrorCode.LEADER_NOT_AVAILABLE)
            return
        if stored is None:
            self._began(done, client_error(error))
        elif stored.start_offset == NO_START_OFFSET:
            self._find_start(partial(self._found_start, done, stored))
        else:
            self._began(done, self._restore(stored, stored.start_offset))

    def _found_start(self, done: Done, stored: ShareState, error: ErrorCode, start_offset: int) -> None:
        """Write where the group begins: no record leaves before the next leader would begin with the same one.

        Kafka does not write it.
        """
        if self.state is not SharePartitionState.INITIALIZING:
            done(ErrorCode.LEADER_NOT_AVAILABLE)
            return
        error = error or self._restore(stored, start_offset)
        if error:
            self._began(done, error)
        else:
            self._persist([], lambda error: self._began(done, client_error(error)))

    def _began(self, done: Done, error: ErrorCode) -> None:
        """End the load: the state is read, and the start offset is written if it was chosen now."""
        if self.state is not SharePartitionState.INITIALIZING:
            done(ErrorCode.LEADER_NOT_AVAILABLE)
            return
        self._become(SharePartitionState.FAILED if error else SharePartitionState.ACTIVE)
        self.counts.look(self._records)
        done(error)
        self._services.changed(self.key)
        if not error:
            for first_offset, last_offset, delivery_count in self._archiving():
                self._give_up(first_offset, last_offset, delivery_count, GiveUpCause.RESUMED)

    def _restore(self, stored: ShareState, start_offset: int) -> ErrorCode:
        try:
            self._records = in_flight(start_offset, stored.batches)
        except ValueError:
            _log.exception("the state of share partition %s is broken", self.key)
            return ErrorCode.UNKNOWN_SERVER_ERROR
        self._state_epoch = stored.state_epoch
        return ErrorCode.NONE

    def _archiving(self) -> list[tuple[int, int, int]]:
        """Return the offsets of records that an earlier leader has given up, with their delivery counts."""
        found = [batch for batch in self._records if batch.state is ARCHIVING]
        return [(batch.first_offset, batch.last_offset, batch.delivery_count) for batch in found]

    def _settings(self) -> ShareSettings:
        return self._services.settings(self.key.group_id)

    def fence(self, error: ErrorCode) -> None:
        """End it: this broker does not lead the partition any more, its topic or group is gone, or has no member here.

        Its locks end. Acknowledgements that are being written are answered when they are.
        """
        if self.state is SharePartitionState.FENCED:
            return
        self._become(SharePartitionState.FENCED)
        self.counts.end()
        self._records = RecordsInFlight(self._records.start_offset)
        self._locks.drop_all()
        self._services.fenced(self.key, error)
        self._services.changed(self.key)

    # --- offsets ---

    @property
    def start_offset(self) -> int:
        """The share-partition start offset (SPSO): all records below it are acknowledged or archived."""
        return self._records.start_offset

    @property
    def end_offset(self) -> int:
        """The share-partition end offset (SPEO), the last one in flight; one below the start offset if none is."""
        return self._records.end_offset

    @property
    def in_flight(self) -> RecordsInFlight:
        """The records from the start offset to the end offset; not to be changed by others."""
        return self._records

    def locks(self, member_id: str | None = None) -> list[AcquisitionLock]:
        """Return the locks under which members have records now, or those of one member, oldest first."""
        return list(self._locks if member_id is None else self._locks.of_member(member_id))

    def work_of(self, acknowledgements: Iterable[ShareAcknowledgementBatch]) -> int:
        """Return how many runs of records acknowledgements are about, or how many types they have if these are more."""
        count = self._records.overlap_count
        return sum(max(len(each.types), count(each.first_offset, each.last_offset)) for each in acknowledgements)

    def next_fetch_offset(self) -> int:
        """Return where the next fetch reads: at the first record that may be acquired again, or above the end."""
        first = self._records.first_available
        return self._records.end_offset + 1 if first is None else first

    def may_acquire(self) -> bool:
        """Return whether a fetch might acquire records: some are available again, or there is room for more locks."""
        if self.state is not SharePartitionState.ACTIVE:
            return False
        records = self._records
        return records.first_available is not None or records.record_count < self._settings().max_record_locks

    # --- acquiring ---

    def acquire(self, holder: LockHolder, read: ReadBatches, limits: AcquireLimits) -> list[AcquiredPart]:
        """Acquire records that were read for a member, as one delivery more of each.

        Args:
            holder: the member; nothing is acquired if it has no room for another lock.
            read: the batches from `next_fetch_offset` on; nothing is acquired if the records have been deleted since.
            limits: those on bytes do not count: so many were read.

        Returns:
            The records that the member may process, in ascending order. Other records that were read are not for it.
        """
        records = self._records
        if self.state is not SharePartitionState.ACTIVE or limits.max_records <= 0:
            return []
        if not read.batches or holder.room <= 0 or read.fetch_offset > records.end_offset + 1:
            return []
        undelivered = read.undelivered
        if read.batches[0].first_offset > read.fetch_offset:
            undelivered = [Offsets(read.fetch_offset, read.batches[0].first_offset - 1), *undelivered]
        settings = self._settings()
        acquisition = Acquisition(
            records,
            settings,
            limits,
            read.batches,
            max_parts=holder.room,
            lock=lambda batch: self._locks.lock([batch], holder, settings.record_lock_duration_ms, self),
            give_up=lambda batch: self._let_go([batch]),
        )
        acquired = acquisition.run(undelivered)
        records.advance()
        self.counts.look(records)
        self.counts.acquired(acquired)
        return acquired

    # --- acknowledging ---

    def acknowledge(
        self, member_id: str, acknowledgements: Sequence[ShareAcknowledgementBatch], *, renews: bool = False, done: Done
    ) -> None:
        """Do what a member says about records that it has acquired: all of it, or nothing.

        `done` receives NONE when that is written. Otherwise it receives INVALID_REQUEST for acknowledgements without
        order or types, with unknown types, or for offsets that no member has acquired yet; INVALID_RECORD_STATE if a
        record is not acquired by this member, or is being acknowledged already, or renewals are off, or there would be
        too many runs of records; NOT_LEADER_OR_FOLLOWER if this is fenced; or why the state could not be written: the
        member has the records on then, until its lock runs out.

        Args:
            renews: whether the request may renew locks: it has IsRenewAck.
        """
        error = self._check(member_id, acknowledgements, renews)
        if error:
            done(error)
            return
        decided = list(decisions(acknowledgements, self._records.start_offset))
        if not has_room(self._records, decided):
            done(ErrorCode.INVALID_RECORD_STATE)
            return
        changed: list[InFlightBatch] = []
        renewed: list[InFlightBatch] = []
        for first_offset, last_offset, kind in decided:
            batches = [each for each in self._records.cut(first_offset, last_offset) if not each.is_hole]
            if kind is AcknowledgeType.RENEW:
                renewed += batches
            else:
                for batch in batches:
                    self._begin(batch, kind)
                changed += batches
        self._locks.renew(renewed, self._settings().record_lock_duration_ms, self)
        self._write(changed, done)

    def _check(self, member_id: str, acknowledgements: Sequence[ShareAcknowledgementBatch], renews: bool) -> ErrorCode:
        if self.state is SharePartitionState.FENCED:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return check_form(acknowledgements, renews=renews) or check(
            self._records, member_id, acknowledgements, renews=self._settings().renews
        )

    def _begin(self, batch: InFlightBatch, kind: AcknowledgeType) -> None:
        """Note what is going to become of a batch."""
        match kind:
            case AcknowledgeType.ACCEPT:
                target = ACKNOWLEDGED
            case AcknowledgeType.RELEASE:
                target = self._released(batch)
            case AcknowledgeType.REJECT:
                target = self._given_up(batch, GiveUpCause.REJECTED)
            case _:
                target = ARCHIVED
        self._records.begin(batch, target)

    def _released(self, batch: InFlightBatch) -> RecordState:
        """Return the state of a batch that a member gives back."""
        if batch.delivery_count < self._settings().delivery_count_limit:
            return AVAILABLE
        return self._given_up(batch, GiveUpCause.DELIVERY_LIMIT)

    def _given_up(self, batch: InFlightBatch, cause: GiveUpCause) -> RecordState:
        if not self._services.dead_letters.wanted(self.key.group_id):
            return ARCHIVED
        batch.give_up_cause = cause
        return ARCHIVING

    def release(self, holder: LockHolder, most: int, done: Done) -> int:
        """Make so many runs of records available again that a member still has: its share session has ended.

        `done` receives NONE when that is written, or why it was not: the records are acquired then, until their locks
        run out.

        Returns:
            How many runs: fewer than `most` if it has no more of them.
        """
        changed = held_by(holder, self._locks.of_member(holder.member_id), self._records, most)
        for batch in changed:
            self._begin(batch, AcknowledgeType.RELEASE)
        self._write(changed, done)
        return len(changed)

    # --- dead letters ---

    def _give_up(self, first_offset: int, last_offset: int, delivery_count: int, cause: GiveUpCause) -> None:
        self._services.dead_letters.give_up(self, first_offset, last_offset, delivery_count, cause)

    def archived(self, ranges: Sequence[Archived]) -> None:
        """End ARCHIVING for records that are copied to the dead-letter topic, or that cannot be; write it.

        It does not depend on that write, as in Kafka: if it is lost, the next leader copies the records once more.
        After the last session of the group here has ended, it is only written; another leader's state is not changed.
        """
        if self.state is not SharePartitionState.ACTIVE:
            self._persist(archived_batches(ranges), self._noted)
            return
        records = self._records
        changed: list[InFlightBatch] = []
        for each in sorted(ranges):
            first_offset, last_offset = (
                max(each.first_offset, self.start_offset),
                min(each.last_offset, self.end_offset),
            )
            if first_offset > last_offset:
                continue
            for batch in records.cut(first_offset, last_offset):
                if batch.state is ARCHIVING:
                    records.begin(batch, ARCHIVED)
                    batch.is_dead_letter = each.is_dead_letter
                    changed.append(batch)
        if changed:
            self._settle(changed)

    # --- writing ---

    def _write(self, changed: list[InFlightBatch], done: Done) -> None:
        """Write the targets of batches; commit them, or roll them back."""
        if not changed:
            done(ErrorCode.NONE)
            return
        self._persist(state_batches(changed), partial(self._written, changed, done))

    def _persist(self, batches: list[StateBatch], done: Done) -> None:
        records = self._records
        is_active = self.state in (SharePartitionState.INITIALIZING, SharePartitionState.ACTIVE)
        self._services.persister.write(
            self.key,
            state_epoch=self._state_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=records.start_offset if is_active else NO_START_OFFSET,
            delivery_complete_count=min(records.complete_count, MAX_INT32) if is_active else UNKNOWN_COMPLETE_COUNT,
            batches=batches,
            done=done,
        )

    def _written(self, changed: list[InFlightBatch], done: Done, error: ErrorCode) -> None:
        if self.state is SharePartitionState.ACTIVE:
            if error in FENCING:
                self.fence(error)
            elif error:
                self._roll_back(changed)
            else:
                self._commit(changed)
        elif not error:
            self._give_up_without_session(changed)
        done(client_error(error))

    def _give_up_without_session(self, changed: Iterable[InFlightBatch]) -> None:
        """Copy what is ARCHIVING now: it was given up as the last session of the group here ended."""
        for batch in changed:
            if batch.target is ARCHIVING and batch.give_up_cause is not None:
                self._give_up(batch.first_offset, batch.last_offset, batch.delivery_count, batch.give_up_cause)

    def _commit(self, changed: Iterable[InFlightBatch]) -> None:
        records = self._records
        released = False
        given_up: list[tuple[int, int, int, GiveUpCause]] = []
        for batch in changed:
            target, cause = batch.target, batch.give_up_cause
            if target is None:
                continue  # the log begins above it
            self._locks.unlock(batch)
            first_offset, last_offset = batch.first_offset, batch.last_offset
            records.settle(batch, target)
            released = released or target is AVAILABLE
            if target is ARCHIVING and cause is not None:
                given_up.append((first_offset, last_offset, batch.delivery_count, cause))
        if records.advance() or released:
            self._services.changed(self.key)
        self.counts.look(records)
        for each in given_up:
            self._give_up(*each)

    def _roll_back(self, changed: Iterable[InFlightBatch]) -> None:
        late: list[InFlightBatch] = []
        for batch in changed:
            if batch.target is None:
                continue  # the log begins above it
            self._records.roll_back(batch)
            if batch.lock is not None and batch.lock.ran_out:
                late.append(batch)
        if late:
            self._let_go(late)

    # --- without a member that waits ---

    def lock_ran_out(self, lock: AcquisitionLock) -> None:
        """Make the records that a lock still holds available again, or give them up; called at its deadline.

        That is written, but it does not depend on it. Records that are being acknowledged wait for that.
        """
        self._locks.forget(lock)
        batches = held_under(lock, self._records)
        if batches:
            self.counts.timed_out(sum(batch.count for batch in batches))
            self._let_go(batches)

    def log_start_moved(self, offset: int) -> None:
        """Archive all records below this offset, where the log begins now; the locks on them end.

        The next write brings it to the share coordinator.
        """
        records = self._records
        if self.state is not SharePartitionState.ACTIVE or offset <= records.start_offset:
            return
        for lock, count in records.drop_below(offset):
            self._locks.count_down(lock, count)
        records.advance()
        self.counts.look(records)
        self._services.changed(self.key)

    def _let_go(self, batches: list[InFlightBatch]) -> None:
        """Make batches available again, or give them up, at once; write it."""
        for batch in batches:
            self._records.begin(batch, self._released(batch))
        self._settle(batches)

    def _settle(self, batches: list[InFlightBatch]) -> None:
        """Put batches into the states that are to be written for them, at once; write these."""
        stored = state_batches(batches)
        self._commit(batches)
        self._persist(stored, self._noted)

    def _noted(self, error: ErrorCode) -> None:
        if error in FENCING and self.state is SharePartitionState.ACTIVE:
            self.fence(error)
