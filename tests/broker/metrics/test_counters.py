"""The counters: each event adds to the right ones, and no client can make them grow without bound."""

import pytest

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metrics.counters import (
    LATENCY_BUCKETS_MS,
    MAX_REQUEST_KINDS,
    MAX_TOPICS,
    OTHER_REQUESTS,
    BrokerMetrics,
)
from purgatorio.broker.server.limits import Refusal

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def metrics() -> BrokerMetrics:
    return BrokerMetrics(1)


def test_produce_and_fetch_are_counted_by_topic(metrics: BrokerMetrics) -> None:
    metrics.appended(ORDERS, records=3, size_bytes=100)
    metrics.append_failed(ORDERS)
    metrics.fetched(ORDERS, size_bytes=70)
    metrics.fetched(ORDERS, size_bytes=0)
    metrics.fetch_failed(ORDERS)
    topic = metrics.topic("orders")
    assert (topic.messages_in, topic.bytes_in, topic.bytes_out) == (3, 100, 70)
    assert (topic.produce_requests, topic.failed_produce_requests) == (2, 1)
    assert (topic.fetch_requests, topic.failed_fetch_requests) == (3, 1)


@pytest.mark.parametrize(
    ("seconds", "bucket"),
    [(0.0, 0), (0.0001, 0), (0.00011, 1), (0.3, LATENCY_BUCKETS_MS.index(500)), (31.0, len(LATENCY_BUCKETS_MS))],
)
def test_a_request_falls_into_the_first_bucket_that_holds_it(
    metrics: BrokerMetrics, seconds: float, bucket: int
) -> None:
    """Bounds are inclusive, as Prometheus has them; the last bucket takes what is longer than any bound."""
    metrics.request(0, 9, seconds)
    stats = metrics.requests[0, 9]
    assert stats.buckets[bucket] == stats.count == 1
    assert stats.total_ms == pytest.approx(seconds * 1000)


def test_requests_are_counted_by_version_up_to_a_bound(metrics: BrokerMetrics) -> None:
    """Further kinds are counted together, so that random versions cannot fill the memory."""
    for version in range(MAX_REQUEST_KINDS + 5):
        metrics.request(1, version, 0.0)
    assert len(metrics.requests) == MAX_REQUEST_KINDS + 1
    assert metrics.requests[OTHER_REQUESTS].count == 5


def test_topics_are_counted_up_to_a_bound(metrics: BrokerMetrics) -> None:
    """A client that asks for one unknown topic after another pushes out the oldest."""
    metrics.append_failed(ORDERS)
    for index in range(MAX_TOPICS):
        metrics.append_failed(TopicPartition(f"t{index}", 0))
    assert metrics.topic("orders").produce_requests == 0
    assert metrics.topic(f"t{MAX_TOPICS - 1}").produce_requests == 1


def test_a_lost_partition_takes_its_counters_along(metrics: BrokerMetrics) -> None:
    """KAFKA-20204: the expirations go with the leadership, the topic's with the last partition of it."""
    metrics.produce_expired(ORDERS)
    metrics.appended(ORDERS, 1, 1)
    metrics.partition_removed(ORDERS)
    metrics.partition_removed(ORDERS)
    assert metrics.produce_expirations == {}
    metrics.keep_topics({"orders"})
    assert list(metrics.topics) == ["orders"]
    metrics.keep_topics(())
    assert metrics.topics == {}


def test_connections_are_those_opened_and_not_closed(metrics: BrokerMetrics) -> None:
    metrics.connection_opened()
    metrics.connection_opened()
    metrics.connection_closed()
    metrics.refused(Refusal.IDLE)
    assert metrics.connections == 1
    assert metrics.refusals == {"idle": 1}
