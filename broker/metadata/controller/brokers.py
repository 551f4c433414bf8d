"""Decisions about brokers and what each of them is given: registrations, epochs, ranges of producer ids.

Logs are in memory, so every life of a broker begins with empty ones. When a life ends, by leaving or by the same id
registering again, the replicas of that life are gone: the broker is taken out of every in-sync set, and the partitions
that it led have no leader.
"""

from __future__ import annotations

from dataclasses import replace

from broker.metadata.image import NO_LEADER, BrokerRegistration, ClusterImage, PartitionState

PRODUCER_ID_BLOCK_SIZE = 1000
"""Producer ids that a broker is given at once, as in Kafka."""


def register_broker(
    image: ClusterImage, broker_id: int, host: str, port: int, rack: str | None = None
) -> tuple[ClusterImage, int]:
    """Make a broker part of the cluster; an earlier life of the same id ends.

    Returns:
        The broker epoch of the life that begins.
    """
    epoch = image.next_broker_epoch
    image = replace(_end_life(image, broker_id), next_broker_epoch=epoch + 1)
    return image.with_broker(BrokerRegistration(broker_id, epoch, host, port, rack)), epoch


def unregister_broker(image: ClusterImage, broker_id: int, broker_epoch: int) -> tuple[ClusterImage, bool]:
    """Take a broker out of the cluster, if it still is in this epoch.

    Returns:
        Whether it was; a broker that registered again meanwhile is left alone.
    """
    known = image.brokers.get(broker_id)
    if known is None or known.broker_epoch != broker_epoch:
        return image, False
    return _end_life(image, broker_id).without_broker(broker_id), True


def allocate_producer_ids(image: ClusterImage, count: int = PRODUCER_ID_BLOCK_SIZE) -> tuple[ClusterImage, range]:
    """Take `count` producer ids that nobody else gets."""
    ids = range(image.next_producer_id, image.next_producer_id + count)
    return replace(image, next_producer_id=ids.stop), ids


def _end_life(image: ClusterImage, broker_id: int) -> ClusterImage:
    """Take a broker out of every in-sync set and every leadership."""
    changed: dict[tuple[str, int], PartitionState] = {}
    for topic in image.topics.values():
        for index, state in enumerate(topic.partitions):
            if broker_id == state.leader or broker_id in state.isr:
                changed[topic.name, index] = _without_replica(state, broker_id)
    return image.with_partitions(changed) if changed else image


def _without_replica(state: PartitionState, broker_id: int) -> PartitionState:
    led = state.leader == broker_id
    return replace(
        state,
        leader=NO_LEADER if led else state.leader,
        leader_epoch=state.leader_epoch + 1 if led else state.leader_epoch,
        isr=tuple(broker for broker in state.isr if broker != broker_id),
        partition_epoch=state.partition_epoch + 1,
    )
