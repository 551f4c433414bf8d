"""Tests of muted connections: of clients that go or come anew, and of brokers that stop; time is moved by hand."""

from __future__ import annotations

from typing import Any

from purgatorio.broker.layers.quotas.throttle import QuotaKind
from purgatorio.protocol.api_key import ApiKey
from tests.broker.layers.quotas.harness import MB, FakeBroker, lost, produce
from tests.logs import capture_logs


def test_the_mute_is_a_delayed_operation_with_a_sentence(broker: FakeBroker) -> None:
    broker.limit(client_id="", producer_byte_rate=MB)
    client = broker.client()
    produce(client, 12 * MB)
    assert broker.muted == ["client `billing` is muted for 2.0 s: 1.2 MB/s of 1 MB/s, rule: default client"]
    (operation,) = broker.purgatory._parked.values()
    assert operation.client == "billing"
    assert operation.keys == ("connection c1",)
    assert operation.force_complete(), "it may be unmuted early"
    assert not client.channel.throttled


# Connections that go, and brokers that stop.


def test_a_client_that_is_gone_waits_for_nothing(broker: FakeBroker) -> None:
    broker.limit(client_id="", producer_byte_rate=MB)
    client = broker.client()
    produce(client, 12 * MB)
    lost(client)
    assert broker.purgatory.num_delayed == 0
    assert broker.quotas.charges.muting.muted[QuotaKind.PRODUCE] == 0
    assert broker.finished[0].outcome == "cancelled"


def test_an_answer_to_a_client_that_is_gone_mutes_nothing(broker: FakeBroker) -> None:
    broker.limit(client_id="", producer_byte_rate=MB)
    client = broker.client()
    lost(client)
    produce(client, 12 * MB)
    assert broker.purgatory.num_delayed == 0


def test_a_broker_that_stops_lets_connections_go_on_and_mutes_no_more(broker: FakeBroker) -> None:
    broker.limit(client_id="", producer_byte_rate=MB)
    client = broker.client()
    produce(client, 12 * MB)
    broker.purgatory.shutdown()
    assert not client.channel.throttled
    produce(client, 12 * MB)
    assert not client.channel.throttled
    assert broker.quotas.charges.muting.muted[QuotaKind.PRODUCE] == 0


# Reconnecting.


def test_a_client_does_not_escape_its_throttle_by_a_new_connection(broker: FakeBroker) -> None:
    """It sent 38.9 MB/s past a limit of 100 kB/s: each connection got one request through."""
    broker.limit(client_id="", producer_byte_rate=MB)
    assert produce(broker.client(), 13 * MB) == 3_000
    passed = 0
    for _ in range(100):
        again = broker.client()
        passed += again.ask(ApiKey.PRODUCE, version=9, request_bytes=MB) is not None
        assert again.channel.throttled
        lost(again)
    assert passed == 0
    assert broker.purgatory.num_delayed == 1, "a client that is gone waits for nothing"


def test_the_first_request_of_a_new_connection_waits_for_the_end_of_the_throttle(broker: FakeBroker) -> None:
    broker.limit(client_id="", producer_byte_rate=MB)
    produce(broker.client(), 12 * MB)
    broker.passes(500)
    again = broker.client()
    assert again.ask(ApiKey.PRODUCE, version=9, request_bytes=MB) is None
    assert broker.muted[-1] == "client `billing` is muted for 1.5 s: 1.2 MB/s of 1 MB/s, rule: default client"
    broker.passes(1_499)
    assert again.answers == []
    broker.passes(1)
    assert again.answers[0].throttle_time_ms == 3_000
    assert again.channel.events == ["throttled", "unthrottled", "answered", "throttled"]


def test_a_muted_producer_keeps_its_other_apis_and_other_clients_are_not_held(broker: FakeBroker) -> None:
    """Heartbeats come by a connection of their own."""
    broker.limit(client_id="", producer_byte_rate=MB)
    produce(broker.client(), 12 * MB)
    assert broker.client().ask(ApiKey.LIST_GROUPS, version=4) is not None
    assert produce(broker.client("another"), MB) == 0


def test_a_client_above_its_request_quota_is_held_on_new_connections_too(broker: FakeBroker) -> None:
    broker.limit(client_id="", request_percentage=1)
    broker.handler_seconds = 2.0
    assert broker.client().ask(ApiKey.LIST_GROUPS, version=4).throttle_time_ms == 1_000
    again = broker.client()
    assert again.ask(ApiKey.LIST_GROUPS, version=4) is None
    broker.passes(1_000)
    assert len(again.answers) == 1


def test_a_mute_that_is_ended_by_hand_ends_for_new_connections_too(broker: FakeBroker) -> None:
    broker.limit(client_id="", producer_byte_rate=MB)
    client = broker.client()
    produce(client, 12 * MB)
    (operation,) = broker.purgatory._parked.values()
    operation.force_complete()
    assert not client.channel.throttled
    assert produce(broker.client(), 1) > 0, "it is answered, and muted anew"


def test_a_broker_that_stops_starts_the_request_that_waits(broker: FakeBroker) -> None:
    broker.limit(client_id="", producer_byte_rate=MB)
    produce(broker.client(), 12 * MB)
    again = broker.client()
    again.ask(ApiKey.PRODUCE, version=9, request_bytes=MB)
    broker.purgatory.shutdown()
    assert len(again.answers) == 1


def test_a_handler_that_fails_after_the_wait_closes_its_connection(broker: FakeBroker) -> None:
    broker.limit(client_id="", producer_byte_rate=MB)
    produce(broker.client(), 12 * MB)
    again = broker.client()
    again.ask(ApiKey.PRODUCE, version=9, request_bytes=MB)

    def fail(reply: Any, request: Any) -> None:
        raise RuntimeError("a bug")

    broker.handle[ApiKey.PRODUCE] = fail
    with capture_logs() as logs:
        broker.passes(2_000)
    assert again.answers == ["the handler failed"]
    assert [line["event"] for line in logs] == ["handler failed"]
