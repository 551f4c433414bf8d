"""The clients of a simulation's consumer groups: they are started, killed, and settle in the end."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.simulation.clients.clients import REQUEST_TIMEOUT_MS
from purgatorio.simulation.clients.group_members import GroupMember, OffsetObserver
from purgatorio.simulation.clients.plans import (
    REBALANCE_TIMEOUT_MS,
    SESSION_TIMEOUT_MS,
    GroupPlan,
    Surroundings,
)
from purgatorio.simulation.clients.protocol_members import ClassicMember, ConsumerMember
from purgatorio.simulation.world.cluster import SimulatedCluster

STABLE_SECONDS: Final = (SESSION_TIMEOUT_MS + REBALANCE_TIMEOUT_MS + 2 * REQUEST_TIMEOUT_MS) / 1000
"""The time in which a group has to become stable after all faults: the session of a member that is gone, a rebalance,
and before that a request without an answer, and one that finds the coordinator."""
LOOK_SECONDS: Final = 0.05


@dataclass(slots=True)
class _Place:
    """One client: a member of a kind, which others may follow after crashes, or else the observer of a group."""

    shared: Surroundings
    kind: type[GroupMember] | None = None
    instance_id: str | None = None
    transactional_id: str = ""
    incarnations: int = 0
    member: GroupMember | None = None
    task: asyncio.Task[None] | None = None


def _kind(plan: GroupPlan, nth: int) -> type[GroupMember]:
    is_classic = plan.protocol == "classic" or (plan.protocol == "mixed" and nth % 2 == 0)
    return ClassicMember if is_classic else ConsumerMember


class GroupClients:
    """The members and the observer of each group, each as its own node.

    Args:
        first: the number of the first client; the nodes are named ``client-7`` and so on.
    """

    def __init__(self, cluster: SimulatedCluster, groups: Sequence[Surroundings], *, first: int) -> None:
        self._cluster = cluster
        self._stopped = {False: False, True: False}  # the members, the observers
        names = (f"client-{number}" for number in itertools.count(first))
        self._places: dict[str, _Place] = {}
        for shared in groups:
            for nth in range(shared.plan.members):
                instance_id = f"{shared.plan.group_id}-{nth}" if shared.plan.static else None
                transactional_id = f"{shared.plan.group_id}-{nth}"
                self._places[next(names)] = _Place(shared, _kind(shared.plan, nth), instance_id, transactional_id)
            self._places[next(names)] = _Place(shared)

    @property
    def names(self) -> list[str]:
        """The names of the clients' nodes."""
        return list(self._places)

    def start(self, name: str) -> None:
        """Start a client; if it was killed, the next one in its place."""
        place = self._places[name]
        place.incarnations += 1
        shared = place.shared
        client = shared.new_client(name if place.incarnations == 1 else f"{name}.{place.incarnations}")
        if place.kind is None:
            worker: GroupMember | OffsetObserver = OffsetObserver(client, shared)
        else:
            worker = place.member = place.kind(client, shared, place.instance_id, place.transactional_id)
        place.task = self._cluster.loop.node(name).spawn(
            worker.run(lambda: self._stopped[place.kind is None]), name=name
        )

    def _members(self) -> dict[str, tuple[Surroundings, list[GroupMember]]]:
        groups: dict[str, tuple[Surroundings, list[GroupMember]]] = {}
        for place in self._places.values():
            if place.member is not None:
                groups.setdefault(place.shared.plan.group_id, (place.shared, []))[1].append(place.member)
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
        """Wait until each group is stable, and then until it has read everything.

        How much there is to read, and how fast, the seed decides: it may take longer than `heal_seconds`, but no member
        stands still for so long.

        Returns:
            The name of the anomaly, and what is missing; None if all is well.
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
        for are_observers in (False, True):
            self._stopped[are_observers] = True
            places = [place for place in self._places.values() if (place.kind is None) is are_observers]
            await asyncio.gather(*(place.task for place in places if place.task is not None))
