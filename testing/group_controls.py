"""What a test sees of consumer groups, in the cluster's own event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Sequence
from typing import Final

from purgatorio.admin.cluster import Cluster
from purgatorio.admin.operations.control.group_control import GroupControl
from purgatorio.broker.cluster.decisions import when_led
from purgatorio.broker.cluster.errors import OperationRefused
from purgatorio.broker.group.overview import MemberOverview, members, overview
from purgatorio.testing.values import Group

POLL_SECONDS: Final = 0.001
"""The time between two looks at a group."""
MAX_MEMBERS: Final = 10_000
STATES: Final = ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Assigning", "Reconciling", "Dead")
"""The states of groups, as Kafka names them; Assigning and Reconciling are those of the consumer protocol (KIP-848)."""


class GroupControls:
    """Reads the groups of a running cluster from their coordinators.

    Args:
        cluster: the cluster.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def find(self, group_id: str) -> Group | None:
        """Return a group; None if it does not exist, or has no coordinator."""

        async def found() -> Group | None:
            return self._found(group_id)

        try:
            return await when_led(found)
        except OperationRefused:
            return None

    def _found(self, group_id: str) -> Group | None:
        """Return a group; None if it does not exist.

        Raises:
            OperationRefused: as `GroupControl.find`.
        """
        broker, shard = GroupControl(self._cluster, lambda: self._cluster.store.image).find(group_id)
        view = overview(broker.groups, shard, group_id)
        if view is None:
            return None
        found = members(shard.groups.get(group_id), broker.groups.image, MAX_MEMBERS)
        return Group(group_id, view.state, broker.broker_id, view.epoch, _ids(found), view.waits_for)

    async def until(self, group_id: str, state: str | None, count: int | None) -> Group:
        """Wait until a group has that state and that many members; return it.

        Raises:
            ValueError: no group ever has such a state.
        """
        wanted = None if state is None else state_named(state)
        while True:
            found = await self.find(group_id)
            if found is not None and wanted in (None, found.state) and count in (None, len(found.members)):
                return found
            await asyncio.sleep(POLL_SECONDS)

    def client_ids(self, group_id: str) -> set[str]:
        """Return the client ids of a group's members."""
        control = GroupControl(self._cluster, lambda: self._cluster.store.image)
        return {
            each.client_id
            for broker, shard in control.shards()
            for each in members(shard.groups.get(group_id), broker.groups.image, MAX_MEMBERS)
        }


def watches(group_id: str, keys: Sequence[Hashable]) -> bool:
    """Return whether an operation's keys name a group."""
    return any(getattr(key, "group_id", None) == group_id for key in keys)


def _ids(found: Sequence[MemberOverview]) -> tuple[str, ...]:
    return tuple(each.member_id for each in found)


def state_named(state: str) -> str:
    """Return the state's name as Kafka writes it.

    Raises:
        ValueError: there is none of that name.
    """
    by_name = {each.lower(): each for each in STATES}
    wanted = by_name.get(state.lower().replace("_", "").replace(" ", ""))
    if wanted is None:
        raise ValueError(f"no group has the state {state!r}, only {', '.join(STATES)}")
    return wanted
