"""Compaction and retention when an operator wants them, instead of when their time comes."""

from __future__ import annotations

from collections.abc import Iterator

from purgatorio.admin.operations.control.topic_control import until_replicated
from purgatorio.broker.cluster.cluster import BrokerCluster
from purgatorio.broker.cluster.errors import OperationRefused
from purgatorio.broker.cluster.leadership import no_topic
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.replica.partition import Partition


async def compact(cluster: BrokerCluster, topic: str | None) -> None:
    """Have all brokers compact what is committed, now: the cleaner's pass, over the active segments too.

    min.cleanable.dirty.ratio does not count; min.compaction.lag.ms and delete.retention.ms do. A follower compacts what
    it knows to be committed.

    Args:
        topic: of this topic only; None: of all topics that are compacted.

    Raises:
        NotThere: there is no such topic.
        OperationRefused: its cleanup.policy is not compact.
    """
    if topic is not None:
        _check(cluster, topic)
    await until_replicated(lambda: _led(cluster, topic))
    for broker in cluster.brokers:
        await cluster.work.take(broker.replicas.compaction_steps(forced_for=lambda tp: topic in (None, tp.topic)))


async def apply_retention(cluster: BrokerCluster) -> None:
    """Have all brokers delete now what is older than retention.ms or beyond retention.bytes."""
    for broker in cluster.brokers:
        await cluster.work.take(broker.replicas.retention_steps())


def _check(cluster: BrokerCluster, topic: str) -> None:
    images = [broker.image for broker in cluster.brokers]
    known = max(images, key=lambda image: image.version).topics if images else {}
    if topic not in known:
        raise no_topic(topic, known)
    tp = TopicPartition(topic, 0)
    replicas = [found for broker in cluster.brokers if (found := broker.replicas.partitions.get(tp)) is not None]
    if any(not replica.log.config.compact for replica in replicas):
        raise OperationRefused(f"topic {topic!r} is not compacted: its cleanup.policy is delete")


def _led(cluster: BrokerCluster, topic: str | None) -> Iterator[Partition]:
    for broker in cluster.brokers:
        for tp, replica in broker.replicas.partitions.items():
            if topic in (None, tp.topic) and replica.is_leader and replica.log.config.compact:
                yield replica
