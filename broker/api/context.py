"""What the handlers of the administrative APIs work with, and how they change the cluster."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from broker.metadata.controller import TopicSettings
from broker.metadata.store import Decision, MetadataStore, StoreClosed, StoreError
from broker.request import Reply
from protocol.errors import ErrorCode
from protocol.message import Message

T = TypeVar("T")

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
        """A code of `broker.log.config.ConfigType`."""
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
        broker_configs: this broker's settings under Kafka's dotted names.
        topic_synonyms: for each topic config the broker setting that is its default (retention.ms:
            log.retention.ms), where there is one.
    """

    broker_id: int
    store: MetadataStore
    rng: random.Random
    topics: TopicSettings = field(default_factory=TopicSettings)
    auto_create_topics_enable: bool = True
    broker_configs: Mapping[str, ConfigValue] = field(default_factory=dict)
    topic_synonyms: Mapping[str, str] = field(default_factory=dict)


def submit(
    admin: AdminContext,
    decide: Decision[T],
    answer: Callable[[T], Message],
    refuse: Callable[[ErrorCode], Message],
    reply: Reply,
) -> None:
    """Have the cluster changed, and reply when this broker sees the change.

    Args:
        answer: makes the response from the decision's result.
        refuse: makes the response that says that nothing was changed, and why.
    """

    def done(result: T) -> None:
        try:
            response = answer(result)
        except Exception:
            # A defect of the handler, met too late for the dispatcher to notice: the client gets its answer all the
            # same. What the decision did stays done.
            _logger.exception("a response could not be made")
            response = refuse(ErrorCode.UNKNOWN_SERVER_ERROR)
        reply(response)

    admin.store.submit(decide, done, lambda failure: reply(refuse(_code_of(failure))))


def _code_of(failure: Exception) -> ErrorCode:
    """What to tell a client whose change was not committed."""
    if isinstance(failure, StoreClosed):
        # This broker stops: of all retriable errors this one makes clients turn to another broker.
        return ErrorCode.NOT_CONTROLLER
    if isinstance(failure, StoreError):
        return ErrorCode.REQUEST_TIMED_OUT
    _logger.error("a metadata change failed", exc_info=failure)
    return ErrorCode.UNKNOWN_SERVER_ERROR
