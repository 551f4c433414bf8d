"""The end of a cluster whose data is kept: what its replicas have is written to the folder for data, or beside it.

A folder is replaced only by what has all that the cluster was started with, and all that was acknowledged since.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from purgatorio.admin.operations.control.data_folder import DataFolder
from purgatorio.broker.cluster.errors import named
from purgatorio.broker.cluster.snapshots import Snapshot, take_what_is_left
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.served import AnyStore
from purgatorio.broker.node.broker import Broker
from purgatorio.purgatory.clock import Clock


class KeptCluster(Protocol):
    """A cluster whose brokers and metadata are in this process."""

    clock: Clock
    has_begun: bool

    @property
    def store(self) -> AnyStore:
        """The metadata."""

    async def kill_all(self) -> Sequence[Broker]:
        """End all brokers at once; return them."""


async def keep(cluster: KeptCluster, data: DataFolder, began_with: Snapshot | None) -> str | None:
    """End all brokers at once, and keep what they had.

    The brokers end in one turn of the event loop, and what followers had yet to fetch is kept too. Requests that wait
    are not answered, as when a broker is killed.

    Args:
        began_with: what the folder has.

    Returns:
        Why not all is in the folder, and where the rest is; None if all is there.

    Raises:
        DataUnusable: it cannot be written. What the folder had is there as it was.
    """
    brokers = await cluster.kill_all()
    snapshot, lost = take_what_is_left(cluster.store.image, brokers)
    shorter = [] if began_with is None else _shorter(snapshot, began_with, lost)
    missing = []
    if not cluster.has_begun:
        missing.append("the cluster did not get all that it was to begin with")
    if lost:
        missing.append(f"no replica that lives and was in sync had {named(lost)}")
    if shorter:
        missing.append(f"records at the end of {named(shorter)} were lost since the start")
    if not missing:
        data.write(snapshot)
        return None
    why = f"not all data was kept: {', and '.join(missing)}"
    as_it_was = "" if began_with is None else f"; {data.path} is as it was"
    if lost and len(lost) == len(snapshot.logs):
        return f"{why}{as_it_was}"
    if began_with is None:
        data.write(snapshot)
        return f"{why}; the rest is in {data.path}"
    return f"{why}{as_it_was}, and the rest is in {write_beside(data.path, snapshot, cluster.clock.wall_ms())}"


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


def write_beside(path: Path, snapshot: Snapshot, wall_ms: float) -> Path:
    """Write a snapshot to a new folder in the one for data, which has its name by the time; return it."""
    at_ms = round(wall_ms)
    while (beside := path / f"kept-{at_ms}").exists():
        at_ms += 1
    folder = DataFolder(beside)
    try:
        folder.write(snapshot)
    finally:
        folder.close()
    return beside
