"""A member of a consumer group of the classic protocol, static or not, that may fall silent."""

from __future__ import annotations

from typing import Final

from purgatorio.admin.learn.clients.client import Address, Client, Refused, Stage, check
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.consumer_protocol import (
    ASSIGNMENT,
    CONSUMER_PROTOCOL_TYPE,
    SUBSCRIPTION,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
)
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.heartbeat import HeartbeatRequest
from purgatorio.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from purgatorio.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

JOIN_VERSION: Final = 9
SYNC_VERSION: Final = 5
HEARTBEAT_VERSION: Final = 4
HEARTBEAT_MS: Final = 100
SESSION_MS: Final = 45_000
REBALANCE_MS: Final = 60_000
PROTOCOL: Final = "roundrobin"


class Member(Client):
    """Joins, takes what it is assigned, and sends heartbeats; it reads nothing.

    Args:
        partitions: how many the topic has; the leader of the group assigns them.
        instance_id: makes it a static member (KIP-345).

    Facts: `generation`, `members`, how many this member's generation has, as far as it knows; `partitions`, how many it
    owns; `joins`, how often it has joined.
    """

    def __init__(
        self, stage: Stage, name: str, *, group: str, topic: str, partitions: int, instance_id: str | None = None
    ) -> None:
        super().__init__(stage, name)
        self._group = group
        self._topic = topic
        self._partitions = partitions
        self._instance_id = instance_id
        self._member_id = ""
        self._is_silent = False
        self.facts.update(generation=0, partitions=0, joins=0)

    async def live(self) -> None:
        coordinator = await self.coordinator(self._group)
        while True:
            generation = await self._join(coordinator)
            await self._beat(coordinator, generation)

    # --- what steps tell it ---

    async def fall_silent(self) -> None:
        """Send nothing any more, and leave the connection open: a process that stands still."""
        self._is_silent = True

    async def restart(self) -> None:
        """End without leaving the group, and begin anew, as a process that is deployed again."""
        self._member_id = ""
        self.forget()

    # --- requests ---

    async def _join(self, coordinator: Address) -> int:
        """Join, and take the assignment; return the generation."""
        subscription = SUBSCRIPTION.encode(ConsumerProtocolSubscription(topics=[self._topic]), 1)
        request = JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self._member_id,
            group_instance_id=self._instance_id,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=PROTOCOL, metadata=subscription)],
        )
        joined = await self.ask(coordinator, ApiKey.JOIN_GROUP, JOIN_VERSION, request)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:  # KIP-394
            self._member_id = request.member_id = joined.member_id
            joined = await self.ask(coordinator, ApiKey.JOIN_GROUP, JOIN_VERSION, request)
        self._check(joined.error_code)
        self._member_id = joined.member_id
        sync = SyncGroupRequest(
            group_id=self._group,
            generation_id=joined.generation_id,
            member_id=self._member_id,
            group_instance_id=self._instance_id,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol_name=PROTOCOL,
            assignments=self._assigned(joined),
        )
        synced = await self.ask(coordinator, ApiKey.SYNC_GROUP, SYNC_VERSION, sync)
        if synced.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            return await self._join(coordinator)
        self._check(synced.error_code)
        own = ASSIGNMENT.decode(synced.assignment).assigned_partitions
        self.facts["partitions"] = sum(len(each.partitions) for each in own)
        self.facts["generation"] = joined.generation_id
        self.facts["joins"] = int(self.facts["joins"]) + 1
        return int(joined.generation_id)

    def _assigned(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        """Return what the leader of the group assigns to its members; nothing from the others."""
        ids = sorted(each.member_id for each in joined.members)
        made = []
        for nth, member_id in enumerate(ids):
            own = list(range(nth, self._partitions, len(ids)))
            assignment = ConsumerProtocolAssignment(
                assigned_partitions=[TopicPartitions(topic=self._topic, partitions=own)]
            )
            made.append(SyncGroupRequestAssignment(member_id=member_id, assignment=ASSIGNMENT.encode(assignment, 1)))
        return made

    async def _beat(self, coordinator: Address, generation: int) -> None:
        """Send heartbeats until the group rebalances."""
        request = HeartbeatRequest(
            group_id=self._group,
            generation_id=generation,
            member_id=self._member_id,
            group_instance_id=self._instance_id,
        )
        while True:
            await self.sleep(HEARTBEAT_MS)
            if self._is_silent:
                continue
            if not self._member_id:
                raise Refused("it was restarted")
            answer = await self.ask(coordinator, ApiKey.HEARTBEAT, HEARTBEAT_VERSION, request)
            if answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
                return
            self._check(answer.error_code)

    def _check(self, code: int) -> None:
        """Begin anew after an error, as another member if the group has forgotten this one."""
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self._member_id = ""
        check(code)
