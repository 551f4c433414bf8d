"""All that one broker does for groups, put together."""

from __future__ import annotations

import asyncio

from purgatorio.broker.group.coordinator import GroupCoordinator
from purgatorio.broker.group.services import GroupServices
from purgatorio.broker.replica.replica_manager import ReplicaManager


class Groups:
    """The group coordinator of one broker.

    Args:
        services: the log, the clock, the purgatories.
        replicas: this broker's replicas.

    Attributes:
        config: the coordinator's settings.
        coordinator: the groups that this broker coordinates.
    """

    def __init__(self, services: GroupServices, replicas: ReplicaManager) -> None:
        self.config = services.config
        self._has_work = asyncio.Event()
        self.coordinator = GroupCoordinator(services, replicas, replays={}, lifecycles={}, wake=self._has_work.set)

    async def run(self) -> None:
        """Load and unload groups in turns of the loop when this broker gains or loses their partitions."""
        while True:
            await self._has_work.wait()
            self._has_work.clear()
            for _ in self.coordinator.steps():
                await asyncio.sleep(0)
