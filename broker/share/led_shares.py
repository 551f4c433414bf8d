"""All that one broker does for the members of share groups as a leader, put together."""

from __future__ import annotations

from purgatorio.broker.coordinator.share_settings import ResetTo
from purgatorio.broker.replica.partition import Partition
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.broker.share.services import ShareLeaderServices, ShareServices
from purgatorio.broker.share.session_endings import SessionEndings
from purgatorio.broker.share.share_fetches import ShareFetches
from purgatorio.broker.share.share_metrics import ShareMetrics
from purgatorio.broker.share.share_partition import SharePartition
from purgatorio.broker.share.share_partitions import SharePartitions
from purgatorio.broker.share.share_reader import ShareSessionReader
from purgatorio.broker.share.share_session import SessionPartition, ShareSessionCache
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.share_state import SharePartitionKey
from purgatorio.purgatory import GroupWatch, LaterChecks


class LedShares:
    """The share partitions that one broker leads, and the members that fetch from them.

    Attributes:
        settings: those of each share group.
        dead_letters: where records go that are given up.
        fetches: the requests of members.
        partitions: the share partitions.
        sessions: the members' sessions.
        endings: gives back what they had acquired.
        metrics: what is counted of all these.
    """

    def __init__(self, services: ShareLeaderServices, replicas: ReplicaManager) -> None:
        purgatory, work, settings = services.purgatory, services.work, services.settings
        self.settings = settings
        self.dead_letters = services.dead_letters
        self._clock = services.clock
        self._lock_purgatory = services.lock_purgatory
        later = LaterChecks(purgatory, work.later)
        self._watch: GroupWatch[SharePartitionKey, SessionPartition] = GroupWatch(purgatory, later)
        self._services = ShareServices(
            persister=services.persister,
            locks=services.lock_purgatory,
            settings=settings.of,
            changed=lambda key: self._watch.check_and_complete(key, "share partition"),
            fenced=lambda key, error_code: self.partitions.fenced(key, error_code),
            dead_letters=services.dead_letters,
        )
        self.metrics = ShareMetrics(services.observer, services.clock.now_ms)
        self.partitions = SharePartitions(replicas, self._make, self.metrics)
        self.sessions = ShareSessionCache(
            services.max_sessions,
            lambda session, is_last: self.endings.begin(session, is_last),
            lambda connection: self.fetches.has_room(connection),
        )
        reader = ShareSessionReader(
            replicas, self.partitions, self._watch, lambda group_id: settings.of(group_id).reads_committed
        )
        self.endings = SessionEndings(reader, self.sessions, replicas.actions, work)
        self.fetches = ShareFetches(
            services,
            sessions=self.sessions,
            reader=reader,
            actions=replicas.actions,
            metrics=self.metrics,
            later=later,
        )

    def now_ms(self) -> int:
        """Return the time by which acquisition locks run out."""
        return self._lock_purgatory().now_ms()

    def _make(self, key: SharePartitionKey, replica: Partition) -> SharePartition:
        return SharePartition(
            key,
            replica.tp,
            replica.leader_epoch,
            self._services,
            find_start=lambda: (ErrorCode.NONE, self._first_offset(key.group_id, replica)),
            counts=self.metrics.partition(key.group_id, replica.tp.topic),
        )

    def _first_offset(self, group_id: str, replica: Partition) -> int:
        """Return where a group begins in a partition that it has not read before (share.auto.offset.reset)."""
        reset = self.settings.of(group_id).auto_offset_reset
        log, high_watermark = replica.log, replica.high_watermark
        if reset.to is ResetTo.EARLIEST:
            return log.log_start_offset
        if reset.to is ResetTo.DURATION:
            found = log.offset_for_timestamp(self._clock.wall_ms() - reset.ago_ms, high_watermark)
            if found is not None:
                return max(found.offset, log.log_start_offset)
        return high_watermark
