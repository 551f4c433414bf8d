"""What is read of the log of requests."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.admin.operations.reading.why import requests
from purgatorio.admin.operations.reading.why.requests import read_requests
from purgatorio.broker.layers.faults.request_log import RequestLog
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from purgatorio.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.broker.layers.faults.harness import FakeBroker


@pytest.fixture
def broker() -> FakeBroker:
    made = FakeBroker(
        {
            ApiKey.METADATA: lambda request: MetadataResponse(),
            ApiKey.INIT_PRODUCER_ID: lambda request: InitProducerIdResponse(error_code=request.producer_epoch),
        }
    )
    made.faults.record_requests()
    return made


def read(log: RequestLog | None) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for _ in read_requests(log, document):
        pass
    return document


def ask_for(broker: FakeBroker, topic: str, client: str = "billing") -> None:
    topics = [MetadataRequestTopic(name=topic)]
    broker.ask(ApiKey.METADATA, MetadataRequest(topics=topics), version=4, client=client)


def test_what_clients_asked_is_kept_once(broker: FakeBroker) -> None:
    for topic in ("orders", "orders", "payments"):
        ask_for(broker, topic)
    broker.ask(ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest(), version=4, client="billing")
    (asked,) = read(broker.faults.log)["asked"]
    apis, topics = ["Metadata", "InitProducerId"], ["orders", "payments"]
    assert asked == {"client": "billing", "software": "", "may_create": True, "apis": apis, "topics": topics}


def test_topics_and_clients_are_bounded(broker: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "MAX_TOPICS", 2)
    monkeypatch.setattr(requests, "MAX_ASKED", 1)
    for topic in "abc":
        ask_for(broker, topic)
    ask_for(broker, "a", client="other")
    assert [(each["client"], each["topics"]) for each in read(broker.faults.log)["asked"]] == [("billing", ["a", "b"])]


def test_producers_that_began_and_those_that_were_refused(broker: FakeBroker) -> None:
    for error in (0, 47):
        begins = InitProducerIdRequest(transactional_id="tx", producer_epoch=error)
        broker.ask(ApiKey.INIT_PRODUCER_ID, begins, version=4, client="billing")
    found = read(broker.faults.log)
    assert [(each["client"], each["transactional_id"]) for each in found["producers"]] == [("billing", "tx")]
    assert [(each["errors"], each["transactional_id"]) for each in found["errors"]] == [
        (["INVALID_PRODUCER_EPOCH"], "tx")
    ]


def test_without_a_log_nothing_is_known() -> None:
    assert read(None)["asked"] == read(None)["producers"] == []
