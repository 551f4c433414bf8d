"""Tests of the quota of request time: what is charged, and what is exempt; time is moved by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from purgatorio.broker.routing.listings import Listings
from purgatorio.broker.routing.request import NO_CHANNEL
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from purgatorio.protocol.messages.list_groups import ListGroupsResponse
from tests.broker.layers.quotas.harness import MB, FakeBroker, produce


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
    listings = Listings(lambda: None)
    client = broker.client()
    client.session.channel = NO_CHANNEL

    def works(steps: int, then: Callable[[], object]) -> Iterator[None]:
        for _ in range(steps):
            broker.handler_takes(0.25)
            yield
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


def test_brokers_requests_are_exempt(broker: FakeBroker) -> None:
    broker.limit(client_id="", request_percentage=1)
    broker.handler_seconds = 1.0
    request = AddPartitionsToTxnRequest()
    broker.handle[ApiKey.ADD_PARTITIONS_TO_TXN] = lambda reply, request: reply(AddPartitionsToTxnResponse())
    client = broker.client()
    assert client.ask(ApiKey.ADD_PARTITIONS_TO_TXN, request, version=4).throttle_time_ms == 0
    assert client.ask(ApiKey.ADD_PARTITIONS_TO_TXN, request, version=3).throttle_time_ms == 1_000


def test_throttle_times_are_counted_by_api(broker: FakeBroker) -> None:
    broker.limit(client_id="", producer_byte_rate=MB)
    client = broker.client()
    produce(client, 12 * MB)
    produce(client, MB)
    (times,) = broker.quotas.charges.times.by_api.values()
    assert (times.total_ms, sum(times.counts)) == (5_000, 2)
    (account,) = broker.quotas.charges.produce.accounts()
    assert account.throttle_ms.value(broker.clock.now_ms()) == 2_500
