"""A follower's questions about the log of its leader: where it begins and ends, and what of it is copied."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from purgatorio.broker.log.epochs import UNDEFINED_EPOCH
from purgatorio.broker.replica.partition import Partition
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
LATEST: Final = -1
EARLIEST: Final = -2
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5

Ask = Callable[[int, int, Any], Awaitable[Any]]
"""Sends a request of an API and version to the leader, and returns the response."""


class CannotFollow(Exception):
    """The leader or the tier does not say what is needed; a later try may succeed."""


class LeaderLog:
    """Asks a leader. Each question names the follower's leader epoch, so that no other leader answers.

    Args:
        replica_id: the broker that asks.
        ask: asks the leader; what it raises is passed on.
    """

    def __init__(self, replica_id: int, ask: Ask) -> None:
        self._replica_id = replica_id
        self._ask = ask

    async def offset(self, partition: Partition, timestamp: int) -> tuple[int, int]:
        """Return an offset of the leader's log, and its epoch.

        Raises:
            CannotFollow: the leader answers with an error.
        """
        (answer,) = await self.offsets([partition], timestamp)
        offset, epoch, error_code = answer
        if error_code:
            raise CannotFollow(ErrorCode(error_code).name)
        return offset, epoch

    async def offsets(self, partitions: Sequence[Partition], timestamp: int) -> list[tuple[int, int, int]]:
        """Return an offset of each leader's log, its epoch, and the error code, in the order of the partitions."""
        questions: dict[str, list[ListOffsetsPartition]] = {}
        for partition in partitions:
            question = ListOffsetsPartition(
                partition_index=partition.tp.partition,
                current_leader_epoch=partition.leader_epoch,
                timestamp=timestamp,
            )
            questions.setdefault(partition.tp.topic, []).append(question)
        topics = [ListOffsetsTopic(name=name, partitions=asked) for name, asked in questions.items()]
        request = ListOffsetsRequest(replica_id=self._replica_id, topics=topics)
        response = await self._ask(ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION, request)
        answers = {
            (topic.name, each.partition_index): (each.offset, each.leader_epoch, each.error_code)
            for topic in response.topics
            for each in topic.partitions
        }
        return [answers[partition.tp] for partition in partitions]

    async def end_of_epoch(self, partition: Partition, epoch: int) -> tuple[int, int]:
        """Return the largest epoch of the leader's log that is not above this one, and its end; −1: there is none.

        Raises:
            CannotFollow: the leader answers with an error.
        """
        if epoch < 0:
            return UNDEFINED_EPOCH, -1
        question = OffsetForLeaderPartition(
            partition=partition.tp.partition, current_leader_epoch=partition.leader_epoch, leader_epoch=epoch
        )
        topics = [OffsetForLeaderTopic(topic=partition.tp.topic, partitions=[question])]
        request = OffsetForLeaderEpochRequest(replica_id=self._replica_id, topics=topics)
        response = await self._ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, EPOCH_VERSION, request)
        answer = response.topics[0].partitions[0]
        if answer.error_code:
            raise CannotFollow(ErrorCode(answer.error_code).name)
        return answer.leader_epoch, answer.end_offset
