"""A member of a consumer group whose partitions the coordinator assigns (KIP-848)."""

from __future__ import annotations

import uuid
from typing import Final

from purgatorio.admin.learn.clients.client import Client, Stage
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions

HEARTBEAT_VERSION: Final = 1
HEARTBEAT_MS: Final = 100
REBALANCE_MS: Final = 60_000


class ModernMember(Client):
    """Sends heartbeats, and owns what their answers assign to it; it reads nothing.

    Args:
        is_slow: whether it keeps partitions that it has to give up, as a member that is busy with their records.

    Facts: `epoch`; `partitions`, how many it owns.
    """

    def __init__(self, stage: Stage, name: str, *, group: str, topic: str, is_slow: bool = False) -> None:
        super().__init__(stage, name)
        self._group = group
        self._topic = topic
        self._is_slow = is_slow
        self._member_id = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{group}/{name}"))
        self._owned: dict[bytes, list[int]] = {}
        self.facts.update(epoch=0, partitions=0)

    async def give_up(self) -> None:
        """Give up what it has to, from now on."""
        self._is_slow = False

    async def live(self) -> None:
        coordinator = await self.coordinator(self._group)
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self._member_id,
            member_epoch=0,
            rebalance_timeout_ms=REBALANCE_MS,
            subscribed_topic_names=[self._topic],
            topic_partitions=[],
        )
        target = self._owned = {}
        while True:
            answer = await self.ask(coordinator, ApiKey.CONSUMER_GROUP_HEARTBEAT, HEARTBEAT_VERSION, request)
            if answer.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
                request.member_epoch, target, request.topic_partitions = 0, {}, []
                continue
            if answer.error_code == ErrorCode.NONE:
                request.member_epoch = answer.member_epoch
                if answer.assignment is not None:
                    target = {each.topic_id: list(each.partitions) for each in answer.assignment.topic_partitions}
            self._take(target)
            request.topic_partitions = [
                TopicPartitions(topic_id=topic_id, partitions=own) for topic_id, own in self._owned.items()
            ]
            self.facts["epoch"] = request.member_epoch
            await self.sleep(HEARTBEAT_MS)

    def _take(self, target: dict[bytes, list[int]]) -> None:
        """Own what is assigned; a slow one owns what it had as well."""
        kept = self._owned if self._is_slow else {}
        names = dict.fromkeys([*kept, *target])
        self._owned = {name: sorted({*kept.get(name, ()), *target.get(name, ())}) for name in names}
        self.facts["partitions"] = sum(map(len, self._owned.values()))
