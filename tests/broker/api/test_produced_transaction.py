"""Tests of Produce requests with batches of transactions: what is refused as a whole, and what each version is told."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.api import produce
from purgatorio.broker.replica.producing.verification import ProducerTransaction
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.api.harness import Replies, context
from tests.broker.replica.harness import Harness, batch, topic
from tests.broker.replica.transactions import coordinator_of, transactional
from tests.broker.time.by_hand import HandListings


@pytest.fixture
def alone() -> Harness:
    """Broker 1, the only in-sync replica of a topic with two partitions."""
    harness = Harness()
    harness.set_topics(topic(isr=(1,), partitions=2))
    return harness


def say(
    broker: Harness, *batches: bytes, transactional_id: str | None = "billing-1", version: int = 9, acks: int = -1
) -> Any:
    """Send a batch to each of the first partitions; returns what the handler said."""
    data = [PartitionProduceData(index=index, records=records) for index, records in enumerate(batches)]
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=1000,
        topic_data=[TopicProduceData(name="orders", partition_data=data)],
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
    return replies.only


def codes(
    broker: Harness, *batches: bytes, transactional_id: str | None = "billing-1", version: int = 8
) -> list[ErrorCode]:
    """Send a batch to each of the first partitions; returns the error codes."""
    response = say(broker, *batches, transactional_id=transactional_id, version=version)
    return [ErrorCode(each.error_code) for each in response.responses[0].partition_responses]


def end_offsets(broker: Harness) -> list[int]:
    return [partition.log.log_end_offset for partition in broker.replicas.partitions.values()]


def test_a_batch_of_a_transaction_is_appended_when_its_coordinator_confirms_it(alone: Harness) -> None:
    coordinator = coordinator_of(alone, ErrorCode.NONE)
    assert codes(alone, transactional()) == [ErrorCode.NONE]
    assert coordinator.only.transaction == ProducerTransaction("billing-1", 7, 0, adds_partitions=False)


@pytest.mark.parametrize(("version", "adds"), [(3, False), (11, False), (12, True)])
def test_kip_890_from_version_12_on_the_request_adds_the_partition(alone: Harness, version: int, adds: bool) -> None:
    coordinator = coordinator_of(alone, ErrorCode.NONE)
    say(alone, transactional(), version=version)
    assert coordinator.only.transaction.adds_partitions is adds


@pytest.mark.parametrize(
    ("version", "told"), [(10, ErrorCode.INVALID_TXN_STATE), (11, ErrorCode.TRANSACTION_ABORTABLE)]
)
def test_kip_890_a_partition_outside_of_the_transaction_is_told_by_version(
    alone: Harness, version: int, told: ErrorCode
) -> None:
    coordinator_of(alone, ErrorCode.TRANSACTION_ABORTABLE)
    assert codes(alone, transactional(), version=version) == [told]
    assert end_offsets(alone) == [0, 0]


def test_without_a_transactional_id_all_batches_are_refused(alone: Harness) -> None:
    coordinator = coordinator_of(alone, ErrorCode.NONE)
    refused = [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED] * 2
    assert codes(alone, transactional(), batch(b"plain"), transactional_id=None) == refused
    assert (coordinator.asked, end_offsets(alone)) == ([], [0, 0])


def test_an_empty_transactional_id_is_refused(alone: Harness) -> None:
    coordinator = coordinator_of(alone, ErrorCode.NONE)
    assert codes(alone, transactional(), transactional_id="") == [ErrorCode.INVALID_REQUEST]
    assert (coordinator.asked, end_offsets(alone)) == ([], [0, 0])


@pytest.mark.parametrize("other", [transactional(producer_id=8), transactional(epoch=1)])
def test_a_request_with_two_producers_or_epochs_is_refused(alone: Harness, other: bytes) -> None:
    coordinator = coordinator_of(alone, ErrorCode.NONE)
    assert codes(alone, transactional(), other) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2
    assert (coordinator.asked, end_offsets(alone)) == ([], [0, 0])


def test_a_batch_of_a_transaction_without_a_producer_id_is_refused(alone: Harness) -> None:
    coordinator = coordinator_of(alone, ErrorCode.NONE)
    assert codes(alone, transactional(producer_id=-1)) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    assert (coordinator.asked, end_offsets(alone)) == ([], [0, 0])


def test_a_batch_that_cannot_be_read_is_refused_alone(alone: Harness) -> None:
    coordinator_of(alone, ErrorCode.NONE)
    cut = transactional()[:40]
    assert codes(alone, cut, transactional()) == [ErrorCode.INVALID_RECORD, ErrorCode.NONE]
    assert codes(alone, cut) == [ErrorCode.INVALID_RECORD]


def test_a_marker_from_a_client_is_refused(alone: Harness) -> None:
    coordinator = coordinator_of(alone, ErrorCode.NONE)
    control = bytearray(transactional())
    control[22] |= 0x20
    assert codes(alone, bytes(control)) == [ErrorCode.INVALID_RECORD]
    assert (coordinator.asked, end_offsets(alone)) == ([], [0, 0])


def test_plain_batches_need_no_coordinator_whatever_the_transactional_id(alone: Harness) -> None:
    coordinator = coordinator_of(alone, ErrorCode.NONE)
    for transactional_id in ("billing-1", "", None):
        assert not say(alone, batch(b"plain"), transactional_id=transactional_id, acks=0)
    assert (coordinator.asked, end_offsets(alone)) == ([], [3, 0])


def test_a_refused_request_with_acks_0_closes_the_connection(alone: Harness) -> None:
    assert say(alone, transactional(), transactional_id=None, acks=0) == (
        "produce with acks=0 failed: TRANSACTIONAL_ID_AUTHORIZATION_FAILED: batches of a transaction need a "
        "transactional id"
    )
