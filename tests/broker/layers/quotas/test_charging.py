"""Tests of what quotas do to requests: charged, answered, muted; time is moved by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from purgatorio.broker.coordinator.listings import Listings
from purgatorio.broker.layers.quotas.throttle import QuotaKind
from purgatorio.broker.routing.request import NO_CHANNEL
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.messages import share_fetch as share_messages
from purgatorio.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from purgatorio.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
    ReplicaState,
)
from purgatorio.protocol.messages.list_groups import ListGroupsResponse
from purgatorio.protocol.messages.produce import ProduceResponse
from purgatorio.protocol.messages.share_acknowledge import ShareAcknowledgeResponse
from purgatorio.protocol.messages.share_fetch import ShareFetchableTopicResponse, ShareFetchRequest, ShareFetchResponse
from purgatorio.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatResponse
from tests.broker.layers.quotas.harness import Client, FakeBroker, lost
from tests.logs import capture_logs

MB = 1_000_000


@pytest.fixture
def broker() -> FakeBroker:
    broker = FakeBroker()
    broker.handle[ApiKey.PRODUCE] = lambda reply, request: reply(ProduceResponse())
    broker.handle[ApiKey.LIST_GROUPS] = lambda reply, request: reply(ListGroupsResponse())
    return broker


def produce(client: Client, size_bytes: int) -> int:
    """Produce; return the throttle time that the client was told."""
    throttle_ms: int = client.ask(ApiKey.PRODUCE, version=9, request_bytes=size_bytes).throttle_time_ms
    return throttle_ms


# Produce.


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


# Fetch.


def answer_of(size_bytes: int, session_id: int = 7, **fields: Any) -> FetchResponse:
    partition = PartitionData(partition_index=0, high_watermark=5, records=bytes(size_bytes))
    topics = [FetchableTopicResponse(topic="orders", partitions=[partition])]
    return FetchResponse(session_id=session_id, responses=topics, **fields)


def fetch(broker: FakeBroker, client: Client, size_bytes: int, **request: Any) -> FetchResponse:
    broker.handle[ApiKey.FETCH] = lambda reply, request: reply(answer_of(size_bytes))
    response: FetchResponse = client.ask(ApiKey.FETCH, FetchRequest(**{"replica_id": -1, **request}), version=12)
    return response


def test_a_consumer_above_its_rate_gets_an_empty_answer_and_the_bytes_are_not_charged(broker: FakeBroker) -> None:
    broker.limit(client_id="", consumer_byte_rate=MB)
    client = broker.client()
    assert fetch(broker, client, 8 * MB).throttle_time_ms == 0
    response = fetch(broker, client, 8 * MB, session_id=7, session_epoch=1)
    assert response.responses == []
    assert response.session_id == 7
    assert response.error_code == 0
    assert 6_000 <= response.throttle_time_ms < 6_010, "the whole answer counts, not its records alone"
    assert client.channel.throttled
    broker.passes(6_010)
    assert len(fetch(broker, client, MB).responses) == 1


def test_an_empty_answer_to_a_full_request_has_no_session(broker: FakeBroker) -> None:
    """KAFKA-6946: the client takes it for ended, and the broker is told."""
    broker.limit(client_id="", consumer_byte_rate=MB)
    client = broker.client()
    fetch(broker, client, 8 * MB)
    assert broker.withheld == []
    assert fetch(broker, client, 8 * MB, session_epoch=0).session_id == 0
    fetch(broker, client, 8 * MB, session_id=7, session_epoch=1)
    assert [(response.session_id, was_full) for response, was_full in broker.withheld] == [(7, True), (7, False)]


def test_a_fetch_takes_no_more_than_a_window_allows(broker: FakeBroker) -> None:
    """KAFKA-9677."""
    broker.limit(client_id="", consumer_byte_rate=1_000)
    request = FetchRequest(replica_id=-1, max_bytes=50 * MB, min_bytes=MB)
    broker.handle[ApiKey.FETCH] = lambda reply, request: reply(answer_of(10))
    broker.client().ask(ApiKey.FETCH, request, version=12)
    assert (request.max_bytes, request.min_bytes) == (10_000, 10_000)


def test_a_batch_that_is_larger_than_the_window_allows_passes_once_and_is_charged(broker: FakeBroker) -> None:
    """In Kafka it would never pass."""
    broker.limit(client_id="", consumer_byte_rate=MB)
    client = broker.client()
    response = fetch(broker, client, 12 * MB)
    assert len(response.responses) == 1
    assert 2_000 <= response.throttle_time_ms < 2_010
    assert client.channel.throttled
    broker.passes(2_010)
    assert fetch(broker, client, 12 * MB).responses == []
    broker.passes(11_000)
    assert len(fetch(broker, client, 12 * MB).responses) == 1


@pytest.mark.parametrize("request_of_follower", [{"replica_id": 2}, {"replica_state": ReplicaState(replica_id=2)}])
def test_followers_are_not_charged_but_timed(broker: FakeBroker, request_of_follower: Any) -> None:
    broker.limit(client_id="", consumer_byte_rate=1, request_percentage=0.001)
    broker.handler_seconds = 0.5
    client = broker.client()
    response = fetch(broker, client, MB, max_bytes=10 * MB, **request_of_follower)
    assert len(response.responses) == 1
    assert not client.channel.throttled
    assert broker.quotas.charges.exempt.total(broker.clock.now_ms()) == 50


def test_a_failed_fetch_tells_its_error(broker: FakeBroker) -> None:
    broker.limit(client_id="", request_percentage=0.1)
    broker.handler_seconds = 1.0
    broker.handle[ApiKey.FETCH] = lambda reply, request: reply(FetchResponse(error_code=70))
    response = broker.client().ask(ApiKey.FETCH, FetchRequest(replica_id=-1), version=12)
    assert (response.error_code, response.throttle_time_ms) == (70, 1_000)


# ShareFetch.


def share_fetch(broker: FakeBroker, client: Client, size_bytes: int, **request: Any) -> tuple[Any, ShareFetchRequest]:
    """Return the answer, and the request as the handler saw it."""
    partition = share_messages.PartitionData(partition_index=0, records=bytes(size_bytes))
    topic = ShareFetchableTopicResponse(topic_id=bytes(16), partitions=[partition])
    broker.handle[ApiKey.SHARE_FETCH] = lambda reply, request: reply(ShareFetchResponse(responses=[topic]))
    asked = ShareFetchRequest(**{"max_records": 500, "max_bytes": 50 * MB, "min_bytes": 1, **request})
    return client.ask(ApiKey.SHARE_FETCH, asked, version=1), asked


def test_a_member_of_a_share_group_gets_what_it_has_acquired_and_waits_afterwards(broker: FakeBroker) -> None:
    """Kafka withholds it, and lets the locks run out."""
    broker.limit(client_id="", consumer_byte_rate=MB)
    client = broker.client()
    assert share_fetch(broker, client, 8 * MB)[0].throttle_time_ms == 0
    response, asked = share_fetch(broker, client, 8 * MB, min_bytes=20 * MB)
    assert (asked.max_bytes, asked.min_bytes, asked.max_records) == (10 * MB, 10 * MB, 500)
    assert len(response.responses) == 1
    assert 6_000 <= response.throttle_time_ms < 6_010
    assert client.channel.throttled


def test_a_member_above_its_rate_acquires_nothing(broker: FakeBroker) -> None:
    """It may come on another connection, or have sent the request before it was muted."""
    broker.limit(client_id="", consumer_byte_rate=MB)
    assert share_fetch(broker, broker.client(), 16 * MB)[0].throttle_time_ms > 0
    response, asked = share_fetch(broker, broker.client(), 0)
    assert asked.max_records == 0
    assert response.throttle_time_ms > 0
    broker.passes(11_000)
    assert share_fetch(broker, broker.client(), 0)[1].max_records == 500


def test_the_time_of_share_requests_is_charged(broker: FakeBroker) -> None:
    broker.limit(client_id="", request_percentage=10)
    broker.handler_seconds = 1.0
    client = broker.client()
    assert share_fetch(broker, client, MB)[0].throttle_time_ms == 0
    assert share_fetch(broker, client, MB)[0].throttle_time_ms == 1_000
    for key, answer in (
        (ApiKey.SHARE_ACKNOWLEDGE, ShareAcknowledgeResponse()),
        (ApiKey.SHARE_GROUP_HEARTBEAT, ShareGroupHeartbeatResponse()),
    ):
        broker.passes(60_000)
        broker.handle[key] = lambda reply, request, answer=answer: reply(answer)
        assert client.ask(key, version=1).throttle_time_ms == 0
        assert client.ask(key, version=1).throttle_time_ms == 1_000


# Request time.


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
