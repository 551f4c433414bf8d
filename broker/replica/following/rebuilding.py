"""How a follower begins behind what only the tier has, after OFFSET_MOVED_TO_TIERED_STORAGE (KIP-405).

It asks the leader where the log begins, where the leader's memory begins, and in which epoch the record before that was
written; finds the segment in the tier that has this record in this epoch, so that all before it is the leader's log,
too; and begins anew at the end of that segment, with the epochs and producers that its description has.
"""

from __future__ import annotations

from collections.abc import Callable

from purgatorio.broker.log.epochs import UNDEFINED_EPOCH
from purgatorio.broker.replica.following.leader_log import EARLIEST, EARLIEST_LOCAL, CannotFollow, LeaderLog
from purgatorio.broker.replica.partition import Partition
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.broker.tier.segment_file import DamagedObject, RemoteSegment
from purgatorio.broker.tier.store import StoreError
from purgatorio.broker.tier.traffic import TopicTraffic


class Rebuilding:
    """Finds where a follower begins, and begins there.

    Args:
        replicas: this broker's replicas.
        leader: answers for the leader's log.
    """

    def __init__(self, replicas: ReplicaManager, leader: LeaderLog) -> None:
        self._replicas = replicas
        self._leader = leader

    async def rebuild(self, partition: Partition, still_followed: Callable[[], bool]) -> None:
        """Begin anew behind what only the tier has; do nothing if the leader has all in memory, or has changed.

        Raises:
            CannotFollow: in words.
            ConnectionError, TimeoutError: the leader did not answer.
        """
        tiering = self._replicas.tiering
        counts = TopicTraffic() if tiering is None else tiering.traffic.of_topic(partition.topic_id.hex())
        counts.build_requests += 1
        try:
            await self._rebuild(partition, still_followed)
        except Exception:
            counts.build_errors += 1
            raise

    async def _rebuild(self, partition: Partition, still_followed: Callable[[], bool]) -> None:
        log_start_offset, _ = await self._leader.offset(partition, EARLIEST)
        local_start_offset, epoch = await self._leader.offset(partition, EARLIEST_LOCAL)
        if local_start_offset <= log_start_offset:
            if still_followed():
                self._replicas.restart_at(partition, log_start_offset)
            return
        last_offset = local_start_offset - 1
        earlier_epoch, earlier_end = await self._leader.end_of_epoch(partition, epoch - 1)
        if earlier_epoch != UNDEFINED_EPOCH and earlier_end > last_offset:
            epoch = earlier_epoch
        segment = await self._segment(partition, last_offset, epoch)
        if still_followed():
            self._replicas.begin_behind(partition, log_start_offset, segment)

    async def _segment(self, partition: Partition, last_offset: int, epoch: int) -> RemoteSegment:
        """Return the segment that has the last offset which the leader's memory has not, with its producers."""
        tiering = self._replicas.tiering
        if tiering is None:
            raise CannotFollow("this broker has no tier: set tier.location")
        segment = tiering.remote_of(partition).with_record(last_offset, epoch)
        if segment is None:
            tiering.list_soon(partition)
            why = tiering.trouble or "it may be listed late"
            raise CannotFollow(f"no segment in the tier has offset {last_offset} in epoch {epoch} ({why})")
        try:
            return await tiering.whole(partition, segment)
        except (StoreError, DamagedObject) as error:
            tiering.list_soon(partition)  # it may have been deleted
            raise CannotFollow(str(error)) from error
