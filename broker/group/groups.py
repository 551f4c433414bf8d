"""All that one broker does for groups, put together."""

from __future__ import annotations

import asyncio

from purgatorio.broker.group.coordinator import GroupCoordinator
from purgatorio.broker.group.loading import Replay
from purgatorio.broker.group.offset_manager import OffsetManager
from purgatorio.broker.group.services import GroupServices
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.protocol.consumer_offsets import OffsetCommitKey


class Groups:
    """The group coordinator of one broker.

    Args:
        services: the log, the clock, the purgatories.
        replicas: this broker's replicas.

    Attributes:
        config: the coordinator's settings.
        clock: the wall time of commits.
        coordinator: the groups that this broker coordinates.
        offsets: commits and reads their offsets.
    """

    def __init__(self, services: GroupServices, replicas: ReplicaManager) -> None:
        self.config = services.config
        self.clock = services.clock
        self._image = services.image
        self._has_work = asyncio.Event()
        replays: dict[type, Replay] = {}
        self.coordinator = GroupCoordinator(services, replicas, replays=replays, lifecycles={}, wake=self._has_work.set)
        self.offsets = OffsetManager(services, self.coordinator)
        replays[OffsetCommitKey] = self.offsets.replay

    @property
    def image(self) -> ClusterImage:
        """The image that this broker acts on."""
        return self._image()

    async def run(self) -> None:
        """Load and unload groups in turns of the loop when this broker gains or loses their partitions."""
        while True:
            await self._has_work.wait()
            self._has_work.clear()
            for _ in self.coordinator.steps():
                await asyncio.sleep(0)
