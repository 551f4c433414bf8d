"""The log of requests: what is kept of each, and of how many."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.layers.faults import request_log
from purgatorio.broker.layers.faults.request_log import errors_in
from purgatorio.protocol.api import EncodedResponse
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from purgatorio.protocol.messages.api_versions import ApiVersionsRequest
from purgatorio.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from purgatorio.protocol.messages.init_producer_id import InitProducerIdRequest
from purgatorio.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from tests.broker.layers.faults.harness import FakeBroker


@pytest.fixture
def broker() -> FakeBroker:
    made = FakeBroker(
        {
            ApiKey.PRODUCE: lambda request: EncodedResponse(b""),
            ApiKey.HEARTBEAT: lambda request: HeartbeatResponse(error_code=27),
        }
    )
    made.faults.record_requests()
    return made


def entries(broker: FakeBroker) -> list[Any]:
    assert broker.faults.log is not None
    return list(broker.faults.log.entries)


def test_a_request_is_kept_with_its_topics_and_its_answers_errors(broker: FakeBroker) -> None:
    broker.ask(ApiKey.PRODUCE, ProduceRequest(topic_data=[TopicProduceData(name="orders")]), version=9)
    broker.ask(ApiKey.HEARTBEAT, HeartbeatRequest(), version=3, client="other")
    told = [(each.number, each.api, each.client, each.topics, each.ended, each.errors) for each in entries(broker)]
    assert told == [
        (1, "Produce", "till", ("orders",), "answered", ()),
        (2, "Heartbeat", "other", (), "answered", ("REBALANCE_IN_PROGRESS",)),
    ]


def test_topics_that_a_request_names_by_their_ids_are_kept_by_name_if_the_broker_knows_them(broker: FakeBroker) -> None:
    topics = [TopicProduceData(topic_id=b"orders".ljust(16)), TopicProduceData(topic_id=b"gone".ljust(16))]
    broker.ask(ApiKey.PRODUCE, ProduceRequest(topic_data=topics), version=13)
    assert entries(broker)[0].topics == ("orders", b"gone".ljust(16).hex())


def test_requests_between_brokers_are_left_out(broker: FakeBroker) -> None:
    broker.ask(ApiKey.HEARTBEAT, HeartbeatRequest(), version=3, client="broker-2-fetcher")
    broker.ask(ApiKey.HEARTBEAT, HeartbeatRequest(), version=3, client="broker-of-mine")
    assert [each.client for each in entries(broker)] == ["broker-of-mine"]


def test_a_request_under_a_rule_is_logged_as_the_client_sees_it(broker: FakeBroker) -> None:
    rule = broker.fault(api="Heartbeat", hold=True)
    broker.ask(ApiKey.HEARTBEAT, HeartbeatRequest(), version=3)
    (entry,) = entries(broker)
    assert (entry.ended, entry.ended_ms) == ("waiting", -1)
    broker.passes(40)
    rule.release()
    assert (entry.ended, entry.ended_ms - entry.at_ms) == ("answered", 40)
    broker.fault(api="Heartbeat", disconnect="before")
    broker.ask(ApiKey.HEARTBEAT, HeartbeatRequest(), version=3)
    assert entries(broker)[-1].ended == "disconnected"


def test_the_log_is_bounded_and_forgotten_by_a_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_log, "MAX_REQUESTS", 2)
    broker = FakeBroker({ApiKey.HEARTBEAT: lambda request: HeartbeatResponse()})
    broker.faults.record_requests()
    for _ in range(3):
        broker.ask(ApiKey.HEARTBEAT, HeartbeatRequest(), version=3)
    assert [each.number for each in entries(broker)] == [2, 3]
    broker.faults.reset()
    assert entries(broker) == []


def test_errors_are_found_at_any_depth_each_once() -> None:
    partitions = [PartitionProduceResponse(index=each, error_code=code) for each, code in enumerate((6, 0, 7, 6))]
    response = ProduceResponse(responses=[TopicProduceResponse(name="orders", partition_responses=partitions)])
    assert errors_in(response) == ("NOT_LEADER_OR_FOLLOWER", "REQUEST_TIMED_OUT")


@pytest.mark.parametrize(
    ("key", "request_"),
    [
        (ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest(transactional_id="t")),
        (ApiKey.ADD_PARTITIONS_TO_TXN, AddPartitionsToTxnRequest(v3_and_below_transactional_id="t")),
        (
            ApiKey.ADD_PARTITIONS_TO_TXN,
            AddPartitionsToTxnRequest(transactions=[AddPartitionsToTxnTransaction(transactional_id="t")]),
        ),
        (ApiKey.PRODUCE, ProduceRequest(transactional_id="t")),
    ],
)
def test_a_request_about_a_transaction_is_kept_with_its_id(key: ApiKey, request_: Any) -> None:
    broker = FakeBroker({key: lambda request: EncodedResponse(b"")})
    broker.faults.record_requests()
    broker.ask(key, request_, version=3)
    assert [each.transactional_id for each in entries(broker)] == ["t"]


def test_a_request_about_no_transaction_has_none(broker: FakeBroker) -> None:
    broker.ask(ApiKey.PRODUCE, ProduceRequest(), version=9)
    broker.ask(ApiKey.HEARTBEAT, HeartbeatRequest(), version=3)
    assert [each.transactional_id for each in entries(broker)] == ["", ""]


def test_errors_of_other_names_are_found() -> None:
    """Fields of partitions have names of their own in two messages."""
    partition = AddPartitionsToTxnPartitionResult(partition_error_code=47)
    response = AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[AddPartitionsToTxnTopicResult(results_by_partition=[partition])]
    )
    assert errors_in(response) == ("INVALID_PRODUCER_EPOCH",)


def test_the_name_of_a_clients_software_is_kept() -> None:
    broker = FakeBroker({ApiKey.API_VERSIONS: lambda request: EncodedResponse(b"")})
    broker.faults.record_requests()
    broker.ask(ApiKey.API_VERSIONS, ApiVersionsRequest(client_software_name="librdkafka"), version=3)
    assert [each.software for each in entries(broker)] == ["librdkafka"]
