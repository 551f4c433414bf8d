"""The simulated members of share groups: heartbeats, and a share session with each leader (KIP-932); they settle in the
end.

A member does what members do in bad times: it leaves and comes back, or is silent for longer than its session.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections.abc import Callable, Coroutine
from typing import Any, Final

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.share.share_partition import SharePartitionState
from purgatorio.client.client import FAILURES, Coordinator, Refused
from purgatorio.client.group import JOINS, LEAVES, LOST, Key, assigned
from purgatorio.client.share import share_heartbeat
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.share_state import SharePartitionKey
from purgatorio.simulation.clients.clients import Client, ClientSlot
from purgatorio.simulation.clients.plans import SESSION_TIMEOUT_MS, ShareGroupShared
from purgatorio.simulation.clients.share_sessions import ShareSessionClient
from purgatorio.simulation.world.cluster import SimulatedCluster

BEAT_PAUSE_MS: Final = (150, 450)
LOOK_SECONDS: Final = 0.05


class SimulatedShareMember:
    """One member; `client` has its connections to brokers and the coordinator, and its sessions have others."""

    def __init__(self, client: Client, shared: ShareGroupShared) -> None:
        self._client = client
        self._shared = shared
        self._rng = random.Random(client.rng.random())
        self._member_id = client.name
        self._coordinator = Coordinator(client, shared.plan.group_id, timeout_ms=SESSION_TIMEOUT_MS)
        self._epoch = JOINS
        self._assigned: dict[Key, None] = {}
        self._leaders: dict[Key, int] = {}
        self._sessions: dict[int, asyncio.Task[None]] = {}

    async def run(self, stopped: Callable[[], bool]) -> None:
        """Be a member until `stopped`, then leave."""
        try:
            while not stopped():
                try:
                    await self._beat()
                    await self._fetch_from_leaders()
                    await asyncio.sleep(self._rng.uniform(*BEAT_PAUSE_MS) / 1000)
                    if self._shared.is_restless():
                        await self._follow_a_whim()
                except FAILURES:
                    self._coordinator.forget()
                    await self._client.back_off()
            await self._leave()
        finally:
            for task in self._sessions.values():
                task.cancel()
            self._client.close()

    async def _follow_a_whim(self) -> None:
        chance = self._rng.random()
        if chance < 0.02:
            await asyncio.sleep(1.5 * SESSION_TIMEOUT_MS / 1000)
        elif chance < 0.04:
            await self._leave()
            await asyncio.sleep(self._rng.uniform(0.0, 1.0))

    # --- membership ---

    async def _beat(self) -> None:
        names = None
        if self._epoch == JOINS:
            names = sorted({tp.topic for tp in self._shared.partitions.values()})
        answer = await self._heartbeat(self._epoch, names)
        code = ErrorCode(answer.error_code)
        if code in LOST:
            self._epoch = JOINS
            self._assigned.clear()
        elif code is not ErrorCode.NONE:
            raise Refused(code)
        else:
            self._epoch = answer.member_epoch
            own = assigned(answer)
            if own is not None:
                self._assigned = dict.fromkeys(own)

    async def _heartbeat(self, epoch: int, names: list[str] | None = None) -> Any:
        return await self._coordinator.ask(share_heartbeat(self._shared.plan.group_id, self._member_id, epoch, names))

    async def _leave(self) -> None:
        """Fetch no more, which ends all sessions, and leave the group at the coordinator."""
        self._assigned.clear()
        if self._sessions:
            await asyncio.wait(self._sessions.values())
        with contextlib.suppress(*FAILURES):
            await self._heartbeat(LEAVES)
        self._epoch = JOINS

    # --- sessions ---

    async def _fetch_from_leaders(self) -> None:
        """Have a session with each leader of an assigned partition."""
        for broker_id, task in list(self._sessions.items()):
            if task.done():
                del self._sessions[broker_id]
                self._leaders = {key: leader for key, leader in self._leaders.items() if leader != broker_id}
        for key in list(self._assigned):
            if key not in self._leaders:
                leader = await self._client.leader(self._shared.partitions[key])
                self._leaders[key] = leader.broker_id
        for broker_id in dict.fromkeys(self._leaders[key] for key in self._assigned if key in self._leaders):
            if broker_id not in self._sessions:
                self._sessions[broker_id] = self._open_session(broker_id)

    def _open_session(self, broker_id: int) -> asyncio.Task[None]:
        client = self._shared.new_client(self._member_id)
        client.addresses.update(self._client.addresses)
        session = ShareSessionClient(
            client,
            self._shared,
            self._member_id,
            broker_id,
            lambda: [key for key in self._assigned if self._leaders.get(key) == broker_id],
            random.Random(self._rng.random()),
        )
        # Its context is that of this task: the session belongs to this member's node.
        return asyncio.get_running_loop().create_task(
            session.run(), name=f"{self._member_id} fetches from broker {broker_id}"
        )


class ShareGroupClients:
    """The members of a share group, each as its own node."""

    def __init__(self, cluster: SimulatedCluster, shared: ShareGroupShared, *, first: int) -> None:
        self._cluster = cluster
        self._shared = shared
        self._is_over = False
        numbers = itertools.count(first)
        self.places = [ClientSlot(f"client-{next(numbers)}", self._live) for _ in range(shared.plan.members)]

    def _live(self, place: ClientSlot) -> Coroutine[Any, Any, None]:
        member = SimulatedShareMember(self._shared.new_client(place.next_name()), self._shared)
        return member.run(lambda: self._is_over)

    def unsettled(self) -> str | None:
        """Return a partition of which not all records are acknowledged or archived, or None."""
        for key, tp in self._shared.partitions.items():
            start_offset, end_offset = self._offsets(key, tp)
            if start_offset < end_offset or start_offset < 0:
                return f"{self._shared.plan.group_id} is at {start_offset} of {tp}, which ends at {end_offset}"
        return None

    def _offsets(self, key: Key, tp: TopicPartition) -> tuple[int, int]:
        """Return the start offset of a share partition at its leader, -1 if it is not known, and where it is to end."""
        state = self._cluster.partitions[tp.topic, tp.partition]
        broker = self._cluster.brokers.get(state.leader)
        replica = None if broker is None else broker.replicas.partitions.get(tp)
        if broker is None or replica is None:
            return -1, 0
        share = broker.led_shares.partitions.known(SharePartitionKey(self._shared.plan.group_id, *key))
        if share is None or share.state is not SharePartitionState.ACTIVE:
            return -1, replica.log.log_end_offset
        return share.start_offset, replica.log.log_end_offset

    def _consumed(self) -> int:
        return sum(max(0, self._offsets(key, tp)[0]) for key, tp in self._shared.partitions.items())

    async def settle(self, heal_seconds: float) -> tuple[str, str] | None:
        """Wait until all records are acknowledged or archived; return what is wrong if nothing moves for so long."""
        now_seconds = asyncio.get_running_loop().time
        furthest, ends_at = self._consumed(), now_seconds() + heal_seconds
        while (missing := self.unsettled()) is not None:
            consumed = self._consumed()
            if consumed > furthest:
                furthest, ends_at = consumed, now_seconds() + heal_seconds
            if now_seconds() >= ends_at:
                return "not-converged", f"{heal_seconds:g} s after the faults had healed, or it moved: {missing}"
            await asyncio.sleep(LOOK_SECONDS)
        return None

    async def stop(self) -> None:
        """Let the members leave."""
        self._is_over = True
        await asyncio.gather(*(task for place in self.places for task in place.tasks))
