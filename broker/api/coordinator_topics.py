"""The topics of coordinators, which are created by the first client that needs them.

The request waits in the "topic" purgatory until the partitions have leaders; Kafka answers COORDINATOR_NOT_AVAILABLE
meanwhile, and clients ask again later.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from purgatorio.broker.api.context import AdminContext, submit, topic_keys
from purgatorio.broker.causes.cause import NoLeader
from purgatorio.broker.group.config import OFFSETS_TOPIC_CONFIGS, GroupConfig
from purgatorio.broker.metadata.cluster_change import ClusterChange
from purgatorio.broker.metadata.controller import NewTopic, TopicResult, TopicSettings, create_topics
from purgatorio.broker.metadata.delayed_decision import leaderless
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.metadata.topic_name import OFFSETS_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from purgatorio.broker.routing.request import RequestContext
from purgatorio.broker.share.state.services import SHARE_GROUP_STATE_TOPIC_CONFIGS, ShareStateConfig
from purgatorio.broker.txn.services import TRANSACTION_STATE_TOPIC_CONFIGS, TransactionConfig
from purgatorio.protocol.errors import ErrorCode

MIN_ISR: Final = "min.insync.replicas"


class CoordinatorTopic(NamedTuple):
    """A coordinator's topic, as it is created.

    Attributes:
        name: its name.
        partitions: how many it has.
        replication_factor: its replicas, at most the number of live brokers.
        configs: its topic configs.
        min_isr: its min.insync.replicas, at most its replicas.
        spare: how many of its replicas may be lost even if there are few; at least one is always needed.
        or_default: whether the broker's min.insync.replicas holds if that is no less.
    """

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]
    min_isr: int
    spare: int = 0
    or_default: bool = False


def offsets_topic(config: GroupConfig) -> CoordinatorTopic:
    """Return the topic of groups, which outlives one of its brokers, if it has two."""
    return CoordinatorTopic(
        OFFSETS_TOPIC,
        config.offsets_topic_partitions,
        config.offsets_topic_replication_factor,
        OFFSETS_TOPIC_CONFIGS,
        config.offsets_topic_min_isr,
        spare=1,
        or_default=True,
    )


def transaction_topic(config: TransactionConfig) -> CoordinatorTopic:
    """Return the topic of transactional ids."""
    return CoordinatorTopic(
        TRANSACTION_STATE_TOPIC,
        config.topic_partitions,
        config.topic_replication_factor,
        TRANSACTION_STATE_TOPIC_CONFIGS,
        config.topic_min_isr,
    )


def share_state_topic(config: ShareStateConfig) -> CoordinatorTopic:
    """Return the topic of share groups' states."""
    return CoordinatorTopic(
        SHARE_GROUP_STATE_TOPIC,
        config.topic_partitions,
        config.topic_replication_factor,
        SHARE_GROUP_STATE_TOPIC_CONFIGS,
        config.topic_min_isr,
    )


def decided(
    image: ClusterImage, topic: CoordinatorTopic, *, settings: TopicSettings, rng: random.Random
) -> tuple[ClusterImage, Sequence[TopicResult]]:
    """Return an image with the topic, and the result of its creation; a decision for the metadata store."""
    replicas = min(topic.replication_factor, len(image.live_brokers))
    configs = dict(topic.configs)
    min_isr = max(1, min(topic.min_isr, replicas - topic.spare))
    if not (topic.or_default and min_isr <= settings.log.min_insync_replicas):
        configs[MIN_ISR] = str(min_isr)
    new = NewTopic(topic.name, topic.partitions, replicas, configs=configs)
    return create_topics(image, [new], settings=settings, rng=rng)


def ensure_topic(
    admin: AdminContext, ctx: RequestContext, topic: CoordinatorTopic, done: Callable[[ErrorCode], None]
) -> None:
    """Create a topic if it does not exist; call `done` when it has leaders, or at the deadline, or with an error."""
    if topic.name in admin.store.image.topics:
        done(ErrorCode.NONE)
    else:
        submit(admin, ctx, _CreateTopic(admin, topic), _Then(done))


class _Then:
    """Takes what would be the answer of a request that does nothing else: an error code."""

    def __init__(self, done: Callable[[ErrorCode], None]) -> None:
        self._done = done

    def __call__(self, response: ErrorCode) -> None:
        self._done(response)

    def nothing(self) -> None:
        """Never called: the decision has a result."""
        raise AssertionError("a topic's creation has a result")

    def close(self, reason: str) -> None:
        """Never called: the decision has a result."""
        raise AssertionError(f"a topic's creation has a result: {reason}")


class _CreateTopic(ClusterChange[TopicResult]):
    """Creates the topic once; concurrent requests find it created, which is no error to them."""

    def __init__(self, admin: AdminContext, topic: CoordinatorTopic) -> None:
        super().__init__(topic_keys([topic.name]))
        self._admin = admin
        self._topic = topic

    def decide(self, image: ClusterImage) -> tuple[ClusterImage, Sequence[TopicResult]]:
        return decided(image, self._topic, settings=self._admin.topics, rng=self._admin.rng)

    def respond(self, results: Sequence[TopicResult]) -> Any:
        return ErrorCode.NONE

    def refuse(self, error_code: ErrorCode) -> Any:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE

    def unseen(self, image: ClusterImage, result: TopicResult) -> NoLeader | None:
        return None if result.topic is None else leaderless(image, result.topic)

    def timed_out(self, result: TopicResult, message: str) -> TopicResult:
        return result
