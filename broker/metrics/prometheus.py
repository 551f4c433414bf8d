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
from prometheus_client.metrics_core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from purgatorio.broker.metadata.image import NO_LEADER, ClusterImage
from purgatorio.broker.metrics.access import refusals
from purgatorio.broker.metrics.coordinators import group_steps, transactions
from purgatorio.broker.metrics.counters import (
    LATENCY_BUCKETS_MS,
    OTHER_REQUESTS,
    BrokerMetrics,
    RequestStats,
    TopicStats,
)
from purgatorio.broker.metrics.family import api_name, counter, gauge
from purgatorio.broker.metrics.quotas import quota_steps
from purgatorio.broker.metrics.replicas import MAX_TOPICS, OTHER_TOPICS, Steps, replica_steps
from purgatorio.broker.metrics.views import BrokerView


class BrokerCollector(Collector):
    """Reads the brokers of a process at each scrape.

    Args:
        brokers: returns the brokers that exist now.
        per_partition: whether each partition has series; else each topic has, with the sums of its partitions.
    """

    def __init__(self, brokers: Callable[[], Iterable[BrokerView]], *, per_partition: bool = False) -> None:
        self._brokers = brokers
        self._per_partition = per_partition

    def steps(self) -> Steps:
        """Yield every metric family once, with the series of all brokers, and None between steps of bounded work."""
        brokers = list(self._brokers())
        yield from replica_steps(brokers, per_partition=self._per_partition)
        yield from group_steps(brokers, per_partition=self._per_partition)
        yield from quota_steps(brokers)
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


class Snapshot(Collector):
    """Metrics that were read.

    Read them on the event loop, whose state they are. Formatting them as text takes three times as long, and may run in
    another thread: ``await asyncio.to_thread(generate_latest, Snapshot(metrics))``.
    """

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = list(metrics)

    def collect(self) -> Iterable[Metric]:
        """Return the metric families."""
        return self._metrics


def _purgatories(brokers: Sequence[BrokerView]) -> Iterator[Metric]:
    prefix, label = "kafka_server_delayedoperationpurgatory", "delayedOperation"
    size = gauge(f"{prefix}_purgatorysize", "Entries in the watch lists, an operation once per key.", label)
    delayed = gauge(f"{prefix}_numdelayedoperations", "Operations that wait for an event or their deadline.", label)
    for broker in brokers:
        for purgatory in broker.purgatories:
            size.add(broker, purgatory.watched, purgatory.name)
            delayed.add(broker, purgatory.num_delayed, purgatory.name)
    yield size.metric
    yield delayed.metric


def _expirations(brokers: Sequence[BrokerView]) -> Iterator[Metric]:
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
)


def _topics(brokers: Sequence[BrokerView]) -> Iterator[Metric]:
    prefix = "kafka_server_brokertopicmetrics"
    for name, doc, read in _TOPIC_COUNTERS:
        family = counter(f"{prefix}_{name}", doc, "topic")
        for broker in brokers:
            topics = iter(broker.metrics.topics.items())
            for topic, stats in islice(topics, MAX_TOPICS):
                family.add(broker, read(stats), topic)
            others = [read(stats) for _, stats in topics]
            if others:
                family.add(broker, sum(others), OTHER_TOPICS)
        yield family.metric
    replicated_in = counter(f"{prefix}_replicationbytesin", "Bytes that this broker replicated from leaders.")
    replicated_out = counter(f"{prefix}_replicationbytesout", "Bytes that followers replicated from this broker.")
    for broker in brokers:
        replicated_in.add(broker, broker.metrics.replication_bytes_in)
        replicated_out.add(broker, broker.metrics.replication_bytes_out)
    yield replicated_in.metric
    yield replicated_out.metric


def _requests(brokers: Sequence[BrokerView]) -> Iterator[Metric]:
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


_CONNECTION_GAUGES: Sequence[tuple[str, str, Callable[[BrokerView], int]]] = (
    ("kafka_server_socket_server_metrics_connection_count", "Open connections.", lambda b: b.metrics.connections),
    (
        "kafka_network_socketserver_memorypoolused",
        "Request bytes being received or worked on.",
        lambda b: b.request_memory_used_bytes,
    ),
)
_CONNECTION_COUNTERS: Sequence[tuple[str, str, Callable[[BrokerMetrics], int]]] = (
    ("connection_creation", "Connections accepted.", lambda m: m.connections_opened),
    ("connection_close", "Connections closed.", lambda m: m.connections_closed),
    ("incoming_byte", "Bytes received.", lambda m: m.socket_bytes_in),
    ("outgoing_byte", "Bytes sent.", lambda m: m.socket_bytes_out),
)


def _connections(brokers: Sequence[BrokerView]) -> Iterator[Metric]:
    for name, doc, read_gauge in _CONNECTION_GAUGES:
        family = gauge(name, doc)
        for broker in brokers:
            family.add(broker, read_gauge(broker))
        yield family.metric
    for name, doc, read_counter in _CONNECTION_COUNTERS:
        family = counter(f"kafka_server_socket_server_metrics_{name}", doc)
        for broker in brokers:
            family.add(broker, read_counter(broker.metrics))
        yield family.metric
    refusals = counter("purgatorio_refusals", "Connections and requests refused, by reason.", "reason")
    for broker in brokers:
        for reason, count in broker.metrics.refusals.items():
            refusals.add(broker, count, str(reason))
    yield refusals.metric


def _log_memory(brokers: Sequence[BrokerView]) -> Iterator[Metric]:
    prefix = "purgatorio_log_memory"
    used = gauge(f"{prefix}_used_bytes", "Memory of all logs; log.memory.bytes bounds it.")
    uncommitted = gauge(f"{prefix}_uncommitted_bytes", "Memory of the records that are not committed yet.", "role")
    evicted = counter(f"{prefix}_evicted_bytes", "Memory of the committed records that were deleted at the cap.")
    for broker in brokers:
        memory = broker.log_memory
        used.add(broker, memory.used_bytes)
        uncommitted.add(broker, memory.led.used_bytes, "leader")
        uncommitted.add(broker, memory.followed.used_bytes, "follower")
        evicted.add(broker, memory.evicted_bytes)
    yield from (used.metric, uncommitted.metric, evicted.metric)


def _fetch_sessions(brokers: Sequence[BrokerView]) -> Iterator[Metric]:
    prefix = "kafka_server_fetchsessioncache"
    count = gauge(f"{prefix}_numincrementalfetchsessions", "Fetch sessions of followers and consumers.")
    cached = gauge(f"{prefix}_numincrementalfetchpartitionscached", "Partitions of all fetch sessions.")
    evicted = counter(f"{prefix}_incrementalfetchsessionevictions", "Fetch sessions that made room for others.")
    for broker in brokers:
        count.add(broker, len(broker.fetch_sessions))
        cached.add(broker, broker.fetch_sessions.partition_count)
        evicted.add(broker, broker.fetch_sessions.evictions)
    yield from (count.metric, cached.metric, evicted.metric)


def _recorder(brokers: Sequence[BrokerView]) -> Iterator[Metric]:
    recorded = counter("purgatorio_delayed_operations_recorded", "Delayed operations put into __delayed_operations.")
    dropped = counter("purgatorio_delayed_operations_dropped", "Delayed operations that could not be recorded.")
    for broker in brokers:
        recorded.add(broker, broker.metrics.delays_recorded)
        dropped.add(broker, broker.metrics.delays_dropped)
    yield recorded.metric
    yield dropped.metric


_CONTROLLER_GAUGES: Sequence[tuple[str, str, Callable[[ClusterImage], int]]] = (
    ("activebrokercount", "Brokers of the cluster; from the controller.", lambda i: len(i.brokers)),
    ("globaltopiccount", "Topics of the cluster; from the controller.", lambda i: len(i.topics)),
    ("globalpartitioncount", "Partitions of the cluster; from the controller.", lambda i: i.partition_count),
    (
        "offlinepartitionscount",
        "Partitions without a leader; from the controller.",
        lambda i: sum(p.leader == NO_LEADER for topic in i.topics.values() for p in topic.partitions),
    ),
)


def _controller(brokers: Sequence[BrokerView]) -> Iterator[Metric]:
    prefix = "kafka_controller_kafkacontroller"
    active = gauge(f"{prefix}_activecontrollercount", "1 on the broker that is the controller.")
    for broker in brokers:
        active.add(broker, broker.image.controller_id == broker.metrics.broker_id)
    yield active.metric
    controllers = [broker for broker in brokers if broker.image.controller_id == broker.metrics.broker_id]
    for name, doc, read in _CONTROLLER_GAUGES:
        family = gauge(f"{prefix}_{name}", doc)
        for broker in controllers:
            family.add(broker, read(broker.image))
        yield family.metric


_READERS: Final = (
    _purgatories,
    _expirations,
    _topics,
    _requests,
    _connections,
    _log_memory,
    _fetch_sessions,
    _controller,
    _recorder,
    transactions,
    refusals,
)
"""What reads the metrics of the brokers, but for those of their replicas, groups and quotas."""
