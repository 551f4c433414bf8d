"""What requests cost whose work depends on bytes, waits or groups, not on their entries; as `test_bounded_requests`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from purgatorio.broker.share.share_fetches import MAX_PARTITIONS
from purgatorio.broker.share.share_reader import ACQUIRED_PER_TURN
from purgatorio.protocol.api import ApiKey, encode_request
from purgatorio.protocol.message import Message
from purgatorio.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
)
from purgatorio.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequestPartition as AlteredPartition,
)
from purgatorio.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from purgatorio.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from purgatorio.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from purgatorio.protocol.messages.share_fetch import FetchPartition as ShareFetchPartition
from purgatorio.protocol.messages.share_fetch import FetchTopic as ShareFetchTopic
from purgatorio.protocol.messages.share_fetch import ShareFetchRequest
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch
from tests.broker.server.holding import Cost, Target, assert_within_bound
from tests.broker.server.named import PARTITIONS
from tests.broker.server.test_bounded_requests import full_broker

pytestmark = [pytest.mark.no_cover, pytest.mark.slow, pytest.mark.timeout(300)]

TRIES = 4
NAMED = 3_900
TOPICS = 3_000
MEMBERS = 12
LARGE = 90
"""Batches of 900 kB in one request."""


def frame(key: ApiKey, version: int, request: Message) -> bytes:
    return b"".join(encode_request(key, version, 7, "x", request))[4:]


async def worst(target: Target, frames: Iterator[bytes], title: str) -> Cost:
    """Return the least of the tries: the first ones compile codecs, and others use the core."""
    return Cost(min([(await target.answer(each))[0] for each in frames]), title)


def produce(batches: int, value_bytes: int, topic: str = "wide", partitions: int = PARTITIONS) -> bytes:
    batch = build_batch([Record(0, 1_700_000_000_000, None, bytes(value_bytes))])
    data = [PartitionProduceData(index=index % partitions, records=batch) for index in range(batches)]
    topics = [TopicProduceData(name=topic, partition_data=data)]
    return frame(ApiKey.PRODUCE, 9, ProduceRequest(acks=1, timeout_ms=1_000, topic_data=topics))


@pytest.mark.parametrize(("batches", "value_bytes"), [(LARGE, 900_000), (NAMED, 100)])
async def test_a_large_produce_request_does_not_hold_the_loop(
    monkeypatch: pytest.MonkeyPatch, batches: int, value_bytes: int
) -> None:
    async with full_broker(monkeypatch) as target:
        request = produce(batches, value_bytes)
        assert_within_bound(await worst(target, iter([request] * TRIES), f"{batches} batches of {value_bytes} bytes"))


async def test_a_fetch_of_thousands_of_partitions_that_waits_does_not_hold_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    partitions = [FetchPartition(partition=nth % PARTITIONS, partition_max_bytes=1_000) for nth in range(NAMED)]
    request = FetchRequest(
        max_wait_ms=10,
        min_bytes=1,
        max_bytes=1_000_000,
        session_epoch=-1,
        topics=[FetchTopic(topic="wide", partitions=partitions)],
    )
    async with full_broker(monkeypatch) as target:
        fetch = frame(ApiKey.FETCH, 12, request)
        assert_within_bound(await worst(target, iter([fetch] * TRIES), f"a fetch of {NAMED} that waits"))


async def test_the_offsets_of_thousands_of_share_partitions_do_not_hold_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def alters() -> Iterator[bytes]:
        for offset in range(TRIES + 1):
            partitions = [AlteredPartition(partition_index=nth, start_offset=offset) for nth in range(NAMED)]
            topics = [AlterShareGroupOffsetsRequestTopic(topic_name="very-wide", partitions=partitions)]
            request = AlterShareGroupOffsetsRequest(group_id="idle", topics=topics)
            yield frame(ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, request)

    async with full_broker(monkeypatch) as target:
        await target.create("very-wide", NAMED, {})
        altering = alters()
        await target.answer(next(altering))
        assert_within_bound(await worst(target, altering, f"the offsets of {NAMED} share partitions"))


async def test_a_share_session_of_thousands_of_partitions_does_not_hold_the_loop_when_it_fetches_and_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fetch(epoch: int, topics: list[ShareFetchTopic]) -> bytes:
        request = ShareFetchRequest(
            group_id="idle",
            member_id="one",
            share_session_epoch=epoch,
            max_wait_ms=1_000,
            min_bytes=1,
            max_bytes=MAX_PARTITIONS * 1_000,
            max_records=MAX_PARTITIONS,
            batch_size=1,
            topics=topics,
        )
        return frame(ApiKey.SHARE_FETCH, 1, request)

    async with full_broker(monkeypatch) as target:
        await target.create("very-wide", MAX_PARTITIONS, {})
        partitions = [AlteredPartition(partition_index=nth, start_offset=0) for nth in range(MAX_PARTITIONS)]
        altered = AlterShareGroupOffsetsRequestTopic(topic_name="very-wide", partitions=partitions)
        request = AlterShareGroupOffsetsRequest(group_id="idle", topics=[altered])
        await target.answer(frame(ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, request))
        await target.answer(produce(MAX_PARTITIONS, 100, "very-wide", MAX_PARTITIONS))
        asked = [ShareFetchPartition(partition_index=nth) for nth in range(MAX_PARTITIONS)]
        topics = [ShareFetchTopic(topic_id=target.topic_id("very-wide"), partitions=asked)]
        fetches_ms, holds_ms = [], []
        for _ in range(TRIES):
            await target.answer(fetch(0, topics))
            later = [await target.answer(fetch(epoch, [])) for epoch in range(1, MAX_PARTITIONS // ACQUIRED_PER_TURN)]
            fetches_ms.append(max(hold_ms for hold_ms, *_ in later))
            assert target.lock_count("idle") > MAX_PARTITIONS / 2
            holds_ms.append((await target.answer(fetch(-1, [])))[0])
            assert target.lock_count("idle") == 0
        assert_within_bound(Cost(min(fetches_ms), f"a fetch of a share session of {MAX_PARTITIONS} partitions"))
        assert_within_bound(Cost(min(holds_ms), f"the end of a share session of {MAX_PARTITIONS} partitions"))


@pytest.mark.parametrize("differ", [False, True])
async def test_an_epoch_of_a_group_of_thousands_of_topics_does_not_hold_the_loop(
    monkeypatch: pytest.MonkeyPatch, differ: bool
) -> None:
    def joins() -> Iterator[bytes]:
        for number in range(MEMBERS):
            request = ConsumerGroupHeartbeatRequest(
                group_id="many",
                member_id=f"member-{number}",
                member_epoch=0,
                rebalance_timeout_ms=60_000,
                subscribed_topic_names=[f"topic{nth}" for nth in range(number * differ, TOPICS)],
                topic_partitions=[],
            )
            yield frame(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, request)

    async with full_broker(monkeypatch) as target:
        joining = joins()
        for _ in range(MEMBERS - TRIES):
            await target.answer(next(joining))
        assert_within_bound(await worst(target, joining, f"a member joins a group of {TOPICS} topics"))
