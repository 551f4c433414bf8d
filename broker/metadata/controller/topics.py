"""Decisions that create and delete topics."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from purgatorio.broker.metadata.controller.configs import check_configs
from purgatorio.broker.metadata.controller.placement import NewPartitions, Replicas, check_assignment, place_replicas
from purgatorio.broker.metadata.controller.result import DecisionRefused, TopicResult, done, refused
from purgatorio.broker.metadata.controller.settings import PartitionBudget, TopicSettings
from purgatorio.broker.metadata.image import ClusterImage, Topic
from purgatorio.broker.metadata.topic_name import METADATA_TOPIC, collision_key, topic_name_problem
from purgatorio.late import dataclass
from purgatorio.protocol.errors import ErrorCode

_USE_DEFAULT = -1
_NO_ID = bytes(16)
_UUID_MARKS = 0xF000 << 64 | 0xC000 << 48
"""The bits of a UUID that hold its version and variant (RFC 9562)."""
_UUID_VERSION_4 = 0x4000 << 64 | 0x8000 << 48


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create.

    Attributes:
        num_partitions: -1 for the default, and with `assignments`.
        replication_factor: -1 for the default, and with `assignments`.
        assignments: pairs of a partition number and the broker ids of its replicas, preferred leader first; if empty,
            the controller chooses the replicas.
        configs: the configs to set for this topic; None as a value is refused.
    """

    name: str
    num_partitions: int = _USE_DEFAULT
    replication_factor: int = _USE_DEFAULT
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicReference:
    """A topic given by its name or by its id; the other is None or all zero."""

    name: str | None = None
    topic_id: bytes = _NO_ID


def create_topics(
    image: ClusterImage,
    topics: Sequence[NewTopic],
    *,
    settings: TopicSettings,
    rng: random.Random,
    validate_only: bool = False,
) -> tuple[ClusterImage, tuple[TopicResult, ...]]:
    """Create topics; each topic succeeds or fails on its own.

    Args:
        validate_only: leave the image unchanged; the results are the same.

    Returns:
        One result for each topic name; a topic that the request names twice is refused with INVALID_REQUEST.
    """
    names = Counter(topic.name for topic in topics)
    builder = _TopicBuilder(image, settings, rng)
    results: dict[str, TopicResult] = {}
    created: list[Topic] = []
    for topic in topics:
        if topic.name in results:
            continue
        try:
            if names[topic.name] > 1:
                raise DecisionRefused(ErrorCode.INVALID_REQUEST, "The request names this topic more than once.")
            made = builder.build(topic)
        except DecisionRefused as refusal:
            results[topic.name] = refused(topic.name, refusal)
        else:
            created.append(made)
            results[topic.name] = done(made)
    if created and not validate_only:
        image = image.with_topics(created)
    return image, tuple(results.values())


class _TopicBuilder:
    """Builds the topics of one request; names and limits take the request's earlier topics into account."""

    def __init__(self, image: ClusterImage, settings: TopicSettings, rng: random.Random) -> None:
        self._image = image
        self._settings = settings
        self._rng = rng
        self._budget = PartitionBudget(settings, image.partition_count)
        self._taken: dict[str, str] | None = None
        self._brokers = image.live_brokers
        self._new = NewPartitions(image)
        self._placements: dict[tuple[int, int, int], list[Replicas]] = {}

    def build(self, new: NewTopic) -> Topic:
        """Build the topic, or raise DecisionRefused."""
        self._check_name(new.name)
        replicas = self._given(new) if new.assignments else self._placed(new)
        configs = check_configs(new.configs, self._settings)
        topic = Topic(new.name, self._new_id(), self._new.states(replicas), configs)
        self._budget.spend(len(replicas))
        if self._taken is not None:
            self._taken[collision_key(new.name)] = new.name
        return topic

    def _check_name(self, name: str) -> None:
        if problem := topic_name_problem(name):
            raise DecisionRefused(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
        if name == METADATA_TOPIC:
            raise DecisionRefused(ErrorCode.INVALID_REQUEST, f"The name {name} is that of the controllers' log.")
        taken = self._taken_by(name)
        if taken == name:
            raise DecisionRefused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' exists already.")
        if taken is not None:
            raise DecisionRefused(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"Topic '{name}' differs from topic '{taken}' only in '.' and '_', which metrics cannot tell apart.",
            )

    def _taken_by(self, name: str) -> str | None:
        """Return the topic that has this name, or one that differs from it only in '.' and '_'."""
        if "." not in name and "_" not in name:
            return name if name in self._image.topics else None
        if self._taken is None:  # looks at all topics, so only for names that can collide
            self._taken = {collision_key(other): other for other in self._image.topics}
        return self._taken.get(collision_key(name))

    def _placed(self, new: NewTopic) -> list[Replicas]:
        """Choose replicas for the requested number of partitions."""
        count, factor = new.num_partitions, new.replication_factor
        count = self._settings.num_partitions if count == _USE_DEFAULT else count
        factor = self._settings.replication_factor if factor == _USE_DEFAULT else factor
        if count <= 0:
            raise DecisionRefused(ErrorCode.INVALID_PARTITIONS, f"A topic cannot have {count} partitions.")
        if factor <= 0:
            raise DecisionRefused(ErrorCode.INVALID_REPLICATION_FACTOR, f"A partition cannot have {factor} replicas.")
        self._budget.check(count)
        # Kafka starts at a random broker; starting where the last topic ended also spreads many small topics evenly.
        start = self._budget.total % max(1, len(self._brokers))
        placement = count, factor, start
        if placement not in self._placements:  # a request may create thousands of equal topics
            self._placements[placement] = place_replicas(self._brokers, count, factor, start=start)
        return self._placements[placement]

    def _given(self, new: NewTopic) -> list[Replicas]:
        """Check the replicas that the request assigns."""
        if (new.num_partitions, new.replication_factor) != (_USE_DEFAULT, _USE_DEFAULT):
            raise DecisionRefused(
                ErrorCode.INVALID_REQUEST,
                "With an assignment of replicas, the partition count and the replication factor must both be -1.",
            )
        self._budget.check(len(new.assignments))
        replicas = {index: check_assignment(self._image.brokers, index, brokers) for index, brokers in new.assignments}
        if sorted(replicas) != list(range(len(new.assignments))):
            raise DecisionRefused(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                "The assigned partitions are not numbered from 0 without gaps and repetitions.",
            )
        if len({len(brokers) for brokers in replicas.values()}) > 1:
            raise DecisionRefused(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Not all partitions are assigned equally many replicas."
            )
        return [replicas[index] for index in range(len(replicas))]

    def _new_id(self) -> bytes:
        """Return a random topic id; a version 4 UUID is never one of the ids that Kafka reserves (zero, one)."""
        return (self._rng.getrandbits(128) & ~_UUID_MARKS | _UUID_VERSION_4).to_bytes(16, "big")


def delete_topics(
    image: ClusterImage, topics: Sequence[TopicReference]
) -> tuple[ClusterImage, tuple[TopicResult, ...]]:
    """Delete topics; each topic succeeds or fails on its own.

    Returns:
        One result for each reference; a topic that the request names twice, even by name and by id, is refused.
    """
    times = Counter(topic.name for topic in _resolve(image, topics) if topic is not None)
    results: dict[TopicReference, TopicResult] = {}
    deleted: list[str] = []
    for reference, topic in zip(topics, _resolve(image, topics), strict=True):
        if reference in results:
            continue
        try:
            found = _check_deletion(reference, topic, times)
        except DecisionRefused as refusal:
            results[reference] = refused(reference.name, refusal, reference.topic_id)
        else:
            deleted.append(found.name)
            results[reference] = done(found)
    return (image.without_topics(deleted) if deleted else image), tuple(results.values())


def _resolve(image: ClusterImage, topics: Sequence[TopicReference]) -> Iterator[Topic | None]:
    for reference in topics:
        if reference.name is not None:
            yield image.topics.get(reference.name)
        else:
            yield image.topic_by_id(reference.topic_id)


def _check_deletion(reference: TopicReference, topic: Topic | None, times: Counter[str]) -> Topic:
    """Return the topic to delete, or raise DecisionRefused."""
    if (reference.name is None) == (reference.topic_id == _NO_ID):
        raise DecisionRefused(
            ErrorCode.INVALID_REQUEST, "A topic is deleted by its name or by its id: give one of them."
        )
    if topic is None:
        if reference.name is None:
            raise DecisionRefused(ErrorCode.UNKNOWN_TOPIC_ID, "There is no topic with this id.")
        raise DecisionRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{reference.name}'.")
    if times[topic.name] > 1:
        raise DecisionRefused(ErrorCode.INVALID_REQUEST, "The request names this topic more than once.")
    return topic
