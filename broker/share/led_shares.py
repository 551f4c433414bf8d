"""All that one broker does for the members of share groups as a leader, put together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from purgatorio.broker.coordinator.share_settings import ResetTo, ShareGroupSettings
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.replica.partition import Partition
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.broker.routing.listings import Listings
from purgatorio.broker.share.giving_up import DeadLetters
from purgatorio.broker.share.persister import Persister
from purgatorio.broker.share.session_endings import SessionEndings
from purgatorio.broker.share.share_fetches import ShareFetches
from purgatorio.broker.share.share_metrics import ShareMetrics, ShareObserver
from purgatorio.broker.share.share_partition import SharePartition, ShareServices
from purgatorio.broker.share.share_partitions import SharePartitions
from purgatorio.broker.share.share_reader import ShareSessionReader
from purgatorio.broker.share.share_session import SessionPartition, ShareSessionCache
from purgatorio.broker.time.long_work import OwnWork
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.share_state import SharePartitionKey
from purgatorio.purgatory import GroupWatch, LaterChecks, Purgatory
from purgatorio.purgatory.clock import Clock


class LedShares:
    """The share partitions that one broker leads, and the members that fetch from them.

    Args:
        purgatory: "ShareFetch".
        lock_purgatory: returns "AcquisitionLock"; it is made when the first record is acquired.
        max_sessions: the most share sessions (group.share.max.share.sessions).
        observer: counts requests by topic.
        work: takes the steps of what takes long.

    Attributes:
        settings: those of each share group.
        dead_letters: where records go that are given up.
        fetches: the requests of members.
        partitions: the share partitions.
        sessions: the members' sessions.
        endings: gives back what they had acquired.
        metrics: what is counted of all these.
    """

    def __init__(
        self,
        replicas: ReplicaManager,
        *,
        image: Callable[[], ClusterImage],
        settings: ShareGroupSettings,
        persister: Persister,
        clock: Clock,
        purgatory: Purgatory[Any],
        lock_purgatory: Callable[[], Purgatory[Any]],
        dead_letters: DeadLetters,
        max_sessions: int,
        observer: ShareObserver,
        work: OwnWork,
    ) -> None:
        self.settings = settings
        self.dead_letters = dead_letters
        self._clock = clock
        self._lock_purgatory = lock_purgatory
        later = LaterChecks(purgatory, work.later)
        self._watch: GroupWatch[SharePartitionKey, SessionPartition] = GroupWatch(purgatory, later)
        self._services = ShareServices(
            persister=persister,
            locks=lock_purgatory,
            settings=settings.of,
            changed=lambda key: self._watch.check_and_complete(key, "share partition"),
            fenced=lambda key, error_code: self.partitions.fenced(key, error_code),
            dead_letters=dead_letters,
        )
        self.metrics = ShareMetrics(observer, clock.now_ms)
        self.partitions = SharePartitions(replicas, self._make, self.metrics)
        self.sessions = ShareSessionCache(
            max_sessions,
            lambda session, is_last: self.endings.begin(session, is_last),
            lambda connection: self.fetches.has_room(connection),
        )
        reader = ShareSessionReader(
            replicas, self.partitions, self._watch, lambda group_id: settings.of(group_id).reads_committed
        )
        self.endings = SessionEndings(self.partitions, reader, self.sessions.has_group, replicas.actions, work)
        self.fetches = ShareFetches(
            image=image,
            shares=self.partitions,
            sessions=self.sessions,
            reader=reader,
            actions=replicas.actions,
            purgatory=purgatory,
            metrics=self.metrics,
            call_later=clock.call_later,
            listings=Listings(work),
            look_later=lambda fetch: later.add(fetch, "share fetch", fetch.watch_keys()[0]),
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
