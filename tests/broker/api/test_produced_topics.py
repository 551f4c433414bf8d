"""Tests of Produce requests that name topics by id (KIP-516, from version 13 on)."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.api import produce
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.protocol.api import decode_response, encode_response
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.api.harness import Replies, context
from tests.broker.replica.harness import Harness, batch, topic
from tests.broker.time.by_hand import HandListings

BATCHES = produce.MAX_COST // produce.COST_OF_BATCH
"""Those that are appended at once."""

OLD, NEW, UNKNOWN = b"o" * 16, b"n" * 16, b"u" * 16
GONE = ErrorCode.UNKNOWN_TOPIC_ID


class Asked:
    """A request in version 13 with a batch for partition 0 of each of these topics."""

    def __init__(self, broker: Harness, *topic_ids: bytes, acks: int = 1, image: Any = None, times: int = 1) -> None:
        topics = [
            TopicProduceData(
                topic_id=topic_id,
                partition_data=[PartitionProduceData(index=0, records=batch(b"value")) for _ in range(times)],
            )
            for topic_id in topic_ids
        ]
        request = ProduceRequest(acks=acks, timeout_ms=1000, topic_data=topics)
        self.replies, self.listings = Replies(), HandListings()
        given = image or broker.image
        ctx = context(ApiKey.PRODUCE, 13)
        produce.handle(broker.replicas, lambda: given, self.listings, ctx, request, self.replies)

    @property
    def told(self) -> list[tuple[bytes, list[int]]]:
        """The ids of the answer, each with the error codes of its partitions."""
        frame = b"".join(encode_response(ApiKey.PRODUCE, 13, 7, self.replies.only))
        answer: Any = decode_response(ApiKey.PRODUCE, 13, frame[4:])[1]
        return [
            (bytes(each.topic_id), [one.error_code for one in each.partition_responses]) for each in answer.responses
        ]


@pytest.fixture
def alone() -> Harness:
    """Broker 1, the only in-sync replica of its topics."""
    harness = Harness()
    harness.set_topics(topic(isr=(1,), topic_id=OLD), topic("more", isr=(1,), topic_id=NEW))
    return harness


def end(broker: Harness, name: str = "orders") -> int:
    return broker.partition(TopicPartition(name, 0)).log.log_end_offset


@pytest.mark.parametrize("acks", [1, -1])
def test_batches_go_to_the_topics_with_these_ids(alone: Harness, acks: int) -> None:
    assert Asked(alone, OLD, acks=acks).told == [(OLD, [0])]
    assert Asked(alone, NEW, OLD, acks=acks).told == [(NEW, [0]), (OLD, [0])]
    assert (end(alone), end(alone, "more")) == (2, 1)


def test_an_unknown_id_is_refused_alone(alone: Harness) -> None:
    assert Asked(alone, UNKNOWN).told == [(UNKNOWN, [GONE])]
    assert Asked(alone, bytes(16), OLD, UNKNOWN).told == [(bytes(16), [GONE]), (OLD, [0]), (UNKNOWN, [GONE])]
    assert end(alone) == 1


def test_acks_0_for_an_unknown_id_closes_the_connection(alone: Harness) -> None:
    assert "UNKNOWN_TOPIC_ID" in Asked(alone, UNKNOWN, acks=0).replies.only


def test_nothing_is_appended_to_another_topic_of_the_same_name(alone: Harness) -> None:
    alone.set_topics(topic(isr=(1,), topic_id=NEW))
    assert Asked(alone, OLD).told == [(OLD, [GONE])]
    assert Asked(alone, NEW).told == [(NEW, [0])]
    assert end(alone) == 1


def test_a_broker_that_still_has_the_replica_of_the_deleted_topic_appends_nothing_to_it(alone: Harness) -> None:
    """It knows the new topic, and has not begun to lead it."""
    newer = Harness()
    newer.set_topics(topic(isr=(1,), topic_id=NEW))
    assert Asked(alone, NEW, image=newer.image).told == [(NEW, [GONE])]
    assert end(alone) == 0


def test_a_topic_that_is_created_again_between_steps_gets_no_further_batches(alone: Harness) -> None:
    asked = Asked(alone, OLD, times=BATCHES + 1)
    asked.listings.step()
    alone.set_topics(topic(isr=(1,), topic_id=NEW))
    list(asked.listings.steps())
    ((topic_id, codes),) = asked.told
    assert (topic_id, codes) == (OLD, [0] * BATCHES + [GONE])
    assert end(alone) == 0


def test_clients_may_not_produce_to_internal_topics_by_their_ids() -> None:
    broker = Harness()
    broker.set_topics(topic(isr=(1,), topic_id=OLD), topic("__consumer_offsets", isr=(1,), topic_id=NEW))
    refused = ErrorCode.INVALID_TOPIC_EXCEPTION
    assert Asked(broker, UNKNOWN, NEW, OLD).told == [(UNKNOWN, [GONE]), (NEW, [refused]), (OLD, [0])]
