"""The series of the tier: copies, reads and deletions by topic, lags, and the readers (KIP-405).

A broker without a tier has none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from prometheus_client.metrics_core import Metric, SummaryMetricFamily

from purgatorio.admin.metrics.family import Tables, counter, families, gauge
from purgatorio.admin.metrics.replicas import MAX_TOPICS, OTHER_TOPICS, STEP, Steps
from purgatorio.broker.node.broker import Broker
from purgatorio.broker.replica.partition import Partition
from purgatorio.broker.replica.tiering import Tiering
from purgatorio.broker.tier.traffic import TopicTraffic

_COUNTED: Final[Sequence[tuple[str, str, Callable[[TopicTraffic], int]]]] = (
    ("remotecopybytes", "Bytes of segments copied to the tier.", lambda t: t.copy_bytes),
    ("remotecopyrequests", "Copies of segments to the tier.", lambda t: t.copy_requests),
    ("remotecopyerrors", "Such copies that failed.", lambda t: t.copy_errors),
    ("remotefetchbytes", "Bytes read from the tier.", lambda t: t.fetch_bytes),
    ("remotefetchrequests", "Tries to read a part of a segment from the tier.", lambda t: t.fetch_requests),
    ("remotefetcherrors", "Such tries that failed.", lambda t: t.fetch_errors),
    ("remotedeleterequests", "Deletions of segments in the tier.", lambda t: t.delete_requests),
    ("remotedeleteerrors", "Such deletions that failed.", lambda t: t.delete_errors),
    ("buildremotelogauxstaterequests", "Tries of followers to begin behind the tier.", lambda t: t.build_requests),
    ("buildremotelogauxstateerrors", "Such tries that failed.", lambda t: t.build_errors),
)
_LED: Final = (
    ("remotecopylagbytes", "Bytes of closed segments that are not copied; from the leader."),
    ("remotecopylagsegments", "Closed segments that are not copied; from the leader."),
    ("remotedeletelagbytes", "Bytes of segments in the tier that are to be deleted; from the leader."),
    ("remotedeletelagsegments", "Segments in the tier that are to be deleted; from the leader."),
    ("remotelogmetadatacount", "Segments in the tier, also those of other lineages; from the leader."),
    ("remotelogsizebytes", "Bytes of a log's segments in the tier; from the leader."),
)
_OF_A_TIER: Final[Tables[Tiering]] = {
    "kafka_log_remote_remotelogmanager_": (
        (gauge, "remotelogmanagertasksavgidlepercent", "Share of the copiers that are idle.", lambda t: t.idle_share),
    ),
    "kafka_log_remote_remotestoragethreadpool_remotelogreader": (
        (gauge, "taskqueuesize", "Reads that wait for a reader.", lambda t: t.reads.waiting_count),
        (gauge, "avgidlepercent", "Share of the readers that are idle.", lambda t: t.reads.idle_share),
    ),
    "kafka_server_delayedremote": (
        (counter, "fetchmetrics_expires", "Fetches answered without the tier's part.", lambda t: t.expired_fetches),
        (counter, "listoffsetsmetrics_expires", "Look-ups that took too long.", lambda t: t.expired_look_ups),
    ),
    "purgatorio_tier_": (
        (gauge, "cached_bytes", "Memory of parts that were read and are kept.", lambda t: t.reads.cached_bytes),
        (gauge, "copy_byte_rate", "Rate that the quota of copies is about.", lambda t: t.traffic.copies.per_second()),
        (gauge, "fetch_byte_rate", "Rate that the quota of reads is about.", lambda t: t.traffic.reads.per_second()),
    ),
}


def tier_steps(brokers: Sequence[Broker]) -> Steps:
    """Yield the families, and None wherever the event loop may do other work."""
    tiers = [(broker, broker.tiering) for broker in brokers if broker.tiering is not None]
    if not tiers:
        return
    yield from families(_OF_A_TIER, tiers)
    yield _times(tiers)
    yield from _counts(tiers)
    yield None
    yield from _lags(tiers)


def _times(tiers: Sequence[tuple[Broker, Tiering]]) -> Metric:
    times = SummaryMetricFamily(
        "kafka_log_remote_remotelogmanager_remotelogreaderfetchrateandtimems",
        "Milliseconds that reads of the tier took, with their tries.",
        labels=("broker",),
    )
    for broker, tiering in tiers:
        times.add_metric((str(broker.broker_id),), tiering.reads.read_count, tiering.reads.read_ms)
    return times


def _counts(tiers: Sequence[tuple[Broker, Tiering]]) -> Iterator[Metric]:
    """Yield the counts of topics that exist: a topic's end with it."""
    named = []
    for broker, tiering in tiers:
        found: dict[str, list[TopicTraffic]] = {}
        for topic_id, traffic in tiering.traffic.topics.items():
            topic = broker.image.topic_by_id(bytes.fromhex(topic_id))
            if topic is not None:
                name = topic.name if len(found) < MAX_TOPICS else OTHER_TOPICS
                found.setdefault(name, []).append(traffic)
        named.append((broker, found))
    for name, doc, read in _COUNTED:
        family = counter(f"kafka_server_brokertopicmetrics_{name}", doc, "topic")
        for broker, found in named:
            for topic_name, counts in found.items():
                family.add(broker, sum(map(read, counts)), topic_name)
        yield family.metric


def _lags(tiers: Sequence[tuple[Broker, Tiering]]) -> Steps:
    """Yield the numbers of what leaders have in the tier, by topic: one walk over the replicas reads them all."""
    made = [gauge(f"kafka_server_brokertopicmetrics_{name}", doc, "topic") for name, doc in _LED]
    for broker, tiering in tiers:
        sums: dict[str, list[int]] = {}
        for number, partition in enumerate(list(broker.replicas.partitions.values())):
            if number % STEP == STEP - 1:
                yield None
            if partition.is_leader and partition.log.is_tiered:
                topic = partition.tp.topic
                key = topic if topic in sums or len(sums) < MAX_TOPICS else OTHER_TOPICS
                before = sums.get(key, [0] * len(made))
                sums[key] = [a + b for a, b in zip(before, _led_values(tiering, partition), strict=True)]
        for topic, values in sums.items():
            for family, value in zip(made, values, strict=True):
                family.add(broker, value, topic)
    for family in made:
        yield family.metric


def _led_values(tiering: Tiering, partition: Partition) -> tuple[int, ...]:
    remote = tiering.remote_of(partition)
    return *partition.log.copy_lag, *remote.delete_lag, len(remote.described), remote.segments.size_bytes
