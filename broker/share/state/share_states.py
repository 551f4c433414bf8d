"""All that one broker does as a share coordinator, put together."""

from __future__ import annotations

import asyncio

from purgatorio.broker.replica.replica_manager import ReplicaManager
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
        self._work = services.work
        self.coordinator = ShareCoordinator(services, replicas)
        self.upkeep = StateUpkeep(services, replicas, self.coordinator)

    # --- for observers ---

    @property
    def partition_count(self) -> int:
        """The share partitions that this broker coordinates."""
        return sum(len(shard.states) for shard in self.coordinator.shards)

    async def run(self) -> None:
        """Renew snapshots and delete old records from time to time."""
        work, clock, config = self._work, self._clock, self.config
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(work.repeat(clock, config.snapshot_interval_ms, self.upkeep.snapshot_steps))
            tasks.create_task(work.repeat(clock, config.prune_interval_ms, self.upkeep.prune_steps))
