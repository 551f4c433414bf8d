"""The share partitions that one broker coordinates: loaded when it is elected, dropped when it is elected no more.

The coordinator of a share partition is the leader of the partition of ``__share_group_state`` that its key is hashed
to. Each request is about one share partition. It is judged by the state of the log's end, and answered, also with a
refusal, when all that was written before is committed: what a client has heard of is not lost with a leader.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from purgatorio.broker.coordinator.coordinator_log import NewRecord
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.coordinator.shards import Shards
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.metadata.topic_name import SHARE_GROUP_STATE_TOPIC
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.broker.share.persister import ShareState
from purgatorio.broker.share.state.batches import MAX_BATCHES, StateBatches, problem_of
from purgatorio.broker.share.state.kept_state import NO_EPOCH, KeptState
from purgatorio.broker.share.state.services import ShareStateServices
from purgatorio.broker.share.state.shard import BatchBudget, ShareShard
from purgatorio.broker.time.long_work import Steps
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.share_state import (
    NO_START_OFFSET,
    UNKNOWN_COMPLETE_COUNT,
    SharePartitionKey,
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
    StateBatch,
    encode_key,
    encode_value,
)

NOT_INITIALIZED = ShareState(state_epoch=0, leader_epoch=0, start_offset=NO_START_OFFSET)
"""The summary of a state that does not exist, as in Kafka."""


class StateOutcome(NamedTuple):
    """An answer about one share partition.

    Attributes:
        message: the reason of an error; None: the code says it.
        state: what was read; None after other requests, and with an error.
    """

    error_code: ErrorCode = ErrorCode.NONE
    message: str | None = None
    state: ShareState | None = None


Answer = Callable[[StateOutcome], None]
"""Receives the outcome; called once."""

Judge = Callable[[ShareShard], None]
"""Answers a request, or raises CoordinatorError."""


class ShareCoordinator(Shards[ShareShard]):
    """The shards of one broker, by partition of ``__share_group_state``.

    Attributes:
        batches: how many state batches its share partitions have.
        write_count: the records that it wrote for requests since the broker started.
    """

    def __init__(self, services: ShareStateServices, replicas: ReplicaManager) -> None:
        super().__init__(
            SHARE_GROUP_STATE_TOPIC, log=services.log, replicas=replicas, image=services.image, work=services.work
        )
        self._services = services
        self.batches = BatchBudget(services.config.max_batches)
        self.write_count = 0

    def new_shard(self, tp: TopicPartition, leader_epoch: int) -> ShareShard:
        return ShareShard(tp, leader_epoch, self.batches)

    def start_steps(self, shard: ShareShard) -> Steps:
        """Start nothing: states have no timers."""
        return iter(())

    def unload_steps(self, shard: ShareShard) -> Steps:
        """Drop the states. No request is parked here: those that wait for replicas are answered by their purgatory."""
        yield 0
        shard.leave()

    # --- requests ---

    def initialize(
        self, key: SharePartitionKey, *, state_epoch: int, start_offset: int, done: Answer, client: str = ""
    ) -> None:
        """Begin a new state, in place of an older one.

        A request without a start offset that has the epoch of the state comes again: it changes nothing, as the state
        may be in use by now. (Kafka begins anew.)

        Refusals are INVALID_REQUEST, FENCED_STATE_EPOCH, UNKNOWN_TOPIC_OR_PARTITION, and POLICY_VIOLATION if the
        coordinator's partition has the most share partitions that it may have.
        """

        def judge(shard: ShareShard) -> None:
            _check(start_offset >= NO_START_OFFSET, f"There is no start offset {start_offset}.")
            _check(state_epoch >= 0, f"There is no state epoch {state_epoch}.")
            state = shard.states.get(key)
            if state is not None and state_epoch < state.state_epoch:
                raise CoordinatorError(
                    ErrorCode.FENCED_STATE_EPOCH, f"The state has epoch {state.state_epoch}, after {state_epoch}."
                )
            self._check_exists(key)
            if state is None:
                self._check_room(shard)
            elif state_epoch == state.state_epoch and start_offset == NO_START_OFFSET:
                self._answer(shard, StateOutcome(), done)
                return
            now_ms = self._services.clock.wall_ms()
            snapshot = ShareSnapshotValue(
                snapshot_epoch=0 if state is None else state.snapshot_epoch + 1,
                state_epoch=state_epoch,
                leader_epoch=NO_EPOCH if state is None else state.leader_epoch,
                start_offset=start_offset,
                create_timestamp_ms=now_ms,
                write_timestamp_ms=now_ms,
                delivery_complete_count=UNKNOWN_COMPLETE_COUNT if start_offset == NO_START_OFFSET else 0,
            )
            self._put(shard, key, snapshot, StateOutcome(), done, client)

        self._run(key, judge, done)

    def read(self, key: SharePartitionKey, *, leader_epoch: int, done: Answer, client: str = "") -> None:
        """Read a state, and fence the leaders before this epoch; -1: none.

        Refusals are INVALID_REQUEST, FENCED_LEADER_EPOCH and UNKNOWN_TOPIC_OR_PARTITION.
        """

        def judge(shard: ShareShard) -> None:
            state = self._readable(shard, key, leader_epoch)
            self._check_exists(key)
            if leader_epoch in (NO_EPOCH, state.leader_epoch):
                self._answer(shard, StateOutcome(state=state.read()), done)
                return
            update = ShareUpdateValue(
                leader_epoch=leader_epoch,
                start_offset=NO_START_OFFSET,
                delivery_complete_count=state.delivery_complete_count,
            )
            read = state.copy()
            read.leader_epoch = leader_epoch
            self._change(shard, key, state, update, StateBatches(), StateOutcome(state=read.read()), done, client)

        self._run(key, judge, done)

    def write(
        self,
        key: SharePartitionKey,
        *,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
        done: Answer,
        client: str = "",
    ) -> None:
        """Change a state; see `Persister.write`. Epochs of -1 are not checked, as in Kafka.

        Refusals are INVALID_REQUEST, FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH, UNKNOWN_TOPIC_OR_PARTITION, and
        POLICY_VIOLATION if the coordinator has the most batches that it may have.
        """

        def judge(shard: ShareShard) -> None:
            _check(start_offset >= NO_START_OFFSET, f"There is no start offset {start_offset}.")
            _check(delivery_complete_count >= UNKNOWN_COMPLETE_COUNT, "A count is not negative.")
            problem = problem_of(batches)
            _check(problem is None, problem or "")
            state = self._readable(shard, key, leader_epoch)
            if NO_EPOCH != state_epoch < state.state_epoch:
                raise CoordinatorError(
                    ErrorCode.FENCED_STATE_EPOCH, f"The state has epoch {state.state_epoch}, after {state_epoch}."
                )
            self._check_exists(key)
            update = ShareUpdateValue(
                leader_epoch=state.leader_epoch,
                start_offset=start_offset,
                state_batches=list(batches),
                delivery_complete_count=delivery_complete_count,
            )
            changes = StateBatches(batches)
            self.batches.check(2 * len(changes))
            self._change(shard, key, state, update, changes, StateOutcome(), done, client)

        self._run(key, judge, done)

    def delete(self, key: SharePartitionKey, *, done: Answer, client: str = "") -> None:
        """Delete a state; one that does not exist is no error. Refusals are as of `read`, but for the epoch."""

        def judge(shard: ShareShard) -> None:
            self._check_exists(key)
            if key not in shard.states:
                self._answer(shard, StateOutcome(), done)
                return
            self._append(shard, tombstone(key), partial(shard.remove, key), StateOutcome(), done, client)

        self._run(key, judge, done)

    def summary(self, key: SharePartitionKey, *, done: Answer) -> None:
        """Read a state without its batches; UNKNOWN_TOPIC_OR_PARTITION if there is no such partition."""

        def judge(shard: ShareShard) -> None:
            self._check_exists(key)
            state = shard.states.get(key)
            self._answer(shard, StateOutcome(state=NOT_INITIALIZED if state is None else state.summary()), done)

        self._run(key, judge, done)

    # --- checks ---

    def _run(self, key: SharePartitionKey, judge: Judge, done: Answer) -> None:
        """Judge a request; a refusal by the state waits until that state is committed."""
        try:
            shard = self.shard_of(str(key))
        except CoordinatorError as error:
            done(StateOutcome(error.error_code, str(error)))
            return
        try:
            _check(key.partition >= 0, f"There is no partition {key.partition}.")
            judge(shard)
        except CoordinatorError as error:
            self._answer(shard, StateOutcome(error.error_code, str(error)), done)

    def _readable(self, shard: ShareShard, key: SharePartitionKey, leader_epoch: int) -> KeptState:
        """Return the state, which no newer leader has read."""
        state = shard.states.get(key)
        if state is None:
            raise CoordinatorError(ErrorCode.INVALID_REQUEST, "The state is not initialized.")
        if NO_EPOCH != leader_epoch < state.leader_epoch:
            raise CoordinatorError(
                ErrorCode.FENCED_LEADER_EPOCH, f"The state was read with leader epoch {state.leader_epoch}."
            )
        return state

    def _check_exists(self, key: SharePartitionKey) -> None:
        if not exists(self._services.image(), key):
            raise CoordinatorError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic has no such partition.")

    def _check_room(self, shard: ShareShard) -> None:
        limit = self._services.config.max_partitions
        if len(shard.states) >= limit:
            message = f"{shard.tp} has {limit} share partitions, the most that it may have."
            raise CoordinatorError(ErrorCode.POLICY_VIOLATION, message)

    # --- records ---

    def _change(
        self,
        shard: ShareShard,
        key: SharePartitionKey,
        state: KeptState,
        update: ShareUpdateValue,
        changes: StateBatches,
        outcome: StateOutcome,
        done: Answer,
        client: str,
    ) -> None:
        """Write an update, or a snapshot of what it leads to if there have been enough updates since the last one.

        Raises:
            CoordinatorError: INVALID_REQUEST if the state had more batches than it may have.
        """
        update.snapshot_epoch = state.snapshot_epoch
        is_update = state.update_count < self._services.config.updates_per_snapshot
        if is_update and len(state.batches) + 2 * len(changes) <= MAX_BATCHES:  # a change splits one batch at most
            applied = partial(shard.apply, key, update, changes)
            self._append(shard, _update(key, update), applied, outcome, done, client)
            return
        changed = state.copy()
        changed.apply(update, changes)
        _check(len(changed.batches) <= MAX_BATCHES, f"A share partition has at most {MAX_BATCHES} state batches.")
        if is_update:
            self._append(shard, _update(key, update), partial(shard.put, key, changed), outcome, done, client)
            return
        now_ms = self._services.clock.wall_ms()
        snapshot = changed.snapshot(created_ms=now_ms, written_ms=now_ms)
        self._put(shard, key, snapshot, outcome, done, client)

    def _put(
        self,
        shard: ShareShard,
        key: SharePartitionKey,
        snapshot: ShareSnapshotValue,
        outcome: StateOutcome,
        done: Answer,
        client: str,
    ) -> None:
        state = KeptState(snapshot, self.end_offset(shard))
        self._append(shard, snapshot_record(key, snapshot), partial(shard.put, key, state), outcome, done, client)

    def end_offset(self, shard: ShareShard) -> int:
        """Return the log end offset of a shard's partition, which its next record gets."""
        partition = self._replicas.lookup.known(shard.tp)
        return 0 if partition is None else partition.log.log_end_offset

    def _append(
        self,
        shard: ShareShard,
        record: NewRecord,
        applied: Callable[[], None],
        outcome: StateOutcome,
        done: Answer,
        client: str,
    ) -> None:
        def settled(error_code: ErrorCode) -> None:
            done(StateOutcome(error_code) if error_code else outcome)

        self.write_count += 1
        self._services.log.append(shard.tp, [record], settled, applied=applied, client=client)

    def _answer(self, shard: ShareShard, outcome: StateOutcome, done: Answer) -> None:
        """Answer what the state says when that is committed."""

        def settled(error_code: ErrorCode) -> None:
            done(StateOutcome(error_code) if error_code else outcome)

        self._services.log.when_committed(shard.tp, settled)


def exists(image: ClusterImage, key: SharePartitionKey) -> bool:
    """Return whether an image has the partition of a share partition."""
    topic = image.topic_by_id(key.topic_id)
    return topic is not None and key.partition < len(topic.partitions)


def _check(holds: bool, message: str) -> None:
    if not holds:
        raise CoordinatorError(ErrorCode.INVALID_REQUEST, message)


def tombstone(key: SharePartitionKey) -> NewRecord:
    """Return the record that deletes a state."""
    return NewRecord(_snapshot_key(key), None)


def snapshot_record(key: SharePartitionKey, snapshot: ShareSnapshotValue) -> NewRecord:
    """Return the record of a snapshot."""
    return NewRecord(_snapshot_key(key), encode_value(snapshot))


def _snapshot_key(key: SharePartitionKey) -> bytes:
    return encode_key(ShareSnapshotKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition))


def _update(key: SharePartitionKey, update: ShareUpdateValue) -> NewRecord:
    record_key = ShareUpdateKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition)
    return NewRecord(encode_key(record_key), encode_value(update))
