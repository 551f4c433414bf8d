"""Consumer groups as a test reads them, in the cluster's own event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Final

from purgatorio.admin.cluster import Cluster
from purgatorio.admin.operations.control.group_control import GroupControl
from purgatorio.broker.cluster.decisions import when_led
from purgatorio.broker.cluster.errors import OperationRefused
from purgatorio.broker.group.overview import MemberOverview, members, overview
from purgatorio.testing.values import Group
from purgatorio.testing.waiting import first

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
        return await until_so(lambda: self.find(group_id), state, count)

    def client_ids(self, group_id: str) -> set[str]:
        """Return the client ids of a group's members."""
        control = GroupControl(self._cluster, lambda: self._cluster.store.image)
        return {
            each.client_id
            for broker, shard in control.shards()
            for each in members(shard.groups.get(group_id), broker.groups.image, MAX_MEMBERS)
        }


async def until_so(find: Callable[[], Awaitable[Group | None]], state: str | None, count: int | None) -> Group:
    """Wait until a group has that state and that many members; raises as `GroupControls.until`."""
    wanted = None if state is None else _state_named(state)

    def is_so(group: Group | None) -> bool:
        return group is not None and wanted in (None, group.state) and count in (None, len(group.members))

    found = await first(find, is_so)
    assert found is not None
    return found


def watches(group_id: str, keys: Sequence[Hashable]) -> bool:
    """Return whether an operation's keys name a group."""
    return any(getattr(key, "group_id", None) == group_id for key in keys)


def _ids(found: Sequence[MemberOverview]) -> tuple[str, ...]:
    return tuple(each.member_id for each in found)


def _state_named(state: str) -> str:
    """Return the state's name as Kafka writes it.

    Raises:
        ValueError: there is none of that name.
    """
    by_name = {each.lower(): each for each in STATES}
    wanted = by_name.get(state.lower().replace("_", "").replace(" ", ""))
    if wanted is None:
        raise ValueError(f"no group has the state {state!r}, only {', '.join(STATES)}")
    return wanted
