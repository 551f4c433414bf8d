"""A member of a consumer group of the classic protocol, static or not, that may fall silent."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from purgatorio.admin.learn.clients.client import Client, Stage
from purgatorio.client.client import Coordinator, Partition, Unavailable, check
from purgatorio.client.group import ClassicProtocol, GroupMembership, heartbeat
from purgatorio.protocol.errors import ErrorCode

HEARTBEAT_MS: Final = 100
SESSION_MS: Final = 30 * 60_000
"""The longest that brokers allow: a silent member holds up its group for as long as a reader looks at it."""
REBALANCE_MS: Final = 60 * 60_000


class MemberClient(Client):
    """Joins, takes what it is assigned, and sends heartbeats; it reads nothing.

    Args:
        partitions: how many the topic has; the leader of the group assigns them.
        instance_id: makes it a static member (KIP-345).

    Attributes:
        group: its group.

    Facts: `generation`, `members`, how many this member's generation has, as far as it knows; `partitions`, how many it
    owns; `joins`, how often it has joined.
    """

    def __init__(
        self, stage: Stage, name: str, *, group: str, topic: str, partitions: int, instance_id: str | None = None
    ) -> None:
        super().__init__(stage, name)
        self.group = group
        self._me = GroupMembership(group, instance_id=instance_id)
        assign = partial(_round_robin, topic, partitions)
        self._protocol = ClassicProtocol((topic,), assign, SESSION_MS, REBALANCE_MS)
        self._is_silent = False
        self.facts.update(generation=0, partitions=0, joins=0)

    @property
    def member_id(self) -> str:
        """The id that the coordinator knows it by; "" before it joins."""
        return self._me.member_id

    async def live(self) -> None:
        coordinator = Coordinator(self, self._me.group)
        while True:
            await self._join(coordinator)
            await self._beat(coordinator)

    # --- commands of steps ---

    async def fall_silent(self) -> None:
        """Send nothing any more, and leave the connection open: a process that stands still."""
        self._is_silent = True

    async def restart(self) -> None:
        """End without leaving the group, and begin anew, as a process that is deployed again."""
        self._me.member_id = ""
        self.forget()

    # --- requests ---

    async def _join(self, coordinator: Coordinator) -> None:
        """Join, and take the assignment."""
        code = ErrorCode.REBALANCE_IN_PROGRESS
        while code is ErrorCode.REBALANCE_IN_PROGRESS:
            code, own = await self._protocol.join(coordinator.ask, self._me)
        self._check(code)
        self.facts["partitions"] = len(own)
        self.facts["generation"] = self._me.generation
        self.facts["joins"] = int(self.facts["joins"]) + 1

    async def _beat(self, coordinator: Coordinator) -> None:
        """Send heartbeats until the group rebalances."""
        code = ErrorCode.NONE
        while code is not ErrorCode.REBALANCE_IN_PROGRESS:
            await self.sleep(HEARTBEAT_MS)
            if self._is_silent:
                continue
            if not self._me.member_id:
                raise Unavailable("it was restarted")
            code = await heartbeat(coordinator.ask, self._me)
            if code is not ErrorCode.REBALANCE_IN_PROGRESS:
                self._check(code)

    def _check(self, code: int) -> None:
        """Begin anew after an error, as another member if the group has forgotten this one."""
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self._me.member_id = ""
        check(code)


def _round_robin(topic: str, partitions: int, members: Sequence[str], generation: int) -> dict[str, list[Partition]]:
    return {
        member_id: [(topic, index) for index in range(nth, partitions, len(members))]
        for nth, member_id in enumerate(members)
    }
