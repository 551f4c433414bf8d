"""The decision by which leaders change the in-sync sets of their partitions (KIP-497, KIP-903).

A leader proposes, the truth decides: everything that the proposal rests on is compared in the change that commits it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from purgatorio.broker.metadata.controller.elections import PartitionName, min_in_sync_replicas, with_in_sync
from purgatorio.broker.metadata.controller.settings import TopicSettings
from purgatorio.broker.metadata.image import BrokerIncarnation, ClusterImage, PartitionState
from purgatorio.protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class InSyncProposal:
    """What a leader wants the in-sync set of a partition to be, and what it knew when it wanted that.

    Attributes:
        isr: the set, the leader among them.
    """

    topic_id: bytes
    topic: str
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[BrokerIncarnation, ...]


def change_in_sync_sets(
    image: ClusterImage, leader: BrokerIncarnation, proposals: Sequence[InSyncProposal], *, settings: TopicSettings
) -> tuple[ClusterImage, tuple[ErrorCode, ...]]:
    """Change in-sync sets as their leader proposes, each for itself.

    Returns:
        A code for each proposal: STALE_BROKER_EPOCH if the leader's life is over or fenced, UNKNOWN_TOPIC_ID,
        UNKNOWN_TOPIC_OR_PARTITION, FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION if the state has changed meanwhile,
        INELIGIBLE_REPLICA if the set names a life that is over or fenced, INVALID_REQUEST if it names no replica or
        not the leader.
    """
    changed: dict[PartitionName, PartitionState] = {}
    codes = []
    for proposal in proposals:
        code = _check(image, leader, proposal)
        codes.append(code)
        if code is ErrorCode.NONE:
            topic = image.topics[proposal.topic]
            state = topic.partitions[proposal.partition]
            min_in_sync = min_in_sync_replicas(topic, state, settings)
            after = with_in_sync(image, state, proposal.isr, min_in_sync)
            if after is not state:
                changed[proposal.topic, proposal.partition] = after
    return (image.with_partitions(changed) if changed else image), tuple(codes)


def _check(image: ClusterImage, leader: BrokerIncarnation, proposal: InSyncProposal) -> ErrorCode:
    topic = image.topic_by_id(proposal.topic_id)
    if not image.is_alive(leader):
        return ErrorCode.STALE_BROKER_EPOCH
    if topic is None or topic.name != proposal.topic:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if not 0 <= proposal.partition < len(topic.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    state = topic.partitions[proposal.partition]
    if state.leader != leader.broker_id or state.leader_epoch != proposal.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if state.partition_epoch != proposal.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    if leader not in proposal.isr or any(incarnation.broker_id not in state.replicas for incarnation in proposal.isr):
        return ErrorCode.INVALID_REQUEST
    if not all(image.is_alive(incarnation) for incarnation in proposal.isr):
        return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE
