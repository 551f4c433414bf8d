"""The series of share groups: what members fetch and acknowledge, and what is in flight (KIP-1103).

Of Kafka's, FetchLockTimeMs and FetchLockRatio are left out: no share partition is ever locked for a fetch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final

from prometheus_client.metrics_core import HistogramMetricFamily, Metric

from purgatorio.admin.metrics.family import Family, Tables, counter, families, gauge
from purgatorio.admin.metrics.replicas import STEP, Steps
from purgatorio.broker.node.broker import Broker
from purgatorio.broker.share.acknowledging import AcknowledgeType
from purgatorio.broker.share.giving_up import DeadLetterCount
from purgatorio.broker.share.led_shares import LedShares
from purgatorio.broker.share.share_metrics import Distribution, PartitionCounts, TopicCounts

_SESSIONS: Final[Tables[LedShares]] = {
    "kafka_server_sharesessioncache_": (
        (gauge, "sharesessionscount", "Share sessions.", lambda s: len(s.sessions)),
        (gauge, "sharepartitionscount", "Partitions of all share sessions.", lambda s: s.sessions.partition_count),
        (
            counter,
            "sharesessionevictions",
            "Share sessions that ended with their connection.",
            lambda s: s.sessions.ended_count,
        ),
    ),
    "kafka_server_delayedsharefetchmetrics_": (
        (counter, "expires", "Share fetches answered because their time was over.", lambda s: s.metrics.expired_count),
    ),
}
_Counts = TopicCounts | PartitionCounts
_SHARED: Final[Sequence[tuple[Callable[..., Family], str, str, Callable[[_Counts], int]]]] = (
    (gauge, "inflightmessagecount", "Records from the start offset to the end offset.", lambda c: c.record_count),
    (gauge, "inflightbatchcount", "Runs of records in the same state among these.", lambda c: c.batch_count),
    (
        counter,
        "acquisitionlocktimeout",
        "Records that were not acknowledged before their lock ran out.",
        lambda c: c.timed_out_count,
    ),
)


_DEAD_LETTERS: Final[Sequence[tuple[str, str, Callable[[DeadLetterCount], int]]]] = (
    ("recordcount", "Records that were written to dead-letter topics.", lambda c: c.records),
    ("totalproducerequests", "Requests to write to dead-letter topics.", lambda c: c.requests),
    ("failedproducerequests", "Those that failed for good.", lambda c: c.failures),
)


def share_steps(brokers: Sequence[Broker], *, per_partition: bool) -> Steps:
    """Yield the families about share groups, once each, and None between steps of bounded work.

    Args:
        per_partition: whether each share partition has series; else those of a topic are the sums of its partitions'.
    """
    yield from families(_SESSIONS, [(broker, broker.led_shares) for broker in brokers])
    yield _acknowledgements(brokers)
    yield from _dead_letters(brokers)
    yield from _groups(brokers)
    labels = ("group", "topic", "partition") if per_partition else ("group", "topic")
    prefix = "kafka_server_sharepartitionmetrics_"
    kept = [(make(prefix + name, doc, *labels), read) for make, name, doc, read in _SHARED]
    for broker in brokers:
        rows = _of_partitions(broker.led_shares) if per_partition else _of_topics(broker.led_shares)
        for nth, (key, counts) in enumerate(rows, 1):
            for family, read in kept:
                family.add(broker, read(counts), *key)
            if nth % STEP == 0:
                yield None
    for family, _ in kept:
        yield family.metric
    batches = _histogram("sharepartitionmetrics_inflightbatchmessagecount", "Records acquired together.", *labels[:2])
    for broker in brokers:
        for nth, (key, sums) in enumerate(list(broker.led_shares.metrics.topics.items()), 1):
            _add(batches, broker, sums.acquired, *key)
            if nth % STEP == 0:
                yield None
    yield batches


_Rows = Iterator[tuple[tuple[str, ...], _Counts]]


def _of_topics(led: LedShares) -> _Rows:
    return iter(list(led.metrics.topics.items()))


def _of_partitions(led: LedShares) -> _Rows:
    return (((each.key.group_id, each.tp.topic, str(each.tp.partition)), each.counts) for each in led.partitions)


def _acknowledgements(brokers: Sequence[Broker]) -> Metric:
    """Return the records by the type of their acknowledgement; Kafka does not count gaps."""
    prefix = "kafka_server_sharegroupmetrics"
    family = counter(f"{prefix}_recordacknowledgements", "Records that members have acknowledged.", "ackType")
    for broker in brokers:
        for kind, count in broker.led_shares.metrics.acknowledged.items():
            if kind is not AcknowledgeType.GAP:
                family.add(broker, count, kind.name.capitalize())
    return family.metric


def _dead_letters(brokers: Sequence[Broker]) -> Iterator[Metric]:
    """Yield what was given up and copied, by group (KIP-1191)."""
    for name, doc, read in _DEAD_LETTERS:
        family = counter(f"kafka_server_sharegroupmetrics_deadletterqueue{name}", doc, "group")
        for broker in brokers:
            for group_id, count in broker.led_shares.dead_letters.counts.by_group.items():
                family.add(broker, read(count), group_id)
        yield family.metric


def _groups(brokers: Iterable[Broker]) -> Iterator[Metric]:
    load = _histogram("sharegroupmetrics_partitionloadtimems", "Milliseconds that the states of share partitions took.")
    percent = _histogram(
        "sharegroupmetrics_requesttopicpartitionsfetchratio",
        "Of a session's partitions, the percentage that a fetch got records from.",
        "group",
    )
    acquire = _histogram(
        "sharegroupmetrics_topicpartitionsacquiretimems", "Milliseconds that a fetch waited for its records.", "group"
    )
    for broker in brokers:
        metrics = broker.led_shares.metrics
        _add(load, broker, metrics.load_ms)
        for group_id, counts in metrics.groups.items():
            _add(percent, broker, counts.fetch_percent, group_id)
            _add(acquire, broker, counts.acquire_ms, group_id)
    yield from (load, percent, acquire)


def _histogram(name: str, doc: str, *labels: str) -> HistogramMetricFamily:
    return HistogramMetricFamily(f"kafka_server_{name}", doc, labels=("broker", *labels))


def _add(family: HistogramMetricFamily, broker: Broker, values: Distribution, *labels: str) -> None:
    bounds = [*(str(float(bound)) for bound in values.bounds), "+Inf"]
    buckets = list(zip(bounds, accumulate(values.counts), strict=True))
    family.add_metric((str(broker.metrics.broker_id), *labels), buckets, values.total)
