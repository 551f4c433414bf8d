"""Simulated members of consumer groups: of classic ones, which rebalance eagerly, and of the new protocol (KIP-848)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.client.client import FAILURES, Refused
from purgatorio.client.group import (
    JOINS,
    LEAVES,
    LEAVES_FOR_A_WHILE,
    LOST,
    NOT_MEMBER,
    ClassicProtocol,
    assigned,
    consumer_heartbeat,
    heartbeat,
    leave,
)
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from purgatorio.simulation.clients.clients import REQUEST_TIMEOUT_MS
from purgatorio.simulation.clients.group_members import GroupMember
from purgatorio.simulation.clients.plans import REBALANCE_TIMEOUT_MS, SESSION_TIMEOUT_MS
from purgatorio.simulation.history.history import GroupBeat

ASSIGNOR: Final = "rotate"


class ClassicMember(GroupMember):
    """A member by JoinGroup, SyncGroup and Heartbeat; it gives up all partitions when the group rebalances."""

    NAMES_ITSELF = False

    async def _join(self) -> None:
        topics = tuple(sorted(self._shared.topic_ids))
        protocol = ClassicProtocol(topics, self._share, SESSION_TIMEOUT_MS, REBALANCE_TIMEOUT_MS, ASSIGNOR)
        ask = partial(self._coordinator.ask, timeout_ms=REBALANCE_TIMEOUT_MS + REQUEST_TIMEOUT_MS)
        code, own = await protocol.join(ask, self._me)
        if not self._is_refused(code):
            partitions = [TopicPartition(*tp) for tp in own]
            self._told(partitions)
            self._take_over(partitions)

    def _share(self, members: Sequence[str], generation: int) -> dict[str, list[TopicPartition]]:
        """Share the partitions among the members, in each generation differently."""
        shares: dict[str, list[TopicPartition]] = {member_id: [] for member_id in members}
        for nth, tp in enumerate(self._shared.partitions):
            shares[members[(nth + generation) % len(members)]].append(tp)
        return shares

    async def _beat(self) -> None:
        if self._me.generation <= 0:
            return
        generation, asked_ms = self._me.generation, self._client.clock.now_ms()
        code = await heartbeat(self._coordinator.ask, self._me)
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            await self._commit()
        if self._is_refused(code):
            return
        if self._shared.plan.protocol == "mixed":
            return  # its generation is its own member epoch: others may be ahead
        self._client.record(GroupBeat, self._shared.plan.group_id, self._client.name, generation, asked_ms)

    def _is_refused(self, code: ErrorCode) -> bool:
        """Return whether a request was refused; the member then gives up all partitions, and joins again.

        Raises:
            Refused: the broker does not coordinate the group now; the member keeps its partitions.
        """
        if code is ErrorCode.NONE:
            return False
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self._give_up(self.owned)
            self._me.member_id = ""
        elif code in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION):
            self._give_up(self.owned)
        else:
            raise Refused(code)
        self._me.generation = NOT_MEMBER
        return True

    async def _go(self) -> None:
        """Leave; a static member forgets its member id instead, as if it was restarted."""
        leaving, self._me.member_id = replace(self._me), ""
        self._give_up(self.owned)
        self._me.generation = NOT_MEMBER
        if leaving.member_id and not (leaving.instance_id is not None and self._shared.is_restless()):
            await leave(self._coordinator.ask, leaving)


class ConsumerMember(GroupMember):
    """A member by ConsumerGroupHeartbeat; it keeps its partitions until the coordinator asks for them."""

    NAMES_ITSELF = True

    def _keys(self, owned: Iterable[TopicPartition]) -> list[tuple[bytes, int]]:
        return [(self._shared.topic_ids[tp.topic], tp.partition) for tp in sorted(owned)]

    async def _join(self) -> None:
        if not self._me.member_id:
            self._me.member_id = f"{self._client.name}-{self._rng.getrandbits(32):08x}"
        await self._heartbeat(self._full(JOINS, []))

    def _full(self, epoch: int, owned: Iterable[TopicPartition]) -> ConsumerGroupHeartbeatRequest:
        topics = sorted(self._shared.topic_ids)
        return consumer_heartbeat(
            self._me, epoch, self._keys(owned), topics=topics, rebalance_timeout_ms=REBALANCE_TIMEOUT_MS
        )

    async def _beat(self) -> None:
        try:
            await self._heartbeat(consumer_heartbeat(self._me, self._me.generation, self._keys(self.owned)))
        except FAILURES:
            # The coordinator may have moved the member on: a full heartbeat brings the assignment again.
            await self._lost_coordinator()
            await self._heartbeat(self._full(self._me.generation, self.owned))

    async def _heartbeat(self, request: ConsumerGroupHeartbeatRequest) -> None:
        answer = await self._coordinator.ask(request)
        code = ErrorCode(answer.error_code)
        if code in LOST:
            self._give_up(self.owned)
            self._me.generation = NOT_MEMBER
        elif code is not ErrorCode.NONE:
            raise Refused(code)
        else:
            await self._follow(answer)

    async def _follow(self, answer: Any) -> None:
        """Take the epoch and the assignment of an answer; partitions are committed before they are given up."""
        is_new = answer.member_epoch != self._me.generation
        self._me.generation = answer.member_epoch
        partitions = self.owned
        own = assigned(answer)
        if own is not None:
            names = {topic_id: name for name, topic_id in self._shared.topic_ids.items()}
            partitions = [TopicPartition(names[topic_id], index) for topic_id, index in own]
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
        for_a_while = self._me.instance_id is not None and self._shared.is_restless()
        request = consumer_heartbeat(self._me, LEAVES_FOR_A_WHILE if for_a_while else LEAVES, None)
        is_member = self._me.member_id and self._me.generation > 0
        self._give_up(self.owned)
        self._me.member_id, self._me.generation = "", NOT_MEMBER
        if is_member:
            await self._coordinator.ask(request)
