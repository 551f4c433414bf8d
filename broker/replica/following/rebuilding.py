"""How a follower begins behind what only the tier has, after OFFSET_MOVED_TO_TIERED_STORAGE (KIP-405).

It asks the leader where the log begins, where the leader's memory begins, and in which epoch the record before that was
written; finds the segment in the tier that has this record in this epoch, so that all before it is the leader's log,
too; and begins anew at the end of that segment, with the epochs and producers that its description has.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from purgatorio.broker.log.epochs import UNDEFINED_EPOCH
from purgatorio.broker.replica.partition import Partition
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from purgatorio.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

LIST_OFFSETS_VERSION: Final = 9
EPOCH_VERSION: Final = 4
EARLIEST: Final = -2
EARLIEST_LOCAL: Final = -4

Ask = Callable[[int, int, Any], Awaitable[Any]]
"""Sends a request of an API and version to the leader, and returns the response."""


class CannotRebuild(Exception):
    """The leader or the tier does not say what is needed; a later try may succeed."""


class Rebuilding:
    """Finds where a follower begins, and begins there.

    Args:
        replicas: this broker's replicas.
        ask: asks the leader.
    """

    def __init__(self, replicas: ReplicaManager, ask: Ask) -> None:
        self._replicas = replicas
        self._ask = ask

    async def rebuild(self, partition: Partition, still_followed: Callable[[], bool]) -> None:
        """Begin anew behind what only the tier has; do nothing if the leader has all in memory, or has changed.

        Raises:
            CannotRebuild: in words.
            ConnectionError, TimeoutError: the leader did not answer.
        """
        log_start_offset, _ = await self._list(partition, EARLIEST)
        local_start_offset, epoch = await self._list(partition, EARLIEST_LOCAL)
        if local_start_offset <= log_start_offset:
            if still_followed():
                self._replicas.restart_at(partition, log_start_offset)
            return
        last_offset = local_start_offset - 1
        earlier_epoch, earlier_end = await self._end_of_epoch(partition, epoch - 1)
        if earlier_epoch != UNDEFINED_EPOCH and earlier_end > last_offset:
            epoch = earlier_epoch
        if still_followed():
            self._begin(partition, log_start_offset, last_offset, epoch)

    def _begin(self, partition: Partition, log_start_offset: int, last_offset: int, epoch: int) -> None:
        tiering = self._replicas.tiering
        if tiering is None:
            raise CannotRebuild("this broker has no tier: set tier.location")
        segment = tiering.remote_of(partition).with_record(last_offset, epoch)
        if segment is None:
            tiering.wake()
            why = tiering.trouble or "it may be listed late"
            raise CannotRebuild(f"no segment in the tier has offset {last_offset} in epoch {epoch} ({why})")
        self._replicas.begin_behind(partition, log_start_offset, segment)

    async def _list(self, partition: Partition, timestamp: int) -> tuple[int, int]:
        """Return an offset of the leader's log, and its epoch."""
        question = ListOffsetsPartition(
            partition_index=partition.tp.partition,
            current_leader_epoch=partition.leader_epoch,
            timestamp=timestamp,
        )
        topics = [ListOffsetsTopic(name=partition.tp.topic, partitions=[question])]
        request = ListOffsetsRequest(replica_id=self._replicas.broker_id, topics=topics)
        response = await self._ask(ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION, request)
        answer = response.topics[0].partitions[0]
        if answer.error_code:
            raise CannotRebuild(ErrorCode(answer.error_code).name)
        return answer.offset, answer.leader_epoch

    async def _end_of_epoch(self, partition: Partition, epoch: int) -> tuple[int, int]:
        """Return the largest epoch of the leader's log that is not above this one, and its end; −1: there is none."""
        if epoch < 0:
            return UNDEFINED_EPOCH, -1
        question = OffsetForLeaderPartition(
            partition=partition.tp.partition, current_leader_epoch=partition.leader_epoch, leader_epoch=epoch
        )
        topics = [OffsetForLeaderTopic(topic=partition.tp.topic, partitions=[question])]
        request = OffsetForLeaderEpochRequest(replica_id=self._replicas.broker_id, topics=topics)
        response = await self._ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, EPOCH_VERSION, request)
        answer = response.topics[0].partitions[0]
        if answer.error_code:
            raise CannotRebuild(ErrorCode(answer.error_code).name)
        return answer.leader_epoch, answer.end_offset
