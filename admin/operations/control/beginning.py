"""Topics and records that a cluster begins with, and has again after a reset; what it has at its end is kept.

The folder for data is replaced only by what has all that the cluster was started with, and all that was acknowledged
since.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Final

from purgatorio.broker.cluster.cluster import BrokerCluster, Contents
from purgatorio.broker.cluster.errors import named
from purgatorio.broker.cluster.snapshots import Snapshot, take_what_is_left
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.late import dataclass

if TYPE_CHECKING:
    from purgatorio.admin.operations.control.data_folder import DataFolder
    from purgatorio.admin.operations.control.importing import NewTopic


@dataclass(frozen=True)
class Beginning(Contents):
    """Topics to create, with records to append, and a snapshot.

    Attributes:
        topics: those that are there already are not created.
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

    async def keep(self, cluster: BrokerCluster) -> str | None:
        """End all brokers at once, and keep what they had, if there is a folder for data.

        The brokers end in one turn of the event loop, and what followers had yet to fetch is kept too. Requests that
        wait are not answered, as when a broker is killed.

        Returns:
            Why not all is in the folder, and where the rest is; None if all is there.

        Raises:
            DataUnusable: it cannot be written. What the folder had is there as it was.
        """
        if self.data is None:
            return None
        brokers = await cluster.kill_all()
        snapshot, lost = take_what_is_left(cluster.store.image, brokers)
        shorter = [] if self.snapshot is None else _shorter(snapshot, self.snapshot, lost)
        missing = []
        if not cluster.has_begun:
            missing.append("the cluster did not get all that it was to begin with")
        if lost:
            missing.append(f"no replica that lives and was in sync had {named(lost)}")
        if shorter:
            missing.append(f"records at the end of {named(shorter)} were lost since the start")
        if not missing:
            self.data.write(snapshot)
            return None
        why = f"not all data was kept: {', and '.join(missing)}"
        as_it_was = "" if self.snapshot is None else f"; {self.data.path} is as it was"
        if lost and len(lost) == len(snapshot.logs):
            return f"{why}{as_it_was}"
        if self.snapshot is None:
            self.data.write(snapshot)
            return f"{why}; the rest is in {self.data.path}"
        return f"{why}{as_it_was}, and the rest is in {self.data.write_beside(snapshot, cluster.clock.wall_ms())}"


NO_BEGINNING: Final = Beginning()


def _shorter(snapshot: Snapshot, before: Snapshot, lost: Sequence[TopicPartition]) -> list[TopicPartition]:
    """Return the partitions that end before they did: what retention and clients delete is at the start."""
    return [
        tp
        for tp, saved in before.logs.items()
        if (topic := snapshot.topics.get(tp.topic)) is not None
        and topic.topic_id == before.topics[tp.topic].topic_id
        and tp not in lost
        and snapshot.logs[tp].end_offset < saved.end_offset
    ]
