"""A simulated member of a consumer group of the new protocol (KIP-848)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.protocol.api import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from purgatorio.simulation.clients.clients import NETWORK_ERRORS, Unavailable
from purgatorio.simulation.clients.group_members import NOT_MEMBER, GroupMember
from purgatorio.simulation.clients.group_plan import REBALANCE_TIMEOUT_MS

HEARTBEAT_VERSION: Final = 1
JOINS, LEAVES, LEAVES_FOR_A_WHILE = 0, -1, -2
LOST: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND)
"""With these the coordinator tells a member that it has lost its partitions, and has to join again."""


class ConsumerMember(GroupMember):
    """A member by ConsumerGroupHeartbeat; it keeps its partitions until the coordinator asks for them."""

    NAMES_ITSELF = True

    def _request(self, epoch: int, owned: Iterable[TopicPartition] | None) -> ConsumerGroupHeartbeatRequest:
        topics = None
        if owned is not None:
            ids = self._shared.topic_ids
            topics = [TopicPartitions(topic_id=ids[tp.topic], partitions=[tp.partition]) for tp in sorted(owned)]
        return ConsumerGroupHeartbeatRequest(
            group_id=self._shared.plan.group_id,
            member_id=self._member_id,
            member_epoch=epoch,
            instance_id=self._instance_id,
            topic_partitions=topics,
        )

    async def _join(self) -> None:
        if not self._member_id:
            self._member_id = f"{self._client.name}-{self._rng.getrandbits(32):08x}"
        await self._heartbeat(self._full(JOINS, []))

    def _full(self, epoch: int, owned: Iterable[TopicPartition]) -> ConsumerGroupHeartbeatRequest:
        """Return a heartbeat that tells everything."""
        request = self._request(epoch, owned)
        request.rebalance_timeout_ms = REBALANCE_TIMEOUT_MS
        request.subscribed_topic_names = sorted(self._shared.topic_ids)
        return request

    async def _beat(self) -> None:
        try:
            await self._heartbeat(self._request(self._generation, self.owned))
        except (*NETWORK_ERRORS, Unavailable):
            # The coordinator may have moved the member on: a full heartbeat brings the assignment again.
            await self._lost_coordinator()
            self._coordinator = await self._client.coordinator(self._shared.plan.group_id)
            await self._heartbeat(self._full(self._generation, self.owned))

    async def _heartbeat(self, request: ConsumerGroupHeartbeatRequest) -> None:
        answer = await self._ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, HEARTBEAT_VERSION, request)
        code = ErrorCode(answer.error_code)
        if code in LOST:
            self._give_up(self.owned)
            self._generation = NOT_MEMBER
        elif code is not ErrorCode.NONE:
            raise Unavailable(code.name)
        else:
            await self._follow(answer)

    async def _follow(self, answer: Any) -> None:
        """Take the epoch and the assignment of an answer; partitions are committed before they are given up."""
        is_new = answer.member_epoch != self._generation
        self._generation = answer.member_epoch
        partitions = self.owned
        if answer.assignment is not None:
            names = {topic_id: name for name, topic_id in self._shared.topic_ids.items()}
            partitions = [
                TopicPartition(names[bytes(topic.topic_id)], index)
                for topic in answer.assignment.topic_partitions
                for index in topic.partitions
            ]
        if not is_new and sorted(partitions) == sorted(self.owned):
            return
        self._told(partitions)
        revoked = [tp for tp in self.owned if tp not in partitions]
        self._take_over(partitions)
        if revoked:
            try:
                await self._commit()
            finally:
                self._give_up(revoked)

    async def _go(self) -> None:
        """Leave; a static member leaves for a while, as if it was restarted, until the faults are over."""
        member_id, generation = self._member_id, self._generation
        for_a_while = self._instance_id is not None and self._shared.is_restless()
        request = self._request(LEAVES_FOR_A_WHILE if for_a_while else LEAVES, None)
        self._give_up(self.owned)
        self._member_id, self._generation = "", NOT_MEMBER
        if member_id and generation > 0:
            await self._ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, HEARTBEAT_VERSION, request)
