"""Snapshots of a cluster's topics, records, groups and transactions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from operator import itemgetter
from typing import Any, Final

from purgatorio.broker.cluster.decisions import decided, until
from purgatorio.broker.cluster.errors import ClusterUnavailable, NotThere, OperationRefused
from purgatorio.broker.cluster.restart import partitions_of
from purgatorio.broker.config.by_room import topic_settings
from purgatorio.broker.coordinator.shard import ShardState
from purgatorio.broker.layers.faults.names import nearest
from purgatorio.broker.log.errors import LogError
from purgatorio.broker.log.log import Log
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.controller import TopicSettings
from purgatorio.broker.metadata.controller.elections import min_in_sync_replicas, settle, with_epochs
from purgatorio.broker.metadata.image import NO_LEADER, ClusterImage, PartitionState, Topic
from purgatorio.broker.metadata.served import AnyStore
from purgatorio.broker.node.broker import Broker
from purgatorio.broker.replica.partition import Partition
from purgatorio.broker.replica.tiering import LIST_MS, Tiering
from purgatorio.broker.tier.names import SegmentName, partition_folder, segment_of
from purgatorio.broker.tier.restoring import PartInTier, part_of
from purgatorio.broker.tier.store import StoreError
from purgatorio.broker.time.long_work import OwnWork, Steps
from purgatorio.late import dataclass
from purgatorio.logger import get_logger
from purgatorio.protocol.compression import Buffer
from purgatorio.protocol.end_marker import EndMarker, build_end_marker
from purgatorio.protocol.records import iter_batches
from purgatorio.purgatory.clock import time_limit

logger = get_logger(__name__)

MAX_SNAPSHOTS: Final = 10
MAX_NAME_CHARS: Final = 100
CLUSTER_METADATA: Final = ("client_quotas", "acls", "scram_credentials", "group_configs")
"""The metadata that is no topic's and no broker's, as `ClusterImage` names it."""
COST_OF_BATCH: Final = 10
"""The cost of appending a batch (see `LongWork`), besides a microsecond for each KiB."""
LEAD_TIME_LIMIT_MS: Final = 60_000
"""Time that brokers have to take their roles, and coordinators to read what they keep; of a busy machine seconds."""


@dataclass(frozen=True, slots=True)
class SavedPartition:
    """The committed part of a log.

    Attributes:
        start_offset, end_offset: its first offset, and the one after its last.
        batches: its record batches, in parts: one or more whole ones in each.
        overhead_bytes: memory that a log takes for them, besides their bytes.
        in_tier: what the tier has of it, up to the start offset; None: nothing.
        is_cut: whether what came behind it may be lost, so that the transactions that are open at its end are aborted.
    """

    start_offset: int
    end_offset: int
    batches: tuple[Buffer, ...] = field(repr=False)
    overhead_bytes: int = 0
    in_tier: PartInTier | None = field(default=None, repr=False)
    is_cut: bool = False

    @property
    def size_bytes(self) -> int:
        """Bytes of all batches."""
        return sum(map(len, self.batches))


NO_RECORDS: Final = SavedPartition(0, 0, ())


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The contents of a cluster at one moment; `Cluster.restore` makes it so again. It can be used several times.

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

    @classmethod
    def of(cls, image: ClusterImage, logs: Mapping[TopicPartition, SavedPartition]) -> Snapshot:
        """Return the snapshot with the metadata of an image, and these logs."""
        metadata = {name: getattr(image, name) for name in CLUSTER_METADATA}
        return cls(dict(image.topics), logs, image.broker_configs, image.next_producer_id, metadata)

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


def take(image: ClusterImage, brokers: Sequence[Broker]) -> Snapshot:
    """Return the committed records that a cluster has now, without copying them.

    Args:
        image: the committed metadata.
        brokers: the running brokers.

    Raises:
        ClusterUnavailable: a partition has no leader that runs, or one that has not listed the tier yet.
    """
    leaders = {broker.broker_id: broker for broker in brokers}
    logs = {}
    for tp, state in partitions_of(image):
        replica = leaders[state.leader].replica(tp) if state.leader in leaders else None
        if replica is None:
            raise ClusterUnavailable(f"{tp} has no leader now, so it cannot be saved")
        logs[tp] = saved_part(replica.log, replica.high_watermark)
        part = _part_of(leaders[state.leader].tiering, replica)
        if part is not None:
            logs[tp] = replace(logs[tp], in_tier=part)
    return Snapshot.of(image, logs)


def _part_of(tiering: Tiering | None, replica: Partition) -> PartInTier | None:
    """Return what a snapshot has of a partition in the tier: it names the segments, and copies no record."""
    if tiering is None:
        return None
    remote = tiering.remote_of(replica)
    part = part_of(remote, replica.log)
    if part is not None and remote.listed_in_epoch != replica.leader_epoch:
        tiering.list_soon(replica)
        raise ClusterUnavailable(f"it is not known yet what the tier has of {replica.tp}; try again")
    return part


def take_what_is_left(image: ClusterImage, brokers: Sequence[Broker]) -> tuple[Snapshot, list[TopicPartition]]:
    """Return a snapshot of brokers that have ended, and the partitions that none of them could have led.

    A partition is saved from its leader, otherwise from the in-sync or eligible replica that has the most: each of them
    has all that was acknowledged with acks=all, and could be elected when the lease of the dead leader is over. Records
    are saved, too, which followers had yet to fetch. A partition that is lost is saved without records.

    Args:
        image: the committed metadata.
        brokers: those that ran to the end; not those that were stopped or killed before.
    """
    logs, lost = {}, []
    for tp, replica, is_lost in best_replicas(image, brokers):
        logs[tp] = NO_RECORDS if replica is None else saved_part(replica.log, replica.log.log_end_offset)
        if is_lost:
            lost.append(tp)
    return Snapshot.of(image, logs), lost


def best_replicas(
    image: ClusterImage, brokers: Sequence[Broker], topic: str | None = None
) -> Iterator[tuple[TopicPartition, Partition | None, bool]]:
    """Yield each partition with the replica that has the most of it, as `take_what_is_left`, and whether it is lost.

    Args:
        topic: the topic whose partitions these are; None: all are.
    """
    for tp, state in partitions_of(image, topic):
        able = [each for each in brokers if each.replicas.incarnation in (*state.isr, *state.elr)]
        topic_id = image.topics[tp.topic].topic_id
        # A broker that does not know of a new topic yet has no replica, and so no records.
        found = [replica for each in able if (replica := each.replica(tp)) is not None and replica.topic_id == topic_id]
        yield tp, max(found, key=partial(_has, state), default=None), not able


def _has(state: PartitionState, replica: Partition) -> tuple[bool, int, int]:
    """Return the key by which replicas with all acknowledged records are compared: the best one has the largest."""
    leads = state.leader == replica.broker_id and replica.incarnation in state.isr
    return leads, replica.log.epochs.latest_epoch, replica.log.log_end_offset


def saved_part(log: Log, end_offset: int) -> SavedPartition:
    """Return what a log has in memory up to an offset, without copying it."""
    start = log.local_start_offset
    end = max(end_offset, start)
    read = log.read(start, max_bytes=1 << 62, end_offset=end)
    return SavedPartition(start, end, tuple(read.parts), log.overhead_between(start, end))


def _check(snapshot: Snapshot, log_memory_bytes: Mapping[int, int]) -> None:
    """Refuse a snapshot of brokers that are not there, or that would have to delete records at once."""
    needed_bytes: Counter[int] = Counter()
    for tp, saved in snapshot.logs.items():
        size_bytes = saved.size_bytes + saved.overhead_bytes
        for broker_id in snapshot.topics[tp.topic].partitions[tp.partition].replicas:
            needed_bytes[broker_id] += size_bytes
    for broker_id, size_bytes in sorted(needed_bytes.items()):
        if broker_id not in log_memory_bytes:
            raise OperationRefused(f"the snapshot needs broker {broker_id}, which this cluster does not have")
        if size_bytes > log_memory_bytes[broker_id]:
            raise OperationRefused(
                f"the snapshot needs {size_bytes} bytes of broker {broker_id}, whose log.memory.bytes is "
                f"{log_memory_bytes[broker_id]}; --set log.memory.bytes={2 * size_bytes} leaves as much for new records"
            )


async def as_far_as_there(snapshot: Snapshot, broker: Broker) -> Snapshot:
    """Return a snapshot without what its partitions had in the tier and the tier has no more; the log says what.

    Args:
        broker: one of those that are to have it.

    Raises:
        ClusterUnavailable: the tier does not say what it has.
    """
    logs = dict(snapshot.logs)
    for tp, saved in snapshot.logs.items():
        part = saved.in_tier
        if part is None:
            continue
        try:
            start_offset = part.start_with(await _names_in_tier(broker, snapshot.topics[tp.topic], tp))
        except (StoreError, TimeoutError) as error:
            raise ClusterUnavailable(f"the tier does not say what it has of {tp}: {error}") from error
        if start_offset > part.log_start_offset:
            missing = f"[{part.log_start_offset}, {start_offset})"
            logger.warning("the tier has no more what a snapshot had there", partition=str(tp), offsets=missing)
        if start_offset < part.end_offset:
            logs[tp] = replace(saved, in_tier=part._replace(log_start_offset=start_offset))
        else:
            logs[tp] = replace(saved, in_tier=None)
    return replace(snapshot, logs=logs)


async def _names_in_tier(broker: Broker, topic: Topic, tp: TopicPartition) -> set[SegmentName]:
    if broker.tiering is None:
        return set()
    folder = partition_folder(broker.image.cluster_id, topic.topic_id, tp.partition)
    async with time_limit(broker.clock, LIST_MS):
        objects = await broker.tiering.store.list(folder)
    return {name for each in objects if (name := segment_of(each.key)) is not None}


async def fill(brokers: Sequence[Broker], snapshot: Snapshot, work: OwnWork) -> None:
    """Append what was saved to the logs with which brokers that do not run yet will begin.

    So that nothing can act on a partition of which a part is there, however long this takes: the brokers have no
    timers, followers and clients yet, and the cluster's metadata have no such partition (docs/decisions, 0019).

    Raises:
        OperationRefused: the snapshot is of other brokers, or of ones with more memory.
        ClusterUnavailable: a record cannot be appended.
    """
    _check(snapshot, {each.broker_id: each.log_memory.limit_bytes for each in brokers})
    for broker in brokers:
        await work.take(_fill(broker, snapshot))


def _fill(broker: Broker, snapshot: Snapshot) -> Steps:
    for tp, saved in snapshot.logs.items():
        topic = snapshot.topics[tp.topic]
        if broker.broker_id not in topic.partitions[tp.partition].replicas:
            continue
        log = broker.replicas.begin_with(tp, topic)
        _begin(log, saved)
        for _, batch in (each for batches in saved.batches for each in iter_batches(batches)):
            try:
                log.append_as_follower(batch, committed_offset=saved.end_offset)
            except LogError as error:
                raise ClusterUnavailable(f"{tp} cannot be filled on broker {broker.broker_id}: {error}") from error
            log.commit_to(log.log_end_offset)
            yield COST_OF_BATCH + (len(batch) >> 10)
        if log.log_end_offset != saved.end_offset:
            raise ClusterUnavailable(f"{tp} ends at {log.log_end_offset}, and should end at {saved.end_offset}")
        if saved.is_cut:
            abort_transactions(log)
            log.commit_to(log.log_end_offset)


def _begin(log: Log, saved: SavedPartition) -> None:
    part = saved.in_tier
    if part is None:
        log.truncate_fully_and_start_at(saved.start_offset)
        return
    log.begin_behind(
        saved.start_offset,
        log_start_offset=part.log_start_offset,
        epochs=part.epochs,
        producers=part.producers,
    )


def abort_transactions(log: Log) -> int:
    """Append the end markers that abort the open transactions of a log, the same ones in each replica.

    Returns:
        Their number.

    Raises:
        MemoryExhausted: there is no room for one.
    """
    open_ones = [(pid, state) for pid, state in log.producers if state.transaction_start >= 0]
    for producer_id, state in sorted(open_ones, key=itemgetter(0)):
        marker = build_end_marker(
            EndMarker(committed=False, coordinator_epoch=max(0, state.coordinator_epoch)),
            producer_id=producer_id,
            producer_epoch=state.epoch,
            timestamp_ms=state.appended_ms,
        )
        epoch = max(0, log.epochs.latest_epoch)
        log.append_as_leader(marker, leader_epoch=epoch, wall_ms=state.appended_ms, from_client=False)
    return len(open_ones)


async def lead(snapshot: Snapshot, store: AnyStore, brokers: Sequence[Broker]) -> None:
    """Give the partitions of a snapshot leaders, when all brokers run that were filled with it.

    Raises:
        ClusterUnavailable: the brokers do not get there in time.
    """
    settings = topic_settings(brokers[0].config)
    await decided(brokers[0].store, partial(_with_leaders, snapshot, settings), "no leader was elected")
    version = store.image.version
    await until(
        lambda: all(each.image.version >= version and each.replicas.is_current for each in brokers),
        "all brokers lead and follow the partitions of the snapshot",
        LEAD_TIME_LIMIT_MS,
    )


async def until_loaded(brokers: Sequence[Broker]) -> None:
    """Wait until the coordinators have loaded their partitions.

    Raises:
        ClusterUnavailable: they do not get there in time.
    """
    await until(lambda: _are_loaded(brokers), "the coordinators have read what they keep", LEAD_TIME_LIMIT_MS)


def _are_loaded(brokers: Sequence[Broker]) -> bool:
    """Return whether the coordinators have read their partitions."""
    shards = (
        shard
        for broker in brokers
        for part in (broker.groups, broker.transactions, broker.coordinators.shares)
        for shard in part.coordinator.shards
    )
    return all(shard.state is not ShardState.LOADING for shard in shards)


def first_image(image: ClusterImage, snapshot: Snapshot | None, before: ClusterImage | None = None) -> ClusterImage:
    """Return the metadata with which new brokers start: a snapshot's topics, without leaders and in-sync replicas.

    No leader can be elected from it. Version and epochs are not lower than those before, which clients of the running
    cluster may know: they take metadata with a lower leader epoch for outdated.

    Args:
        image: a new store's.
        before: what the brokers had that these replace, if any.
    """
    before = image if before is None else before
    image = replace(image, version=before.version + 1)
    if snapshot is None:
        return image
    topics = []
    for topic in snapshot.topics.values():
        known = before.topics.get(topic.name)
        states = () if known is None or known.topic_id != topic.topic_id else known.partitions
        rows = tuple(_offline(each, states[n] if n < len(states) else each) for n, each in enumerate(topic.partitions))
        topics.append(Topic(topic.name, topic.topic_id, rows, topic.configs))
    more = replace(
        image,
        broker_configs=snapshot.broker_configs,
        next_producer_id=max(image.next_producer_id, snapshot.next_producer_id),
        **snapshot.metadata,
    )
    return more.with_topics(topics)


def _offline(saved: PartitionState, known: PartitionState) -> PartitionState:
    return replace(
        saved,
        leader=NO_LEADER,
        isr=(),
        elr=(),
        adding=(),
        removing=(),
        leader_epoch=max(saved.leader_epoch, known.leader_epoch),
        partition_epoch=max(saved.partition_epoch, known.partition_epoch),
    )


def _with_leaders(snapshot: Snapshot, settings: TopicSettings, image: ClusterImage) -> tuple[ClusterImage, None]:
    """Return the image in which all replicas of the snapshot are in sync, led as they were at its time."""
    changed = {}
    for name, topic in snapshot.topics.items():
        for index, saved in enumerate(topic.partitions):
            state = image.partition(name, index)
            if state is None or image.topics[name].topic_id != topic.topic_id:
                continue  # an operator has deleted it meanwhile
            in_sync = tuple(image.brokers[broker_id].incarnation for broker_id in state.replicas)
            leader = saved.leader if saved.leader in state.replicas else state.replicas[0]
            filled = replace(state, leader=leader, isr=in_sync, elr=())
            min_in_sync = min_in_sync_replicas(image, topic, state, settings)
            changed[name, index] = with_epochs(state, settle(image, filled, min_in_sync))
    return image.with_partitions(changed), None
