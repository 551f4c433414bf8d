"""Tests of what quotas do to produce requests: charged, answered, muted; time is moved by hand."""

from __future__ import annotations

from typing import Any

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.messages.produce import ProduceResponse
from tests.broker.layers.quotas.harness import MB, FakeBroker, produce


def test_a_producer_above_its_rate_is_answered_and_then_muted_until_its_time_is_over(broker: FakeBroker) -> None:
    broker.limit(client_id="", producer_byte_rate=MB)
    client = broker.client()
    assert produce(client, 10 * MB) == 0
    assert produce(client, 2 * MB) == 2_000
    assert client.channel.events == ["answered", "answered", "throttled"]
    broker.passes(1_999)
    assert client.channel.throttled
    broker.passes(1)
    assert not client.channel.throttled


def test_requests_that_were_started_before_are_charged_and_never_add_up(broker: FakeBroker) -> None:
    """Two answers over the limit in one mute: the later end counts."""
    broker.limit(client_id="billing", producer_byte_rate=MB)
    client = broker.client()
    assert produce(client, 12 * MB) == 2_000
    broker.passes(500)
    assert produce(client, MB) == 2_500
    broker.passes(2_499)
    assert client.channel.throttled
    broker.passes(1)
    assert not client.channel.throttled
    assert len(broker.finished) == 1


def test_a_shorter_throttle_does_not_end_a_longer_one(broker: FakeBroker) -> None:
    broker.limit(client_id="billing", producer_byte_rate=MB)
    first, second = broker.client(), broker.client("other")
    broker.limit(client_id="other", producer_byte_rate=MB)
    produce(first, 12 * MB)
    second.session.channel = first.channel
    first.client_id = "other"
    assert produce(first, 11 * MB) == 1_000
    broker.passes(1_500)
    assert first.channel.throttled


def test_bytes_are_charged_when_the_answer_is_ready(broker: FakeBroker) -> None:
    """A request that waits for followers is charged after the wait, at the rate of then."""
    broker.limit(client_id="", producer_byte_rate=MB)
    waiting: list[Any] = []
    broker.handle[ApiKey.PRODUCE] = lambda reply, request: waiting.append(reply)
    client = broker.client()
    client.ask(ApiKey.PRODUCE, version=9, request_bytes=12 * MB)
    assert broker.muted == []
    broker.passes(5_000)
    waiting[0](ProduceResponse())
    assert client.answers[0].throttle_time_ms == 2_000


def test_a_request_without_an_answer_pays_too_and_its_connection_is_muted(broker: FakeBroker) -> None:
    broker.limit(client_id="", producer_byte_rate=MB, request_percentage=0.001)
    broker.handle[ApiKey.PRODUCE] = lambda reply, request: reply.nothing()
    broker.handler_seconds = 1.0
    client = broker.client()
    client.ask(ApiKey.PRODUCE, version=9, request_bytes=12 * MB)
    assert broker.muted == ["client `billing` is muted for 2.0 s: 1.2 MB/s of 1 MB/s, rule: default client"]
    assert broker.quotas.charges.exempt.total(broker.clock.now_ms()) == 100


def test_a_request_that_closes_its_connection_pays(broker: FakeBroker) -> None:
    broker.limit(client_id="", producer_byte_rate=MB)
    broker.handle[ApiKey.PRODUCE] = lambda reply, request: reply.close("failed")
    client = broker.client()
    client.ask(ApiKey.PRODUCE, version=9, request_bytes=11 * MB)
    broker.handle[ApiKey.PRODUCE] = lambda reply, request: reply(ProduceResponse())
    assert produce(broker.client(), MB) == 2_000, "a new connection changes nothing"


def test_a_users_limit_is_shared_and_a_default_is_not(broker: FakeBroker) -> None:
    broker.limit(user="alice", producer_byte_rate=MB)
    broker.limit(client_id="", producer_byte_rate=MB)
    assert produce(broker.client("a"), 11 * MB) == 1_000
    other = broker.client("b")
    assert other.ask(ApiKey.PRODUCE, version=9, request_bytes=MB) is None, "the user is muted"
    broker.passes(1_000)
    assert other.answers[0].throttle_time_ms == 2_000
    assert produce(broker.client("a", user="bob"), 10 * MB) == 0
    assert produce(broker.client("b", user="bob"), 10 * MB) == 0


def test_a_changed_limit_applies_at_once_and_the_mute_stays(broker: FakeBroker) -> None:
    broker.limit(client_id="", producer_byte_rate=MB)
    client = broker.client()
    produce(client, 12 * MB)
    broker.limit(client_id="", producer_byte_rate=10 * MB)
    assert client.channel.throttled
    assert produce(client, MB) == 0


def test_without_quotas_the_handlers_stand_alone(broker: FakeBroker) -> None:
    """Also after the last quota was removed, and those that no quota is about meanwhile."""
    assert broker.handlers == broker.own_handlers
    broker.limit(client_id="", producer_byte_rate=MB)
    changed = [key for key, handler in broker.handlers.items() if handler is not broker.own_handlers[key]]
    assert changed == [ApiKey.PRODUCE]
    broker.limit(client_id="")
    assert broker.handlers == broker.own_handlers
    assert list(broker.quotas.charges.produce.accounts()) == []


def test_a_quota_of_2_to_the_63_throttles_nothing_and_one_of_1_for_long(broker: FakeBroker) -> None:
    broker.limit(client_id="", producer_byte_rate=2.0**63)
    assert produce(broker.client(), 2**31) == 0
    broker.limit(client_id="", producer_byte_rate=1)
    assert produce(broker.client(), 2**31) == 2**31 - 1
