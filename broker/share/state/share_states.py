"""All that one broker does as a share coordinator, put together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.broker.routing.listings import in_turns
from purgatorio.broker.share.state.coordinator import ShareCoordinator
from purgatorio.broker.share.state.services import ShareStateServices
from purgatorio.broker.share.state.upkeep import StateUpkeep


class ShareStates:
    """The share coordinator of one broker.

    Attributes:
        coordinator: the share partitions that this broker coordinates.
        upkeep: its periodic work.
    """

    def __init__(self, services: ShareStateServices, replicas: ReplicaManager) -> None:
        self.config = services.config
        self._clock = services.clock
        self._has_work = asyncio.Event()
        self.coordinator = ShareCoordinator(services, replicas, wake=self._has_work.set)
        self.upkeep = StateUpkeep(services, replicas, self.coordinator)

    # --- for observers ---

    @property
    def partition_count(self) -> int:
        """The share partitions that this broker coordinates."""
        return sum(len(shard.states) for shard in self.coordinator.shards)

    async def run(self) -> None:
        """Load, unload, snapshot and prune in turns of the loop."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(in_turns(self._has_work, self.coordinator.steps))
            tasks.create_task(self._repeat(self.config.snapshot_interval_ms, self.upkeep.snapshot_steps))
            tasks.create_task(self._repeat(self.config.prune_interval_ms, self.upkeep.prune_steps))

    async def _repeat(self, interval_ms: int, steps: Callable[[], Iterator[None]]) -> None:
        while True:
            await self._clock.sleep(interval_ms)
            for _ in steps():
                await asyncio.sleep(0)
