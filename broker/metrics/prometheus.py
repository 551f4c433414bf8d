"""The broker's counters and state under Kafka's metric names, read when Prometheus scrapes.

The names are those that the JMX exporter's usual rules make of Kafka's MBeans, so existing dashboards find them:
lower case, ``PerSec`` counters as ``…_total``, attributes as labels. The label `broker` names the broker of a series,
since several brokers may run in one process. Metrics that Kafka does not have begin with ``purgatorio_``.

The series of a partition come from all brokers that hold a replica or, where their help text says so, from its leader
only. They end with the replica or the leadership (KAFKA-20204).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Protocol

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import NO_LEADER, ClusterImage
from purgatorio.broker.metrics.counters import (
    LATENCY_BUCKETS_MS,
    OTHER_REQUESTS,
    BrokerMetrics,
    RequestStats,
    TopicStats,
)
from purgatorio.protocol.api_key import ApiKey


class PurgatoryView(Protocol):
    """A purgatory, as the metrics read it."""

    @property
    def name(self) -> str:
        """Kafka's name for it: Produce, Fetch …"""
        ...

    @property
    def watched(self) -> int:
        """Entries in its watch lists; an operation counts once per key."""
        ...

    @property
    def num_delayed(self) -> int:
        """Number of parked operations."""
        ...


class LogView(Protocol):
    """A replica's log, as the metrics read it."""

    @property
    def log_start_offset(self) -> int:
        """The first offset."""
        ...

    @property
    def log_end_offset(self) -> int:
        """The offset after the last."""
        ...

    @property
    def size_bytes(self) -> int:
        """Bytes of all batches."""
        ...


class FollowerView(Protocol):
    """A leader's knowledge of a follower."""

    @property
    def log_end_offset(self) -> int:
        """Its log end offset; negative while unknown."""
        ...


class PartitionView(Protocol):
    """A replica, as the metrics read it."""

    @property
    def tp(self) -> TopicPartition:
        """The partition's name."""
        ...

    @property
    def is_leader(self) -> bool:
        """True if this replica is the leader."""
        ...

    @property
    def replicas(self) -> Sequence[int]:
        """Ids of all brokers that hold the partition."""
        ...

    @property
    def isr(self) -> Sequence[int]:
        """Ids of the in-sync replicas."""
        ...

    @property
    def min_in_sync_replicas(self) -> int:
        """Number of in-sync replicas that acks=all needs."""
        ...

    @property
    def high_watermark(self) -> int:
        """The high watermark: consumers read records below it."""
        ...

    @property
    def log(self) -> LogView:
        """Its records."""
        ...

    @property
    def followers(self) -> Mapping[int, FollowerView]:
        """On the leader, the other replicas by broker id."""
        ...


class BrokerView(Protocol):
    """A broker, as the metrics read it."""

    @property
    def metrics(self) -> BrokerMetrics:
        """Its counters."""
        ...

    @property
    def purgatories(self) -> Iterable[PurgatoryView]:
        """Its purgatories."""
        ...

    @property
    def partitions(self) -> Iterable[PartitionView]:
        """Its replicas."""
        ...

    @property
    def image(self) -> ClusterImage:
        """The latest metadata image that it has seen."""
        ...

    @property
    def request_memory_used_bytes(self) -> int:
        """Request bytes that its connections hold."""
        ...


class BrokerCollector(Collector):
    """Reads the brokers of a process at each scrape of the registry.

    Args:
        brokers: returns the brokers that exist now.
    """

    def __init__(self, brokers: Callable[[], Iterable[BrokerView]]) -> None:
        self._brokers = brokers

    def collect(self) -> Iterator[Metric]:
        """Yield every metric family once, with the series of all brokers."""
        brokers = list(self._brokers())
        for read in (_purgatories, _expirations, _topics, _requests, _connections, _replicas, _controller, _recorder):
            yield from read(brokers)


def build_registry(brokers: Callable[[], Iterable[BrokerView]]) -> CollectorRegistry:
    """Build a separate registry with the metrics of the brokers and of the process (memory, CPU, files)."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    registry.register(BrokerCollector(brokers))
    return registry


class Snapshot(Collector):
    """The metrics of a registry at one moment.

    Make the snapshot on the event loop, whose state it reads. Formatting it as text takes three times as long, and may
    run in another thread: ``await asyncio.to_thread(generate_latest, Snapshot(registry))``.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._metrics = list(registry.collect())

    def collect(self) -> Iterable[Metric]:
        """Return the metric families of that moment."""
        return self._metrics


class _Family:
    """A metric family under construction. Its first label is the broker id."""

    def __init__(self, kind: type[CounterMetricFamily | GaugeMetricFamily], name: str, doc: str, *labels: str) -> None:
        self.metric = kind(name, doc, labels=("broker", *labels))

    def add(self, broker: BrokerView, value: float, *labels: str) -> None:
        """Add one series."""
        self.metric.add_metric((str(broker.metrics.broker_id), *labels), value)


def _gauge(name: str, doc: str, *labels: str) -> _Family:
    return _Family(GaugeMetricFamily, name, doc, *labels)


def _counter(name: str, doc: str, *labels: str) -> _Family:
    """Make a counter. The names of its series end in ``_total``, which `name` omits."""
    return _Family(CounterMetricFamily, name, doc, *labels)


def _purgatories(brokers: Sequence[BrokerView]) -> Iterator[Metric]:
    prefix, label = "kafka_server_delayedoperationpurgatory", "delayedOperation"
    size = _gauge(f"{prefix}_purgatorysize", "Entries in the watch lists, an operation once per key.", label)
    delayed = _gauge(f"{prefix}_numdelayedoperations", "Operations that wait for an event or their deadline.", label)
    for broker in brokers:
        for purgatory in broker.purgatories:
            size.add(broker, purgatory.watched, purgatory.name)
            delayed.add(broker, purgatory.num_delayed, purgatory.name)
    yield size.metric
    yield delayed.metric


def _expirations(brokers: Sequence[BrokerView]) -> Iterator[Metric]:
    fetch = _counter(
        "kafka_server_delayedfetchmetrics_expires", "Fetches answered because their time had run out.", "fetcherType"
    )
    produce = _counter(
        "kafka_server_delayedproducemetrics_expires",
        "Produce requests that timed out waiting for the partition; only from its leader.",
        "topic",
        "partition",
    )
    for broker in brokers:
        fetch.add(broker, broker.metrics.consumer_fetch_expirations, "consumer")
        fetch.add(broker, broker.metrics.follower_fetch_expirations, "follower")
        for partition in broker.partitions:
            if partition.is_leader:
                tp = partition.tp
                produce.add(broker, broker.metrics.produce_expirations.get(tp, 0), tp.topic, str(tp.partition))
    yield fetch.metric
    yield produce.metric


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
    by_broker = []
    for broker in brokers:
        # Followers count too: consumers may read from them (KIP-392).
        held = {partition.tp: None for partition in broker.partitions}
        by_broker.append((broker, broker.metrics.topics_of(held)))
    for name, doc, read in _TOPIC_COUNTERS:
        family = _counter(f"{prefix}_{name}", doc, "topic")
        for broker, topics in by_broker:
            for topic, stats in topics.items():
                family.add(broker, read(stats), topic)
        yield family.metric
    replicated_in = _counter(f"{prefix}_replicationbytesin", "Bytes that this broker replicated from leaders.")
    replicated_out = _counter(f"{prefix}_replicationbytesout", "Bytes that followers replicated from this broker.")
    for broker in brokers:
        replicated_in.add(broker, broker.metrics.replication_bytes_in)
        replicated_out.add(broker, broker.metrics.replication_bytes_out)
    yield replicated_in.metric
    yield replicated_out.metric


def _api_name(api_key: int) -> str:
    """Return Kafka's name of an API: Fetch for FETCH, ListOffsets for LIST_OFFSETS."""
    try:
        return "".join(word.capitalize() for word in ApiKey(api_key).name.split("_"))
    except ValueError:
        return "Other"


def _requests(brokers: Sequence[BrokerView]) -> Iterator[Metric]:
    prefix = "kafka_network_requestmetrics"
    count = _counter(f"{prefix}_requests", "Requests answered, by API and version.", "request", "version")
    times = HistogramMetricFamily(
        f"{prefix}_totaltimems",
        "Milliseconds from a request's last byte to its answer, parking included.",
        labels=("broker", "request"),
    )
    for broker in brokers:
        by_api: dict[str, list[RequestStats]] = {}
        for kind, stats in broker.metrics.requests.items():
            name = _api_name(kind[0])
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
        family = _gauge(name, doc)
        for broker in brokers:
            family.add(broker, read_gauge(broker))
        yield family.metric
    for name, doc, read_counter in _CONNECTION_COUNTERS:
        family = _counter(f"kafka_server_socket_server_metrics_{name}", doc)
        for broker in brokers:
            family.add(broker, read_counter(broker.metrics))
        yield family.metric
    refusals = _counter("purgatorio_refusals", "Connections and requests refused, by reason.", "reason")
    for broker in brokers:
        for reason, count in broker.metrics.refusals.items():
            refusals.add(broker, count, str(reason))
    yield refusals.metric


def _recorder(brokers: Sequence[BrokerView]) -> Iterator[Metric]:
    recorded = _counter("purgatorio_delayed_operations_recorded", "Delayed operations put into __delayed_operations.")
    dropped = _counter("purgatorio_delayed_operations_dropped", "Delayed operations that could not be recorded.")
    for broker in brokers:
        recorded.add(broker, broker.metrics.delays_recorded)
        dropped.add(broker, broker.metrics.delays_dropped)
    yield recorded.metric
    yield dropped.metric


def _is_under_replicated(partition: PartitionView) -> bool:
    return len(partition.isr) < len(partition.replicas)


def _is_under_min_isr(partition: PartitionView) -> bool:
    return len(partition.isr) < partition.min_in_sync_replicas


def _is_at_min_isr(partition: PartitionView) -> bool:
    return len(partition.isr) == partition.min_in_sync_replicas


_REPLICA_GAUGES: Sequence[tuple[str, str, Callable[[PartitionView], int]]] = (
    ("kafka_log_log_logstartoffset", "First offset of a replica.", lambda p: p.log.log_start_offset),
    ("kafka_log_log_logendoffset", "Offset after the last of a replica.", lambda p: p.log.log_end_offset),
    ("kafka_log_log_size", "Bytes of a replica's log.", lambda p: p.log.size_bytes),
    ("purgatorio_partition_highwatermark", "High watermark as a replica knows it.", lambda p: p.high_watermark),
    (
        "purgatorio_partition_highwatermarklag",
        "Records of a replica that consumers cannot read yet: log end minus high watermark.",
        lambda p: p.log.log_end_offset - p.high_watermark,
    ),
)
_LEADER_GAUGES: Sequence[tuple[str, str, Callable[[PartitionView], int]]] = (
    ("replicascount", "Replicas of a partition; from its leader.", lambda p: len(p.replicas)),
    ("insyncreplicascount", "In-sync replicas of a partition; from its leader.", lambda p: len(p.isr)),
    ("underreplicated", "1 when a replica is not in sync; from the leader.", _is_under_replicated),
    ("underminisr", "1 when too few are in sync for acks=all; from the leader.", _is_under_min_isr),
    ("atminisr", "1 when just enough are in sync for acks=all; from the leader.", _is_at_min_isr),
)
_BROKER_GAUGES: Sequence[tuple[str, str, Callable[[PartitionView], bool]]] = (
    ("partitioncount", "Replicas on this broker.", lambda p: True),
    ("leadercount", "Partitions that this broker leads.", lambda p: p.is_leader),
    (
        "underreplicatedpartitions",
        "Partitions led here of which a replica is not in sync.",
        lambda p: p.is_leader and _is_under_replicated(p),
    ),
    (
        "underminisrpartitioncount",
        "Partitions led here that refuse acks=all.",
        lambda p: p.is_leader and _is_under_min_isr(p),
    ),
    (
        "atminisrpartitioncount",
        "Partitions led here that refuse acks=all when one more replica fails.",
        lambda p: p.is_leader and _is_at_min_isr(p),
    ),
)


def _replicas(brokers: Sequence[BrokerView]) -> Iterator[Metric]:
    held = [(broker, partition) for broker in brokers for partition in broker.partitions]
    led = [(broker, partition) for broker, partition in held if partition.is_leader]
    for name, doc, read in _REPLICA_GAUGES:
        yield _per_partition(_gauge(name, doc, "topic", "partition"), held, read)
    for name, doc, read in _LEADER_GAUGES:
        yield _per_partition(_gauge(f"kafka_cluster_partition_{name}", doc, "topic", "partition"), led, read)
    lag = _gauge(
        "purgatorio_follower_lag", "Records that a follower misses; from the leader.", "topic", "partition", "follower"
    )
    for broker, partition in led:
        log = partition.log
        for follower_id, follower in partition.followers.items():
            missing = log.log_end_offset - max(follower.log_end_offset, log.log_start_offset)
            lag.add(broker, missing, partition.tp.topic, str(partition.tp.partition), str(follower_id))
    yield lag.metric
    yield from _replica_manager(brokers)


def _per_partition(
    family: _Family, partitions: Iterable[tuple[BrokerView, PartitionView]], read: Callable[[PartitionView], int]
) -> Metric:
    for broker, partition in partitions:
        family.add(broker, read(partition), partition.tp.topic, str(partition.tp.partition))
    return family.metric


def _replica_manager(brokers: Sequence[BrokerView]) -> Iterator[Metric]:
    prefix = "kafka_server_replicamanager"
    for name, doc, holds in _BROKER_GAUGES:
        family = _gauge(f"{prefix}_{name}", doc)
        for broker in brokers:
            family.add(broker, sum(1 for partition in broker.partitions if holds(partition)))
        yield family.metric
    shrinks = _counter(f"{prefix}_isrshrinks", "Followers that left the in-sync replicas of a partition led here.")
    expands = _counter(f"{prefix}_isrexpands", "Followers that joined the in-sync replicas of a partition led here.")
    for broker in brokers:
        shrinks.add(broker, broker.metrics.isr_shrinks)
        expands.add(broker, broker.metrics.isr_expands)
    yield shrinks.metric
    yield expands.metric


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
    active = _gauge(f"{prefix}_activecontrollercount", "1 on the broker that is the controller.")
    for broker in brokers:
        active.add(broker, broker.image.controller_id == broker.metrics.broker_id)
    yield active.metric
    controllers = [broker for broker in brokers if broker.image.controller_id == broker.metrics.broker_id]
    for name, doc, read in _CONTROLLER_GAUGES:
        family = _gauge(f"{prefix}_{name}", doc)
        for broker in controllers:
            family.add(broker, read(broker.image))
        yield family.metric
