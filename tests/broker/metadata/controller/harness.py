"""Short functions for decisions about one partition, orders-0."""

from __future__ import annotations

import random

from purgatorio.broker.metadata.controller import (
    ElectionType,
    InSyncProposal,
    NewTopic,
    Reassignment,
    TopicSettings,
    change_in_sync_sets,
    create_topics,
    elect_leaders,
    fence_broker,
    reassign_partitions,
    register_broker,
    resume_broker,
)
from purgatorio.broker.metadata.image import ClusterImage, PartitionState
from purgatorio.protocol.errors import ErrorCode
from tests.endpoints import plaintext

SETTINGS = TopicSettings()
TP = ("orders", 0)


def partition(image: ClusterImage) -> PartitionState:
    state = image.partition(*TP)
    assert state is not None
    return state


def with_orders(image: ClusterImage, replicas: tuple[int, ...] = (1, 2, 3), min_in_sync: int = 2) -> ClusterImage:
    new = NewTopic("orders", assignments=[(0, replicas)], configs={"min.insync.replicas": str(min_in_sync)})
    image, (result,) = create_topics(image, [new], settings=SETTINGS, rng=random.Random(1))
    assert result.topic is not None, result.message
    return image


def fence(image: ClusterImage, *broker_ids: int) -> ClusterImage:
    for broker_id in broker_ids:
        image, _ = fence_broker(image, image.brokers[broker_id].lease_id, settings=SETTINGS)
    return image


def resume(image: ClusterImage, broker_id: int, lease_id: int = 77) -> ClusterImage:
    epoch = image.brokers[broker_id].broker_epoch
    return resume_broker(image, broker_id, epoch, lease_id, settings=SETTINGS)[0]


def restart(image: ClusterImage, broker_id: int) -> ClusterImage:
    """Register the broker again: the new incarnation has empty logs."""
    return register_broker(image, broker_id, plaintext("localhost", 1), lease_id=88, settings=SETTINGS)[0]


def propose(image: ClusterImage, *isr: int) -> tuple[ClusterImage, ErrorCode]:
    state = partition(image)
    incarnations = tuple(image.brokers[broker_id].incarnation for broker_id in isr)
    leader = image.brokers[state.leader].incarnation
    topic_id = image.topics["orders"].topic_id
    proposal = InSyncProposal(topic_id, *TP, state.leader_epoch, state.partition_epoch, incarnations)
    image, (code,) = change_in_sync_sets(image, leader, [proposal], settings=SETTINGS)
    return image, code


def elect(image: ClusterImage, election: ElectionType) -> tuple[ClusterImage, ErrorCode]:
    image, (result,) = elect_leaders(image, [TP], election, settings=SETTINGS)
    return image, result.error


def move(image: ClusterImage, *replicas: int) -> tuple[ClusterImage, ErrorCode]:
    image, (result,) = reassign_partitions(image, [Reassignment(*TP, replicas or None)], settings=SETTINGS)
    return image, result.error
