"""What the handlers of the administrative APIs work with, and how they change the cluster."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from purgatorio.broker.metadata.cluster_change import ClusterChange, R
from purgatorio.broker.metadata.controller import TopicSettings
from purgatorio.broker.metadata.delayed_decision import DelayedDecision
from purgatorio.broker.metadata.purgatories import MetadataPurgatories, TopicKey
from purgatorio.broker.metadata.store import MetadataStore, StoreClosed, StoreError
from purgatorio.broker.request import Reply, RequestContext
from purgatorio.protocol.errors import ErrorCode

_logger = logging.getLogger(__name__)


class ConfigValue(Protocol):
    """A setting of the broker, as DescribeConfigs lists it."""

    @property
    def value(self) -> str | None:
        """In Kafka's text form; None: not set."""
        ...

    @property
    def is_default(self) -> bool:
        """Whether it has its default value."""
        ...

    @property
    def type(self) -> int:
        """A code of `purgatorio.broker.log.config.ConfigType`."""
        ...

    @property
    def doc(self) -> str:
        """What it is for."""
        ...


@dataclass(frozen=True, slots=True)
class AdminContext:
    """What the broker gives to the handlers of the administrative APIs.

    Attributes:
        broker_id: this broker's.
        store: where the cluster's metadata is read and changed.
        rng: where new topics get their ids and their first leaders from.
        topics: defaults and bounds for topics.
        auto_create_topics_enable: whether asking for an unknown topic may create it.
        purgatories: where requests wait that change the cluster.
        seems_dead: whether a broker is probably dead, though it is not fenced yet.
        broker_configs: this broker's settings under Kafka's dotted names.
        topic_synonyms: for each topic config the broker setting that is its default (retention.ms:
            log.retention.ms), where there is one.
    """

    broker_id: int
    store: MetadataStore
    rng: random.Random
    purgatories: MetadataPurgatories
    topics: TopicSettings = field(default_factory=TopicSettings)
    auto_create_topics_enable: bool = True
    seems_dead: Callable[[int], bool] = lambda broker_id: False
    broker_configs: Mapping[str, ConfigValue] = field(default_factory=dict)
    topic_synonyms: Mapping[str, str] = field(default_factory=dict)


def submit(admin: AdminContext, ctx: RequestContext, change: ClusterChange[R], reply: Reply) -> None:
    """Have the cluster changed, and reply when this broker sees the change, or when the request's time is over."""
    purgatories = admin.purgatories
    purgatory = purgatories.elections if change.purgatory == "elections" else purgatories.topics
    operation = DelayedDecision(change, lambda: admin.store.image, reply)
    operation.client = ctx.client_id or ""

    def done(results: Sequence[R]) -> None:
        operation.decided(results)
        purgatory.check_and_complete(change.keys[0], "decided")
        change.committed(results)

    def failed(error: Exception) -> None:
        operation.refused(_code_of(error))
        purgatory.check_and_complete(change.keys[0], "refused")

    purgatory.try_complete_else_watch(operation, change.keys)
    admin.store.submit(change.decide, done, failed)


def topic_keys(names: Iterable[str | None]) -> list[TopicKey]:
    """What a request about these topics is watched under."""
    return [TopicKey(name) for name in dict.fromkeys(names) if name is not None]


def _code_of(failure: Exception) -> ErrorCode:
    """What to tell a client whose change was not committed."""
    if isinstance(failure, StoreClosed):
        # This broker stops: of all retriable errors this one makes clients turn to another broker.
        return ErrorCode.NOT_CONTROLLER
    if isinstance(failure, StoreError):
        return ErrorCode.REQUEST_TIMED_OUT
    _logger.error("a metadata change failed", exc_info=failure)
    return ErrorCode.UNKNOWN_SERVER_ERROR
