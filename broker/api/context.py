"""What the handlers of the administrative APIs work with, and how they change the cluster."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

from purgatorio.broker.metadata.controller import TopicSettings
from purgatorio.broker.metadata.delayed_decision import DelayedDecision
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.metadata.purgatories import ALL_TOPICS, MetadataPurgatories, TopicKey
from purgatorio.broker.metadata.store import Decision, MetadataStore, StoreClosed, StoreError
from purgatorio.broker.purgatory import Purgatory
from purgatorio.broker.request import Reply, RequestContext
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.message import Message

T = TypeVar("T")

DEFAULT_TIMEOUT_MS: Final = 30_000
"""For requests that do not say how long they wait; the default request timeout of Kafka's clients."""

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


def submit(
    admin: AdminContext,
    ctx: RequestContext,
    decide: Decision[T],
    answer: Callable[[T], Message],
    refuse: Callable[[ErrorCode], Message],
    reply: Reply,
    *,
    keys: Iterable[Hashable] = (),
    timeout_ms: int = DEFAULT_TIMEOUT_MS,
    unseen: Callable[[ClusterImage, T], str] = lambda image, result: "",
    late: Callable[[ClusterImage, T], T] = lambda image, result: result,
    committed: Callable[[T], None] = lambda result: None,
    purgatory: Purgatory[DelayedDecision[Any]] | None = None,
) -> None:
    """Have the cluster changed, and reply when this broker sees the change, or when the time is over.

    Args:
        answer: makes the response from the decision's result.
        refuse: makes the response that says that nothing is known to have changed, and why.
        keys: what the request is about, and so what it is watched under; none: all topics.
        timeout_ms: how long the client waits; REQUEST_TIMED_OUT after that, though the change may still come. Nothing
            is decided within the call, so a client that does not wait (0, or less) is told so at once, as by Kafka.
        unseen: what of the result an image does not show yet; "" if nothing.
        late: the result with REQUEST_TIMED_OUT for what an image does not show; needed with `unseen`.
        committed: told of the result as soon as it is certain, and even if the client has stopped waiting.
        purgatory: where the request waits; not given: with those that change topics.
    """
    purgatory = purgatory or admin.purgatories.topics
    watched = list(keys) or [ALL_TOPICS]
    operation: DelayedDecision[T] = DelayedDecision(
        max(0, timeout_ms),
        lambda: admin.store.image,
        unseen,
        late,
        lambda result: reply(answer(result)),
        lambda error_code: reply(refuse(error_code)),
    )
    operation.client = ctx.client_id or ""

    def done(result: T) -> None:
        operation.decided(result)
        purgatory.check_and_complete(watched[0], "decided")
        committed(result)

    def failed(error: Exception) -> None:
        operation.refused(_code_of(error))
        purgatory.check_and_complete(watched[0], "refused")

    purgatory.try_complete_else_watch(operation, watched)
    admin.store.submit(decide, done, failed)


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
