"""All that one broker does for the members of share groups as a leader, put together."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from purgatorio.broker.coordinator.share_settings import ResetTo
from purgatorio.broker.log.time_index import TimestampOffset
from purgatorio.broker.replica.delayed_remote_list_offsets import RemoteLookUp
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
        self._replicas = replicas
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
            find_start=partial(self._find_start, key.group_id, replica),
            counts=self.metrics.partition(key.group_id, replica.tp.topic),
        )

    def _find_start(self, group_id: str, replica: Partition, done: Callable[[ErrorCode, int], None]) -> None:
        """Find where a group begins in a partition that it has not read before (share.auto.offset.reset).

        The look-up of a time may wait for the tier.
        """
        reset = self.settings.of(group_id).auto_offset_reset
        log, high_watermark = replica.log, replica.high_watermark
        if reset.to is ResetTo.EARLIEST:
            done(ErrorCode.NONE, log.log_start_offset)
            return
        if reset.to is not ResetTo.DURATION:
            done(ErrorCode.NONE, high_watermark)
            return
        timestamp_ms, look_ups = self._clock.wall_ms() - reset.ago_ms, self._replicas.look_ups

        def answered(found: TimestampOffset | None, error_code: ErrorCode) -> None:
            if error_code not in (ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER):
                error_code = ErrorCode.UNKNOWN_SERVER_ERROR  # members do not know REQUEST_TIMED_OUT
            offset = high_watermark if found is None or found.offset < 0 else max(found.offset, log.log_start_offset)
            done(error_code, offset)

        if look_ups is None or log.log_start_offset >= log.local_start_offset:
            answered(log.offset_for_timestamp(timestamp_ms, high_watermark), ErrorCode.NONE)
        else:
            look_up = RemoteLookUp(replica, timestamp_ms, high_watermark, -1, answered)
            look_ups.park([look_up], 0, lambda: None, f"share group {group_id}")
