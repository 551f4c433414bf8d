"""Topics and records that a cluster begins with, and has again after a reset; what it has at its end is kept.

The folder for data is replaced only by what has all that the cluster was started with, and all that was acknowledged
since.
"""

from __future__ import annotations

import asyncio
import random
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Final

from purgatorio.broker.cluster.cluster import BrokerCluster, Contents
from purgatorio.broker.cluster.errors import OperationRefused, named
from purgatorio.broker.cluster.snapshots import SavedPartition, Snapshot, take_what_is_left
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.late import dataclass
from purgatorio.protocol.records import iter_batches, read_header

if TYPE_CHECKING:
    from purgatorio.admin.operations.control.data_folder import DataFolder
    from purgatorio.admin.operations.control.importing import InitialTopic
    from purgatorio.admin.operations.control.tier_keeping import TierKeeper


@dataclass(frozen=True)
class Beginning(Contents):
    """Topics to create, with records to append, and a snapshot.

    Attributes:
        topics: those that are there already are not created.
        snapshot: what the cluster had at its last end.
        data: where it is kept at the next one.
        tier: keeps what the tier has of it; None: there is no tier.
    """

    topics: Sequence[InitialTopic] = ()
    snapshot: Snapshot | None = None
    data: DataFolder | None = None
    tier: TierKeeper | None = None
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
        """
        if self.tier is not None:
            return await self.tier.end(await cluster.kill_all())
        if self.data is None:
            return None
        from purgatorio.admin.operations.control.data_folder import DataUnusable

        brokers = await cluster.kill_all()
        snapshot, lost = take_what_is_left(cluster.store.image, brokers)
        missing = ", and ".join(_missing(cluster, snapshot, lost, self.snapshot))
        why = f"not all data was kept: {missing}" if missing else ""
        as_it_was = "" if self.snapshot is None else f"; {self.data.path} is as it was"
        if lost and len(lost) == len(snapshot.logs):
            return f"{why}{as_it_was}"
        try:
            if not missing or self.snapshot is None:
                self.data.write(snapshot)
                return f"{why}; the rest is in {self.data.path}" if missing else None
            return f"{why}{as_it_was}, and the rest is in {self.data.write_beside(snapshot, cluster.clock.wall_ms())}"
        except DataUnusable as error:
            return f"{why}; the rest was not kept either: {error}" if missing else f"the data was not kept: {error}"

    async def keep_up(self) -> None:
        """Keep in the tier what changes, until cancelled."""
        if self.tier is not None:
            await self.tier.run()
        await asyncio.Event().wait()


NO_BEGINNING: Final = Beginning()


async def with_tier(beginning: Beginning, cluster: BrokerCluster) -> tuple[Beginning, str]:
    """Return what a cluster with a tier begins with: what is there of an earlier process, too; and that in words.

    Topics that are imported come with their records only if there was no such process.

    Raises:
        TierUnusable: the tier cannot be read.
        OperationRefused: there is a folder for data, too.
    """
    if beginning.data is not None:
        raise OperationRefused("--data and a tier do not go together: each keeps topics and offsets; leave one out")
    from purgatorio.admin.operations.control.tier_keeping import TierKeeper

    assert cluster.claim is not None, "the cluster has a tier, and its brokers are in one process"
    keeper = TierKeeper(cluster, cluster.claim)
    restart = await keeper.read()
    if restart is None:
        return replace(beginning, tier=keeper), ""
    topics = [replace(each, records=[]) for each in beginning.topics]
    return replace(beginning, topics=topics, snapshot=restart.snapshot, tier=keeper), restart.said


def _missing(
    cluster: BrokerCluster, snapshot: Snapshot, lost: Sequence[TopicPartition], began_with: Snapshot | None
) -> Iterator[str]:
    """Yield why a snapshot lacks something of what the cluster was started with, or of what was acknowledged since."""
    if not cluster.has_begun:
        yield "the cluster did not get all that it was to begin with"
    if lost:
        yield f"no replica that lives and was in sync had {named(lost)}"
    if began_with is not None and (cut := [tp for tp in _cut(snapshot, began_with) if tp not in lost]):
        yield f"records at the end of {named(cut)} were lost since the start"


def _cut(snapshot: Snapshot, before: Snapshot) -> Iterator[TopicPartition]:
    """Yield the partitions that lack records at the end that they had before.

    Retention and clients delete records at the start, and compaction keeps those at the end.
    """
    for tp, saved in before.logs.items():
        topic, topic_before = snapshot.topics.get(tp.topic), before.topics[tp.topic]
        if topic is None or topic.topic_id != topic_before.topic_id:
            continue
        if _is_cut(snapshot.logs[tp], saved.end_offset, topic_before.partitions[tp.partition].leader_epoch):
            yield tp


def _is_cut(saved: SavedPartition, end_offset: int, leader_epoch: int) -> bool:
    """Return whether a log ends before an offset, or has records before it of a later leader than that of the epoch.

    A leader that was elected uncleanly appends from where its log ended. Leader epochs never become lower in a log.
    """
    number = bisect_left(saved.batches, end_offset, key=lambda batches: read_header(batches).base_offset)
    before = [header for header, _ in iter_batches(saved.batches[number - 1])] if number else []
    later = any(each.base_offset < end_offset and each.partition_leader_epoch > leader_epoch for each in before)
    return later or saved.end_offset < end_offset
