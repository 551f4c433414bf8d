"""The broker's counters and state under Kafka's metric names, read when Prometheus scrapes.

The names are those that the JMX exporter's usual rules make of Kafka's MBeans, so existing dashboards find them:
lower case, ``PerSec`` counters as ``…_total``, attributes as labels. The label `broker` names the broker of a series,
since several brokers may run in one process. Metrics that Kafka does not have begin with ``purgatorio_``.

The series of a topic (of a partition, with the setting metrics_per_partition) come from all brokers that hold a replica
or, where their help text says so, from the leader only. They end with the replica or the leadership (KAFKA-20204).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, islice
from typing import Final

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from purgatorio.admin.metrics.coordinators import group_steps, transactions
from purgatorio.admin.metrics.family import Tables, api_name, counter, families, gauge
from purgatorio.admin.metrics.quotas import quota_steps
from purgatorio.admin.metrics.replicas import MAX_TOPICS, OTHER_TOPICS, Steps, replica_steps
from purgatorio.admin.metrics.share import share_steps
from purgatorio.admin.metrics.tier import tier_steps
from purgatorio.broker.layers.faults import FaultRegistry
from purgatorio.broker.metadata.image import NO_LEADER, ClusterImage
from purgatorio.broker.metrics.counters import (
    LATENCY_BUCKETS_MS,
    OTHER_REQUESTS,
    RequestStats,
    TopicStats,
)
from purgatorio.broker.metrics.loop_lag import BUCKETS_MS, LoopLag
from purgatorio.broker.node.broker import Broker


class BrokerCollector(Collector):
    """Reads the brokers of a process at each scrape.

    Args:
        brokers: returns the brokers that exist now.
        per_partition: whether each partition has series; else each topic has, with the sums of its partitions.
    """

    def __init__(self, brokers: Callable[[], Iterable[Broker]], *, per_partition: bool = False) -> None:
        self._brokers = brokers
        self._per_partition = per_partition

    def steps(self) -> Steps:
        """Yield every metric family once, with the series of all brokers, and None between steps of bounded work."""
        brokers = list(self._brokers())
        yield from replica_steps(brokers, per_partition=self._per_partition)
        yield from group_steps(brokers, per_partition=self._per_partition)
        yield from share_steps(brokers, per_partition=self._per_partition)
        yield from quota_steps(brokers)
        yield from tier_steps(brokers)
        for read in _READERS:
            yield None
            yield from read(brokers)

    def collect(self) -> Iterator[Metric]:
        """Yield what `steps` yields, without the pauses."""
        return (metric for metric in self.steps() if metric is not None)


def process_registry() -> CollectorRegistry:
    """Build a registry of its own with the metrics of the process: memory, CPU, files."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    return registry


class ScrapedMetrics(Collector):
    """Metrics that were read.

    Read them on the event loop, whose state they are. Formatting them as text takes three times as long, and may run in
    another thread: ``await asyncio.to_thread(generate_latest, Snapshot(metrics))``.
    """

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = list(metrics)

    def collect(self) -> Iterable[Metric]:
        """Return the metric families."""
        return self._metrics


def _purgatories(brokers: Sequence[Broker]) -> Iterator[Metric]:
    prefix, label = "kafka_server_delayedoperationpurgatory", "delayedOperation"
    size = gauge(f"{prefix}_purgatorysize", "Entries in the watch lists, an operation once per key.", label)
    delayed = gauge(f"{prefix}_numdelayedoperations", "Operations that wait for an event or their deadline.", label)
    for broker in brokers:
        for purgatory in broker.purgatories:
            size.add(broker, purgatory.watched, purgatory.name)
            delayed.add(broker, purgatory.num_delayed, purgatory.name)
    yield size.metric
    yield delayed.metric


def _expirations(brokers: Sequence[Broker]) -> Iterator[Metric]:
    fetch = counter(
        "kafka_server_delayedfetchmetrics_expires", "Fetches answered because their time had run out.", "fetcherType"
    )
    for broker in brokers:
        fetch.add(broker, broker.metrics.consumer_fetch_expirations, "consumer")
        fetch.add(broker, broker.metrics.follower_fetch_expirations, "follower")
    yield fetch.metric


_TOPIC_COUNTERS: Sequence[tuple[str, str, Callable[[TopicStats], int]]] = (
    ("messagesin", "Records that producers appended.", lambda t: t.messages_in),
    ("bytesin", "Bytes of record batches that producers appended.", lambda t: t.bytes_in),
    ("bytesout", "Bytes of record batches that consumers were given.", lambda t: t.bytes_out),
    ("totalproducerequests", "Produce requests, one per partition.", lambda t: t.produce_requests),
    ("totalfetchrequests", "Fetches by consumers, one per partition.", lambda t: t.fetch_requests),
    ("failedproducerequests", "Produce requests refused, one per partition.", lambda t: t.failed_produce_requests),
    ("failedfetchrequests", "Consumers' fetches that failed, one per partition.", lambda t: t.failed_fetch_requests),
    ("totalsharefetchrequests", "Fetches by members of share groups, one per topic.", lambda t: t.share_fetch_requests),
    ("failedsharefetchrequests", "Such fetches that failed for a partition.", lambda t: t.failed_share_fetch_requests),
    (
        "totalshareacknowledgementrequests",
        "Requests that acknowledge records, one per partition.",
        lambda t: t.share_acknowledgement_requests,
    ),
    (
        "failedshareacknowledgementrequests",
        "Such requests that failed, one per partition.",
        lambda t: t.failed_share_acknowledgement_requests,
    ),
)


def _topics(brokers: Sequence[Broker]) -> Iterator[Metric]:
    for name, doc, read in _TOPIC_COUNTERS:
        family = counter(f"kafka_server_brokertopicmetrics_{name}", doc, "topic")
        for broker in brokers:
            topics = iter(broker.metrics.topics.items())
            for topic, stats in islice(topics, MAX_TOPICS):
                family.add(broker, read(stats), topic)
            others = [read(stats) for _, stats in topics]
            if others:
                family.add(broker, sum(others), OTHER_TOPICS)
        yield family.metric


def _requests(brokers: Sequence[Broker]) -> Iterator[Metric]:
    prefix = "kafka_network_requestmetrics"
    count = counter(f"{prefix}_requests", "Requests answered, by API and version.", "request", "version")
    times = HistogramMetricFamily(
        f"{prefix}_totaltimems",
        "Milliseconds from a request's last byte to its answer, parking included.",
        labels=("broker", "request"),
    )
    for broker in brokers:
        by_api: dict[str, list[RequestStats]] = {}
        for kind, stats in broker.metrics.requests.items():
            name = api_name(kind[0])
            count.add(broker, stats.count, name, "other" if kind == OTHER_REQUESTS else str(kind[1]))
            by_api.setdefault(name, []).append(stats)
        for name, versions in by_api.items():
            merged = accumulate(map(sum, zip(*(stats.buckets for stats in versions), strict=True)))
            bounds = [*(str(float(bound)) for bound in LATENCY_BUCKETS_MS), "+Inf"]
            labels = (str(broker.metrics.broker_id), name)
            times.add_metric(labels, list(zip(bounds, merged, strict=True)), sum(stats.total_ms for stats in versions))
    yield count.metric
    yield times


def _refusals(brokers: Sequence[Broker]) -> Iterator[Metric]:
    refused = counter("purgatorio_refusals", "Connections and requests refused, by reason.", "reason")
    for broker in brokers:
        for reason, count in broker.metrics.refusals.items():
            refused.add(broker, count, str(reason))
    yield refused.metric


def _denials(brokers: Sequence[Broker]) -> Iterator[Metric]:
    """Yield how often an operation on a resource was refused by ACLs; nothing without an authorizer."""
    denied = counter(
        "purgatorio_acl_denied", "Operations on resources that ACLs refused.", "request", "operation", "resource"
    )
    authorized = [(broker, broker.access) for broker in brokers if broker.access is not None]
    for broker, access in authorized:
        for (key, operation, kind), count in access.audit.denied.items():
            denied.add(broker, count, api_name(key), operation.name, kind.name)
    if authorized:
        yield denied.metric


def _memory(brokers: Sequence[Broker]) -> Iterator[Metric]:
    limit = gauge("purgatorio_memory_limit_bytes", "Memory that the broker may take (memory.bytes).")
    used = gauge("purgatorio_memory_used_bytes", "Memory of it that logs, requests and answers take.", "by")
    for broker in brokers:
        use = broker.memory_use
        limit.add(broker, use.limit_bytes)
        used.add(broker, use.logs_bytes, "logs")
        used.add(broker, use.requests_bytes, "requests")
        used.add(broker, use.answers_bytes, "answers")
    yield limit.metric
    yield used.metric


def _uncommitted_memory(brokers: Sequence[Broker]) -> Iterator[Metric]:
    name = "purgatorio_log_memory_uncommitted_bytes"
    uncommitted = gauge(name, "Memory of the records that are not committed yet.", "role")
    for broker in brokers:
        uncommitted.add(broker, broker.log_memory.led.used_bytes, "leader")
        uncommitted.add(broker, broker.log_memory.followed.used_bytes, "follower")
    yield uncommitted.metric


_OF_A_BROKER: Final[Tables[Broker]] = {
    "kafka_server_socket_server_metrics_": (
        (gauge, "connection_count", "Open connections.", lambda b: b.metrics.connections),
        (counter, "connection_creation", "Connections accepted.", lambda b: b.metrics.connections_opened),
        (counter, "connection_close", "Connections closed.", lambda b: b.metrics.connections_closed),
        (counter, "incoming_byte", "Bytes received.", lambda b: b.metrics.socket_bytes_in),
        (counter, "outgoing_byte", "Bytes sent.", lambda b: b.metrics.socket_bytes_out),
    ),
    "kafka_network_socketserver_": (
        (gauge, "memorypoolused", "Request bytes being received or worked on.", lambda b: b.memory_use.requests_bytes),
    ),
    "kafka_server_brokertopicmetrics_replicationbytes": (
        (counter, "in", "Bytes that this broker replicated from leaders.", lambda b: b.metrics.replication_bytes_in),
        (
            counter,
            "out",
            "Bytes that followers replicated from this broker.",
            lambda b: b.metrics.replication_bytes_out,
        ),
    ),
    "kafka_server_replicamanager_isr": (
        (
            counter,
            "shrinks",
            "Followers that left the in-sync replicas of a partition led here.",
            lambda b: b.metrics.isr_shrinks,
        ),
        (
            counter,
            "expands",
            "Followers that joined the in-sync replicas of a partition led here.",
            lambda b: b.metrics.isr_expands,
        ),
    ),
    "purgatorio_log_memory_": (
        (gauge, "used_bytes", "Memory of all logs; log.memory.bytes bounds it.", lambda b: b.log_memory.used_bytes),
        (
            counter,
            "evicted_bytes",
            "Memory of the committed records that were deleted at the cap.",
            lambda b: b.log_memory.evicted_bytes,
        ),
    ),
    "kafka_server_fetchsessioncache_": (
        (
            gauge,
            "numincrementalfetchsessions",
            "Fetch sessions of followers and consumers.",
            lambda b: len(b.fetch_sessions),
        ),
        (
            gauge,
            "numincrementalfetchpartitionscached",
            "Partitions of all fetch sessions.",
            lambda b: b.fetch_sessions.partition_count,
        ),
        (
            counter,
            "incrementalfetchsessionevictions",
            "Fetch sessions that made room for others.",
            lambda b: b.fetch_sessions.evictions,
        ),
    ),
    "purgatorio_delayed_operations_": (
        (
            counter,
            "recorded",
            "Delayed operations put into __delayed_operations.",
            lambda b: b.metrics.delays_recorded,
        ),
        (counter, "dropped", "Delayed operations that could not be recorded.", lambda b: b.metrics.delays_dropped),
    ),
    "kafka_controller_kafkacontroller_": (
        (gauge, "activecontrollercount", "1 on the broker that is the controller.", lambda b: _is_controller(b)),
        (gauge, "activebrokercount", "Brokers that hold leases, as this one sees it.", lambda b: _active(b.image)),
        (gauge, "fencedbrokercount", "Brokers whose leases ran out, as this one sees it.", lambda b: _fenced(b.image)),
    ),
}
_OF_THE_CONTROLLER: Final[Tables[ClusterImage]] = {
    "kafka_controller_kafkacontroller_": (
        (gauge, "globaltopiccount", "Topics of the cluster; from the controller.", lambda i: len(i.topics)),
        (gauge, "globalpartitioncount", "Partitions of the cluster; from the controller.", lambda i: i.partition_count),
        (
            gauge,
            "offlinepartitionscount",
            "Partitions without a leader; from the controller.",
            lambda i: sum(p.leader == NO_LEADER for topic in i.topics.values() for p in topic.partitions),
        ),
    ),
}


def _is_controller(broker: Broker) -> bool:
    return broker.image.controller_id == broker.metrics.broker_id


def _active(image: ClusterImage) -> int:
    return len(image.live_brokers)


def _fenced(image: ClusterImage) -> int:
    return len(image.brokers) - len(image.live_brokers)


def _tables(brokers: Sequence[Broker]) -> Iterator[Metric]:
    yield from families(_OF_A_BROKER, [(broker, broker) for broker in brokers])
    yield from families(_OF_THE_CONTROLLER, [(each, each.image) for each in brokers if _is_controller(each)])


_READERS: Final = (
    _purgatories,
    _expirations,
    _topics,
    _requests,
    _refusals,
    _denials,
    _memory,
    _uncommitted_memory,
    _tables,
    transactions,
)
"""The readers of the brokers' metrics, but for those of their replicas, groups, share groups and quotas."""


class MembershipCollector(Collector):
    """Reads the numbers of active and fenced brokers where no broker runs: they are reported even if all are dead."""

    def __init__(self, numbers: Callable[[], tuple[int, int]]) -> None:
        self._numbers = numbers

    def collect(self) -> Iterable[Metric]:
        """Yield the two gauges."""
        active, fenced = self._numbers()
        prefix = "kafka_controller_kafkacontroller_"
        yield GaugeMetricFamily(f"{prefix}activebrokercount", "Brokers that hold leases.", active)
        yield GaugeMetricFamily(f"{prefix}fencedbrokercount", "Brokers whose leases ran out.", fenced)


class LoopLagCollector(Collector):
    """Reads the lag of a process's event loop at each scrape."""

    def __init__(self, lag: LoopLag) -> None:
        self._lag = lag

    def collect(self) -> Iterable[Metric]:
        """Yield the histogram, and the longest lag."""
        lag = self._lag
        histogram = HistogramMetricFamily(
            "purgatorio_event_loop_lag_ms",
            "Milliseconds that a request would have waited for the event loop, each 5 ms.",
        )
        bounds = [*(str(float(bound)) for bound in BUCKETS_MS), "+Inf"]
        histogram.add_metric((), list(zip(bounds, accumulate(lag.buckets), strict=True)), lag.total_ms)
        yield histogram
        yield GaugeMetricFamily(
            "purgatorio_event_loop_longest_lag_ms", "The longest of these waits since the start.", lag.longest_ms
        )


class FaultsCollector(Collector):
    """Reads the counts of the fault rules at each scrape; a rule that is removed has none."""

    def __init__(self, faults: FaultRegistry) -> None:
        self._faults = faults

    def collect(self) -> Iterable[Metric]:
        """Yield the requests that each rule matched, acted on, and holds; nothing without rules."""
        rules = self._faults.rules
        if not rules:
            return
        labels = ("rule", "name")
        matched = CounterMetricFamily("purgatorio_fault_matched", "Requests that a fault rule matched.", labels=labels)
        fired = CounterMetricFamily("purgatorio_fault_fired", "Requests that a fault rule acted on.", labels=labels)
        held = GaugeMetricFamily("purgatorio_fault_held", "Requests that a fault rule holds now.", labels=labels)
        for live in rules:
            values = (str(live.id), live.name)
            matched.add_metric(values, live.matched)
            fired.add_metric(values, live.fired)
            held.add_metric(values, live.held)
        yield from (matched, fired, held)
