"""The clients of a simulation's consumer groups: they are started, killed, and settle in the end."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any, Final

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.simulation.clients.clients import REQUEST_TIMEOUT_MS, ClientSlot
from purgatorio.simulation.clients.group_members import GroupMember, OffsetObserver
from purgatorio.simulation.clients.plans import (
    REBALANCE_TIMEOUT_MS,
    SESSION_TIMEOUT_MS,
    GroupShared,
)
from purgatorio.simulation.clients.protocol_members import ClassicMember, ConsumerMember
from purgatorio.simulation.world.cluster import SimulatedCluster

STABLE_SECONDS: Final = (SESSION_TIMEOUT_MS + REBALANCE_TIMEOUT_MS + 2 * REQUEST_TIMEOUT_MS) / 1000
"""The time in which a group has to become stable after all faults: the session of a member that is gone, a rebalance,
and before that a request without an answer, and one that finds the coordinator."""
LOOK_SECONDS: Final = 0.05


class GroupClients:
    """The members and the observer of each group, each as its own node."""

    def __init__(self, cluster: SimulatedCluster, groups: Sequence[GroupShared], *, first: int) -> None:
        self._cluster = cluster
        self._is_over = {"members": False, "observers": False}
        self._current: dict[str, tuple[GroupShared, GroupMember]] = {}  # by place
        self._observers: list[ClientSlot] = []
        self.places: dict[str, ClientSlot] = {}
        names = (f"client-{number}" for number in itertools.count(first))
        for shared in groups:
            for nth in range(shared.plan.members):
                self._add(ClientSlot(next(names), partial(self._member, shared, nth)))
            self._observers.append(self._add(ClientSlot(next(names), partial(self._observer, shared))))

    def _add(self, place: ClientSlot) -> ClientSlot:
        self.places[place.name] = place
        return place

    def _member(self, shared: GroupShared, nth: int, place: ClientSlot) -> Coroutine[Any, Any, None]:
        plan, name = shared.plan, f"{shared.plan.group_id}-{nth}"
        is_classic = plan.protocol == "classic" or (plan.protocol == "mixed" and nth % 2 == 0)
        kind: type[GroupMember] = ClassicMember if is_classic else ConsumerMember
        member = kind(shared.new_client(place.next_name()), shared, name if plan.static else None, name)
        self._current[place.name] = shared, member
        return member.run(lambda: self._is_over["members"])

    def _observer(self, shared: GroupShared, place: ClientSlot) -> Coroutine[Any, Any, None]:
        observer = OffsetObserver(shared.new_client(place.next_name()), shared)
        return observer.run(lambda: self._is_over["observers"])

    def _members(self) -> dict[str, tuple[GroupShared, list[GroupMember]]]:
        groups: dict[str, tuple[GroupShared, list[GroupMember]]] = {}
        for shared, member in self._current.values():
            groups.setdefault(shared.plan.group_id, (shared, []))[1].append(member)
        return groups

    def unstable(self) -> str | None:
        """Return why a group is not stable: its members have to own all partitions exactly once. Or None."""
        for group_id, (shared, members) in self._members().items():
            owned = sorted(tp for member in members for tp in member.owned)
            if owned != sorted(shared.partitions) or any(member.generation <= 0 for member in members):
                generations = [member.generation for member in members]
                return f"members of {group_id}, in generations {generations}, own {[str(tp) for tp in owned]}"
        return None

    def unread(self) -> str | None:
        """Return which group is not stable (again) or has not read everything, or None."""
        unstable = self.unstable()
        if unstable is not None:
            return unstable
        for group_id, (shared, members) in self._members().items():
            end_offsets = {tp: self._end_offset(tp) for tp in shared.partitions}
            if not all(member.has_read_to(end_offsets) for member in members):
                return f"the members of {group_id} have not read everything"
        return None

    def committed(self) -> int:
        """How far the members have come; more while they go on, less when one begins again."""
        return sum(member.committed for _, members in self._members().values() for member in members)

    async def settle(self, heal_seconds: float) -> tuple[str, str] | None:
        """Wait until each group is stable, and then until it has read everything; return what is wrong.

        How much there is to read, and how fast, the seed decides: it may take longer than `heal_seconds`, but no member
        stands still for so long.
        """
        now_seconds = asyncio.get_running_loop().time
        ends_at = now_seconds() + STABLE_SECONDS
        while (missing := self.unstable()) is not None:
            if now_seconds() >= ends_at:
                return "unstable-group", f"{STABLE_SECONDS:g} s after the faults had healed: {missing}"
            await asyncio.sleep(LOOK_SECONDS)
        furthest, ends_at = self.committed(), now_seconds() + heal_seconds
        while (missing := self.unread()) is not None:
            committed = self.committed()
            if committed > furthest:
                furthest, ends_at = committed, now_seconds() + heal_seconds
            if now_seconds() >= ends_at:
                return "not-converged", f"{heal_seconds:g} s after the faults had healed, or the last commit: {missing}"
            await asyncio.sleep(LOOK_SECONDS)
        return None

    def _end_offset(self, tp: TopicPartition) -> float:
        """Return the end of a partition's log; infinite while its leader does not take all of it for committed."""
        state = self._cluster.partitions[tp.topic, tp.partition]
        broker = self._cluster.brokers.get(state.leader)
        partition = None if broker is None else broker.replicas.partitions.get(tp)
        is_known = partition is not None and partition.high_watermark == partition.log.log_end_offset
        return partition.high_watermark if partition is not None and is_known else math.inf

    async def stop(self) -> None:
        """Let the members leave, then the observers read once more."""
        for kind in self._is_over:
            self._is_over[kind] = True
            places = [each for each in self.places.values() if (each in self._observers) is (kind == "observers")]
            await asyncio.gather(*(task for place in places for task in place.tasks))
