"""The series of replicas: by default one for each topic, the sum of its partitions, or one for each partition.

A broker may hold ten thousand replicas. One walk over them reads all values of the series, and the caller may let the
event loop do other work between its steps. By topic, the series of a broker are bounded: topics past `MAX_TOPICS` share
one. By partition they are not, beyond the bound of partitions in a cluster: the user has asked for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from prometheus_client.metrics_core import Metric

from purgatorio.admin.metrics.family import Family, Tables, counter, families, gauge
from purgatorio.broker.node.broker import Broker
from purgatorio.broker.replica.partition import Partition

MAX_TOPICS: Final = 500
"""The most topics of a broker that have series of their own; the first that it held."""
OTHER_TOPICS: Final = "(others)"
"""The label of all further topics together; no topic can have that name."""
STEP: Final = 250
"""Replicas read, or series made, between two pauses: about a millisecond."""

Steps = Iterator[Metric | None]
"""Metrics, and None wherever the event loop may do other work."""

_Key = tuple[str, ...]  # topic, or topic and partition

_HELD: Final[Sequence[tuple[str, str, Callable[[Partition], int]]]] = (
    ("kafka_log_log_logstartoffset", "First offset of a replica.", lambda p: p.log.log_start_offset),
    ("kafka_log_log_logendoffset", "Offset after the last of a replica.", lambda p: p.log.log_end_offset),
    ("kafka_log_log_size", "Bytes of a replica's log.", lambda p: p.log.size_bytes),
    ("purgatorio_partition_highwatermark", "High watermark as a replica knows it.", lambda p: p.high_watermark),
)
_LED: Final[Sequence[tuple[str, str, Callable[[Partition], int]]]] = (
    ("kafka_cluster_partition_replicascount", "Replicas of a partition; from its leader.", lambda p: len(p.replicas)),
    ("kafka_cluster_partition_insyncreplicascount", "In-sync replicas; from the leader.", lambda p: len(p.isr)),
    (
        "kafka_cluster_partition_underreplicated",
        "1 when a replica is not in sync; from the leader.",
        lambda p: len(p.isr) < len(p.replicas),
    ),
    (
        "kafka_cluster_partition_underminisr",
        "1 when too few are in sync for acks=all; from the leader.",
        lambda p: len(p.isr) < p.min_in_sync_replicas,
    ),
    (
        "kafka_cluster_partition_atminisr",
        "1 when just enough are in sync for acks=all; from the leader.",
        lambda p: len(p.isr) == p.min_in_sync_replicas,
    ),
    (
        "purgatorio_partition_highwatermarklag",
        "Records that consumers cannot read yet: log end minus high watermark; from the leader.",
        lambda p: p.log.log_end_offset - p.high_watermark,
    ),
    (
        "kafka_cluster_partition_laststableoffsetlag",
        "Committed records that read_committed cannot read: high watermark minus last stable offset; from the leader.",
        lambda p: p.high_watermark - p.last_stable_offset,
    ),
)
_UNDER_REPLICATED, _UNDER_MIN_ISR, _AT_MIN_ISR = 2, 3, 4  # in _LED


class _Totals:
    """Numbers of one broker's replicas, summed by key.

    Attributes:
        topics: the topics of which the broker holds a replica.
        held_by: by key, a value for each of `_HELD`.
        led_by: by key of a partition that the broker leads, a value for each of `_LED`.
        expired_by: by the same keys, the produce requests that timed out.
        lag_by: by such a key and a follower's broker id, the records that the follower misses.
        late: the partitions that the broker leads with a transaction that has outlived any timeout.
        producers: the producer ids that the replicas know.
    """

    def __init__(self, broker: Broker, *, per_partition: bool) -> None:
        self.broker = broker
        self.held: int = 0
        self.led: int = 0
        self.late: int = 0
        self.producers: int = 0
        self.topics: dict[str, _Key] = {}
        self.held_by: dict[_Key, list[int]] = {}
        self.led_by: dict[_Key, list[int]] = {}
        self.expired_by: dict[_Key, int] = {}
        self.lag_by: dict[tuple[_Key, int], int] = {}
        self._per_partition = per_partition
        self._late_before_ms = broker.coordinators.transaction_numbers.late_before_ms

    def sum_led(self, place: int) -> int:
        """Return the sum of one of `_LED` over all partitions."""
        return sum(values[place] for values in self.led_by.values())

    def add(self, partition: Partition) -> None:
        """Add the values of one replica."""
        key = self._key(partition)
        self.held += 1
        self.producers += len(partition.log.producers)
        _sum(self.held_by, key, [read(partition) for _, _, read in _HELD])
        if not partition.is_leader:
            return
        self.led += 1
        oldest = partition.log.producers.oldest_unstable()
        self.late += oldest is not None and 0 <= oldest[1] < self._late_before_ms
        _sum(self.led_by, key, [read(partition) for _, _, read in _LED])
        expired = self.broker.metrics.produce_expirations.get(partition.tp, 0)
        self.expired_by[key] = self.expired_by.get(key, 0) + expired
        log = partition.log
        for follower_id, follower in partition.followers.items():
            missing = log.log_end_offset - max(follower.log_end_offset, log.log_start_offset)
            self.lag_by[key, follower_id] = self.lag_by.get((key, follower_id), 0) + missing

    def _key(self, partition: Partition) -> _Key:
        topic = partition.tp.topic
        shown = self.topics.get(topic)
        if shown is None:
            bounded = self._per_partition or len(self.topics) < MAX_TOPICS
            shown = self.topics[topic] = (topic if bounded else OTHER_TOPICS,)
        return (*shown, str(partition.tp.partition)) if self._per_partition else shown


_BROKER: Final[Tables[_Totals]] = {
    "kafka_server_replicamanager_": (
        (gauge, "partitioncount", "Replicas on this broker.", lambda t: t.held),
        (gauge, "leadercount", "Partitions that this broker leads.", lambda t: t.led),
        (
            gauge,
            "underreplicatedpartitions",
            "Partitions led here of which a replica is not in sync.",
            lambda t: t.sum_led(_UNDER_REPLICATED),
        ),
        (
            gauge,
            "underminisrpartitioncount",
            "Partitions led here that refuse acks=all.",
            lambda t: t.sum_led(_UNDER_MIN_ISR),
        ),
        (
            gauge,
            "atminisrpartitioncount",
            "Partitions led here that refuse acks=all when one more replica fails.",
            lambda t: t.sum_led(_AT_MIN_ISR),
        ),
        (
            gauge,
            "produceridcount",
            "Producer ids that the replicas on this broker know.",
            lambda t: t.producers,
        ),
        (
            gauge,
            "partitionswithlatetransactionscount",
            "Partitions led here with a transaction that has outlived any timeout: it hangs.",
            lambda t: t.late,
        ),
    )
}


def _sum(sums: dict[_Key, list[int]], key: _Key, values: list[int]) -> None:
    known = sums.get(key)
    sums[key] = values if known is None else [before + value for before, value in zip(known, values, strict=True)]


def replica_steps(brokers: Sequence[Broker], *, per_partition: bool) -> Steps:
    """Yield the families about replicas, once each, and None between steps of bounded work.

    Args:
        per_partition: whether each partition has series; else those of a topic are the sums of its partitions'.
    """
    totals = []
    for broker in brokers:
        total = _Totals(broker, per_partition=per_partition)
        totals.append(total)
        for nth, partition in enumerate(list(broker.partitions), 1):
            total.add(partition)
            if nth % STEP == 0:
                yield None
        broker.metrics.keep_topics(total.topics)
    yield from _families(totals, ("topic", "partition") if per_partition else ("topic",))
    yield from families(_BROKER, [(total.broker, total) for total in totals])


def _families(totals: Sequence[_Totals], labels: Sequence[str]) -> Steps:
    """Yield the families with a series for each key."""
    for place, (name, doc, _) in enumerate(_HELD):
        yield from _family(gauge(name, doc, *labels), _column(totals, lambda total: total.held_by, place))
    for place, (name, doc, _) in enumerate(_LED):
        yield from _family(gauge(name, doc, *labels), _column(totals, lambda total: total.led_by, place))
    lag = gauge("purgatorio_follower_lag", "Records that a follower misses; from the leader.", *labels, "follower")
    missing = (
        (total.broker, records, (*key, str(follower)))
        for total in totals
        for (key, follower), records in total.lag_by.items()
    )
    yield from _family(lag, missing)
    expires = counter(
        "kafka_server_delayedproducemetrics_expires",
        "Produce requests that timed out waiting for the partition; only from its leader.",
        *labels,
    )
    expired = ((total.broker, count, key) for total in totals for key, count in total.expired_by.items())
    yield from _family(expires, expired)


_Row = tuple[Broker, int, _Key]


def _column(
    totals: Sequence[_Totals], rows: Callable[[_Totals], Mapping[_Key, list[int]]], place: int
) -> Iterator[_Row]:
    return ((total.broker, values[place], key) for total in totals for key, values in rows(total).items())


def _family(family: Family, rows: Iterator[_Row]) -> Steps:
    for nth, (broker, value, labels) in enumerate(rows, 1):
        family.add(broker, value, *labels)
        if nth % STEP == 0:
            yield None
    yield family.metric
