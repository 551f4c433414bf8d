"""The decision of AlterPartition: leaders change the ISRs of their partitions (KIP-497, KIP-903).

A leader proposes an ISR. The decision checks on the committed image all that the proposal assumes: epochs, leadership,
and that each proposed incarnation lives.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial

from purgatorio.broker.metadata.controller.elections import PartitionName, min_in_sync_replicas, with_in_sync
from purgatorio.broker.metadata.controller.settings import TopicSettings
from purgatorio.broker.metadata.image import BrokerIncarnation, ClusterImage, PartitionState
from purgatorio.late import dataclass
from purgatorio.protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class InSyncProposal:
    """The ISR that a leader proposes for a partition, and the epochs that it knew when it proposed.

    Attributes:
        isr: the proposed in-sync replicas, the leader included.
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
    """Change ISRs as a leader proposes; each proposal is accepted or refused on its own.

    Returns:
        An error code for each proposal: STALE_BROKER_EPOCH if the leader's incarnation has ended or is fenced,
        UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION, FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION if the partition's
        state has changed since, INELIGIBLE_REPLICA if a proposed incarnation has ended or is fenced, INVALID_REQUEST
        if the ISR lacks the leader or names a broker that is no replica.
    """
    changed: dict[PartitionName, PartitionState] = {}
    codes = []
    with_isr = cache(partial(with_in_sync, image))  # a leader proposes the same for many equal partitions
    for proposal in proposals:
        code = _check(image, leader, proposal)
        codes.append(code)
        if code is ErrorCode.NONE:
            topic = image.topics[proposal.topic]
            state = topic.partitions[proposal.partition]
            min_in_sync = min_in_sync_replicas(image, topic, state, settings)
            after = with_isr(state, proposal.isr, min_in_sync)
            if after.partition_epoch != state.partition_epoch:
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
