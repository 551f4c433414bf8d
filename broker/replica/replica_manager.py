"""All replicas of one broker: what is appended to them and read from them, their image, and the upkeep of their logs.

The wake-ups of parked requests are in `events`; `producing.writes` appends a single batch, `fetching.fetches` notes the
progress of followers and counts answers.
"""

# compiled: docs/compiled.md

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from purgatorio.broker.causes.kinds import DELETE_RECORDS, FETCH, REMOTE_FETCH, REMOTE_LIST_OFFSETS
from purgatorio.broker.causes.purgatories import Purgatories
from purgatorio.broker.log.broker_logs import BrokerLogs
from purgatorio.broker.log.config import LogConfig
from purgatorio.broker.log.log import Log
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.broker_lifecycle import Lease
from purgatorio.broker.metadata.controller import InSyncProposal
from purgatorio.broker.metadata.image import BrokerIncarnation, ClusterImage, Topic
from purgatorio.broker.metadata.topic_name import is_internal
from purgatorio.broker.replica.alter_partition_manager import AlterPartitionManager
from purgatorio.broker.replica.delayed_delete_records import (
    DelayedDeleteRecords,
    DeleteRecordsDone,
    DeleteRecordsResult,
    PendingDeletion,
)
from purgatorio.broker.replica.delayed_remote_list_offsets import RemoteLookUps
from purgatorio.broker.replica.events import ReplicaEvents
from purgatorio.broker.replica.fetching.delayed_fetch import DelayedFetch, FollowerKey, TakeSteps
from purgatorio.broker.replica.fetching.delayed_remote_fetch import RemoteFetches
from purgatorio.broker.replica.fetching.fetch_context import FetchContext, FetchEntry, PartitionFetch
from purgatorio.broker.replica.fetching.fetch_session import FetchSession
from purgatorio.broker.replica.fetching.fetches import ReplicaFetches
from purgatorio.broker.replica.fetching.reader import ContextReader, ReplicaReader
from purgatorio.broker.replica.lookup import ReplicaLookup
from purgatorio.broker.replica.observer import LeadershipListener, ReplicaObserver
from purgatorio.broker.replica.partition import Partition, PartitionError
from purgatorio.broker.replica.producing.transaction_guard import TransactionGuard
from purgatorio.broker.replica.producing.transactional_writes import TransactionalAppend
from purgatorio.broker.replica.producing.verification import ProducerTransaction
from purgatorio.broker.replica.producing.writes import (
    AppendDone,
    AppendResult,
    DelayedProduce,
    LeaderWrites,
    PendingAck,
)
from purgatorio.broker.replica.replication_throttle import ReplicationThrottle
from purgatorio.broker.replica.roles import Refollowed, ReplicaRoles
from purgatorio.broker.replica.tiering import Tiering
from purgatorio.broker.tier.segment_file import RemoteSegment
from purgatorio.broker.time.long_work import OwnWork, Steps
from purgatorio.logger import get_logger
from purgatorio.protocol.primitives import Buffer
from purgatorio.purgatory import Purgatory
from purgatorio.purgatory.clock import Clock

logger = get_logger(__name__)

LOOK_COST: Final = 4
"""The cost of a periodic look at a replica for which there is nothing to do (see `LongWork`)."""


class ReplicaManager:
    """The replicas of one broker.

    Args:
        broker_id: the id of this broker.
        clock: monotonic time for the lag of followers, wall time for record timestamps.
        logs: what the logs of this broker share.
        purgatories: those of the broker.
        lease: while this broker certainly holds it, it may act as a leader.
        in_sync_changes: takes the partitions' proposals for their ISRs.
        observer: counts events for metrics.
        work: takes the steps of what takes long.

    Attributes:
        actions: the queue of events that are handled when the outermost call returns; see `CoordinatorLog` for a use.
        incarnation: this broker's incarnation; None until it is registered, and no image is applied before.
        memory: the budget that all logs of this broker share.
        partitions: the replicas, by name.
        lookup: finds replicas, and names the leaders of other partitions.
        reader: reads replicas.
        roles: gives replicas the roles that the image assigns to them.
        writes: appends single batches; its `watch_acks` is set when the broker is composed.
        guard: admits appends of transactions; its `verify` is set when the broker is composed.
        share_watch: the share fetches that wait to hear of partitions.
        leader_throttle: of what followers read here.
        follower_throttle: of what this broker reads from leaders.
        tiering: what the tier has; None: there is no tier.
        look_ups: looks up timestamps in the tier; None: there is no tier.
        followed_log_cut: called when records of a partition that this broker follows were deleted or truncated.
    """

    def __init__(
        self,
        broker_id: int,
        *,
        clock: Clock,
        logs: BrokerLogs,
        purgatories: Purgatories,
        lease: Lease,
        in_sync_changes: AlterPartitionManager,
        observer: ReplicaObserver,
        work: OwnWork,
    ) -> None:
        self.broker_id = broker_id
        self.incarnation: BrokerIncarnation | None = None
        self.memory = logs.memory
        self.tiering: Tiering | None = None
        self.look_ups: RemoteLookUps | None = None
        self.actions = purgatories.actions
        self.followed_log_cut: Callable[[Partition], None] = lambda partition: None
        self._clock = clock
        self._logs = logs
        self._observer = observer
        self._in_sync_changes = in_sync_changes
        in_sync_changes.withdraw = self.withdraw
        self._fetch_purgatory: Purgatory[DelayedFetch] = purgatories.of(FETCH)
        self._delete_records_purgatory: Purgatory[DelayedDeleteRecords] = purgatories.of(DELETE_RECORDS)
        self.lookup = lookup = ReplicaLookup(broker_id)
        self.partitions = lookup.partitions
        self.roles = ReplicaRoles(
            lookup, new_log=self._new_log, log_defaults=logs.defaults, clock=clock, lease=lease, observer=observer
        )
        self.leader_throttle = ReplicationThrottle(broker_id, clock)
        self.follower_throttle = ReplicationThrottle(broker_id, clock)
        self.reader = ReplicaReader(lookup, self.roles.assignments, clock, self.leader_throttle)
        self._events = events = ReplicaEvents(lookup, purgatories, work.later)
        self.share_watch = events.share_watch
        self.writes = LeaderWrites(lookup, clock, events, purgatories, observer)
        self.guard = TransactionGuard(lookup, self.actions, logs.validation)
        self._context_reader = ContextReader(self.reader, events.watch)
        self._fetches = ReplicaFetches(
            lookup,
            self._context_reader,
            events=events,
            purgatories=purgatories,
            clock=clock,
            observer=observer,
            in_sync_changes=in_sync_changes,
        )

    def use_tier(
        self,
        tiering: Tiering,
        purgatories: Purgatories,
        *,
        max_wait_ms: Callable[[], int],
        look_up_timeout_ms: Callable[[], int],
    ) -> None:
        """Serve consumers from the tier from now on, too; before any replica is made.

        Args:
            max_wait_ms: returns remote.fetch.max.wait.ms.
            look_up_timeout_ms: returns remote.list.offsets.request.timeout.ms.
        """
        self.tiering = tiering
        self.roles.add_listener(tiering)
        self.roles.look_in_tier = tiering.list_soon
        tiering.begin_behind = self.begin_leading_behind
        self.look_ups = look_ups = RemoteLookUps(self.lookup, tiering, purgatories, look_up_timeout_ms)
        remote = RemoteFetches(self.reader, tiering, purgatories, max_wait_ms=max_wait_ms)
        self._fetches.remote = remote
        self.writes.why_refused = tiering.refused
        tiering.move_log_start = self.move_log_start
        tiering.listed = (remote.check, look_ups.check, self.check_share_fetches)
        tiering.room_again = self._tier_has_room
        self.reader.tiering = tiering
        self._events.remote += (purgatories.of(REMOTE_FETCH), purgatories.of(REMOTE_LIST_OFFSETS))

    def _tier_has_room(self, tp: TopicPartition, cause: str) -> None:
        with self.actions:
            self._events.changed(tp, cause)

    def check_share_fetches(self, tp: TopicPartition, cause: str) -> None:
        """Check the share fetches that wait to hear of a partition: the tier has answered."""
        with self.actions:
            self.share_watch.check_and_complete(tp, cause)

    # --- Produce, DeleteRecords ---

    def append(
        self,
        batches: Sequence[tuple[TopicPartition, Buffer | None]],
        *,
        acks: int,
        timeout_ms: int,
        done: AppendDone,
        client: str = "",
        from_client: bool = True,
    ) -> None:
        """Append each partition's batch as its leader, for clients, coordinators and the delay recorder.

        Args:
            batches: each partition with its record batch; None (the request had no records) is refused.
            acks: 0 or 1: `done` is called before this returns; -1: when all in-sync replicas have the records.
            timeout_ms: the longest wait for the in-sync replicas; then REQUEST_TIMED_OUT, though the records stay in
                the log.
            done: receives a result for each batch, in the order of `batches`; called once.
            client: the client id, shown while the request waits.
            from_client: False for end markers and records of transactions that the broker made; see
                `Partition.append_own`.
        """
        self.actions.depth += 1  # as `with self.actions`, without its calls
        try:
            self._logs.validation.begin_request()
            results: list[AppendResult] = []
            pending: list[PendingAck] = []
            for tp, records in batches:
                result = AppendResult()
                results.append(result)
                ack = self.writes.append_one(tp, records, result, acks, from_client)
                if ack is not None:
                    pending.append(ack)
            if pending:
                self.writes.await_acks(pending, timeout_ms, partial(done, results), client)
            else:
                done(results)
        finally:
            self.actions.leave()

    def append_in_transaction(
        self,
        batches: Sequence[tuple[TopicPartition, Buffer | None]],
        transaction: ProducerTransaction,
        *,
        acks: int,
        timeout_ms: int,
        done: AppendDone,
        client: str = "",
    ) -> None:
        """Append each partition's batch as its leader, as `append` does; some of them belong to a transaction.

        Batches of the transaction may have to wait for its coordinator; that is a part of `timeout_ms`. Other batches
        are appended at once.

        Args:
            transaction: that of all transactional batches.
        """
        with self.actions:
            self._logs.validation.begin_request()
            request = TransactionalAppend(self.writes, self.guard, transaction, acks, timeout_ms, done, client)
            for tp, records in batches:
                request.take(tp, records)
            request.enter()

    def await_replicas(self, tp: TopicPartition, *, timeout_ms: int, done: AppendDone, client: str = "") -> None:
        """Wait until everything that the partition's log holds now is committed, as an append with acks=-1 does.

        Args:
            tp: the partition, which this broker leads.
            timeout_ms: the longest wait for the in-sync replicas; then REQUEST_TIMED_OUT.
            done: receives one result; called once, before this returns if there is nothing to wait for.
            client: the client id, shown while the request waits.
        """
        with self.actions:
            result = AppendResult()
            try:
                partition = self.lookup.find(tp)
                partition.check_leader(-1)
            except PartitionError as error:
                result.error_code = error.error_code
                done([result])
                return
            ack = PendingAck(partition, partition.log.log_end_offset, result)
            operation = DelayedProduce(timeout_ms, [ack], self.lookup, partial(done, [result]), self._observer)
            operation.client = client
            self.writes.produce_purgatory.try_complete_else_watch(operation, [tp])

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
        with self.actions:
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
            if not pending:
                done(results)
                return
            operation = DelayedDeleteRecords(max(0, timeout_ms), pending, self.lookup, partial(done, results))
            operation.client = client
            keys = [deletion.partition.tp for deletion in pending]
            self._delete_records_purgatory.try_complete_else_watch(operation, keys)

    # --- Fetch ---

    def fetch(
        self,
        context: FetchContext,
        named: Iterable[PartitionFetch],
        answer: Callable[[list[FetchEntry] | None], None],
    ) -> None:
        """Note a follower's progress, and answer: at once, when `min_bytes` can be read, or at the deadline.

        Args:
            context: the partitions of the request, or of the session that has taken it.
            named: those that the request names.
            answer: receives the response; None if the session took a later request while this one waited.
        """
        params = context.params
        if params.is_follower:
            with self.actions:
                self._fetches.note_progress(context, named)
        # The producers that waited for this progress have been answered.
        self.actions.depth += 1  # as `with self.actions`, without its calls
        try:
            entries = self._fetches.entries_if_due(context)
            if entries is None:
                self._fetches.park(context, answer)
            elif params.remote_parts:
                self._fetches.finish(params, entries, answer)
            else:  # as `finish`, without its call
                self._fetches.count(params, entries)
                answer(entries)
        finally:
            self.actions.leave()

    def fetch_in_steps(
        self, context: FetchContext, answer: Callable[[list[FetchEntry] | None], None], take_steps: TakeSteps
    ) -> None:
        """Answer a consumer's fetch of very many partitions, without a session; see `fetch`.

        Args:
            take_steps: takes the steps, between which the broker does other work.
        """
        take_steps(self._fetch_steps(context, answer, take_steps))

    def _fetch_steps(
        self, context: FetchContext, answer: Callable[[list[FetchEntry] | None], None], take_steps: TakeSteps
    ) -> Steps:
        is_over = True
        try:
            yield 0
            entries, is_due = yield from self._context_reader.read_in_steps(context)
            is_over = is_due or context.params.max_wait_ms <= 0
        except Exception:
            logger.exception("a fetch of many partitions failed")
            entries = self._context_reader.failed(context)
        finally:
            if is_over:
                context.answered()
        with self.actions:
            if is_over:
                self._fetches.finish(context.params, entries, answer)
            else:  # all are marked, and looked at now: if records came meanwhile, all are read again
                self._fetches.park(context, answer, take_steps)

    def forget(self, fetches: Iterable[PartitionFetch]) -> None:
        """Let no event mark these partitions any more: their session has forgotten them."""
        self._context_reader.forget(fetches)

    def end_session(self, session: FetchSession) -> None:
        """Answer the request of a session that has ended, if one waits, and let no event mark its partitions."""
        with self.actions:
            if session.operation is not None:
                session.operation.force_complete()
            self._context_reader.release(session)
            session.end()

    # --- metadata ---

    def apply(self, image: ClusterImage) -> None:
        """Give replicas the roles that an image assigns to them; some of them, if it changes many partitions.

        Call `apply_more` later while `is_current` is false. Images that were made for another incarnation of this
        broker are ignored.
        """
        registered = image.brokers.get(self.broker_id)
        if self.incarnation is None or registered is None or registered.incarnation != self.incarnation:
            return
        racks, self.lookup.racks = self.lookup.racks, _racks_of(image)
        self.roles.note(image)
        with self.actions:
            for broker_id in [broker_id for broker_id in self.lookup.racks if broker_id not in racks]:
                # Consumers may read from this follower now, so it waits to learn the high watermark.
                self._events.racks_changed(broker_id)
            self.apply_more()

    def apply_more(self) -> None:
        """Give some more replicas the roles of the newest image, and check the requests that wait for them."""
        if self.incarnation is None:
            return
        with self.actions:
            changed = self.roles.step(self.incarnation)
            for follower in self.roles.take_reassigned():
                self._fetch_purgatory.check_and_complete(FollowerKey(follower), "assignment")
            for tp in changed:
                self._events.role_changed(tp, "partition state")
                self._delete_records_purgatory.check_and_complete(tp, "partition state")

    @property
    def is_current(self) -> bool:
        """Whether all replicas have the roles of the newest image."""
        return self.roles.is_current

    def reconfigure(self, log_defaults: LogConfig, producer_id_expiration_ms: int) -> None:
        """Use these defaults of topic configs, and this expiration of producers, from now on; in all logs."""
        self._logs.producer_id_expiration_ms = producer_id_expiration_ms
        self.roles.reconfigure(log_defaults)
        for partition in self.partitions.values():
            partition.log.producers.expiration_ms = producer_id_expiration_ms

    def _new_log(self, tp: TopicPartition, config: LogConfig) -> Log:
        log = self._logs.new(config, str(tp))
        log.on_cut = partial(self._log_cut, tp)
        if self.tiering is not None:
            log.on_closed = partial(self.tiering.note, tp)
        log.is_evictable = not is_internal(tp.topic)
        return log

    def begin_with(self, tp: TopicPartition, topic: Topic) -> Log:
        """Make the log with which the replica of a partition begins, as soon as an image assigns it to this broker.

        The broker need not run: no timer, follower or client knows of the log before.
        """
        return self.roles.begin_with(tp, topic)

    def add_leadership_listener(self, listener: LeadershipListener) -> None:
        """Notify a listener from now on when this broker gains or loses the leadership of a partition."""
        self.roles.add_listener(listener)

    @property
    def image(self) -> ClusterImage | None:
        """The newest image; None until this broker is registered."""
        return self.lookup.image

    def take_refollowed(self) -> Mapping[int, Refollowed]:
        """Return by leader what has changed in what this broker follows from it since the last call."""
        return self.roles.take_refollowed()

    # --- following ---

    def append_as_follower(
        self, partition: Partition, records: Buffer, leader_high_watermark: int, leader_log_start_offset: int
    ) -> None:
        """Append the leader's records; if the high watermark advances, check the fetches that wait at this replica.

        Raises:
            LogError: the batches do not continue this log.
        """
        high_watermark = partition.high_watermark
        with self.actions:
            try:
                partition.append_as_follower(
                    records,
                    leader_high_watermark=leader_high_watermark,
                    leader_log_start_offset=leader_log_start_offset,
                    wall_ms=self._clock.wall_ms(),
                )
                if len(records):
                    self._observer.replicated_in(len(records))
                    if self.follower_throttle.limit is not None and self.is_throttled(partition):
                        self.follower_throttle.record(len(records))
            finally:  # it may have advanced although there was no memory for the records
                if partition.high_watermark > high_watermark:
                    self._events.high_watermark_moved(partition.tp)

    def is_throttled(self, partition: Partition) -> bool:
        """Return whether a followed replica is listed for the throttle of this broker as a follower."""
        listed = partition.log.config.follower_replication_throttled_replicas
        return self.follower_throttle.is_about(listed, partition.tp.partition)

    def truncate_to(self, partition: Partition, offset: int) -> None:
        """Delete all records of a followed partition from `offset` on, since the leader's log diverges there."""
        with self.actions:
            partition.truncate_to(offset)

    def restart_at(self, partition: Partition, offset: int) -> None:
        """Delete all records of a followed partition, and restart at `offset`."""
        with self.actions:
            partition.restart_at(offset)

    def begin_behind(self, partition: Partition, log_start_offset: int, segment: RemoteSegment) -> None:
        """Delete all records of a partition that this broker does not lead, and begin behind a segment of the tier.

        Args:
            log_start_offset: the leader's, or what is known of it.
        """
        with self.actions:
            partition.log.begin_behind(
                segment.end_offset,
                log_start_offset=log_start_offset,
                epochs=segment.epochs,
                producers=segment.producers,
            )

    def begin_leading_behind(self, partition: Partition, log_start_offset: int, segment: RemoteSegment | None) -> None:
        """Begin behind the last segment that the tier has of an empty log, if it has one; then lead, if elected."""
        with self.actions:
            if segment is not None:
                self.begin_behind(partition, log_start_offset, segment)
            self.roles.renew(partition.tp)
            self.apply_more()

    def _log_cut(self, tp: TopicPartition) -> None:
        self._events.log_cut(tp)
        if self.tiering is not None:
            self.tiering.note(tp)
        partition = self.partitions.get(tp)
        if partition is not None and not partition.is_leader:
            self.followed_log_cut(partition)

    # --- maintenance ---

    def laggard_steps(self, max_lag_ms: int) -> Steps:
        """Propose to remove the followers from ISRs that have not been caught up for longer than `max_lag_ms`."""
        for partition in self._kept():
            proposal = partition.propose_to_drop_laggards(self._clock.now_ms(), max_lag_ms)
            if proposal is not None:
                self._in_sync_changes.propose(partition, proposal)
            yield LOOK_COST

    def advance_high_watermarks(self, cause: str = "lease held again") -> None:
        """Advance the high watermarks that were held by an uncertain lease, or by a larger min.insync.replicas."""
        with self.actions:
            for tp, partition in self.partitions.items():
                if partition.is_leader and partition.advance_high_watermark():
                    self._events.high_watermark_moved(tp, cause)

    def lease_lost(self) -> None:
        """Answer the fetches that wait: this broker may not lead any more."""
        with self.actions:
            self._events.lease_changed("lease lost")

    def lease_resumed(self) -> None:
        """Advance the high watermarks, and let fetch sessions know that partitions can be read again."""
        with self.actions:
            self.advance_high_watermarks()
            self._events.lease_changed("lease held again")

    def withdraw(self, partition: Partition, proposal: InSyncProposal) -> None:
        """End a proposal; check the operations that wait for the partition's watermarks."""
        with self.actions:
            if partition.withdraw(proposal):
                self._events.high_watermark_moved(partition.tp)
            self._delete_records_purgatory.check_and_complete(partition.tp, "ISR")

    def retention_steps(self) -> Steps:
        """Apply retention; a log that loses records has a turn of its own."""
        for partition in self._kept():
            yield 0 if self._apply_retention(partition) else LOOK_COST

    def _apply_retention(self, partition: Partition) -> bool:
        """Delete a log's outdated records; returns whether its start moved."""
        log, tp = partition.log, partition.tp
        start_offset = log.log_start_offset
        with self.actions:
            deleted_bytes = log.apply_retention(self._clock.wall_ms(), partition.high_watermark)
            if log.is_tiered and self.tiering is not None:
                self.tiering.retain(partition)
            moved = log.log_start_offset != start_offset
            if moved:
                self._delete_records_purgatory.check_and_complete(tp, "log start")
        if deleted_bytes:
            logger.info("log retention", partition=str(tp), deleted_bytes=deleted_bytes)
        return moved

    def move_log_start(self, partition: Partition, offset: int) -> None:
        """Move the log start of a partition that this broker leads; followers hear of it by their fetches."""
        with self.actions:
            partition.log.advance_log_start(offset)
            self._delete_records_purgatory.check_and_complete(partition.tp, "log start")
        logger.info("log retention", partition=str(partition.tp), log_start_offset=offset)

    def compaction_steps(self, *, forced_for: Callable[[TopicPartition], bool] | None = None) -> Steps:
        """Compact the logs that need it, a part of a log in each step.

        Args:
            forced_for: instead, compact these at once, with their active segments (see `Log.compaction_steps`).
        """
        forced = forced_for is not None
        for partition in self._kept():
            if partition.log.config.compact and (forced_for is None or forced_for(partition.tp)):
                wall_ms = self._clock.wall_ms()
                yield from partition.log.compaction_steps(partition.high_watermark, wall_ms, forced=forced)
            yield LOOK_COST

    def _kept(self) -> Iterator[Partition]:
        """Yield the replicas that are there now, and still are when their turn comes."""
        for partition in list(self.partitions.values()):
            if self.partitions.get(partition.tp) is partition:
                yield partition


def _racks_of(image: ClusterImage) -> dict[int, str]:
    """Return the racks of the live brokers that have one."""
    return {key: live.rack for key, live in image.live_brokers.items() if live.rack is not None}
