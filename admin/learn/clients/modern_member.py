"""A member of a consumer group whose partitions the coordinator assigns (KIP-848)."""

from __future__ import annotations

import uuid
from typing import Final

from purgatorio.admin.learn.clients.client import Client, Stage
from purgatorio.client.client import Coordinator
from purgatorio.client.group import JOINS, LOST, GroupMembership, Key, assigned, consumer_heartbeat
from purgatorio.protocol.errors import ErrorCode

HEARTBEAT_MS: Final = 100
REBALANCE_MS: Final = 60 * 60_000
"""A member that is slow to give up partitions is not thrown out while a reader looks at it."""


class ModernMember(Client):
    """Sends heartbeats, and owns what their answers assign to it; it reads nothing.

    Args:
        is_slow: whether it keeps partitions that it has to give up, as a member that is busy with their records.

    Facts: `epoch`; `partitions`, how many it owns.
    """

    def __init__(self, stage: Stage, name: str, *, group: str, topic: str, is_slow: bool = False) -> None:
        super().__init__(stage, name)
        self._topic = topic
        self._is_slow = is_slow
        self._me = GroupMembership(group, member_id=str(uuid.uuid5(uuid.NAMESPACE_OID, f"{group}/{name}")))
        self._owned: list[Key] = []
        self.facts.update(epoch=0, partitions=0)

    async def give_up(self) -> None:
        """Give up what it has to, from now on."""
        self._is_slow = False

    async def live(self) -> None:
        coordinator = Coordinator(self, self._me.group)
        epoch, owned = JOINS, list[Key]()
        target = self._owned = []
        while True:
            request = consumer_heartbeat(
                self._me, epoch, owned, topics=[self._topic], rebalance_timeout_ms=REBALANCE_MS
            )
            answer = await coordinator.ask(request)
            if answer.error_code in LOST:
                epoch, target, owned = JOINS, [], []
                continue
            if answer.error_code == ErrorCode.NONE:
                epoch = answer.member_epoch
                to_own = assigned(answer)
                target = target if to_own is None else to_own
            # A slow one owns what it had as well.
            owned = self._owned = sorted({*(self._owned if self._is_slow else ()), *target})
            self.facts["partitions"] = len(owned)
            self.facts["epoch"] = epoch
            await self.sleep(HEARTBEAT_MS)
