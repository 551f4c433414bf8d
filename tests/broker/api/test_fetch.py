"""Tests of the Fetch handler: topic ids, fetch sessions, followers and limits."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from purgatorio.broker.api.fetch import MAX_AT_ONCE, MAX_CONSUMER_PARTITIONS, FetchHandler
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.replica.fetching.reader import READ_COST
from purgatorio.broker.routing.request import RequestContext
from purgatorio.broker.time.long_work import SLICE
from purgatorio.protocol.api import decode_response, encode_response
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.compression import Compression
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ReplicaState
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch
from tests.batches import batches_of
from tests.broker.api.harness import Replies, context
from tests.broker.replica.harness import Harness, batch, topic
from tests.broker.time.by_hand import HandListings

ORDERS_ID = b"orders".ljust(16, b"\0")


@pytest.fixture
def filled() -> Harness:
    """Broker 1, the only in-sync replica, with three batches in orders-0."""
    broker = Harness()
    broker.set_topics(topic(isr=(1,)))
    for _ in range(3):
        broker.produce(acks=1)
    return broker


def fetch(
    broker: Harness,
    *,
    version: int = 12,
    max_bytes: int = 1_000_000,
    ctx: RequestContext | None = None,
    **request: Any,
) -> FetchResponse:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000_000)
    topics = request.pop("topics", [FetchTopic(topic="orders", topic_id=ORDERS_ID, partitions=[partition])])
    image = ClusterImage(0, "test", 1, broker.brokers, {"orders": topic(isr=(1,))})
    listings = HandListings()
    handler = FetchHandler(
        broker.replicas,
        SimpleNamespace(image=image),
        sessions=broker.fetch_sessions,
        max_bytes=max_bytes,
        listings=listings,
    )
    replies = Replies()
    handler.handle(ctx or context(ApiKey.FETCH, version), FetchRequest(topics=topics, **request), replies)
    list(listings.steps())
    response: FetchResponse = replies.only
    return response


def test_topics_are_found_by_name_and_by_id(filled: Harness) -> None:
    for version in (12, 13):
        (answered,) = fetch(filled, version=version).responses
        assert (answered.partitions[0].error_code, len(batches_of(answered.partitions[0].records))) == (
            ErrorCode.NONE,
            3,
        )


def test_an_unknown_topic_id_is_answered_with_an_error(filled: Harness) -> None:
    topics = [FetchTopic(topic_id=b"?" * 16, partitions=[FetchPartition()])]
    (answered,) = fetch(filled, version=13, topics=topics).responses
    assert answered.topic_id == b"?" * 16
    assert answered.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_a_partition_that_does_not_exist_has_an_empty_list_of_aborted_transactions_as_in_kafka(filled: Harness) -> None:
    """Others have null under read_uncommitted, also those whose read fails."""
    beyond = FetchPartition(partition=0, fetch_offset=9)
    topics = [FetchTopic(topic="orders", partitions=[FetchPartition(partition=0), beyond, FetchPartition(partition=9)])]
    topics += [FetchTopic(topic="nowhere", partitions=[FetchPartition()])]
    frame = b"".join(encode_response(ApiKey.FETCH, 12, 7, fetch(filled, topics=topics)))
    answer: Any = decode_response(ApiKey.FETCH, 12, frame[4:])[1]
    told = [each.aborted_transactions for topic in answer.responses for each in topic.partitions]
    assert told == [None, None, [], []]


def test_a_consumer_may_name_so_many_partitions_and_no_more(filled: Harness) -> None:
    def of(partitions: int) -> list[FetchTopic]:
        return [FetchTopic(topic="orders", partitions=[FetchPartition()] * partitions)]

    assert fetch(filled, topics=of(MAX_CONSUMER_PARTITIONS - 1)).error_code == ErrorCode.NONE
    assert fetch(filled, topics=of(MAX_CONSUMER_PARTITIONS)).error_code == ErrorCode.INVALID_REQUEST


def test_the_broker_limits_the_response_even_if_the_request_allows_more(filled: Harness) -> None:
    one_batch = len(batch(b"value"))
    (answered,) = fetch(filled, max_bytes=2 * one_batch).responses
    assert len(batches_of(answered.partitions[0].records)) == 2


@pytest.mark.parametrize(
    ("epoch", "error"), [(2, ErrorCode.NONE), (-1, ErrorCode.STALE_BROKER_EPOCH), (1, ErrorCode.STALE_BROKER_EPOCH)]
)
def test_kip_903_a_follower_with_an_earlier_broker_epoch_is_refused(
    filled: Harness, epoch: int, error: ErrorCode
) -> None:
    state = ReplicaState(replica_id=2, replica_epoch=epoch)
    assert fetch(filled, version=15, replica_state=state).error_code == error


@pytest.mark.parametrize(
    ("replica_id", "epoch", "is_broker"), [(2, 2, True), (2, 1, False), (9, 2, False), (-1, -1, False)]
)
def test_a_follower_shows_with_its_broker_epoch_that_its_connection_is_a_brokers(
    filled: Harness, replica_id: int, epoch: int, is_broker: bool
) -> None:
    ctx = context(ApiKey.FETCH, 15)
    fetch(filled, version=15, ctx=ctx, replica_state=ReplicaState(replica_id=replica_id, replica_epoch=epoch))
    assert ctx.session.is_broker == is_broker


def test_kip_951_a_broker_that_does_not_lead_answers_with_the_leader_and_its_endpoint(filled: Harness) -> None:
    filled.set_topics(topic(leader=2, leader_epoch=1, partition_epoch=1))
    asked = FetchPartition(partition=0, current_leader_epoch=0, partition_max_bytes=1_000_000)
    response = fetch(filled, version=16, topics=[FetchTopic(topic_id=ORDERS_ID, partitions=[asked])])
    assert response.responses[0].partitions[0].error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert response.responses[0].partitions[0].current_leader.leader_id == 2
    assert [(node.node_id, node.port) for node in response.node_endpoints] == [(2, 9092)]


@pytest.mark.parametrize("version", [4, 9, 10])
def test_zstd_batches_are_sent_in_all_versions(filled: Harness, version: int) -> None:
    """KIP-110 refused them below version 10; Apache Kafka 4.4 does not, and rskafka fetches with version 4."""
    zstd = build_batch([Record(0, 1_700_000_000_000, None, b"value", ())], compression=Compression.ZSTD)
    filled.produce(acks=1, records=zstd)
    for offset, batches in ((0, 4), (3, 1)):
        asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1_000_000)
        topics = [FetchTopic(topic="orders", partitions=[asked])]
        (answered,) = fetch(filled, version=version, topics=topics).responses
        assert (answered.partitions[0].error_code, len(batches_of(answered.partitions[0].records))) == (
            ErrorCode.NONE,
            batches,
        )


def place(nth: int) -> int:
    """The nth partition of a long fetch of a topic of 50: the first is named once, the others repeatedly."""
    return nth if nth < 50 else 1 + nth % 49


class Pipelined:
    """A consumer that sends fetches on one connection and waits for none."""

    def __init__(self, broker: Harness) -> None:
        image = ClusterImage(0, "test", 1, broker.brokers, {"wide": topic("wide", partitions=50, isr=(1,))})
        broker.set_topics(*image.topics.values())
        self.broker = broker
        self.listings = HandListings()
        self.handler = FetchHandler(
            broker.replicas,
            SimpleNamespace(image=image),
            sessions=broker.fetch_sessions,
            max_bytes=1_000_000,
            listings=self.listings,
        )
        self.ctx = context(ApiKey.FETCH, 12)

    def fetch(self, partitions: int, **request: Any) -> Replies:
        asked = [FetchPartition(partition=place(nth), partition_max_bytes=1_000_000) for nth in range(partitions)]
        replies = Replies()
        topics = [FetchTopic(topic="wide", partitions=asked)]
        fields = {"topics": topics, "max_wait_ms": 500, "min_bytes": 1, "session_epoch": -1, **request}
        self.handler.handle(self.ctx, FetchRequest(**fields), replies)
        return replies


def test_the_fetches_of_a_connection_wait_for_so_many_partitions_and_the_others_are_answered_at_once() -> None:
    broker = Harness()
    client = Pipelined(broker)
    asked = [client.fetch(50) for _ in range(50)]
    answered = [bool(each.said) for each in asked]
    assert answered == [False] * 20 + [True] * 30
    assert {each.only.error_code for each in asked[20:]} == {ErrorCode.NONE}
    assert client.ctx.session.parked_partitions == 1_000
    assert Pipelined(broker).ctx.session.parked_partitions == 0
    broker.advance_ms(501)
    assert all(each.said for each in asked)
    assert client.ctx.session.parked_partitions == 0
    assert not client.fetch(50).said  # there is room again


LONG = 2 * MAX_AT_ONCE + 1
PARTITIONS_PER_TURN = SLICE // READ_COST


def partitions_in(replies: Replies) -> list[int]:
    return [each.partition_index for topic in replies.only.responses for each in topic.partitions]


def test_a_fetch_of_very_many_partitions_is_read_in_steps() -> None:
    client = Pipelined(Harness())
    replies = client.fetch(LONG, max_wait_ms=0)
    assert not replies.said
    assert len(list(client.listings.steps())) == LONG // PARTITIONS_PER_TURN + 1
    assert partitions_in(replies) == [place(nth) for nth in range(LONG)]
    assert client.ctx.session.parked_partitions == 0


def test_a_long_fetch_waits_though_one_of_its_partitions_does_not_exist() -> None:
    client = Pipelined(Harness())
    partitions = [FetchPartition(partition=place(nth)) for nth in range(LONG)]
    wide, nowhere = FetchTopic(topic="wide", partitions=partitions), FetchTopic(topic="nowhere", partitions=partitions)
    absent = FetchTopic(topic="nowhere", partitions=partitions[:1])
    replies, at_once = client.fetch(0, topics=[wide, absent]), client.fetch(0, topics=[nowhere])
    list(client.listings.steps())
    assert not replies.said
    assert {each.error_code for each in at_once.only.responses[0].partitions} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    client.broker.advance_ms(501)
    list(client.listings.steps())
    assert [each.partitions[-1].error_code for each in replies.only.responses] == [0, 3]


def test_a_fetch_of_very_many_partitions_waits_and_is_read_in_steps_when_records_come() -> None:
    broker = Harness()
    client = Pipelined(broker)
    replies = client.fetch(LONG)
    list(client.listings.steps())
    assert not replies.said
    broker.produce(TopicPartition("wide", 7), acks=1)
    broker.advance_ms(1)
    assert not replies.said
    assert len(list(client.listings.steps())) >= LONG // PARTITIONS_PER_TURN
    assert next(each.partition_index for each in replies.only.responses[0].partitions if each.records) == 7
    assert len(partitions_in(replies)) == LONG
    assert client.ctx.session.parked_partitions == 0


def test_records_that_come_while_a_long_fetch_is_read_are_answered() -> None:
    broker = Harness()
    client = Pipelined(broker)
    replies = client.fetch(LONG)
    for _ in range(3):
        client.listings.step()
    broker.produce(TopicPartition("wide", 0), acks=1)  # it was read before
    list(client.listings.steps())
    assert replies.only.responses[0].partitions[0].records


def test_a_long_fetch_that_expires_is_answered_with_every_partition() -> None:
    broker = Harness()
    client = Pipelined(broker)
    replies = client.fetch(LONG)
    list(client.listings.steps())
    broker.advance_ms(501)
    list(client.listings.steps())
    assert len(partitions_in(replies)) == LONG
