"""Snapshots of a cluster's topics, records, groups and transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final

from purgatorio.broker.coordinator.shard import ShardState
from purgatorio.broker.layers.faults.names import nearest
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.controller.elections import with_epochs
from purgatorio.broker.metadata.image import NO_LEADER, ClusterImage, PartitionState, Topic
from purgatorio.broker.metadata.served import AnyStore
from purgatorio.broker.metadata.store import decide
from purgatorio.broker.node.broker import Broker
from purgatorio.broker.operations.control.decisions import until
from purgatorio.broker.operations.errors import ClusterUnavailable, NotThere, OperationRefused
from purgatorio.late import dataclass

MAX_SNAPSHOTS: Final = 10
MAX_NAME_CHARS: Final = 100
CLUSTER_METADATA: Final = ("client_quotas", "acls", "scram_credentials", "group_configs")
"""The metadata that is no topic's and no broker's, as `ClusterImage` names it."""
BYTES_PER_TURN: Final = 4 * 1024 * 1024
"""Bytes that are appended to a log before the event loop makes a turn: some milliseconds."""


@dataclass(frozen=True, slots=True)
class SavedPartition:
    """The committed part of a log.

    Attributes:
        start_offset, end_offset: its first offset, and the one after its last.
        batches: its record batches, in parts.
    """

    start_offset: int
    end_offset: int
    batches: tuple[bytes, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a cluster had at one moment; `Cluster.restore` makes it so again. It can be used several times.

    Attributes:
        topics: the topics by name, those for groups and transactions too.
        next_producer_id: the first producer id that was not allocated.
        metadata: what is no topic's and no broker's: quotas, ACLs, credentials and the configs of groups, by their
            names in `ClusterImage`.
    """

    topics: Mapping[str, Topic] = field(repr=False)
    logs: Mapping[TopicPartition, SavedPartition] = field(repr=False)
    broker_configs: Mapping[str, Mapping[str, str]] = field(repr=False)
    next_producer_id: int = field(repr=False)
    metadata: Mapping[str, Any] = field(repr=False)

    def __str__(self) -> str:
        names = [name for name in sorted(self.topics) if not name.startswith("__")]
        return f"a snapshot of {', '.join(names) or 'no topics'}"


class KeptSnapshots:
    """Snapshots by name, oldest first; each keeps its records in memory, also those that brokers have deleted since."""

    def __init__(self) -> None:
        self._kept: dict[str, Snapshot] = {}
        self._taken = 0

    def items(self) -> Iterable[tuple[str, Snapshot]]:
        """The names and the snapshots."""
        return self._kept.items()

    def keep(self, name: str | None, take: Callable[[], Snapshot]) -> str:
        """Take a snapshot and keep it; return its name, which is a number if none is given.

        Raises:
            OperationRefused: there are as many as there may be, or there is one of that name.
        """
        if len(self._kept) >= MAX_SNAPSHOTS:
            raise OperationRefused(f"there are {MAX_SNAPSHOTS} snapshots already; remove one first")
        if name in self._kept:
            raise OperationRefused(f"there is a snapshot {name!r} already; remove it first")
        snapshot = take()
        while name is None or name in self._kept:
            self._taken += 1
            name = str(self._taken)
        self._kept[name] = snapshot
        return name

    def find(self, name: str) -> Snapshot:
        """Return a snapshot.

        Raises:
            NotThere: there is none of that name.
        """
        if name not in self._kept:
            raise NotThere(f"there is no snapshot {name[:MAX_NAME_CHARS]!r}{nearest(name, self._kept)}")
        return self._kept[name]

    def forget(self, name: str) -> None:
        """Keep a snapshot no longer."""
        del self._kept[name]


def take(image: ClusterImage, brokers: Sequence[Broker], *, only_committed: bool = True) -> Snapshot:
    """Return what a cluster has now, without copying records.

    Args:
        image: the committed metadata.
        brokers: the running brokers.
        only_committed: without it records are saved, too, which followers have yet to fetch.

    Raises:
        ClusterUnavailable: a partition has no leader that runs.
    """
    logs = {}
    for name, topic in image.topics.items():
        for index, state in enumerate(topic.partitions):
            tp = TopicPartition(name, index)
            logs[tp] = _saved(tp, state.leader, brokers, only_committed)
    metadata = {name: getattr(image, name) for name in CLUSTER_METADATA}
    return Snapshot(dict(image.topics), logs, image.broker_configs, image.next_producer_id, metadata)


def _saved(tp: TopicPartition, leader: int, brokers: Sequence[Broker], only_committed: bool) -> SavedPartition:
    broker = next((each for each in brokers if each.broker_id == leader), None)
    replica = None if broker is None else broker.replica(tp)
    if replica is None:
        raise ClusterUnavailable(f"{tp} has no leader now, so it cannot be saved")
    end = replica.high_watermark if only_committed else replica.log.log_end_offset
    start, end = replica.log.log_start_offset, max(end, replica.log.log_start_offset)
    read = replica.log.read(start, max_bytes=1 << 62, end_offset=end)
    return SavedPartition(start, end, tuple(read.parts))


def check(snapshot: Snapshot, broker_ids: Sequence[int]) -> None:
    """Check that a cluster has the brokers of a snapshot.

    Raises:
        OperationRefused: it lacks one.
    """
    needed = {each for topic in snapshot.topics.values() for state in topic.partitions for each in state.replicas}
    if missing := sorted(needed - set(broker_ids)):
        raise OperationRefused(f"the snapshot needs broker {missing[0]}, which this cluster does not have")


async def restore(snapshot: Snapshot, store: AnyStore, brokers: Sequence[Broker]) -> None:
    """Fill a cluster that has just been reset; return when all that was committed is committed again.

    The partitions are without leaders until their replicas have their records: a coordinator reads its partition when
    it is elected.

    Args:
        store: the metadata.
        brokers: all brokers, which run.

    Raises:
        ClusterUnavailable: the brokers do not get there in time.
    """
    await _change(store, brokers, lambda image: _without_leaders(image, snapshot))
    for broker in brokers:
        await _fill(broker, snapshot)
    await _change(store, brokers, lambda image: _with_leaders(image, snapshot))

    def is_committed(tp: TopicPartition, end_offset: int) -> bool:
        state = store.image.partition(*tp)
        leader = NO_LEADER if state is None else state.leader
        replica = next((each.replica(tp) for each in brokers if each.broker_id == leader), None)
        return replica is not None and replica.high_watermark >= end_offset

    await until(
        lambda: all(is_committed(tp, saved.end_offset) for tp, saved in snapshot.logs.items()),
        "all records of the snapshot are committed again",
    )
    await until(lambda: _are_loaded(brokers), "the coordinators have read what they keep")


async def _fill(broker: Broker, snapshot: Snapshot) -> None:
    """Append what was saved to the replicas of a broker, as a follower appends what it has fetched."""
    for tp, saved in snapshot.logs.items():
        replica = broker.replica(tp)
        if replica is None:
            continue
        if saved.start_offset:
            broker.replicas.restart_at(replica, saved.start_offset)
        for records in _portions(saved.batches):
            broker.replicas.append_as_follower(replica, records, saved.end_offset, saved.start_offset)
            await asyncio.sleep(0)


async def _change(store: AnyStore, brokers: Sequence[Broker], change: Callable[[ClusterImage], ClusterImage]) -> None:
    """Change the metadata, and wait until all brokers have their roles by it."""
    await decide(brokers[0].store, lambda image: (change(image), None))
    version = store.image.version
    await until(
        lambda: all(each.image.version >= version and each.replicas.is_current for each in brokers),
        "all brokers know the topics of the snapshot",
    )


def _are_loaded(brokers: Sequence[Broker]) -> bool:
    """Return whether the coordinators have read their partitions."""
    shards = (
        shard
        for broker in brokers
        for part in (broker.groups, broker.transactions, broker.coordinators.shares)
        for shard in part.coordinator.shards
    )
    return all(shard.state is not ShardState.LOADING for shard in shards)


def _without_leaders(image: ClusterImage, snapshot: Snapshot) -> ClusterImage:
    """Return the image with the snapshot's topics; their replicas are those that live now, and all in sync."""
    topics = [
        Topic(topic.name, topic.topic_id, tuple(_in_sync(image, state) for state in topic.partitions), topic.configs)
        for topic in snapshot.topics.values()
    ]
    more = replace(
        image,
        broker_configs=snapshot.broker_configs,
        next_producer_id=max(image.next_producer_id, snapshot.next_producer_id),
        **snapshot.metadata,
    )
    return more.with_topics(topics)


def _in_sync(image: ClusterImage, saved: PartitionState) -> PartitionState:
    in_sync = tuple(image.brokers[broker_id].incarnation for broker_id in saved.replicas)
    return replace(saved, leader=NO_LEADER, isr=in_sync, elr=(), adding=(), removing=())


def _with_leaders(image: ClusterImage, snapshot: Snapshot) -> ClusterImage:
    changed = {}
    for name, topic in snapshot.topics.items():
        for index, saved in enumerate(topic.partitions):
            state = image.topics[name].partitions[index]
            leader = saved.leader if saved.leader in state.replicas else state.replicas[0]
            changed[name, index] = with_epochs(state, replace(state, leader=leader))
    return image.with_partitions(changed)


def _portions(batches: tuple[bytes, ...]) -> Iterator[bytes]:
    """Join batches to portions of at least `BYTES_PER_TURN`, but for the last one."""
    portion: list[bytes] = []
    size_bytes = 0
    for batch in batches:
        portion.append(batch)
        size_bytes += len(batch)
        if size_bytes >= BYTES_PER_TURN:
            yield b"".join(portion)
            portion, size_bytes = [], 0
    if portion:
        yield b"".join(portion)
