"""Tests of the quota of request time: what is charged, and what is exempt; time is moved by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from purgatorio.broker.routing.request import BROKER, NO_CHANNEL, Principal
from purgatorio.broker.time.long_work import SLICE, Steps
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from purgatorio.protocol.messages.list_groups import ListGroupsResponse
from purgatorio.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from tests.broker.layers.quotas.harness import MB, FakeBroker, produce
from tests.broker.time.by_hand import HandListings


def test_the_time_of_handlers_is_charged_and_throttled_for_a_second_at_most(broker: FakeBroker) -> None:
    broker.limit(client_id="", request_percentage=10)
    broker.handler_seconds = 1.0
    client = broker.client()
    assert client.ask(ApiKey.LIST_GROUPS, version=4).throttle_time_ms == 0, "100 percent-seconds over 10 s"
    assert client.ask(ApiKey.LIST_GROUPS, version=4).throttle_time_ms == 1_000
    told = "client `billing` is muted for 1.0 s: request time of 20 % of 10 %, rule: default client"
    assert broker.muted == [told]


def test_of_two_quotas_the_longer_throttle_counts(broker: FakeBroker) -> None:
    broker.limit(client_id="", producer_byte_rate=MB, request_percentage=1)
    broker.handler_seconds = 1.0
    client = broker.client()
    assert produce(client, 12 * MB) == 2_000
    assert "MB/s" in broker.muted[0]


def test_a_tie_is_the_request_quotas(broker: FakeBroker) -> None:
    broker.limit(client_id="", producer_byte_rate=MB, request_percentage=1)
    broker.handler_seconds = 1.0
    assert produce(broker.client(), 11 * MB) == 1_000
    assert "%" in broker.muted[0]


def test_the_wait_of_a_parked_request_is_not_its_time(broker: FakeBroker) -> None:
    broker.limit(client_id="", request_percentage=1)
    waiting: list[Any] = []
    broker.handle[ApiKey.LIST_GROUPS] = lambda reply, request: waiting.append(reply)
    broker.handler_seconds = 0.0625
    client, other = broker.client(), broker.client("other")
    client.ask(ApiKey.LIST_GROUPS, version=4)
    other.ask(ApiKey.LIST_GROUPS, version=4)
    waiting[0](ListGroupsResponse())
    (account,) = broker.quotas.charges.request.accounts()
    assert account.meter.total(broker.clock.now_ms()) == 6.25


def test_all_steps_of_an_answer_are_charged(broker: FakeBroker) -> None:
    """Also those that encode it, after the throttle time was told: the next request pays for them."""
    broker.limit(client_id="", request_percentage=10)
    listings = HandListings()
    client = broker.client()
    client.session.channel = NO_CHANNEL

    def works(steps: int, then: Callable[[], object]) -> Steps:
        for _ in range(steps):
            broker.handler_takes(0.25)
            yield SLICE
        then()

    def handle(reply: Any, request: Any) -> None:
        def answer() -> None:
            reply(ListGroupsResponse())
            listings.begin(works(3, lambda: None), client.session)

        listings.begin(works(4, answer), client.session)

    broker.handle[ApiKey.LIST_GROUPS] = handle
    client.ask(ApiKey.LIST_GROUPS, version=4)
    broker.handler_takes(5.0)  # other work, between the steps
    while not client.answers:
        listings.step()
    (account,) = broker.quotas.charges.request.accounts()
    assert account.meter.total(broker.clock.now_ms()) == 4 * 25
    list(listings.steps())
    assert account.meter.total(broker.clock.now_ms()) == 4 * 25 + 2 * 25
    assert client.session.timed_by is None


ADD, EPOCHS = ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.OFFSET_FOR_LEADER_EPOCH
BROKERS_ID, CLIENTS_ID = "broker-2-txn", "billing"


@pytest.mark.parametrize("knows_brokers", [False, True])
@pytest.mark.parametrize(
    ("key", "version", "request_of_one"),
    [(ADD, 4, AddPartitionsToTxnRequest()), (EPOCHS, 4, OffsetForLeaderEpochRequest(replica_id=2))],
)
def test_brokers_requests_are_exempt(knows_brokers: bool, key: ApiKey, version: int, request_of_one: Any) -> None:
    """So was each AddPartitionsToTxn from version 4 on, which clients may send."""
    broker = slow_broker(knows_brokers)
    client = broker.client(BROKERS_ID)
    if knows_brokers:
        client.session.principal = Principal(BROKER, "2")
    assert client.ask(key, request_of_one, version=version).throttle_time_ms == 0
    assert client.ask(ADD, AddPartitionsToTxnRequest(), version=3).throttle_time_ms == (0 if knows_brokers else 1_000)


@pytest.mark.parametrize(
    ("knows_brokers", "client_id", "key", "request_of_one"),
    [
        (False, CLIENTS_ID, ADD, AddPartitionsToTxnRequest()),
        (True, CLIENTS_ID, ADD, AddPartitionsToTxnRequest()),
        (True, BROKERS_ID, ADD, AddPartitionsToTxnRequest()),
        (True, CLIENTS_ID, EPOCHS, OffsetForLeaderEpochRequest(replica_id=2)),
    ],
)
def test_a_client_that_asks_like_a_broker_is_charged(
    knows_brokers: bool, client_id: str, key: ApiKey, request_of_one: Any
) -> None:
    """Where brokers log in to each other, neither a version nor a replica's id makes it one."""
    assert slow_broker(knows_brokers).client(client_id).ask(key, request_of_one, version=4).throttle_time_ms == 1_000


def slow_broker(knows_brokers: bool) -> FakeBroker:
    """Return a broker that takes a second for each request, of which a client has a hundredth."""
    broker = FakeBroker(knows_brokers=knows_brokers)
    broker.limit(client_id="", request_percentage=1)
    broker.handler_seconds = 1.0
    broker.handle[ADD] = lambda reply, request: reply(AddPartitionsToTxnResponse())
    broker.handle[EPOCHS] = lambda reply, request: reply(OffsetForLeaderEpochResponse())
    return broker


def test_throttle_times_are_counted_by_api(broker: FakeBroker) -> None:
    broker.limit(client_id="", producer_byte_rate=MB)
    client = broker.client()
    produce(client, 12 * MB)
    produce(client, MB)
    (times,) = broker.quotas.charges.times.by_api.values()
    assert (times.total_ms, sum(times.counts)) == (5_000, 2)
    (account,) = broker.quotas.charges.produce.accounts()
    assert account.throttle_ms.value(broker.clock.now_ms()) == 2_500
