"""The decision that reassigns partitions to other replicas (KIP-455).

During its reassignment a partition has its old and its new replicas. When all new replicas are in sync,
`purgatorio.broker.metadata.controller.elections.settle` removes the old ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from purgatorio.broker.metadata.controller.elections import (
    PartitionName,
    in_replica_order,
    min_in_sync_replicas,
    settle,
    with_epochs,
)
from purgatorio.broker.metadata.controller.placement import check_assignment
from purgatorio.broker.metadata.controller.result import DecisionRefused
from purgatorio.broker.metadata.controller.settings import TopicSettings
from purgatorio.broker.metadata.image import ClusterImage, PartitionState, Topic
from purgatorio.late import dataclass
from purgatorio.protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class Reassignment:
    """The target replicas of a partition.

    Attributes:
        replicas: broker ids, the preferred leader first; None cancels an ongoing reassignment.
    """

    topic: str
    partition: int
    replicas: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class ReassignmentResult:
    """The outcome for one partition."""

    topic: str
    partition: int
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


def reassign_partitions(
    image: ClusterImage,
    reassignments: Sequence[Reassignment],
    *,
    settings: TopicSettings,
    allow_replication_factor_change: bool = True,
) -> tuple[ClusterImage, tuple[ReassignmentResult, ...]]:
    """Start, change or cancel reassignments; each succeeds or fails on its own.

    Args:
        allow_replication_factor_change: whether the target may have more or fewer replicas (KIP-860).
    """
    changed: dict[PartitionName, PartitionState] = {}
    results = []
    seen: set[PartitionName] = set()
    for wanted in reassignments:
        try:
            if (wanted.topic, wanted.partition) in seen:
                raise DecisionRefused(ErrorCode.INVALID_REQUEST, "The request names this partition more than once.")
            topic, state = _find(image, wanted)
            if wanted.replicas is None:
                moving = _cancelled(state)
            else:
                moving = _started(image, topic, state, wanted, settings, allow_replication_factor_change)
        except DecisionRefused as refusal:
            results.append(ReassignmentResult(wanted.topic, wanted.partition, refusal.error, refusal.message))
        else:
            seen.add((wanted.topic, wanted.partition))
            after = with_epochs(state, settle(image, moving, min_in_sync_replicas(image, topic, moving, settings)))
            if after is not state:
                changed[wanted.topic, wanted.partition] = after
            results.append(ReassignmentResult(wanted.topic, wanted.partition))
    return (image.with_partitions(changed) if changed else image), tuple(results)


def _find(image: ClusterImage, wanted: Reassignment) -> tuple[Topic, PartitionState]:
    state = image.partition(wanted.topic, wanted.partition)
    if state is None:
        raise DecisionRefused(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {wanted.topic}-{wanted.partition}."
        )
    return image.topics[wanted.topic], state


def _started(
    image: ClusterImage,
    topic: Topic,
    state: PartitionState,
    wanted: Reassignment,
    settings: TopicSettings,
    allow_replication_factor_change: bool,
) -> PartitionState:
    assert wanted.replicas is not None
    target = check_assignment(image.brokers, wanted.partition, wanted.replicas)
    before = _without_adding(state)
    if len(target) != len(before) and not allow_replication_factor_change:
        raise DecisionRefused(
            ErrorCode.INVALID_REPLICATION_FACTOR, f"The partition has {len(before)} replicas, not {len(target)}."
        )
    needed = topic.configs.get("min.insync.replicas")
    # A topic may ask for more in-sync replicas than it has; then all are needed, and a move keeps their number.
    if needed is not None and len(target) < min(int(needed), len(before)):
        raise DecisionRefused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{len(target)} replicas are fewer than the topic's min.insync.replicas, {needed}.",
        )
    adding = tuple(broker_id for broker_id in target if broker_id not in before)
    removing = tuple(broker_id for broker_id in before if broker_id not in target)
    moving = replace(state, replicas=(*target, *removing), adding=adding, removing=removing)
    return _only_replicas(state, moving)


def _cancelled(state: PartitionState) -> PartitionState:
    if not state.adding and not state.removing:
        raise DecisionRefused(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No reassignment of this partition is going on.")
    return _only_replicas(state, replace(state, replicas=_without_adding(state), adding=(), removing=()))


def _without_adding(state: PartitionState) -> tuple[int, ...]:
    """Return the replicas before the ongoing reassignment."""
    return tuple(broker_id for broker_id in state.replicas if broker_id not in state.adding)


def _only_replicas(before: PartitionState, state: PartitionState) -> PartitionState:
    """Remove former replicas from ISR and ELR, and order both as the replicas.

    Raises:
        DecisionRefused: this would remove the last replica that has all acknowledged records.
    """
    left = replace(state, isr=in_replica_order(state, state.isr), elr=in_replica_order(state, state.elr))
    if (before.isr or before.elr) and not (left.isr or left.elr):
        raise DecisionRefused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "None of these replicas is in sync, and those that are would go."
        )
    return left
