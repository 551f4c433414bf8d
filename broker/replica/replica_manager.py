"""All replicas of one broker: takes produce and fetch requests, parks what cannot be answered yet, and wakes it.

What happens on an event, and which purgatories hear of it:

| event | Produce | Fetch |
|---|---|---|
| leader append that moves the high watermark (no other in-sync replica) | yes | yes |
| leader append that does not | | yes: followers read up to the log end |
| follower fetch that moves the high watermark | yes | yes |
| role or in-sync replicas changed, partition lost | yes | yes |
| records deleted on request | | yes: followers begin later, too |
| the high watermark of a follower replica moved (KAFKA-14334) | | yes |

Every entry point runs ``with self._actions``: what it raises is handled when it is done, since completing one operation
may raise the next event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import cast

from purgatorio.broker.clock import Clock
from purgatorio.broker.log.config import LogConfig
from purgatorio.broker.log.log import Log, LogError
from purgatorio.broker.log.memory import MemoryBudget
from purgatorio.broker.log.producer_state import PRODUCER_EXPIRATION_MS
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.controller import InSyncProposal
from purgatorio.broker.metadata.image import (
    BrokerIncarnation,
    ClusterImage,
    PartitionState,
    Topic,
)
from purgatorio.broker.purgatory import ActionQueue, Purgatory
from purgatorio.broker.replica.delayed_delete_records import DelayedDeleteRecords, PendingDeletion
from purgatorio.broker.replica.delayed_fetch import DelayedFetch, FollowerKey
from purgatorio.broker.replica.delayed_produce import DelayedProduce, PendingAck
from purgatorio.broker.replica.observer import LeadershipListener, ReplicaObserver
from purgatorio.broker.replica.partition import Partition, PartitionError
from purgatorio.broker.replica.reader import FetchParams, PartitionFetch, ReplicaReader
from purgatorio.broker.replica.results import AppendDone, AppendResult, DeleteRecordsDone, DeleteRecordsResult
from purgatorio.logger import get_logger
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.fetch import PartitionData
from purgatorio.protocol.primitives import Buffer

logger = get_logger(__name__)


LAGGING_METADATA_WAIT_MS = 20
"""How long a follower's fetch is parked that asks for fewer partitions than it should: its metadata may lag behind."""


class ReplicaManager:
    """The replicas of one broker.

    Args:
        broker_id: this broker.
        clock: monotonic time for fetch bookkeeping, wall time for record timestamps.
        log_defaults: topic configs where a topic sets none.
        memory: the budget that all logs of this broker share.
        actions: the queue of events to be handled when the outermost call is done.
        produce_purgatory: where produce requests wait.
        fetch_purgatory: where fetch requests wait.
        delete_records_purgatory: where requests to delete records wait.
        observer: told what happens.
        propose: takes what a partition proposes for its in-sync set.
        may_lead: whether this broker certainly holds its lease, and so may act as a leader.
        producer_id_expiration_ms: after how long the sequence numbers of an idle producer are forgotten.

    Attributes:
        life: this broker's registration; until there is one no metadata are acted on.
    """

    def __init__(
        self,
        broker_id: int,
        *,
        clock: Clock,
        log_defaults: LogConfig,
        memory: MemoryBudget,
        actions: ActionQueue,
        produce_purgatory: Purgatory[DelayedProduce],
        fetch_purgatory: Purgatory[DelayedFetch],
        delete_records_purgatory: Purgatory[DelayedDeleteRecords],
        observer: ReplicaObserver,
        propose: Callable[[Partition, InSyncProposal], None],
        may_lead: Callable[[], bool],
        producer_id_expiration_ms: int = PRODUCER_EXPIRATION_MS,
    ) -> None:
        self.broker_id = broker_id
        self.partitions: dict[TopicPartition, Partition] = {}
        self.produce_purgatory = produce_purgatory
        self.fetch_purgatory = fetch_purgatory
        self.delete_records_purgatory = delete_records_purgatory
        self._clock = clock
        self._log_defaults = log_defaults
        self._memory = memory
        self._actions = actions
        self._observer = observer
        self._propose = propose
        self._may_lead = may_lead
        self.incarnation: BrokerIncarnation | None = None
        self._producer_id_expiration_ms = producer_id_expiration_ms
        self._image: ClusterImage | None = None
        self._follower_assignments: dict[int, tuple[TopicPartition, ...]] = {}
        self._racks: dict[int, str] = {}
        self._leadership_listeners: list[LeadershipListener] = []
        self.reader = ReplicaReader(self.partitions, self._follower_assignments, lambda: self._racks)

    # --- metadata ---

    def apply(self, image: ClusterImage) -> None:
        """Take on, keep or give up replicas as the metadata says, and wake what waits for a partition that changed.

        An image that knows another life of this broker is no concern of this one.
        """
        registered = image.brokers.get(self.broker_id)
        if self.incarnation is None or registered is None or registered.incarnation != self.incarnation:
            return
        before = self._image.topics if self._image is not None else {}
        self._image = image
        self._racks = {key: live.rack for key, live in image.live_brokers.items() if live.rack is not None}
        with self._actions:
            changed: list[TopicPartition] = []
            for name, old in before.items():
                new = image.topics.get(name)
                if new is None or new.topic_id != old.topic_id:
                    changed += self._remove_topic(old)
            for name, topic in image.topics.items():
                if before.get(name) is not topic:
                    changed += self._apply_topic(topic, self.incarnation)
            if changed:
                self._wake_reassigned_followers()
                for tp in changed:
                    self._wake(tp, high_watermark_moved=True, cause="partition state")
                    self.delete_records_purgatory.check_and_complete(tp, "partition state")

    def tell_leaderships(self, listener: LeadershipListener) -> None:
        """Tell a listener from now on which partitions this broker begins and ceases to lead."""
        self._leadership_listeners.append(listener)

    @property
    def image(self) -> ClusterImage | None:
        """The metadata that are acted on; None until this broker is registered."""
        return self._image

    def _remove_topic(self, topic: Topic) -> list[TopicPartition]:
        mine = [tp for i in range(len(topic.partitions)) if (tp := TopicPartition(topic.name, i)) in self.partitions]
        for tp in mine:
            self._remove(tp)
        return mine

    def _remove(self, tp: TopicPartition) -> None:
        partition = self.partitions.pop(tp)
        partition.log.close()
        self._observer.partition_removed(tp)
        if partition.is_leader:
            self._resigned(tp)

    def _resigned(self, tp: TopicPartition) -> None:
        for listener in self._leadership_listeners:
            listener.resigned(tp)

    def _take_role(self, partition: Partition, state: PartitionState) -> None:
        """Let a replica take the role that the metadata give it, and tell of a leadership that came or went."""
        tp = partition.tp
        was_leader, led_in_epoch = partition.is_leader, partition.leader_epoch
        partition.apply_state(state, self._clock.now_ms())
        if partition.is_leader:
            if not was_leader or partition.leader_epoch != led_in_epoch:
                for listener in self._leadership_listeners:
                    listener.elected(tp, partition.leader_epoch)
        elif was_leader:
            self._observer.partition_removed(tp)
            self._resigned(tp)

    def _apply_topic(self, topic: Topic, incarnation: BrokerIncarnation) -> list[TopicPartition]:
        config = LogConfig.from_strings(topic.configs, self._log_defaults)
        changed = []
        for index, state in enumerate(topic.partitions):
            tp = TopicPartition(topic.name, index)
            partition = self.partitions.get(tp)
            if self.broker_id not in state.replicas:
                if partition is not None:
                    self._remove(tp)
                    changed.append(tp)
                continue
            if partition is None:
                log = Log(config, memory=self._memory)
                log.producers.expiration_ms = self._producer_id_expiration_ms
                partition = Partition(tp, topic.topic_id, incarnation, log, may_lead=self._may_lead)
                self.partitions[tp] = partition
            partition.log.config = config
            self._take_role(partition, state)
            changed.append(tp)
        return changed

    def _wake_reassigned_followers(self) -> None:
        """Answer the parked fetches of followers that should now fetch other partitions than they ask for."""
        assignments: dict[int, list[TopicPartition]] = {}
        for tp, partition in self.partitions.items():
            for follower in partition.followers:
                assignments.setdefault(follower, []).append(tp)
        for follower in {**self._follower_assignments, **assignments}:
            assigned = tuple(assignments.get(follower, ()))
            if self._follower_assignments.get(follower) != assigned:
                self._follower_assignments[follower] = assigned
                self.fetch_purgatory.check_and_complete(FollowerKey(follower), "assignment")

    def followed_partitions(self) -> dict[int, list[Partition]]:
        """The partitions that this broker should fetch, by the broker that leads them."""
        followed: dict[int, list[Partition]] = {}
        for partition in self.partitions.values():
            if not partition.is_leader and partition.leader >= 0:
                followed.setdefault(partition.leader, []).append(partition)
        return followed

    # --- append ---

    def append(
        self,
        batches: Sequence[tuple[TopicPartition, Buffer | None]],
        *,
        acks: int,
        timeout_ms: int,
        done: AppendDone,
        client: str = "",
    ) -> None:
        """Append each partition's batch as its leader, for clients, coordinators and the delay recorder alike.

        Args:
            batches: each partition with its record batch (None: the request had none, which is an error).
            acks: 0 or 1: `done` is called before this returns; -1: once the in-sync replicas have the records.
            timeout_ms: how long `done` waits for the in-sync replicas; REQUEST_TIMED_OUT after that, though the records
                stay in the log.
            done: receives a result for each batch, in the order of `batches`; called once.
            client: the client id, shown while the request waits.
        """
        with self._actions:
            results: list[AppendResult] = []
            pending: list[PendingAck] = []
            for tp, records in batches:
                result = AppendResult()
                results.append(result)
                ack = self._append(tp, records, result, acks)
                if ack is not None:
                    pending.append(ack)
            if acks == -1 and pending:
                operation = DelayedProduce(
                    timeout_ms, pending, self.partitions, partial(done, results), self._observer.produce_expired
                )
                operation.client = client
                keys = [ack.partition.tp for ack in pending]
                self.produce_purgatory.try_complete_else_watch(operation, keys)
            else:
                done(results)

    def _append(self, tp: TopicPartition, records: Buffer | None, result: AppendResult, acks: int) -> PendingAck | None:
        """Append one batch and fill in its result; returns what has to be replicated, None if it was refused."""
        partition = self.partitions.get(tp)
        try:
            if partition is None:
                raise PartitionError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{tp} is not on this broker")
            if records is None:
                raise PartitionError(ErrorCode.INVALID_RECORD, f"no records for {tp}")
            info = partition.append_as_leader(records, acks=acks, wall_ms=self._clock.wall_ms())
        except (PartitionError, LogError) as error:
            self._observer.append_failed(tp)
            result.error_code = error.error_code
            result.error_message = str(error)
            # A leader whose lease ran out knows of no other one.
            if (
                partition is not None
                and error.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
                and not partition.is_leader
            ):
                result.leader_id, result.leader_epoch = partition.leader, partition.leader_epoch
            return None
        result.base_offset = info.first_offset
        result.log_append_time_ms = info.log_append_time_ms
        result.log_start_offset = info.log_start_offset
        if not info.duplicate:
            self._observer.appended(tp, info.record_count, info.size_bytes)
            self._wake(tp, high_watermark_moved=partition.advance_high_watermark(), cause="append")
        return PendingAck(partition, info.last_offset + 1, result)

    # --- delete records ---

    def delete_records(
        self,
        deletions: Sequence[tuple[TopicPartition, int]],
        *,
        timeout_ms: int,
        done: DeleteRecordsDone,
        client: str = "",
    ) -> None:
        """Delete what each partition has before an offset, as its leader (KIP-107).

        Args:
            deletions: each partition with the offset before which its records go; -1: the high watermark.
            timeout_ms: how long `done` waits for the in-sync replicas to follow.
            done: receives a result for each deletion, in the order of `deletions`; called once.
            client: the client id, shown while the request waits.
        """
        with self._actions:
            results: list[DeleteRecordsResult] = []
            pending: list[PendingDeletion] = []
            for tp, offset in deletions:
                result = DeleteRecordsResult()
                results.append(result)
                try:
                    partition = self.partitions.get(tp)
                    if partition is None:
                        raise PartitionError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{tp} is not on this broker")
                    pending.append(PendingDeletion(partition, partition.delete_records_before(offset), result))
                except PartitionError as error:
                    result.error_code = error.error_code
                else:
                    self._wake(tp, high_watermark_moved=False, cause="log start")
            if not pending:
                done(results)
                return
            operation = DelayedDeleteRecords(max(0, timeout_ms), pending, self.partitions, partial(done, results))
            operation.client = client
            keys = [deletion.partition.tp for deletion in pending]
            self.delete_records_purgatory.try_complete_else_watch(operation, keys)

    # --- fetch ---

    def fetch(
        self, params: FetchParams, fetches: list[PartitionFetch], answer: Callable[[list[PartitionData]], None]
    ) -> None:
        """Read, take note of a follower's progress, and answer: at once, or when there is enough or time is over."""
        with self._actions:
            result = self.reader.read_all(params, fetches)
            if params.is_follower:
                incarnation = BrokerIncarnation(params.replica_id, params.replica_epoch)
                self._note_progress(incarnation, fetches, result.partitions)
            answer = self._counting(params, fetches, answer)
            if len(fetches) < self._assigned_to(params):
                params.max_wait_ms = min(params.max_wait_ms, LAGGING_METADATA_WAIT_MS)
            if params.max_wait_ms <= 0 or not fetches or result.answer_now or result.size_bytes >= params.min_bytes:
                answer(result.partitions)
            else:
                operation = DelayedFetch(params, fetches, self.reader, answer, self._observer.fetch_expired)
                self.fetch_purgatory.try_complete_else_watch(operation, operation.watch_keys())

    def _assigned_to(self, params: FetchParams) -> int:
        """How many partitions a follower should fetch from this broker; 0 for a consumer."""
        return len(self._follower_assignments.get(params.replica_id, ())) if params.is_follower else 0

    def _note_progress(
        self, incarnation: BrokerIncarnation, fetches: Sequence[PartitionFetch], partitions: Sequence[PartitionData]
    ) -> None:
        """A follower has everything before its fetch offset, unless that could not be read or its log diverges."""
        now_ms = self._clock.now_ms()
        may_join = self._image is not None and self._image.is_alive(incarnation)
        for fetch, data in zip(fetches, partitions, strict=True):
            if data.error_code or data.diverging_epoch.end_offset >= 0:
                continue
            request, partition = fetch.request, self.partitions[fetch.tp]
            if partition.follower_fetched(incarnation, request.fetch_offset, request.log_start_offset, now_ms):
                self._wake(fetch.tp, high_watermark_moved=True, cause="high watermark")
            if self.delete_records_purgatory.num_delayed:
                self.delete_records_purgatory.check_and_complete(fetch.tp, "follower fetch")
            if may_join and incarnation.broker_id not in partition.isr:
                proposal = partition.propose_to_add(incarnation)
                if proposal is not None:
                    self._propose(partition, proposal)

    def _note_told(self, replica_id: int, tp: TopicPartition, high_watermark: int) -> None:
        """A follower is told how far it may serve consumers; of no interest where there are no racks."""
        if self._racks and (partition := self.partitions.get(tp)) is not None:
            follower = partition.followers.get(replica_id)
            if follower is not None:
                follower.told_high_watermark = high_watermark

    def _counting(
        self,
        params: FetchParams,
        fetches: Sequence[PartitionFetch],
        answer: Callable[[list[PartitionData]], None],
    ) -> Callable[[list[PartitionData]], None]:
        observer = self._observer

        def count_and_answer(partitions: list[PartitionData]) -> None:
            for fetch, data in zip(fetches, partitions, strict=True):
                size_bytes = sum(map(len, cast("list[bytes]", data.records))) if data.records else 0
                if params.is_follower:
                    observer.replicated_out(size_bytes)
                    self._note_told(params.replica_id, fetch.tp, data.high_watermark)
                elif data.error_code:
                    observer.fetch_failed(fetch.tp)
                else:
                    observer.fetched(fetch.tp, size_bytes)
            answer(partitions)

        return count_and_answer

    # --- events ---

    def _wake(self, tp: TopicPartition, *, high_watermark_moved: bool, cause: str) -> None:
        if high_watermark_moved:
            self.produce_purgatory.check_and_complete(tp, cause)
        self.fetch_purgatory.check_and_complete(tp, cause)

    def append_as_follower(
        self, partition: Partition, records: Buffer, leader_high_watermark: int, leader_log_start_offset: int
    ) -> None:
        """Append what the leader sent; if the high watermark moves, whoever reads from this replica is woken.

        Raises:
            LogError: the batches do not continue this log.
        """
        start_offset = partition.log.log_start_offset
        advanced = partition.append_as_follower(
            records,
            leader_high_watermark=leader_high_watermark,
            leader_log_start_offset=leader_log_start_offset,
            wall_ms=self._clock.wall_ms(),
        )
        if len(records):
            self._observer.replicated_in(len(records))
        if advanced or partition.log.log_start_offset != start_offset:
            cause = "high watermark" if advanced else "log start"
            self.fetch_purgatory.check_and_complete(partition.tp, cause)

    # --- upkeep ---

    def drop_laggards(self, max_lag_ms: int) -> None:
        """Propose to drop the followers from the in-sync sets that have not caught up for longer than `max_lag_ms`."""
        now_ms = self._clock.now_ms()
        for partition in self.partitions.values():
            proposal = partition.propose_to_drop_laggards(now_ms, max_lag_ms)
            if proposal is not None:
                self._propose(partition, proposal)

    def advance_high_watermarks(self) -> None:
        """This broker may lead again: commit what was appended when its lease ran out."""
        with self._actions:
            for tp, partition in self.partitions.items():
                if partition.is_leader and partition.advance_high_watermark():
                    self._wake(tp, high_watermark_moved=True, cause="lease held again")

    def withdraw(self, partition: Partition, proposal: InSyncProposal) -> None:
        """A proposal for an in-sync set came to nothing."""
        with self._actions:
            if partition.withdraw(proposal):
                self._wake(partition.tp, high_watermark_moved=True, cause="high watermark")
            self.delete_records_purgatory.check_and_complete(partition.tp, "in-sync set")

    def retention_steps(self) -> Iterator[None]:
        """Delete what retention does not keep, one replica per step, so that the loop can go round in between."""
        for tp, partition in list(self.partitions.items()):
            if self.partitions.get(tp) is partition:
                deleted_bytes = partition.log.apply_retention(self._clock.wall_ms(), partition.high_watermark)
                if deleted_bytes:
                    logger.info("log retention", partition=str(tp), deleted_bytes=deleted_bytes)
            yield

    def compaction_steps(self) -> Iterator[None]:
        """Compact the logs that ask for it, one batch per step."""
        for tp, partition in list(self.partitions.items()):
            if self.partitions.get(tp) is partition:
                yield from partition.log.compaction_steps(partition.high_watermark, self._clock.wall_ms())
            yield
