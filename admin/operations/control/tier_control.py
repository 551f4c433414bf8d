"""The tier in the hands of an operator: what it has, offloading, holding and verifying, for the brokers of a process.

A broker speaks for the partitions that it leads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

from purgatorio.admin.operations.control.topic_control import partition_count, until_replicated
from purgatorio.admin.operations.declare import Answer
from purgatorio.admin.operations.reading.tier_state import strip_as_answer
from purgatorio.broker.cluster.cluster import BrokerCluster
from purgatorio.broker.cluster.decisions import newest
from purgatorio.broker.cluster.errors import ClusterUnavailable, Invalid, MayBeDone, NotThere, OperationRefused
from purgatorio.broker.layers.faults import FaultError, LiveTierRule, TierRule, TooManyFaults
from purgatorio.broker.metadata.image import NO_LEADER
from purgatorio.broker.node.broker import Broker
from purgatorio.broker.replica.partition import Partition
from purgatorio.broker.replica.tiering import Tiering
from purgatorio.broker.tier.names import LOG, SegmentName
from purgatorio.broker.tier.remote_log import RemoteLog
from purgatorio.broker.tier.segment_file import DamagedObject, RemoteSegment
from purgatorio.broker.tier.store import NotThere as NoObject
from purgatorio.broker.tier.store import Store, StoreError
from purgatorio.broker.time.long_work import Steps
from purgatorio.broker.time.system_clock import SystemClock

NO_TIER: Final = "the cluster has no tier: begin it with --tier DIR"
POLL_MS: Final = 20
"""The pause between two looks whether a partition is copied."""
ASK_MS: Final = 200
"""The time between two rounds, or lists of the store, that it asks for."""
LIST_MS: Final = 2_000
"""The longest wait of an answer for the store to say what it has."""
MAX_ASKED: Final = 1_000
"""Replicas for which a list of topics asks it."""
FOLLOWERS_MS: Final = 2_000
"""The longest wait for followers in other processes to hear what the leader has copied."""
TRIES: Final = 3
"""The times that a part is read, before it is damaged or the store away."""
SUMS: Final = ("partition_count", "segment_count", "remote_bytes", "local_bytes", "uncopied_bytes")
"""The sums over a topic's partitions in the list."""
PARTITION_COST: Final = 50
"""The cost of a partition in a list (see `LongWork`)."""
SEGMENT_COST: Final = 5
"""The cost of each of its segments where its strip is shown."""
_CALLS: Final = {"reads": "get", "writes": "put"}
_MACHINE: Final = SystemClock()
"""The waits go by the machine's time: that of the brokers may stand still."""


class _Replica(NamedTuple):
    """A replica of a tiered topic, on a broker of this process."""

    broker: Broker
    tiering: Tiering
    partition: Partition

    @property
    def remote(self) -> RemoteLog:
        """Its part in the tier."""
        return self.tiering.remote_of(self.partition)

    @property
    def trouble(self) -> str:
        """Why the store failed for it; "": it did not."""
        return self.tiering.trouble_of(self.partition.tp)

    @property
    def is_heard(self) -> bool:
        """Whether memory has all of it, or it is known what the tier has."""
        partition = self.partition
        is_whole = partition.log.log_start_offset >= partition.log.local_start_offset
        return is_whole or self.remote.listed_in_epoch == partition.leader_epoch


def _check_tier(cluster: BrokerCluster) -> None:
    if cluster.brokers and all(broker.tiering is None for broker in cluster.brokers):
        raise OperationRefused(NO_TIER)


def _replicas(cluster: BrokerCluster, topic: str | None = None) -> Iterator[_Replica]:
    """Yield the replicas of tiered topics here; of one, or of all."""
    for broker in cluster.brokers:
        if broker.tiering is None:
            continue
        for partition in broker.tiering.tiered():
            if topic in (None, partition.tp.topic):
                yield _Replica(broker, broker.tiering, partition)


def _of_topic(cluster: BrokerCluster, topic: str) -> list[_Replica]:
    """Return the replicas of a topic here, by partition, leaders first.

    Raises:
        NotThere: there is no such topic.
        OperationRefused: there is no tier, or nothing of the topic is there.
    """
    _check_tier(cluster)
    partition_count(cluster, topic)
    if not newest(cluster.network).image.topics[topic].is_tiered:
        raise OperationRefused(f"topic {topic!r} has no part in the tier: set its remote.storage.enable to true")
    return sorted(
        _replicas(cluster, topic), key=lambda each: (each.partition.tp.partition, not each.partition.is_leader)
    )


def _check_led(cluster: BrokerCluster, topic: str, replicas: Iterable[_Replica]) -> None:
    """Check that brokers here lead what they are elected for, and that the rest has leaders elsewhere.

    Raises:
        ClusterUnavailable: a partition has no leader, of which brokers know nothing.
    """
    here, led = {each.broker_id for each in cluster.brokers}, {each.partition.tp.partition for each in _led(replicas)}
    for number, state in enumerate(newest(cluster.network).image.topics[topic].partitions):
        if state.leader == NO_LEADER or (state.leader in here and number not in led):
            troubles = (each.trouble for each in replicas if each.partition.tp.partition == number)
            raise ClusterUnavailable(": ".join([f"{topic}-{number} has no leader", *filter(None, troubles)]))


def _led(replicas: Iterable[_Replica]) -> list[_Replica]:
    return [each for each in replicas if each.partition.is_leader]


# --- what there is ---


async def topics_in_tier(cluster: BrokerCluster) -> Answer:
    """Return the topics with a part in the tier, by name, as the leaders of this process know them; if none leads, too.

    `location` is null if there is no tier.
    """
    found: dict[str, Answer] = {}
    await _heard(islice(_replicas(cluster), MAX_ASKED))
    await cluster.work.take(_listing(cluster, found))
    location = next((each.tiering.store.location for each in cluster.brokers if each.tiering is not None), None)
    trouble = next((each.tiering.trouble for each in cluster.brokers if each.tiering and each.tiering.trouble), "")
    return {"location": location, "trouble": trouble, "topics": [found[name] for name in sorted(found)]}


def _listing(cluster: BrokerCluster, found: dict[str, Answer]) -> Steps:
    for each in list(_replicas(cluster)):
        topic = each.partition.tp.topic
        known = found.setdefault(topic, {"topic": topic, **dict.fromkeys(SUMS, 0)})
        if each.partition.is_leader:
            row = {**_sizes(each), "partition_count": 1}
            for name in SUMS:
                known[name] += row[name]
        yield PARTITION_COST


async def _heard(replicas: Iterable[_Replica]) -> None:
    """Wait a while until leaders have heard what the store has that memory lacks, as after a restart from the store."""
    unheard = [each for each in _led(replicas) if not each.is_heard]
    for each in unheard:
        each.tiering.list_soon(each.partition)
    deadline_ms = _MACHINE.now_ms() + LIST_MS
    while not all(each.is_heard for each in unheard) and _MACHINE.now_ms() < deadline_ms:
        await _MACHINE.sleep(POLL_MS)


async def partitions_in_tier(cluster: BrokerCluster, topic: str, max_segments: int) -> Answer:
    """Return what the leaders of this process know of a topic's partitions.

    Args:
        max_segments: the most segments of each that are listed.

    Raises:
        NotThere: there is no such topic.
        OperationRefused: there is no tier, or nothing of the topic is there.
    """
    replicas = _of_topic(cluster, topic)
    await _heard(replicas)
    location = next((each.tiering.store.location for each in replicas), "")
    return {"topic": topic, "location": location, "partitions": await _rows(cluster, _led(replicas), max_segments)}


async def _rows(cluster: BrokerCluster, replicas: Iterable[_Replica], max_segments: int = 0) -> list[Answer]:
    rows: list[Answer] = []

    def steps() -> Steps:
        for each in replicas:
            rows.append(_row(each, max_segments))
            yield PARTITION_COST + SEGMENT_COST * len(each.remote.segments)

    await cluster.work.take(steps())
    return rows


def _row(replica: _Replica, max_segments: int) -> Answer:
    partition, tiering, remote = replica.partition, replica.tiering, replica.remote
    return {
        "partition": partition.tp.partition,
        "leader": replica.broker.broker_id,
        "is_listed": remote.listed_in_epoch == partition.leader_epoch,
        **_sizes(replica),
        **strip_as_answer(tiering.strip(partition)),
        "segments": [
            {"start_offset": each.start_offset, "end_offset": each.end_offset, "size_bytes": each.size_bytes}
            for each in islice(remote.segments, max_segments)
        ],
        "damaged": [f"{name}: {why}" for name, why in remote.damaged.items()],
        "trouble": tiering.trouble_of(partition.tp),
    }


def _sizes(replica: _Replica) -> dict[str, int]:
    log, segments = replica.partition.log, replica.remote.segments
    copied_to = min(max(log.copied_to, log.local_start_offset), log.log_end_offset)
    return {
        "segment_count": len(segments),
        "remote_bytes": segments.size_bytes,
        "local_bytes": log.size_bytes,
        "uncopied_bytes": log.size_between(copied_to, log.log_end_offset),
    }


# --- offload ---


async def offload(cluster: BrokerCluster, topic: str, timeout_seconds: float) -> Answer:
    """Have all replicas here copy a topic, or hear that it is copied, and delete from memory what the tier has.

    Raises:
        NotThere: there is no such topic.
        OperationRefused: there is no tier, nothing of the topic is there, or it is not to be copied.
        ClusterUnavailable: a partition has no leader.
        MayBeDone: the store has not taken it in time; it goes on.
    """
    replicas = _of_topic(cluster, topic)
    if any(each.partition.log.config.remote_log_copy_disable for each in replicas):
        raise OperationRefused(f"topic {topic!r} is not copied: its remote.log.copy.disable is true")
    _check_led(cluster, topic, replicas)
    leaders = _led(replicas)
    await until_replicated(lambda: [each.partition for each in leaders])
    before = sum(each.partition.log.size_bytes for each in leaders)
    targets = {}
    for each in leaders:
        targets[each.partition.tp] = each.partition.log.close_active(each.broker.clock.wall_ms())
    deadline_ms = _MACHINE.now_ms() + 1000 * timeout_seconds
    for each in leaders:
        if not await _copied(each, targets[each.partition.tp], deadline_ms):
            raise MayBeDone(_not_copied(each, targets[each.partition.tp], timeout_seconds))
    deadline_ms = min(deadline_ms, _MACHINE.now_ms() + FOLLOWERS_MS)
    for each in replicas:
        partition = each.partition
        if not partition.is_leader:
            await _copied(each, targets.get(partition.tp, partition.high_watermark), deadline_ms)
        partition.log.drop_copied()
    dropped = before - sum(each.partition.log.size_bytes for each in leaders)
    return {"topic": topic, "dropped_bytes": max(0, dropped), "partitions": await _rows(cluster, leaders)}


async def _copied(replica: _Replica, target: int, deadline_ms: float) -> bool:
    """Return whether the tier has all up to an offset before the deadline."""
    partition, tiering = replica.partition, replica.tiering
    asked_at_ms = 0
    while partition.log.copied_to < target:
        if _MACHINE.now_ms() >= deadline_ms or replica.broker.replica(partition.tp) is not partition:
            return False
        is_time = _MACHINE.now_ms() >= asked_at_ms + ASK_MS and not tiering.trouble_of(partition.tp)
        if is_time:  # a store that fails is tried again at the pace of the rounds
            asked_at_ms = _MACHINE.now_ms()
            if partition.is_leader:
                tiering.note(partition.tp)
                tiering.wake()
            else:
                tiering.list_soon(partition)
        await _MACHINE.sleep(POLL_MS)
    return True


def _not_copied(replica: _Replica, target: int, timeout_seconds: float) -> str:
    partition, tiering = replica.partition, replica.tiering
    said = f"{partition.tp} is copied up to {partition.log.copied_to} of {target} after {timeout_seconds:g} s"
    held = getattr(tiering.store, "held_by", lambda prefix: None)(replica.remote.folder)
    why = f"fault rule {held} keeps the store" if held is not None else tiering.trouble_of(partition.tp)
    return f"{said}: {why}" if why else f"{said}; the copy goes on"


# --- verify ---


async def verify(cluster: BrokerCluster, topic: str, max_damages: int) -> Answer:
    """Read all objects of the partitions that brokers here lead, one part at a time.

    Args:
        max_damages: the most damaged segments that are listed.

    Raises:
        NotThere: there is no such topic.
        OperationRefused: there is no tier, or nothing of the topic is there.
        ClusterUnavailable: the store does not answer, or a partition has no leader.
    """
    damaged: list[Answer] = []
    counts = {"partition_count": 0, "segment_count": 0, "size_bytes": 0}
    replicas = _of_topic(cluster, topic)
    _check_led(cluster, topic, replicas)
    for replica in _led(replicas):
        try:
            found, segment_count, size_bytes = await _damages(replica)
        except StoreError as error:
            raise ClusterUnavailable(f"{replica.partition.tp} is not verified: {error}") from error
        number = replica.partition.tp.partition
        damaged += [{"partition": number, "start_offset": name.start_offset, "why": found[name]} for name in found]
        counts["partition_count"] += 1
        counts["segment_count"] += segment_count
        counts["size_bytes"] += size_bytes
    return {"topic": topic, **counts, "damaged_count": len(damaged), "damaged": damaged[:max_damages]}


async def _damages(replica: _Replica) -> tuple[dict[SegmentName, str], int, int]:
    """Return what is wrong with segments of a partition, the number of all, and the bytes that were read."""
    store, remote = replica.tiering.store, replica.remote
    counted_on = list(remote.segments)
    fresh = replica.tiering.new_remote_of(replica.partition)
    await fresh.list(store, replica.partition.leader_epoch)
    found, listed = dict(fresh.damaged), {each.name for each in fresh.described}
    for each in counted_on:
        if each.name not in listed and each.name not in found and remote.has(each):
            found[each.name] = "the store does not have it, though it has said so"
    size_bytes = 0
    for each in fresh.described:
        if wrong := await _wrong_with(store, fresh.folder, each):
            found[each.name] = wrong
        size_bytes += each.size_bytes
    return {name: found[name] for name in sorted(found)}, len(listed | found.keys()), size_bytes


async def _wrong_with(store: Store, folder: str, segment: RemoteSegment) -> str:
    """Return why a segment's records are not those that were written; "": they are."""
    for part in segment.parts:
        for left in range(TRIES - 1, -1, -1):
            try:
                part.check(await store.get(f"{folder}{segment.name}{LOG}", part.position, part.size_bytes))
                break
            except NoObject:
                return "its records are not there"
            except DamagedObject as error:
                if not left:
                    return str(error)
            except StoreError:
                if not left:
                    raise
            await asyncio.sleep(0)
    return ""


async def sweep(cluster: BrokerCluster) -> int:
    """Have the controller's broker, if it is here, delete what deleted topics have left; return how many objects.

    Raises:
        OperationRefused: there is no tier.
        ClusterUnavailable: the store does not answer.
    """
    _check_tier(cluster)
    deleted = 0
    for broker in cluster.brokers:
        if broker.sweep is not None:
            before = broker.sweep.deleted
            try:
                await broker.sweep.sweep(lists_all=True)
            except (StoreError, TimeoutError) as error:
                raise ClusterUnavailable(f"the tier is not swept: {str(error) or 'no answer in time'}") from error
            deleted += broker.sweep.deleted - before
    return deleted


# --- hold ---


def hold(cluster: BrokerCluster, what: str, topic: str | None) -> dict[str, Any]:
    """Add the rule that holds reads or writes, unless it is there; return it with its counts.

    Raises:
        NotThere: there is no such topic.
        OperationRefused: there is no tier, or there are too many rules.
    """
    _check_tier(cluster)
    if topic is not None:
        partition_count(cluster, topic)
    name = _name_of(what, topic)
    for live in cluster.faults.rules:
        if isinstance(live, LiveTierRule) and live.rule.name == name:
            return live.as_data()
    try:
        return cluster.faults.add(TierRule(tier=_CALLS[what], topic=topic, hold=True, name=name)).as_data()
    except FaultError as error:
        raise Invalid(str(error)) from None
    except TooManyFaults as error:
        raise OperationRefused(str(error)) from None


def release(cluster: BrokerCluster, what: str, topic: str | None) -> int:
    """Remove the rules that hold reads or writes, of a topic or all; return the number of calls that they held.

    Raises:
        NotThere: none holds them.
    """
    _check_tier(cluster)
    names = _name_of(what, topic)
    found = [
        live
        for live in cluster.faults.rules
        if isinstance(live, LiveTierRule)
        and (live.rule.name == names or (topic is None and live.rule.name.startswith(f"{names} of ")))
    ]
    if not found:
        raise NotThere(f"{what} of the tier are not held{'' if topic is None else f' for topic {topic!r}'}")
    held = sum(live.held for live in found)
    for live in found:
        live.release()
    return held


def _name_of(what: str, topic: str | None) -> str:
    return f"hold {what}" if topic is None else f"hold {what} of {topic}"
