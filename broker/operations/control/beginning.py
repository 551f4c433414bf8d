"""What a cluster begins with, and has again after a reset: topics, records, and what it had at its last end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import field
from typing import Final, Protocol

from purgatorio.broker.metadata.served import AnyStore
from purgatorio.broker.operations.control import importing, snapshots
from purgatorio.broker.operations.control.data_folder import DataFolder
from purgatorio.broker.operations.control.importing import NewTopic
from purgatorio.broker.operations.control.operated import OperatedCluster
from purgatorio.broker.operations.control.snapshots import Snapshot
from purgatorio.late import dataclass


class BegunCluster(OperatedCluster, Protocol):
    """A cluster whose metadata is in this process."""

    @property
    def store(self) -> AnyStore:
        """The metadata."""


@dataclass(frozen=True)
class Beginning:
    """What a cluster begins with.

    Attributes:
        topics: to create, with records to append. Records are appended only if there is no `snapshot`.
        snapshot: what the cluster had at its last end.
        data: where it is kept at the next one.
    """

    topics: Sequence[NewTopic] = ()
    snapshot: Snapshot | None = None
    data: DataFolder | None = None
    _rng: random.Random = field(default_factory=random.Random, repr=False)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to begin with."""
        return not self.topics and self.snapshot is None

    def check(self, cluster: BegunCluster) -> None:
        """Check that a cluster can begin with it.

        Raises:
            OperationRefused: it has other brokers.
        """
        if self.snapshot is not None:
            snapshots.check(self.snapshot, cluster.broker_ids)

    async def fill(self, cluster: BegunCluster) -> None:
        """Give it to a cluster whose brokers have just been started.

        Raises:
            NotImported: the brokers refuse a topic or a record.
            ClusterUnavailable: the brokers do not get there in time.
        """
        if self.snapshot is not None:
            await snapshots.restore(self.snapshot, cluster.store, cluster.brokers)
        await importing.fill(cluster, self.topics, self._rng)

    async def keep(self, cluster: BegunCluster) -> None:
        """End all brokers at once, and keep what they had in the folder for data, if there is one.

        All that was acknowledged is kept: the brokers end in one turn of the event loop, and what followers had yet to
        fetch is kept too. Requests that wait are not answered, as when a broker is killed.

        Raises:
            DataUnusable: it cannot be written.
            ClusterUnavailable: a partition has no leader that runs. What the folder had is there as it was.
        """
        if self.data is None:
            return
        image, brokers = cluster.store.image, list(cluster.brokers)
        await asyncio.gather(*(cluster.kill_broker(each.broker_id) for each in brokers))
        self.data.write(snapshots.take(image, brokers, only_committed=False))


NO_BEGINNING: Final = Beginning()
