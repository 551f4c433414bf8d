"""All replicas of one broker: appends, fetches and deletions, and the delayed operations that wait for them.

Events, and the purgatories whose operations they check:

| event | Produce | Fetch |
|---|---|---|
| leader append that advances the high watermark (no other in-sync replica) | yes | yes |
| leader append that does not | | yes: followers read up to the log end offset |
| follower fetch that advances the high watermark | yes | yes |
| role or ISR changed, partition removed | yes | yes |
| records deleted on request or by retention | | yes: followers have to delete them, too |
| the high watermark of a follower replica advanced (KAFKA-14334) | | yes |

Every entry point runs ``with self._actions``: events are handled when the outermost call returns, since the completion
of one operation may cause the next event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import cast

from purgatorio.broker.clock import Clock
from purgatorio.broker.log.config import LogConfig
from purgatorio.broker.log.errors import InvalidBatch
from purgatorio.broker.log.log import Log, LogError
from purgatorio.broker.log.memory import MemoryBudget
from purgatorio.broker.log.producer_state import PRODUCER_EXPIRATION_MS
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.log.validator import RecordValidation
from purgatorio.broker.metadata.controller import InSyncProposal
from purgatorio.broker.metadata.image import BrokerIncarnation, ClusterImage, PartitionState, Topic
from purgatorio.broker.purgatory import ActionQueue, Purgatory
from purgatorio.broker.replica.delayed_delete_records import DelayedDeleteRecords, PendingDeletion
from purgatorio.broker.replica.delayed_fetch import DelayedFetch, FollowerKey
from purgatorio.broker.replica.delayed_produce import DelayedProduce, PendingAck
from purgatorio.broker.replica.lookup import ReplicaLookup
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
"""The longest wait of a follower's fetch that lacks assigned partitions: the follower's image may be older."""


class ReplicaManager:
    """The replicas of one broker.

    Args:
        broker_id: the id of this broker.
        clock: monotonic time for the lag of followers, wall time for record timestamps.
        log_defaults: the defaults of topic configs.
        memory: the budget that all logs of this broker share.
        actions: the queue of events that are handled when the outermost call returns.
        produce_purgatory: the purgatory of produce requests.
        fetch_purgatory: the purgatory of fetch requests.
        delete_records_purgatory: the purgatory of requests to delete records.
        observer: counts events for metrics.
        propose: submits a partition's proposal for its ISR.
        may_lead: whether this broker certainly holds its lease, and so may act as a leader.
        validation: how records inside produced batches are checked; not given: in full.
        producer_id_expiration_ms: the idle time after which a producer's sequence numbers are forgotten.

    Attributes:
        incarnation: this broker's incarnation; None until it is registered, and no image is applied before.
        memory: the budget that all logs of this broker share.
        lookup: finds replicas, and names the leaders of other partitions.
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
        validation: RecordValidation | None = None,
        producer_id_expiration_ms: int = PRODUCER_EXPIRATION_MS,
    ) -> None:
        self.broker_id = broker_id
        self.partitions: dict[TopicPartition, Partition] = {}
        self.produce_purgatory = produce_purgatory
        self.fetch_purgatory = fetch_purgatory
        self.delete_records_purgatory = delete_records_purgatory
        self._clock = clock
        self._log_defaults = log_defaults
        self.memory = memory
        self._actions = actions
        self._observer = observer
        self._propose = propose
        self._may_lead = may_lead
        self.incarnation: BrokerIncarnation | None = None
        self._validation = validation if validation is not None else RecordValidation()
        self._producer_id_expiration_ms = producer_id_expiration_ms
        self._image: ClusterImage | None = None
        self._follower_assignments: dict[int, tuple[TopicPartition, ...]] = {}
        self._racks: dict[int, str] = {}
        self._leadership_listeners: list[LeadershipListener] = []
        self.lookup = ReplicaLookup(broker_id, self.partitions, lambda: self._image)
        self.reader = ReplicaReader(self.lookup, self._follower_assignments, lambda: self._racks)

    # --- metadata ---

    def apply(self, image: ClusterImage) -> None:
        """Add, keep or remove replicas according to the image; check the operations that wait for changed partitions.

        Images that were made for another incarnation of this broker are ignored.
        """
        registered = image.brokers.get(self.broker_id)
        if self.incarnation is None or registered is None or registered.incarnation != self.incarnation:
            return
        before = self._image.topics if self._image is not None else {}
        self._image = image
        racks, self._racks = self._racks, _racks_of(image)
        with self._actions:
            for broker_id in [broker_id for broker_id in self._racks if broker_id not in racks]:
                # Consumers may read from this follower now, so it waits to learn the high watermark.
                self.fetch_purgatory.check_and_complete(FollowerKey(broker_id), "rack")
            changed: list[TopicPartition] = []
            for name, gone in before.items():
                new = image.topics.get(name)
                if new is None or new.topic_id != gone.topic_id:
                    changed += self._remove_topic(gone)
            for name, topic in image.topics.items():
                old = before.get(name)
                if old is not topic:
                    changed += self._apply_topic(topic, old, self.incarnation)
            if changed:
                self._wake_reassigned_followers()
                for tp in changed:
                    self._wake(tp, high_watermark_moved=True, cause="partition state")
                    self.delete_records_purgatory.check_and_complete(tp, "partition state")

    def add_leadership_listener(self, listener: LeadershipListener) -> None:
        """Notify a listener from now on when this broker gains or loses the leadership of a partition."""
        self._leadership_listeners.append(listener)

    @property
    def image(self) -> ClusterImage | None:
        """The image that was applied last; None until this broker is registered."""
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
        """Give a replica its role, and notify the listeners of a leadership that was gained or lost."""
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

    def _apply_topic(self, topic: Topic, before: Topic | None, incarnation: BrokerIncarnation) -> list[TopicPartition]:
        """Apply what differs from the last image's topic, and return the partitions that changed here.

        An image shares the rows that it did not change with the one before, so comparing identities tells: what one
        changed partition costs must not grow with the partitions of its topic.
        """
        config = LogConfig.from_strings(topic.configs, self._log_defaults)
        rows: Sequence[PartitionState] = ()
        if before is not None and before.topic_id == topic.topic_id and before.configs == topic.configs:
            rows = before.partitions
        changed = []
        for index, state in enumerate(topic.partitions):
            if index < len(rows) and rows[index] is state:
                continue
            tp = TopicPartition(topic.name, index)
            partition = self.partitions.get(tp)
            if self.broker_id not in state.replicas:
                if partition is not None:
                    self._remove(tp)
                    changed.append(tp)
                continue
            if partition is None:
                log = Log(config, memory=self.memory, validation=self._validation, name=str(tp))
                log.producers.expiration_ms = self._producer_id_expiration_ms
                partition = Partition(tp, topic.topic_id, incarnation, log, may_lead=self._may_lead)
                self.partitions[tp] = partition
            partition.log.config = config
            self._take_role(partition, state)
            changed.append(tp)
        return changed

    def _wake_reassigned_followers(self) -> None:
        """Complete the fetches of followers whose set of partitions to fetch has changed."""
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
        """Return the partitions that this broker follows, by leader."""
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
        """Append each partition's batch as its leader, for clients, coordinators and the delay recorder.

        Args:
            batches: each partition with its record batch; None (the request had no records) is refused.
            acks: 0 or 1: `done` is called before this returns; -1: when all in-sync replicas have the records.
            timeout_ms: the longest wait for the in-sync replicas; then REQUEST_TIMED_OUT, though the records stay in
                the log.
            done: receives a result for each batch, in the order of `batches`; called once.
            client: the client id, shown while the request waits.
        """
        with self._actions:
            self._validation.begin_request()
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
                    timeout_ms, pending, self.lookup, partial(done, results), self._observer.produce_expired
                )
                operation.client = client
                keys = [ack.partition.tp for ack in pending]
                self.produce_purgatory.try_complete_else_watch(operation, keys)
            else:
                done(results)

    def _append(self, tp: TopicPartition, records: Buffer | None, result: AppendResult, acks: int) -> PendingAck | None:
        """Append one batch and fill in its result; returns the pending acknowledgement, or None if it was refused."""
        partition = None
        try:
            partition = self.lookup.find(tp)
            if records is None:
                raise PartitionError(ErrorCode.INVALID_RECORD, f"no records for {tp}")
            if partition.refused:
                partition.check_order(records, self._clock.now_ms())
            info = partition.append_as_leader(records, acks=acks, wall_ms=self._clock.wall_ms())
        except (PartitionError, LogError) as error:
            if partition is not None and records is not None:
                partition.refused.note(records, error.error_code, self._clock.now_ms())
            self._observer.append_failed(tp)
            result.error_code = error.error_code
            result.error_message = str(error)
            if isinstance(error, InvalidBatch):
                result.record_errors = error.record_errors
            result.leader_id, result.leader_epoch = self.lookup.hint(tp, error.error_code)
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
        """Delete each partition's records before an offset, as its leader (KIP-107).

        Args:
            deletions: each partition with the offset before which its records are deleted; -1: the high watermark.
            timeout_ms: the longest wait for the in-sync replicas; then REQUEST_TIMED_OUT.
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
                    partition = self.lookup.find(tp)
                    pending.append(PendingDeletion(partition, partition.delete_records_before(offset), result))
                except PartitionError as error:
                    result.error_code = error.error_code
                else:
                    self._wake(tp, high_watermark_moved=False, cause="log start")
            if not pending:
                done(results)
                return
            operation = DelayedDeleteRecords(max(0, timeout_ms), pending, self.lookup, partial(done, results))
            operation.client = client
            keys = [deletion.partition.tp for deletion in pending]
            self.delete_records_purgatory.try_complete_else_watch(operation, keys)

    # --- fetch ---

    def fetch(
        self, params: FetchParams, fetches: list[PartitionFetch], answer: Callable[[list[PartitionData]], None]
    ) -> None:
        """Read, record a follower's progress, and answer: at once, when `min_bytes` can be read, or at the deadline."""
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
        """Return the number of partitions that a follower should fetch from this broker; 0 for a consumer."""
        return len(self._follower_assignments.get(params.replica_id, ())) if params.is_follower else 0

    def _note_progress(
        self, incarnation: BrokerIncarnation, fetches: Sequence[PartitionFetch], partitions: Sequence[PartitionData]
    ) -> None:
        """Record that a follower has all records before its fetch offset, if the read succeeded without divergence."""
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

    def _note_sent(self, replica_id: int, tp: TopicPartition, high_watermark: int) -> None:
        """Record the high watermark that a follower is sent; only needed if brokers have racks (KIP-392)."""
        if self._racks and (partition := self.partitions.get(tp)) is not None:
            follower = partition.followers.get(replica_id)
            if follower is not None:
                follower.last_sent_high_watermark = high_watermark

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
                    if not data.error_code:  # an error comes without a high watermark
                        self._note_sent(params.replica_id, fetch.tp, data.high_watermark)
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
        """Append the leader's records; if the high watermark advances, check the fetches that wait at this replica.

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

    # --- maintenance ---

    def drop_laggards(self, max_lag_ms: int) -> None:
        """Propose to remove the followers from ISRs that have not been caught up for longer than `max_lag_ms`."""
        now_ms = self._clock.now_ms()
        for partition in self.partitions.values():
            proposal = partition.propose_to_drop_laggards(now_ms, max_lag_ms)
            if proposal is not None:
                self._propose(partition, proposal)

    def advance_high_watermarks(self) -> None:
        """Advance the high watermarks that were held while this broker's lease may have expired."""
        with self._actions:
            for tp, partition in self.partitions.items():
                if partition.is_leader and partition.advance_high_watermark():
                    self._wake(tp, high_watermark_moved=True, cause="lease held again")

    def withdraw(self, partition: Partition, proposal: InSyncProposal) -> None:
        """End a proposal; check the operations that wait for the partition's watermarks."""
        with self._actions:
            if partition.withdraw(proposal):
                self._wake(partition.tp, high_watermark_moved=True, cause="high watermark")
            self.delete_records_purgatory.check_and_complete(partition.tp, "ISR")

    def retention_steps(self) -> Iterator[None]:
        """Apply retention, one replica per step, so that the event loop can run other tasks between steps."""
        for tp, partition in list(self.partitions.items()):
            if self.partitions.get(tp) is partition:
                start_offset = partition.log.log_start_offset
                deleted_bytes = partition.log.apply_retention(self._clock.wall_ms(), partition.high_watermark)
                if deleted_bytes:
                    logger.info("log retention", partition=str(tp), deleted_bytes=deleted_bytes)
                if partition.log.log_start_offset != start_offset:
                    with self._actions:
                        self._wake(tp, high_watermark_moved=False, cause="log start")
                        self.delete_records_purgatory.check_and_complete(tp, "log start")
            yield

    def compaction_steps(self) -> Iterator[None]:
        """Compact the logs that need it, one batch per step."""
        for tp, partition in list(self.partitions.items()):
            if self.partitions.get(tp) is partition:
                yield from partition.log.compaction_steps(partition.high_watermark, self._clock.wall_ms())
            yield


def _racks_of(image: ClusterImage) -> dict[int, str]:
    """Return the racks of the live brokers that have one."""
    return {key: live.rack for key, live in image.live_brokers.items() if live.rack is not None}
