"""The decision that adds partitions to topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from purgatorio.broker.metadata.controller.placement import (
    NewPartitions,
    Replicas,
    check_assignment,
    place_replicas,
    ring_place,
)
from purgatorio.broker.metadata.controller.result import DecisionRefused, TopicResult, done, refused
from purgatorio.broker.metadata.controller.settings import PartitionBudget, TopicSettings
from purgatorio.broker.metadata.image import ClusterImage, Topic
from purgatorio.broker.metadata.topic_name import is_internal
from purgatorio.late import dataclass
from purgatorio.protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class MorePartitions:
    """The new number of partitions of a topic.

    Attributes:
        count: the total, existing partitions included.
        assignments: the broker ids of each added partition's replicas; with None the controller chooses them.
    """

    name: str
    count: int
    assignments: Sequence[Sequence[int]] | None = None


def create_partitions(
    image: ClusterImage,
    requests: Sequence[MorePartitions],
    *,
    settings: TopicSettings,
    validate_only: bool = False,
) -> tuple[ClusterImage, tuple[TopicResult, ...]]:
    """Add partitions to topics; each topic succeeds or fails on its own.

    Args:
        validate_only: leave the image unchanged; the results are the same.

    Returns:
        One result for each topic name; a topic that the request names twice is refused with INVALID_REQUEST.
    """
    names = Counter(request.name for request in requests)
    budget = PartitionBudget(settings, image.partition_count)
    new = NewPartitions(image)
    results: dict[str, TopicResult] = {}
    changed: list[Topic] = []
    for request in requests:
        if request.name in results:
            continue
        try:
            if names[request.name] > 1:
                raise DecisionRefused(ErrorCode.INVALID_REQUEST, "The request names this topic more than once.")
            topic = _extend(image, request, budget, new)
        except DecisionRefused as refusal:
            results[request.name] = refused(request.name, refusal)
        else:
            changed.append(topic)
            results[request.name] = done(topic)
    if changed and not validate_only:
        image = image.with_topics(changed)
    return image, tuple(results.values())


def _extend(image: ClusterImage, request: MorePartitions, budget: PartitionBudget, new: NewPartitions) -> Topic:
    """Return the topic with more partitions, or raise DecisionRefused."""
    topic = image.topics.get(request.name)
    if topic is None:
        raise DecisionRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{request.name}'.")
    if is_internal(topic.name):
        message = f"Topic '{topic.name}' keeps its number of partitions: it tells which of them a group belongs to."
        raise DecisionRefused(ErrorCode.INVALID_PARTITIONS, message)
    present = len(topic.partitions)
    if request.count <= present:
        raise DecisionRefused(
            ErrorCode.INVALID_PARTITIONS,
            f"Topic '{topic.name}' has {present} partitions and cannot be given {request.count}: it can only grow.",
        )
    added = request.count - present
    budget.check(added)
    factor = len(topic.partitions[0].replicas) - len(topic.partitions[0].removing)
    if request.assignments is None:
        replicas = _placed(image, topic, added, factor)
    else:
        replicas = _given(image, request.assignments, present, added, factor)
    budget.spend(added)
    return replace(topic, partitions=topic.partitions + new.states(replicas))


def _placed(image: ClusterImage, topic: Topic, added: int, factor: int) -> list[Replicas]:
    """Place the added partitions as if all partitions of the topic had been placed at once."""
    existing = [state.replicas for state in topic.partitions]
    brokers = image.live_brokers
    start = ring_place(brokers, existing[0][0])
    return place_replicas(brokers, added, factor, start=start, existing=existing)


def _given(
    image: ClusterImage, assignments: Sequence[Sequence[int]], present: int, added: int, factor: int
) -> list[Replicas]:
    """Check the replicas that the request assigns."""
    if len(assignments) != added:
        raise DecisionRefused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{added} partitions are to be added, but {len(assignments)} are assigned.",
        )
    replicas = [check_assignment(image.brokers, present + nth, brokers) for nth, brokers in enumerate(assignments)]
    if any(len(brokers) != factor for brokers in replicas):
        raise DecisionRefused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"The topic's partitions have {factor} replicas each; the assigned ones must have as many.",
        )
    return replicas
