"""Makes a snapshot of a cluster that its tier has kept, with which a new process begins (docs/tier.md).

A topic with remote.storage.enable has its records up to where it was copied: after an end in order all of them. Others
are there with their ids and configs, and begin empty where they ended. Committed offsets are at most the ends of logs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from purgatorio.admin.operations.control.saved_format import Manifest
from purgatorio.broker.causes.words import and_more
from purgatorio.broker.cluster.snapshots import NO_RECORDS, SavedPartition, Snapshot
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import ClusterImage, PartitionState, Topic
from purgatorio.broker.metadata.topic_name import INTERNAL_TOPICS, OFFSETS_TOPIC
from purgatorio.broker.node.broker_maker import TierUnusable
from purgatorio.broker.tier.claim import StoreClaim
from purgatorio.broker.tier.names import partition_folder, segment_of
from purgatorio.broker.tier.remote_log import RemoteLog
from purgatorio.broker.tier.restoring import PartInTier, part_in_tier
from purgatorio.late import dataclass
from purgatorio.protocol.end_marker import read_end_marker
from purgatorio.protocol.offset_records import (
    encode_offset_key,
    encode_offset_value,
    read_offset_key,
    read_offset_value,
)
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch, iter_batches, iter_records

LISTED_AT_ONCE: Final = 8
"""The partitions whose segments are read at a time."""
PRODUCER_IDS_SKIPPED: Final = 1_000_000_000
"""The producer ids that are not given again after a kill: more than a cluster may have given since it was kept."""
EPOCHS_SKIPPED: Final = 100
"""The leader epochs that are not given again after a kill, likewise: for each partition."""
TOPICS_NAMED: Final = 10
"""The topics that are named at most."""

OffsetKey = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class Restart:
    """The beginning of a cluster.

    Attributes:
        snapshot: its topics, with the part of each that is in the tier.
        said: the same in words.
    """

    snapshot: Snapshot
    said: str

    @classmethod
    async def read(
        cls,
        claim: StoreClaim,
        manifest: Manifest,
        kept: Mapping[TopicPartition, SavedPartition],
        broker_ids: Sequence[int],
    ) -> Restart:
        """Read what the store has of a cluster.

        Args:
            claim: the new owner's; from now on it goes by what the store has at this moment.
            kept: the logs of committed offsets.
            broker_ids: the brokers that there are now.

        Raises:
            StoreError: the store does not say.
            TierUnusable: a segment is damaged.
        """
        parts = await _parts(claim, manifest)
        skipped = 0 if manifest.ended else EPOCHS_SKIPPED
        topics = [_placed(topic, parts, broker_ids, skipped) for topic in manifest.image.topics.values()]
        image = replace(
            manifest.image,
            topics={},
            next_producer_id=manifest.image.next_producer_id + (0 if manifest.ended else PRODUCER_IDS_SKIPPED),
        ).with_topics(topics)
        logs: dict[TopicPartition, SavedPartition] = {}
        for log in manifest.logs:
            logs[log.tp] = _begun(image, log.tp, parts.get(log.tp), log.start_offset, log.end_offset)
        logs.update(_offsets_within({tp: replace(each, is_cut=True) for tp, each in kept.items()}, logs, image))
        snapshot = Snapshot.of(image, logs)
        metadata = {name: each for name, each in snapshot.metadata.items() if name != "scram_credentials"}
        return cls(replace(snapshot, metadata=metadata), _said(manifest, image, logs))


def all_in_order(image: ClusterImage) -> Iterator[TopicPartition]:
    """Yield all partitions, by topic and number."""
    for name in sorted(image.topics):
        for index in range(len(image.topics[name].partitions)):
            yield TopicPartition(name, index)


async def _parts(claim: StoreClaim, manifest: Manifest) -> dict[TopicPartition, PartInTier]:
    """Return the part in the tier of each partition that has one."""
    objects = await claim.store.list(f"{claim.cluster_id}/")
    claim.older = frozenset(each.key for each in objects if segment_of(each.key) is not None)
    folders = {key.rpartition("/")[0] for key in claim.older}
    gate = asyncio.Semaphore(LISTED_AT_ONCE)
    found: dict[TopicPartition, PartInTier] = {}

    async def read(tp: TopicPartition, folder: str, start_offset: int, epoch: int) -> None:
        async with gate:
            remote = RemoteLog(folder, claim, keeps_producers=True)
            await remote.list(claim.store, epoch)
            part = part_in_tier(remote.described, start_offset)
            _check_damaged(claim, tp, remote, (start_offset, 0, 0) if part is None else (start_offset, *part[:2]))
            if part is not None:
                found[tp] = part

    reads = []
    for log in manifest.logs:
        topic = manifest.image.topics[log.tp.topic]
        folder = partition_folder(claim.cluster_id, topic.topic_id, log.tp.partition)
        if topic.is_tiered and folder.rstrip("/") in folders:
            reads.append(read(log.tp, folder, log.start_offset, log.leader_epoch))
    await asyncio.gather(*reads)
    return found


def _check_damaged(claim: StoreClaim, tp: TopicPartition, remote: RemoteLog, bounds: tuple[int, int, int]) -> None:
    """Check that the log does not lack records because of a damaged segment: what lies before its start is deleted.

    Args:
        bounds: where the log began, and where it would begin and end now.
    """
    began, begins, ends = bounds
    for name, why in sorted(remote.damaged.items()):
        if began <= name.start_offset < begins or name.start_offset >= ends:
            raise TierUnusable(
                f"tier.location: {claim.store.location} has a segment of {tp} that cannot be used, "
                f"{remote.folder}{name}: {why}; remove its .json and .log to begin behind it, or take another --tier"
            )


def _placed(
    topic: Topic, parts: Mapping[TopicPartition, PartInTier], broker_ids: Sequence[int], epochs_skipped: int
) -> Topic:
    """Return a topic on the brokers that there are, with leader epochs that are not behind those that were."""
    states: list[PartitionState] = []
    for index, state in enumerate(topic.partitions):
        replicas = tuple(each for each in state.replicas if each in broker_ids)
        part = parts.get(TopicPartition(topic.name, index))
        epoch = epochs_skipped + max(state.leader_epoch, part.epochs[-1][0] if part is not None else 0)
        placed = replicas or (broker_ids[index % len(broker_ids)],)
        leader = state.leader if state.leader in placed else placed[0]
        states.append(
            replace(state, replicas=placed, leader=leader, leader_epoch=epoch, isr=(), elr=(), adding=(), removing=())
        )
    return Topic(topic.name, topic.topic_id, tuple(states), topic.configs)


def _begun(
    image: ClusterImage, tp: TopicPartition, part: PartInTier | None, start_offset: int, end_offset: int
) -> SavedPartition:
    """Return the log with which a partition begins."""
    if tp.topic in INTERNAL_TOPICS:
        return NO_RECORDS
    if part is not None:
        return SavedPartition(part.end_offset, part.end_offset, (), in_tier=part, is_cut=True)
    begins = start_offset if image.topics[tp.topic].is_tiered else end_offset
    return SavedPartition(begins, begins, ())


# --- committed offsets ---


def _offsets_within(
    kept: Mapping[TopicPartition, SavedPartition], logs: Mapping[TopicPartition, SavedPartition], image: ClusterImage
) -> dict[TopicPartition, SavedPartition]:
    """Return logs of committed offsets with a further record for each that is behind the end of its partition."""
    found = {}
    for tp, saved in kept.items():
        corrections: list[Record] = []
        for (group_id, topic, partition), value in _committed(saved).items():
            read = read_offset_value(value)
            log = logs.get(TopicPartition(topic, partition))
            if read is None or log is None or read[0] <= log.end_offset:
                continue
            key = encode_offset_key(group_id, topic, partition)
            corrected = encode_offset_value(log.end_offset, -1, read[2], read[3], image.topics[topic].topic_id)
            corrections.append(Record(saved.end_offset + len(corrections), read[3], key, corrected))
        found[tp] = saved
        if corrections and tp.topic == OFFSETS_TOPIC:
            epoch = image.topics[tp.topic].partitions[tp.partition].leader_epoch
            batch = build_batch(corrections, base_offset=saved.end_offset, leader_epoch=epoch)
            end_offset = saved.end_offset + len(corrections)
            found[tp] = replace(saved, end_offset=end_offset, batches=(*saved.batches, batch))
    return found


def _committed(saved: SavedPartition) -> dict[OffsetKey, bytes]:
    """Return the values of the offsets that a log has committed."""
    committed: dict[OffsetKey, bytes | None] = {}
    pending: dict[int, dict[OffsetKey, bytes | None]] = {}
    for header, batch in (each for part in saved.batches for each in iter_batches(part)):
        if header.is_control:
            ended, marker = pending.pop(header.producer_id, {}), read_end_marker(batch)
            if marker is not None and marker.committed:
                committed.update(ended)
            continue
        target = pending.setdefault(header.producer_id, {}) if header.is_transactional else committed
        for record in iter_records(batch):
            key = None if record.key is None else read_offset_key(record.key)
            if key is not None:
                target[key] = record.value
    return {key: value for key, value in committed.items() if value is not None}


# --- in words ---


def _said(manifest: Manifest, image: ClusterImage, logs: Mapping[TopicPartition, SavedPartition]) -> str:
    """Return which topics came back, and how much of each."""
    back, empty = [], []
    starts = {log.tp: log.start_offset for log in manifest.logs}
    ends = {log.tp: log.end_offset for log in manifest.logs}
    for name in sorted(image.topics):
        if name.startswith("__"):
            continue
        tps = [TopicPartition(name, index) for index in range(len(image.topics[name].partitions))]
        if not image.topics[name].is_tiered:
            empty.append(name)
            continue
        count = sum(part.end_offset - part.log_start_offset for tp in tps if (part := logs[tp].in_tier) is not None)
        lost = sum(max(0, ends[tp] - logs[tp].end_offset) for tp in tps)
        if manifest.ended:  # otherwise retention may have moved the start since
            lost += sum(
                max(0, part.log_start_offset - starts[tp]) for tp in tps if (part := logs[tp].in_tier) is not None
            )
        how = "whole" if manifest.ended and not lost else f"{lost:,} lost" if lost else "up to the last copy"
        back.append(f"{name} ({count:,} record{'s' * (count != 1)}, {how})")
    if not back and not empty:
        return "the tier had no topics of the cluster before"
    said = f"{len(back)} topic{'s' * (len(back) != 1)} came back from the tier"
    if back:
        said += f": {', '.join(back[:TOPICS_NAMED])}{and_more(len(back[TOPICS_NAMED:]))}"
    if empty:
        named = f"{', '.join(empty[:TOPICS_NAMED])}{and_more(len(empty[TOPICS_NAMED:]))}"
        said += f"; {named} {'was not tiered and begins' if len(empty) == 1 else 'were not tiered and begin'} empty"
    if not manifest.ended:
        said += ". The cluster before was not stopped in order; if it still runs, it copies nothing more"
    return said
