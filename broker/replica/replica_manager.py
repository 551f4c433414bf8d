"""All replicas of one broker: the image that they follow, and the upkeep of their logs.

The requests to them are in `writes` and `fetches`, the wake-ups of parked requests in `events`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from purgatorio.broker.log.config import LogConfig
from purgatorio.broker.log.log import Log
from purgatorio.broker.log.memory import MemoryBudget
from purgatorio.broker.log.producer_state import PRODUCER_EXPIRATION_MS
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.log.validator import RecordValidation
from purgatorio.broker.metadata.controller import InSyncProposal
from purgatorio.broker.metadata.image import BrokerIncarnation, ClusterImage, Topic
from purgatorio.broker.metadata.topic_name import is_internal
from purgatorio.broker.replica.delayed_delete_records import DelayedDeleteRecords
from purgatorio.broker.replica.events import ReplicaEvents
from purgatorio.broker.replica.fetching.context_reader import ContextReader
from purgatorio.broker.replica.fetching.delayed_fetch import DelayedFetch, FollowerKey
from purgatorio.broker.replica.fetching.fetches import ReplicaFetches
from purgatorio.broker.replica.fetching.reader import ReplicaReader
from purgatorio.broker.replica.lookup import ReplicaLookup
from purgatorio.broker.replica.observer import LeadershipListener, ReplicaObserver
from purgatorio.broker.replica.partition import Partition
from purgatorio.broker.replica.producing.delayed_produce import PendingAck
from purgatorio.broker.replica.producing.delayed_verification import ProduceOperation
from purgatorio.broker.replica.producing.transaction_guard import TransactionGuard
from purgatorio.broker.replica.producing.transactional_writes import TransactionalWrites
from purgatorio.broker.replica.producing.writes import LeaderWrites, WatchedWrites
from purgatorio.broker.replica.replication_throttle import ReplicationThrottle
from purgatorio.broker.replica.roles import ROLES_PER_STEP, Refollowed, ReplicaRoles
from purgatorio.logger import get_logger
from purgatorio.protocol.primitives import Buffer
from purgatorio.purgatory import ActionQueue, Purgatory
from purgatorio.purgatory.clock import Clock

logger = get_logger(__name__)

REPLICAS_PER_STEP: Final = 250
"""The replicas that a step of the periodic work looks at if there is nothing to do: less than a millisecond."""


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
        share_fetch_purgatory: the purgatory of share fetches.
        delete_records_purgatory: the purgatory of requests to delete records.
        observer: counts events for metrics.
        propose: submits a partition's proposal for its ISR.
        may_lead: whether this broker certainly holds its lease, and so may act as a leader.
        validation: how records inside produced batches are checked; not given: in full.
        producer_id_expiration_ms: the idle time after which a producer's sequence numbers are forgotten.
        roles_per_step: the most replicas that `apply` and `apply_more` give their roles at once.

    Attributes:
        actions: the queue of events; see `CoordinatorLog` for a use.
        incarnation: this broker's incarnation; None until it is registered, and no image is applied before.
        memory: the budget that all logs of this broker share.
        lookup: finds replicas, and names the leaders of other partitions.
        guard: admits appends of transactions; its `verify` is set when the broker is composed.
        append: see `LeaderWrites.append`.
        append_in_transaction: see `TransactionalWrites.append`.
        await_replicas: see `LeaderWrites.await_replicas`.
        delete_records: see `LeaderWrites.delete_records`.
        fetch, fetch_in_steps: see `ReplicaFetches`.
        forget: see `ReplicaFetches.forget`.
        end_session: see `ReplicaFetches.end_session`.
        share_watch: the share fetches that wait to hear of partitions.
        leader_throttle: of what followers read here.
        follower_throttle: of what this broker reads from leaders.
        followed_log_cut: called when records of a partition that this broker follows were deleted or truncated.
    """

    def __init__(
        self,
        broker_id: int,
        *,
        clock: Clock,
        log_defaults: LogConfig,
        memory: MemoryBudget,
        actions: ActionQueue,
        produce_purgatory: Purgatory[ProduceOperation],
        fetch_purgatory: Purgatory[DelayedFetch],
        share_fetch_purgatory: Purgatory[Any],
        delete_records_purgatory: Purgatory[DelayedDeleteRecords],
        observer: ReplicaObserver,
        propose: Callable[[Partition, InSyncProposal], None],
        may_lead: Callable[[], bool],
        validation: RecordValidation | None = None,
        producer_id_expiration_ms: int = PRODUCER_EXPIRATION_MS,
        roles_per_step: int = ROLES_PER_STEP,
        watch_acks: Callable[[int, Sequence[PendingAck]], None] | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.partitions: dict[TopicPartition, Partition] = {}
        self.produce_purgatory = produce_purgatory
        self.fetch_purgatory = fetch_purgatory
        self.delete_records_purgatory = delete_records_purgatory
        self._clock = clock
        self.memory = memory
        self.actions = actions
        self._observer = observer
        self._propose = propose
        self.incarnation: BrokerIncarnation | None = None
        self._validation = validation if validation is not None else RecordValidation()
        self._producer_id_expiration_ms = producer_id_expiration_ms
        self._racks: dict[int, str] = {}
        self._roles = self._build_roles(log_defaults, may_lead, roles_per_step)
        self.followed_log_cut: Callable[[Partition], None] = lambda partition: None
        self.lookup = ReplicaLookup(broker_id, self.partitions, lambda: self._roles.image)
        self.leader_throttle = ReplicationThrottle(broker_id, clock.now_ms)
        self.follower_throttle = ReplicationThrottle(broker_id, clock.now_ms)
        self.reader = ReplicaReader(
            self.lookup, self._roles.assignments, lambda: self._racks, clock.wall_ms, self.leader_throttle
        )
        self._events = ReplicaEvents(
            self.partitions,
            actions=actions,
            racks=lambda: self._racks,
            produce_purgatory=produce_purgatory,
            fetch_purgatory=fetch_purgatory,
            share_fetch_purgatory=share_fetch_purgatory,
            call_later=clock.call_later,
        )
        self.share_watch = self._events.share_watch
        writes = self._build_writes(LeaderWrites if watch_acks is None else partial(WatchedWrites, watch_acks))
        fetches = self._build_fetches()
        self.guard = TransactionGuard(self.lookup, actions, begin=self._validation.begin_request)
        self.append = writes.append
        self.append_in_transaction = self._build_transactional_writes(writes).append
        self.await_replicas = writes.await_replicas
        self.delete_records = writes.delete_records
        self.fetch = fetches.fetch
        self.fetch_in_steps = fetches.fetch_in_steps
        self.forget = fetches.forget
        self.end_session = fetches.end_session

    def _build_fetches(self) -> ReplicaFetches:
        return ReplicaFetches(
            self.partitions,
            ContextReader(self.reader, self._events.watch),
            follower_assignments=self._roles.assignments,
            racks=lambda: self._racks,
            image=lambda: self._roles.image,
            clock=self._clock,
            actions=self.actions,
            events=self._events,
            fetch_purgatory=self.fetch_purgatory,
            delete_records_purgatory=self.delete_records_purgatory,
            observer=self._observer,
            propose=self._propose,
            throttle=self.leader_throttle,
        )

    def _build_writes(self, writes: Callable[..., LeaderWrites]) -> LeaderWrites:
        return writes(
            self.lookup,
            clock=self._clock,
            actions=self.actions,
            events=self._events,
            produce_purgatory=self.produce_purgatory,
            delete_records_purgatory=self.delete_records_purgatory,
            observer=self._observer,
            validation=self._validation,
        )

    def _build_transactional_writes(self, writes: LeaderWrites) -> TransactionalWrites:
        return TransactionalWrites(
            self.lookup,
            writes,
            self.guard,
            clock=self._clock,
            actions=self.actions,
            produce_purgatory=self.produce_purgatory,
            validation=self._validation,
        )

    def _build_roles(self, log_defaults: LogConfig, may_lead: Callable[[], bool], roles_per_step: int) -> ReplicaRoles:
        return ReplicaRoles(
            self.broker_id,
            self.partitions,
            new_log=self._new_log,
            log_defaults=log_defaults,
            clock=self._clock,
            may_lead=may_lead,
            observer=self._observer,
            roles_per_step=roles_per_step,
        )

    # --- metadata ---

    def apply(self, image: ClusterImage) -> None:
        """Give replicas the roles that an image assigns to them; some of them, if it changes many partitions.

        Call `apply_more` later while `is_current` is false. Images that were made for another incarnation of this
        broker are ignored.
        """
        registered = image.brokers.get(self.broker_id)
        if self.incarnation is None or registered is None or registered.incarnation != self.incarnation:
            return
        racks, self._racks = self._racks, _racks_of(image)
        self._roles.note(image)
        with self.actions:
            for broker_id in [broker_id for broker_id in self._racks if broker_id not in racks]:
                # Consumers may read from this follower now, so it waits to learn the high watermark.
                self._events.racks_changed(broker_id)
            self.apply_more()

    def apply_more(self) -> None:
        """Give some more replicas the roles of the newest image, and check the requests that wait for them."""
        if self.incarnation is None:
            return
        with self.actions:
            changed = self._roles.step(self.incarnation)
            for follower in self._roles.take_reassigned():
                self.fetch_purgatory.check_and_complete(FollowerKey(follower), "assignment")
            for tp in changed:
                self._events.role_changed(tp, "partition state")
                self.delete_records_purgatory.check_and_complete(tp, "partition state")

    @property
    def is_current(self) -> bool:
        """Whether all replicas have the roles of the newest image."""
        return self._roles.is_current

    def reconfigure(self, log_defaults: LogConfig, producer_id_expiration_ms: int) -> None:
        """Use these defaults of topic configs, and this expiration of producers, from now on; in all logs."""
        self._producer_id_expiration_ms = producer_id_expiration_ms
        self._roles.reconfigure(log_defaults)
        for partition in self.partitions.values():
            partition.log.producers.expiration_ms = producer_id_expiration_ms

    def _new_log(self, tp: TopicPartition, config: LogConfig) -> Log:
        log = Log(config, memory=self.memory, validation=self._validation, name=str(tp))
        log.producers.expiration_ms = self._producer_id_expiration_ms
        log.on_cut = partial(self._log_cut, tp)
        log.is_evictable = not is_internal(tp.topic)
        return log

    def begin_with(self, tp: TopicPartition, topic: Topic) -> Log:
        """Make the log with which the replica of a partition begins, as soon as an image assigns it to this broker.

        The broker need not run: no timer, follower or client knows of the log before.
        """
        return self._roles.begin_with(tp, topic)

    def add_leadership_listener(self, listener: LeadershipListener) -> None:
        """Notify a listener from now on when this broker gains or loses the leadership of a partition."""
        self._roles.add_listener(listener)

    @property
    def image(self) -> ClusterImage | None:
        """The newest image; None until this broker is registered."""
        return self._roles.image

    def take_refollowed(self) -> Mapping[int, Refollowed]:
        """Return by leader what has changed in what this broker follows from it since the last call."""
        return self._roles.take_refollowed()

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

    def _log_cut(self, tp: TopicPartition) -> None:
        self._events.log_cut(tp)
        partition = self.partitions.get(tp)
        if partition is not None and not partition.is_leader:
            self.followed_log_cut(partition)

    # --- maintenance ---

    def laggard_steps(self, max_lag_ms: int) -> Iterator[None]:
        """Propose to remove the followers from ISRs that have not been caught up for longer than `max_lag_ms`."""
        for nth, partition in self._numbered():
            proposal = partition.propose_to_drop_laggards(self._clock.now_ms(), max_lag_ms)
            if proposal is not None:
                self._propose(partition, proposal)
            if nth % REPLICAS_PER_STEP == 0:
                yield

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
            self.delete_records_purgatory.check_and_complete(partition.tp, "ISR")

    def retention_steps(self) -> Iterator[None]:
        """Apply retention; a step ends with a log that lost records, or after `REPLICAS_PER_STEP` that did not."""
        for nth, partition in self._numbered():
            if self._apply_retention(partition) or nth % REPLICAS_PER_STEP == 0:
                yield

    def _apply_retention(self, partition: Partition) -> bool:
        """Delete a log's outdated records; returns whether its start moved."""
        log, tp = partition.log, partition.tp
        start_offset = log.log_start_offset
        with self.actions:
            deleted_bytes = log.apply_retention(self._clock.wall_ms(), partition.high_watermark)
            moved = log.log_start_offset != start_offset
            if moved:
                self.delete_records_purgatory.check_and_complete(tp, "log start")
        if deleted_bytes:
            logger.info("log retention", partition=str(tp), deleted_bytes=deleted_bytes)
        return moved

    def compaction_steps(self, *, forced_for: Callable[[TopicPartition], bool] | None = None) -> Iterator[None]:
        """Compact the logs that need it, a part of a log in each step.

        Args:
            forced_for: instead, compact these at once, with their active segments (see `Log.compaction_steps`).
        """
        forced = forced_for is not None
        for nth, partition in self._numbered():
            if partition.log.config.compact and (forced_for is None or forced_for(partition.tp)):
                wall_ms = self._clock.wall_ms()
                yield from partition.log.compaction_steps(partition.high_watermark, wall_ms, forced=forced)
                yield
            elif nth % REPLICAS_PER_STEP == 0:
                yield

    def _numbered(self) -> Iterator[tuple[int, Partition]]:
        """Yield the replicas that are there now, and still are when their turn comes, with numbers from 1."""
        for nth, partition in enumerate(list(self.partitions.values()), 1):
            if self.partitions.get(partition.tp) is partition:
                yield nth, partition


def _racks_of(image: ClusterImage) -> dict[int, str]:
    """Return the racks of the live brokers that have one."""
    return {key: live.rack for key, live in image.live_brokers.items() if live.rack is not None}
