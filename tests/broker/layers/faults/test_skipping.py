"""Requests that no rule is about go past all rules at once, and no other request does."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.layers.faults.rule import Rule
from purgatorio.broker.layers.faults.skipping import straight
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.messages.fetch import FetchRequest, FetchTopic
from purgatorio.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsTopic
from purgatorio.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from purgatorio.protocol.messages.produce import ProduceRequest, TopicProduceData
from tests.broker.layers.faults.harness import FakeBroker

ID = b"orders".ljust(16)
ORDERS = Rule(topic="orders")
SHOPS = Rule(topic="shops")


def asked(rules: list[Rule], key: ApiKey, request: Any) -> str:
    """Who gets a request: the rules, or the handler itself."""
    seen: list[str] = []
    ctx: Any = None
    broker = FakeBroker({})
    handler = straight(lambda *_: seen.append("rules"), lambda *_: seen.append("handler"), rules, key, broker)
    handler(ctx, request, lambda response: None)  # type: ignore[arg-type]  # nobody replies
    (only,) = seen
    return only


def produce(*topics: str) -> ProduceRequest:
    return ProduceRequest(topic_data=[TopicProduceData(name=each) for each in topics])


@pytest.mark.parametrize(
    ("topics", "who"),
    [(("other",), "handler"), ((), "handler"), (("other", "shops"), "rules"), (("orders",), "rules")],
)
def test_rules_about_topics_see_the_requests_that_name_one_of_these(topics: tuple[str, ...], who: str) -> None:
    assert asked([ORDERS, SHOPS], ApiKey.PRODUCE, produce(*topics)) == who


@pytest.mark.parametrize(("topic_id", "who"), [(ID, "rules"), (b"other".ljust(16), "handler"), (bytes(16), "handler")])
def test_a_topic_that_is_named_by_its_id_is_known_by_its_name(topic_id: bytes, who: str) -> None:
    assert asked([ORDERS], ApiKey.FETCH, FetchRequest(topics=[FetchTopic(topic_id=topic_id)])) == who


def test_a_rule_about_any_topic_sees_all_requests() -> None:
    assert asked([ORDERS, Rule(partition=3)], ApiKey.PRODUCE, produce("other")) == "rules"


def test_rules_see_all_requests_for_metadata_which_may_be_of_all_topics() -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="other")])
    assert asked([ORDERS], ApiKey.METADATA, request) == "rules"


def test_an_empty_name_in_a_request_without_ids_is_of_no_topic() -> None:
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="")])
    assert asked([ORDERS], ApiKey.LIST_OFFSETS, request) == "handler"
