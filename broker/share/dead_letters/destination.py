"""Where the dead letters of a share group go: the rules of KIP-1191 for its dead-letter topic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from purgatorio.broker.coordinator.share_settings import DEAD_LETTER_TOPIC
from purgatorio.broker.log.config import LogConfig
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.controller import TopicResult
from purgatorio.broker.metadata.image import ClusterImage, Topic
from purgatorio.late import dataclass
from purgatorio.protocol.errors import ErrorCode

GROUP_ENABLE: Final = "errors.deadletterqueue.group.enable"
AUTO_CREATED_CONFIGS: Final[Mapping[str, str | None]] = {GROUP_ENABLE: "true", "message.timestamp.type": "CreateTime"}
"""The configs of a dead-letter topic that a broker creates, as in Kafka."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterRules:
    """The limits that brokers set to dead-letter topics.

    Attributes:
        is_on: whether records that are given up become dead letters: share.version is 2.
        prefix: how the names of dead-letter topics begin (errors.deadletterqueue.topic.name.prefix); "": in any way.
        creates_topics: whether a broker creates a topic that does not exist
            (errors.deadletterqueue.auto.create.topics.enable).
        log_config: returns the configs of a topic, over the brokers' defaults.
    """

    is_on: bool
    prefix: str
    creates_topics: bool
    log_config: Callable[[Topic], LogConfig]


class Destination(NamedTuple):
    """The partition of a dead-letter topic that takes the dead letters of one partition.

    Attributes:
        leader: a broker id, or NO_LEADER.
        max_bytes: the largest record batch that it takes.
    """

    tp: TopicPartition
    leader: int
    max_bytes: int


class MissingTopic(NamedTuple):
    """The dead-letter topic does not exist, and a broker is to create it."""

    name: str


class NoDestination(NamedTuple):
    """There can be no dead letters.

    Attributes:
        why: a sentence without its full stop.
    """

    why: str


def destination(
    image: ClusterImage, rules: DeadLetterRules, name: str, source: TopicPartition
) -> Destination | MissingTopic | NoDestination:
    """Return where the dead letters of a partition go.

    Args:
        name: the group's errors.deadletterqueue.topic.name.
    """
    if not name:
        return NoDestination(f"the group has no {DEAD_LETTER_TOPIC}")
    if not rules.is_on:
        return NoDestination("share.version is below 2, which has no dead letters")
    if not name.startswith(rules.prefix):
        why = f"{name} does not begin with {rules.prefix}, as errors.deadletterqueue.topic.name.prefix wants"
        return NoDestination(why)
    topic = image.topics.get(name)
    if topic is None:
        if rules.creates_topics:
            return MissingTopic(name)
        return NoDestination(f"{name} does not exist, and errors.deadletterqueue.auto.create.topics.enable is false")
    config = rules.log_config(topic)
    if not config.errors_deadletterqueue_group_enable:
        return NoDestination(f"{name} does not allow it: its {GROUP_ENABLE} is false")
    index = source.partition % len(topic.partitions)
    return Destination(TopicPartition(name, index), topic.partitions[index].leader, config.max_message_bytes)


def why_not_created(results: Sequence[TopicResult]) -> str | None:
    """Return why a dead-letter topic was not created, from the results of its creation; None: it exists."""
    (result,) = results
    if result.error in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
        return None
    return result.message or result.error.name
