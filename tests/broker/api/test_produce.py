"""Tests of the Produce handler: acks, versions, and errors with acks=0."""

from __future__ import annotations

import weakref
from typing import Any

import pytest

from purgatorio.broker.api import produce
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.protocol.api import EncodedResponse, decode_response, encode_response
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.compression import Compression
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch
from tests.broker.api.harness import Replies, context
from tests.broker.replica.harness import Harness, batch, topic
from tests.broker.time.by_hand import HandListings

BATCHES = produce.MAX_COST // produce.COST_OF_BATCH
"""Those that are appended at once."""
BYTES = produce.MAX_COST * 1024


@pytest.fixture
def alone() -> Harness:
    """Broker 1, the only in-sync replica."""
    harness = Harness()
    harness.set_topics(topic(isr=(1,)))
    return harness


def handle(broker: Harness, *, acks: int, name: str = "orders", records: bytes | None = None, version: int = 9) -> Any:
    data = PartitionProduceData(index=0, records=batch(b"value") if records is None else records)
    request = ProduceRequest(acks=acks, topic_data=[TopicProduceData(name=name, partition_data=[data])])
    replies = Replies()
    produce.handle(
        broker.replicas,
        lambda: broker.image,
        HandListings(),
        context(ApiKey.PRODUCE, version),
        request,
        replies,
    )
    said = replies.only
    if isinstance(said, EncodedResponse):
        _, said = decode_response(ApiKey.PRODUCE, version, b"".join(encode_response(0, version, 7, said))[4:])
    return said


def error_of(response: Any) -> ErrorCode:
    return ErrorCode(response.responses[0].partition_responses[0].error_code)


def test_acks_0_is_not_answered(alone: Harness) -> None:
    assert handle(alone, acks=0) is None
    assert alone.partition().log.log_end_offset == 1


def test_acks_0_that_fails_closes_the_connection(alone: Harness) -> None:
    assert handle(alone, acks=0, name="nowhere").startswith(
        "produce with acks=0 failed: UNKNOWN_TOPIC_OR_PARTITION: nowhere-0"
    )


def test_a_topic_without_partitions_is_left_out_as_in_kafka(alone: Harness) -> None:
    data = [PartitionProduceData(index=0, records=batch(b"value"))]
    for topics, told in (([("none", [])], []), ([("none", []), ("orders", data)], ["orders"])):
        asked = [TopicProduceData(name=name, partition_data=given) for name, given in topics]
        request, replies = ProduceRequest(acks=1, topic_data=asked), Replies()
        ctx = context(ApiKey.PRODUCE, 9)
        produce.handle(alone.replicas, lambda: alone.image, HandListings(), ctx, request, replies)
        assert [each.name for each in replies.only.responses] == told


@pytest.mark.parametrize("acks", [-2, 2, 127])
def test_other_acks_are_refused_and_append_nothing(alone: Harness, acks: int) -> None:
    assert error_of(handle(alone, acks=acks)) == ErrorCode.INVALID_REQUIRED_ACKS
    assert alone.partition().log.log_end_offset == 0


@pytest.mark.parametrize(("version", "error"), [(6, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE), (7, ErrorCode.NONE)])
def test_kip_110_zstd_needs_version_7(alone: Harness, version: int, error: ErrorCode) -> None:
    record = Record(0, 1_700_000_000_000, None, b"value" * 100, ())
    records = build_batch([record], compression=Compression.ZSTD)
    assert error_of(handle(alone, acks=1, records=records, version=version)) == error


def test_a_corrupt_batch_is_refused(alone: Harness) -> None:
    broken = bytearray(batch(b"value"))
    broken[-1] ^= 1
    assert error_of(handle(alone, acks=1, records=bytes(broken))) == ErrorCode.CORRUPT_MESSAGE


def test_a_batch_of_the_old_format_is_refused(alone: Harness) -> None:
    old = bytearray(batch(b"value"))
    old[16] = 1
    assert error_of(handle(alone, acks=1, records=bytes(old))) == ErrorCode.INVALID_RECORD


def test_kip_951_a_broker_that_does_not_lead_answers_with_the_leader_and_its_endpoint(alone: Harness) -> None:
    alone.set_topics(topic(leader=2, leader_epoch=1, partition_epoch=1))
    response = handle(alone, acks=1, version=10)
    assert response.responses[0].partition_responses[0].current_leader.leader_id == 2
    assert [(node.node_id, node.port) for node in response.node_endpoints] == [(2, 9092)]
    assert handle(alone, acks=1, version=9).node_endpoints == []


@pytest.mark.parametrize("version", [9, 10, 11])
def test_kip_951_a_waiting_request_is_answered_with_the_new_leader_when_leadership_moves(version: int) -> None:
    broker = Harness()
    broker.set_topics(topic())
    data = PartitionProduceData(index=0, records=batch(b"value"))
    request = ProduceRequest(
        acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name="orders", partition_data=[data])]
    )
    replies = Replies()
    produce.handle(
        broker.replicas,
        lambda: broker.image,
        HandListings(),
        context(ApiKey.PRODUCE, version),
        request,
        replies,
    )
    assert replies.said == []
    broker.set_topics(topic(leader=3, leader_epoch=5, partition_epoch=1))
    frame = b"".join(encode_response(ApiKey.PRODUCE, version, 7, replies.only))
    _, seen = decode_response(ApiKey.PRODUCE, version, frame[4:])
    assert error_of(seen) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    leader = seen.responses[0].partition_responses[0].current_leader
    told = (leader.leader_id, leader.leader_epoch, [(node.node_id, node.port) for node in seen.node_endpoints])
    assert told == ((3, 5, [(3, 9093)]) if version >= 10 else (-1, -1, []))


def test_a_request_that_waits_does_not_keep_its_records() -> None:
    """They are in the log; a large request would keep its memory until it is answered."""
    broker = Harness()
    broker.set_topics(topic())
    records = memoryview(bytearray(batch(b"value")))
    kept = weakref.ref(records)
    data = PartitionProduceData(index=0, records=records)
    request = ProduceRequest(
        acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name="orders", partition_data=[data])]
    )
    replies = Replies()
    ctx = context(ApiKey.PRODUCE, 9)
    produce.handle(broker.replicas, lambda: broker.image, HandListings(), ctx, request, replies)
    del records
    assert (replies.said, broker.partition().log.log_end_offset, kept()) == ([], 1, None)


def test_kip_467_the_response_names_the_records_at_fault(alone: Harness) -> None:
    alone.set_topics(topic(isr=(1,), cleanup_policy="compact"))
    records = [Record(i, 1_700_000_000_000, key, b"value", ()) for i, key in enumerate((b"a", None, b"b"))]
    answer = handle(alone, acks=1, records=build_batch(records)).responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.INVALID_RECORD
    named = [(error.batch_index, error.batch_index_error_message) for error in answer.record_errors]
    assert named == [(1, "it has no key, and the topic is compacted")]
    assert answer.error_message == "record 1 of the batch: it has no key, and the topic is compacted"


def produce_to(broker: Harness, *names: str, client_id: str = "test") -> list[int]:
    """The error codes of a request with a batch for each topic."""
    batches = [PartitionProduceData(index=0, records=batch(b"value")) for _ in names]
    topics = [TopicProduceData(name=name, partition_data=[data]) for name, data in zip(names, batches, strict=True)]
    request = ProduceRequest(acks=1, topic_data=topics)
    replies = Replies()
    ctx = context(ApiKey.PRODUCE, 9)
    ctx.client_id = client_id
    produce.handle(broker.replicas, lambda: broker.image, HandListings(), ctx, request, replies)
    return [each.partition_responses[0].error_code for each in replies.only.responses]


def test_clients_may_not_produce_to_internal_topics() -> None:
    broker = Harness()
    broker.set_topics(topic(isr=(1,)), topic("__consumer_offsets", isr=(1,)))
    names = ("__consumer_offsets", "orders", "__transaction_state")
    refused = ErrorCode.INVALID_TOPIC_EXCEPTION
    assert produce_to(broker, *names) == [refused, 0, refused]
    assert broker.partition(TopicPartition("__consumer_offsets", 0)).log.log_end_offset == 0
    assert broker.partition().log.log_end_offset == 1


def test_the_admin_client_may_produce_to_internal_topics() -> None:
    broker = Harness()
    broker.set_topics(topic("__consumer_offsets", isr=(1,)), topic(isr=(1,)))
    assert produce_to(broker, "__consumer_offsets", "orders", client_id="__admin_client") == [0, 0]


# --- duplicates of idempotent producers ---


def sent(broker: Harness, sequence: int, *, acks: int, version: int, epoch: int = 0) -> Any:
    """Produce one record of an idempotent producer; returns what its partition is answered."""
    records = build_batch(
        [Record(0, 1_700_000_000_000, None, b"value")], producer_id=7, producer_epoch=epoch, base_sequence=sequence
    )
    return handle(broker, acks=acks, records=records, version=version).responses[0].partition_responses[0]


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("version", [3, 7, 9, 12])
def test_a_duplicate_of_the_last_five_batches_is_told_its_offset(alone: Harness, acks: int, version: int) -> None:
    """As in Kafka (`ProducerStateEntry`); without an offset clients report records as written somewhere."""
    first = [sent(alone, sequence, acks=acks, version=version).base_offset for sequence in range(7)]
    assert first == list(range(7))
    for sequence in range(2, 7):
        again = sent(alone, sequence, acks=acks, version=version)
        assert (again.error_code, again.base_offset) == (ErrorCode.NONE, sequence)
    assert alone.partition().log.log_end_offset == 7


def test_an_older_duplicate_is_out_of_order_as_in_kafka(alone: Harness) -> None:
    """Kafka's brokers do not use DUPLICATE_SEQUENCE_NUMBER, which clients take for success without an offset."""
    for sequence in range(7):
        sent(alone, sequence, acks=1, version=9)
    for sequence in (0, 1):
        refused = sent(alone, sequence, acks=1, version=9)
        assert (refused.error_code, refused.base_offset) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)


def test_a_duplicate_is_told_its_offset_when_another_broker_has_become_the_leader() -> None:
    """The next leader knows the batches from its own log."""
    harness = Harness()
    harness.set_topics(topic(leader=2, isr=(1, 2)))
    batches = [
        build_batch([Record(nth, 0, None, b"v")], base_offset=nth, producer_id=7, producer_epoch=0, base_sequence=nth)
        for nth in range(3)
    ]
    harness.partition().log.append_as_follower(b"".join(batches), wall_ms=0)
    harness.set_topics(topic(leader=1, leader_epoch=1, isr=(1,), partition_epoch=1))
    for sequence in range(3):
        again = sent(harness, sequence, acks=-1, version=9)
        assert (again.error_code, again.base_offset) == (ErrorCode.NONE, sequence)


class Long:
    """A request for very many batches, each of them for the same partition."""

    def __init__(self, broker: Harness, batches: int, *, acks: int = 1, request_bytes: int = 1_000) -> None:
        data = [PartitionProduceData(index=0, records=batch(b"value")) for _ in range(batches)]
        request = ProduceRequest(acks=acks, topic_data=[TopicProduceData(name="orders", partition_data=data)])
        self.listings = HandListings()
        self.replies = Replies()
        ctx = context(ApiKey.PRODUCE, 9)
        self.session = ctx.session
        ctx.request_bytes = request_bytes
        produce.handle(broker.replicas, lambda: broker.image, self.listings, ctx, request, self.replies)


def test_very_many_batches_are_appended_in_steps_and_answered_together(alone: Harness) -> None:
    count = 2 * BATCHES + 1
    asked = Long(alone, count)
    ends = [alone.partition().log.log_end_offset for _ in asked.listings.steps()]
    assert ends == [BATCHES, 2 * BATCHES, count]
    offsets = [each.base_offset for each in asked.replies.only.responses[0].partition_responses]
    assert offsets == list(range(count))


def test_a_large_request_is_cut_by_the_bytes_of_its_batches() -> None:
    half = bytes(BYTES // 2 - 1024 * produce.COST_OF_BATCH)
    batches = [(TopicPartition("orders", nth), half) for nth in range(5)]
    assert list(map(len, produce._cuts(batches))) == [2, 2, 1]
    larger = (TopicPartition("orders", 9), bytes(BYTES + 1))
    assert list(map(len, produce._cuts([larger, (TopicPartition("orders", 1), None), larger]))) == [1, 1, 1]


def test_a_large_request_is_appended_in_steps(alone: Harness) -> None:
    asked = Long(alone, 3, request_bytes=BYTES + 1)
    assert not asked.replies.said
    list(asked.listings.steps())
    assert len(asked.replies.only.responses[0].partition_responses) == 3


@pytest.mark.parametrize(("acks", "appended"), [(0, 2 * BATCHES), (1, BATCHES)])
def test_what_a_producer_sent_without_acks_is_appended_though_it_has_gone(
    alone: Harness, acks: int, appended: int
) -> None:
    asked = Long(alone, 2 * BATCHES, acks=acks)
    asked.listings.step()
    asked.session.channel = object()  # type: ignore[assignment]  # lost: it has another channel than before
    list(asked.listings.steps())
    assert alone.partition().log.log_end_offset == appended


class Muted:
    """The channel of a client; counts how often it is muted now."""

    def __init__(self) -> None:
        self.times = 0

    def mute(self) -> None:
        self.times += 1

    def unmute(self) -> None:
        self.times -= 1

    def throttle(self) -> None: ...

    def unthrottle(self, then: Any = None) -> None: ...


def flood(broker: Harness, *, acks: int) -> tuple[Muted, int]:
    """Produce a megabyte at a time until the client is muted, whose number of requests is returned."""
    channel, records = Muted(), batch(bytes(1_000_000))
    ctx = context(ApiKey.PRODUCE, 9)
    ctx.session.channel = channel
    for count in range(1, 65):
        data = PartitionProduceData(index=0, records=records)
        request = ProduceRequest(acks=acks, topic_data=[TopicProduceData(name="orders", partition_data=[data])])
        replies = Replies()
        produce.handle(broker.replicas, lambda: broker.image, HandListings(), ctx, request, replies)
        if channel.times:
            return channel, count
    raise AssertionError("the client was never muted")


@pytest.fixture
def followed() -> Harness:
    """Broker 1, which leads; brokers 2 and 3 are in sync, and fetch when they are told to."""
    harness = Harness()
    harness.set_topics(topic(isr=(1, 2, 3)))
    return harness


@pytest.mark.parametrize("acks", [0, 1])
def test_a_client_whose_records_fill_the_memory_goes_on_when_followers_have_them(followed: Harness, acks: int) -> None:
    """It was refused, and a producer that is not idempotent wrote out of order (librdkafka's 0038 and 0041)."""
    channel, count = flood(followed, acks=acks)
    share = followed.replicas.memory.led
    assert followed.partition().log.log_end_offset == count, "nothing was refused"
    assert followed.partition().log.uncommitted_bytes < share.limit_bytes // 3, "there is room for what is on its way"
    followed.follow((2, count - 1), (3, count))
    assert channel.times == 1
    followed.follow((2, count))
    assert channel.times == 0


def test_a_client_whose_records_no_follower_fetches_goes_on_after_a_second(followed: Harness) -> None:
    channel, _ = flood(followed, acks=1)
    followed.advance_ms(produce.SLOW_MS - 1)
    assert channel.times == 1
    followed.advance_ms(2)
    assert channel.times == 0


def test_a_leader_without_followers_slows_no_client_down(alone: Harness) -> None:
    with pytest.raises(AssertionError, match="never muted"):
        flood(alone, acks=1)
