"""A broker's counters: plain integers that the hot path increments and a scrape reads.

This module does not depend on Prometheus; `metrics.prometheus` gives the counters their names. An event costs a
dictionary look-up and an addition, whereas a labelled Prometheus counter also takes a lock.
"""

# compiled: docs/compiled.md

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from purgatorio.broker.log.topic_partition import TopicPartition

LATENCY_BUCKETS_MS: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000)
"""Upper bounds, inclusive, of the request time histogram; one more bucket counts longer requests."""

MAX_TOPICS: Final = 10_000
"""Most topics counted at a time. Clients choose the names in refused requests, so a new topic replaces the oldest."""

MAX_REQUEST_KINDS: Final = 1_000
"""Most pairs of API and version counted apart; Kafka has about 500. Further pairs count as `OTHER_REQUESTS`."""


OTHER_REQUESTS: Final = (-1, -1)


class RequestStats:
    """The number of requests of one API in one version, and their durations.

    Attributes:
        buckets: requests per bucket of `LATENCY_BUCKETS_MS`, each request once; the last bucket is for all longer ones.
        total_ms: the sum of all durations, from a request's last byte to its answer.
    """

    __slots__ = ("buckets", "total_ms")

    def __init__(self) -> None:
        self.buckets = [0] * (len(LATENCY_BUCKETS_MS) + 1)
        self.total_ms = 0.0

    @property
    def count(self) -> int:
        """The number of requests."""
        return sum(self.buckets)


class TopicStats:
    """The traffic of clients with a topic on this broker.

    A produce, fetch or acknowledgement of one partition counts as one request; a share fetch of one topic does.
    """

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "failed_fetch_requests",
        "failed_produce_requests",
        "failed_share_acknowledgement_requests",
        "failed_share_fetch_requests",
        "fetch_requests",
        "messages_in",
        "produce_requests",
        "share_acknowledgement_requests",
        "share_fetch_requests",
    )

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.messages_in = 0
        self.produce_requests = 0
        self.fetch_requests = 0
        self.failed_produce_requests = 0
        self.failed_fetch_requests = 0
        self.share_fetch_requests = 0
        self.failed_share_fetch_requests = 0
        self.share_acknowledgement_requests = 0
        self.failed_share_acknowledgement_requests = 0


class BrokerMetrics:
    """The counters of one broker. It is the observer of the broker's listener and of its replicas.

    Attributes:
        produce_expirations: produce requests that timed out while they waited for a partition, by partition.
    """

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.connections_opened = 0
        self.connections_closed = 0
        self.socket_bytes_in = 0
        self.socket_bytes_out = 0
        self.replication_bytes_in = 0
        self.replication_bytes_out = 0
        self.consumer_fetch_expirations = 0
        self.follower_fetch_expirations = 0
        self.isr_shrinks = 0
        self.isr_expands = 0
        self.delays_recorded = 0
        self.delays_dropped = 0
        self.refusals: dict[str, int] = {}
        self.requests: dict[tuple[int, int], RequestStats] = {}
        self.produce_expirations: dict[TopicPartition, int] = {}
        self._topics: dict[str, TopicStats] = {}

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return self.connections_opened - self.connections_closed

    # --- the listener's observer ---

    def connection_opened(self) -> None:
        """Count an accepted connection."""
        self.connections_opened += 1

    def connection_closed(self) -> None:
        """Count the end of an accepted connection."""
        self.connections_closed += 1

    def refused(self, reason: str) -> None:
        """Count a refused connection or request. The broker has a small fixed set of reasons."""
        self.refusals[reason] = self.refusals.get(reason, 0) + 1

    def bytes_in(self, size_bytes: int) -> None:
        """Count bytes received."""
        self.socket_bytes_in += size_bytes

    def bytes_out(self, size_bytes: int) -> None:
        """Count bytes sent."""
        self.socket_bytes_out += size_bytes

    def request(self, api_key: int, api_version: int, seconds: float) -> None:
        """Count a request that was answered `seconds` after its last byte had arrived."""
        stats = self.requests.get((api_key, api_version))
        if stats is None:
            stats = self._new_request_stats(api_key, api_version)
        total_ms = seconds * 1000
        stats.buckets[bisect_left(LATENCY_BUCKETS_MS, total_ms)] += 1
        stats.total_ms += total_ms

    def _new_request_stats(self, api_key: int, api_version: int) -> RequestStats:
        kind = (api_key, api_version) if len(self.requests) < MAX_REQUEST_KINDS else OTHER_REQUESTS
        return self.requests.setdefault(kind, RequestStats())

    # --- the replicas' observer ---

    def appended(self, tp: TopicPartition, records: int, size_bytes: int) -> None:
        """Count a producer's batch that was appended."""
        stats = self._topics.get(tp.topic) or self.topic(tp.topic)
        stats.produce_requests += 1
        stats.messages_in += records
        stats.bytes_in += size_bytes

    def append_failed(self, tp: TopicPartition) -> None:
        """Count a producer's batch that was refused."""
        stats = self.topic(tp.topic)
        stats.produce_requests += 1
        stats.failed_produce_requests += 1

    def fetched(self, tp: TopicPartition, size_bytes: int) -> None:
        """Count `size_bytes` of records sent to a consumer."""
        stats = self._topics.get(tp.topic) or self.topic(tp.topic)
        stats.fetch_requests += 1
        stats.bytes_out += size_bytes

    def fetch_failed(self, tp: TopicPartition) -> None:
        """Count a consumer's fetch that was answered with an error."""
        stats = self.topic(tp.topic)
        stats.fetch_requests += 1
        stats.failed_fetch_requests += 1

    # --- the share fetches' observer ---

    def share_fetch_started(self, topics: Iterable[str]) -> None:
        """Count a share fetch from partitions of these topics."""
        for topic in topics:
            self.topic(topic).share_fetch_requests += 1

    def share_fetch_failed(self, topic: str) -> None:
        """Count a share fetch that was answered with an error for partitions of a topic."""
        self.topic(topic).failed_share_fetch_requests += 1

    def share_fetched(self, topic: str, size_bytes: int) -> None:
        """Count `size_bytes` of record batches sent to a member of a share group."""
        self.topic(topic).bytes_out += size_bytes

    def share_acknowledged(self, topic: str, *, failed: bool) -> None:
        """Count a request that acknowledges records of a partition."""
        stats = self.topic(topic)
        stats.share_acknowledgement_requests += 1
        stats.failed_share_acknowledgement_requests += failed

    # --- replication ---

    def replicated_in(self, size_bytes: int) -> None:
        """Count bytes that this broker, as a follower, appended."""
        self.replication_bytes_in += size_bytes

    def replicated_out(self, size_bytes: int) -> None:
        """Count bytes that this broker, as a leader, sent to a follower."""
        self.replication_bytes_out += size_bytes

    def produce_expired(self, tp: TopicPartition) -> None:
        """Count a produce request that timed out while it waited for this partition."""
        self.produce_expirations[tp] = self.produce_expirations.get(tp, 0) + 1

    def fetch_expired(self, follower: bool) -> None:
        """Count a fetch request that was answered at its deadline."""
        if follower:
            self.follower_fetch_expirations += 1
        else:
            self.consumer_fetch_expirations += 1

    def isr_shrunk(self) -> None:
        """Count a follower that left the ISR of a partition that this broker leads."""
        self.isr_shrinks += 1

    def isr_expanded(self) -> None:
        """Count a follower that joined the ISR of a partition that this broker leads."""
        self.isr_expands += 1

    def partition_removed(self, tp: TopicPartition) -> None:
        """Remove the series of a partition that this broker does not lead any more (KAFKA-20204)."""
        self.produce_expirations.pop(tp, None)

    # --- topics ---

    def topic(self, name: str) -> TopicStats:
        """Return the counters of a topic, new ones if needed. Beyond `MAX_TOPICS`, drop those of the oldest topic."""
        stats = self._topics.get(name)
        if stats is None:
            if len(self._topics) >= MAX_TOPICS:
                del self._topics[next(iter(self._topics))]
            stats = self._topics[name] = TopicStats()
        return stats

    @property
    def topics(self) -> Mapping[str, TopicStats]:
        """The counters of all topics."""
        return self._topics

    def keep_topics(self, names: Collection[str]) -> None:
        """Drop the counters of all other topics: the broker holds no partition of them."""
        self._topics = {name: stats for name, stats in self._topics.items() if name in names}
