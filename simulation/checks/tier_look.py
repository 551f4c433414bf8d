"""Invariants of the tier: what is copied is what was committed, and what is deleted in memory is copied."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.replica.partition import Partition
from purgatorio.broker.tier.names import DESCRIPTION, LOG, partition_folder, segment_of
from purgatorio.broker.tier.remote_segments import RemoteSegments
from purgatorio.broker.tier.segment_file import DamagedObject, RemoteSegment, from_bytes
from purgatorio.protocol.records import iter_batches
from purgatorio.simulation.checks.known_log import KnownBatch
from purgatorio.simulation.world.cluster import SimulatedCluster, SimulatedProcess
from purgatorio.simulation.world.loop import Node

TIER_INVARIANTS: Final[Mapping[str, str]] = {
    "tier-hole": "Records of a log were neither in memory nor in a finished copy of its lineage.",
    "tier-copy": "A finished copy lacked its records, or had others than were committed.",
    "tier-undecided": "A copy had records at or above the last stable offset of its time.",
    "tier-memory": "What a broker kept of its reads of the tier was more than its limit, or counted wrongly.",
}
"""Each invariant's name, and the meaning of a violation in one sentence."""

Violated = Callable[[str, str, str], None]
Committed = Mapping[tuple[bytes, TopicPartition], list[KnownBatch]]
_last_offset = attrgetter("last_offset")


class _Copy(NamedTuple):
    segment: RemoteSegment
    batches: Sequence[KnownBatch]


class TierLook:
    """Looks at the object store, and at what brokers rely on it for.

    Args:
        committed: what was committed, by topic id and partition.
        violated: takes an invariant, where it was violated, and how.
    """

    def __init__(self, cluster: SimulatedCluster, committed: Committed, violated: Violated) -> None:
        self._cluster = cluster
        self._committed = committed
        self._violated = violated
        self._copies: dict[str, dict[str, _Copy]] = {}  # by folder and key
        self._starts: dict[str, int] = {}
        if cluster.tier is not None:
            cluster.tier.written.append(self._written)

    def look(self) -> None:
        """Check all logs that are tiered, and all copies that came since the last look."""
        tier = self._cluster.tier
        if tier is None:
            return
        for key in tier.changed_buffers:
            self._violated("tier-copy", key, "its bytes changed while they were written")
        tiered = [
            (process.host.name, partition)
            for process in self._cluster.all_processes()
            for partition in process.broker.replicas.partitions.values()
            if partition.log.is_tiered
        ]
        for _, partition in tiered:
            folder = self._folder(partition)
            self._starts[folder] = max(partition.log.log_start_offset, self._starts.get(folder, 0))
        for host, partition in tiered:
            self._check_hole(host, partition)
        for process in self._cluster.all_processes():
            self._check_memory(process)

    def _folder(self, partition: Partition) -> str:
        return partition_folder(self._cluster.image.cluster_id, partition.topic_id, partition.tp.partition)

    # --- copies ---

    def _written(self, node: Node, key: str) -> None:
        """Look at a copy when its description is written, which finishes it."""
        tier = self._cluster.tier
        if tier is not None and key.endswith(LOG) and f"{key.removesuffix(LOG)}{DESCRIPTION}" in tier.objects:
            key = f"{key.removesuffix(LOG)}{DESCRIPTION}"  # a call that is done late may come behind the description
        name = segment_of(key)
        if name is None or tier is None:
            return
        folder = key.removesuffix(f"{name}{DESCRIPTION}")
        data = tier.objects.get(f"{folder}{name}{LOG}")
        if data is None:
            if f"{folder}{name}{LOG}" in tier.ever:
                return  # a call that is done late may come behind the deletion
            self._violated("tier-copy", folder, f"{name} is described before its records are there")
            return
        try:
            segment = from_bytes(tier.objects[key], name, len(data))
            for part in segment.parts:
                part.check(data[part.position : part.position + part.size_bytes])
        except DamagedObject as error:
            self._violated("tier-copy", folder, f"{name}: {error}")
            return
        batches = [
            KnownBatch(header.base_offset, header.last_offset, header.partition_leader_epoch, header.crc)
            for header, _ in iter_batches(data)
        ]
        self._copies.setdefault(folder, {})[key] = _Copy(segment, batches)
        held = [partition for partition in self._replicas(folder) if partition.log.log_end_offset >= segment.end_offset]
        if held and segment.end_offset > (stable := max(each.last_stable_offset for each in held)):
            what = f"{node.name} has copied [{segment.start_offset}, {segment.end_offset})"
            self._violated("tier-undecided", folder, f"{what}, and the last stable offset is {stable}")

    def _replicas(self, folder: str) -> Iterator[Partition]:
        for process in self._cluster.all_processes():
            for partition in process.broker.replicas.partitions.values():
                if self._folder(partition) == folder:
                    yield partition

    def check_copies(self) -> None:
        """Compare all copies with what was committed."""
        for (topic_id, tp), committed in self._committed.items():
            folder = partition_folder(self._cluster.image.cluster_id, topic_id, tp.partition)
            for copy in self._copies.get(folder, {}).values():
                self._compare(copy, committed, str(tp))

    def _compare(self, copy: _Copy, committed: list[KnownBatch], where: str) -> None:
        if not committed:
            return
        known_start, known_end = committed[0].base_offset, committed[-1].last_offset + 1
        mine = [each for each in copy.batches if known_start <= each.base_offset < known_end]
        first = bisect_left(committed, max(copy.segment.start_offset, known_start), key=_last_offset)
        stop = bisect_left(committed, copy.segment.end_offset, key=_last_offset)
        if mine != committed[first:stop]:
            what = f"{copy.segment.name} has {len(mine)} batches, of which {stop - first} were committed"
            self._violated("tier-copy", where, what)

    # --- logs ---

    def _check_hole(self, host: str, partition: Partition) -> None:
        log, tier, folder = partition.log, self._cluster.tier, self._folder(partition)
        assert tier is not None, "it is looked at"
        # A replica hears late of a log start that has moved, and the objects before it may be gone by then.
        start = self._starts[folder]
        if log.local_start_offset <= start:
            return
        copies = self._copies.get(folder, {})
        there = [
            copy.segment
            for key, copy in copies.items()
            if key in tier.objects and f"{key.removesuffix(DESCRIPTION)}{LOG}" in tier.objects
        ]
        if any(segment.end_offset > log.log_end_offset for segment in there):
            return  # it is behind the copies, and so not in sync: it will fetch what it lacks, or begin anew
        segments = RemoteSegments.of_log(there, log.epochs, log.log_start_offset, log.log_end_offset)
        end = segments.end_from(start)
        if end < log.local_start_offset:
            what = f"{host} has [{log.local_start_offset}, {log.log_end_offset})"
            where = f"the tier lacks {end} of its log, which starts at {start}"
            self._violated("tier-hole", str(partition.tp), f"{what} in memory, and {where}")

    def _check_memory(self, process: SimulatedProcess) -> None:
        tiering = process.broker.tiering
        if tiering is None:
            return
        reads = tiering.reads
        sizes = [len(read.data) for read in reads._cache.values() if read.data is not None]
        if sum(sizes) != reads.cached_bytes or (len(sizes) > 1 and reads.cached_bytes > reads._cache_bytes):
            what = f"keeps {sum(sizes)} bytes, and counts {reads.cached_bytes} of at most {reads._cache_bytes}"
            self._violated("tier-memory", process.host.name, f"{process.host.name} {what}")
