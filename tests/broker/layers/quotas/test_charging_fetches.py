"""Tests of what quotas do to fetches, those of share groups too: how much they may take, and what they are charged."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.messages import share_fetch as share_messages
from purgatorio.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
    ReplicaState,
)
from purgatorio.protocol.messages.share_acknowledge import ShareAcknowledgeResponse
from purgatorio.protocol.messages.share_fetch import ShareFetchableTopicResponse, ShareFetchRequest, ShareFetchResponse
from purgatorio.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatResponse
from tests.broker.layers.quotas.harness import MB, Client, FakeBroker

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
