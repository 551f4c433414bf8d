"""What a cluster begins with, and has again after a reset: topics, records, and what it had at its last end."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Final

from purgatorio.broker.cluster.cluster import BrokerCluster
from purgatorio.broker.cluster.snapshots import Snapshot
from purgatorio.late import dataclass

if TYPE_CHECKING:
    from purgatorio.admin.operations.control.data_folder import DataFolder
    from purgatorio.admin.operations.control.importing import NewTopic


@dataclass(frozen=True)
class Beginning:
    """Topics to create, with records to append, and a snapshot.

    Attributes:
        topics: those that are there already are not created.
        snapshot: what the cluster had at its last end.
        data: where it is kept at the next one (`keeping.keep`).
    """

    topics: Sequence[NewTopic] = ()
    snapshot: Snapshot | None = None
    data: DataFolder | None = None
    _rng: random.Random = field(default_factory=random.Random, repr=False)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to begin with."""
        return not self.topics and self.snapshot is None

    async def create(self, cluster: BrokerCluster) -> None:
        """Create the topics, before a client can create one with another number of partitions.

        Raises:
            NotImported: the brokers refuse one.
            ClusterUnavailable: the brokers do not get there in time.
        """
        if self.topics:
            from purgatorio.admin.operations.control import importing

            await importing.create(cluster, self.topics, self._rng)

    async def fill(self, cluster: BrokerCluster) -> None:
        """Append the records of the topics.

        Raises:
            NotImported: the brokers refuse a record.
        """
        if self.topics:
            from purgatorio.admin.operations.control import importing

            await importing.append(cluster, self.topics)


NO_BEGINNING: Final = Beginning()
