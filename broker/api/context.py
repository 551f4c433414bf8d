"""The services that handlers of administrative APIs use, and `submit`, by which they change the cluster."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Protocol

from purgatorio.broker.log.setting import Setting
from purgatorio.broker.metadata.cluster_change import ClusterChange, R
from purgatorio.broker.metadata.controller import TopicSettings
from purgatorio.broker.metadata.delayed_decision import DelayedDecision, MetadataPurgatories, TopicKey
from purgatorio.broker.metadata.store import MetadataStore, StoreClosed, StoreError
from purgatorio.broker.routing.listings import Listings
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.broker.time.event_loop import call_soon
from purgatorio.broker.time.long_work import LongWork
from purgatorio.late import dataclass
from purgatorio.protocol.errors import ErrorCode

_logger = logging.getLogger(__name__)


class ConfigValue(Protocol):
    """A broker config, as DescribeConfigs lists it."""

    @property
    def value(self) -> str | None:
        """The value in Kafka's text form; None if it is not set."""
        ...

    @property
    def is_default(self) -> bool:
        """Whether the value is the default."""
        ...

    @property
    def type(self) -> int:
        """A code of `purgatorio.broker.log.config.ConfigType`."""
        ...

    @property
    def doc(self) -> str:
        """The documentation."""
        ...


@dataclass(frozen=True, slots=True)
class AdminContext:
    """The services that the broker gives to the handlers of administrative APIs.

    Attributes:
        broker_id: the id of this broker.
        store: this broker's access to the metadata store.
        rng: the source of new topics' ids and of their replica assignments.
        topics: defaults and limits for topics.
        auto_create_topics_enable: whether a Metadata request may create the unknown topics that it names.
        purgatories: the purgatories of requests that change the cluster.
        delete_topic_enable: whether clients may delete topics.
        max_partitions_per_page: the most partitions of one answer to DescribeTopicPartitions.
        seems_dead: whether a broker is probably dead, though it is not fenced yet.
        broker_configs: the configs with which this broker started, by Kafka's dotted names.
        dynamic_keys: the broker configs that can be changed while brokers run (KIP-226), by Kafka's dotted names.
        type_of: returns the type of a setting of Kafka's brokers, by its dotted name; None for other names.
        is_fixed: returns whether no client may change what has a name, though it is no config of this broker's start.
        group_keys: the configs that a group may have of its own, by name, with the defaults of this broker.
        topic_synonyms: from topic configs to the broker configs that are their defaults (from retention.ms to
            log.retention.ms); topic configs without such a broker config are absent.
        listings: makes long answers in steps.
        has_authorizer: whether ACLs are in effect; without an authorizer there are none.
    """

    broker_id: int
    store: MetadataStore
    rng: random.Random
    purgatories: MetadataPurgatories
    topics: TopicSettings = field(default_factory=TopicSettings)
    auto_create_topics_enable: bool = True
    delete_topic_enable: bool = True
    max_partitions_per_page: int = 2_000
    seems_dead: Callable[[int], bool] = lambda broker_id: False
    broker_configs: Mapping[str, ConfigValue] = field(default_factory=dict)
    dynamic_keys: Mapping[str, Setting] = field(default_factory=dict)
    type_of: Callable[[str], int | None] = lambda name: None
    is_fixed: Callable[[str], bool] = lambda name: False
    topic_synonyms: Mapping[str, str] = field(default_factory=dict)
    group_keys: Mapping[str, Setting] = field(default_factory=dict)
    has_authorizer: bool = False
    listings: Listings = field(default_factory=lambda: Listings(LongWork(call_soon).of_owner()))


def submit(admin: AdminContext, ctx: RequestContext, change: ClusterChange[R], reply: Reply) -> None:
    """Submit a change of the cluster; reply when this broker's image shows the change, or at the request's deadline."""
    purgatories = admin.purgatories
    purgatory = purgatories.elections if change.purgatory == "elections" else purgatories.topics
    operation = DelayedDecision(change, admin.store, reply)
    operation.client = ctx.client_id or ""

    decisions = iter(change.decisions())
    decided: list[R] = []

    def decide_next() -> None:
        decide = next(decisions, None)
        if decide is not None:
            admin.store.submit(decide, done, failed)
            return
        operation.decided(decided)
        purgatory.check_and_complete(change.keys[0], "decided")
        change.committed(decided)

    def done(results: Sequence[R]) -> None:
        decided.extend(results)
        decide_next()

    def failed(error: Exception) -> None:
        operation.refused(_code_of(error))
        purgatory.check_and_complete(change.keys[0], "refused")

    purgatory.try_complete_else_watch(operation, change.keys)
    decide_next()


def topic_keys(names: Iterable[str | None]) -> list[TopicKey]:
    """Return the watch keys of a request about these topics."""
    return [TopicKey(name) for name in dict.fromkeys(names) if name is not None]


def _code_of(failure: Exception) -> ErrorCode:
    """Return the error code for a change that was not committed."""
    if isinstance(failure, StoreClosed):
        # This broker is stopping. NOT_CONTROLLER is the retriable error that makes clients try another broker.
        return ErrorCode.NOT_CONTROLLER
    if isinstance(failure, StoreError):
        return ErrorCode.REQUEST_TIMED_OUT
    _logger.error("a metadata change failed", exc_info=failure)
    return ErrorCode.UNKNOWN_SERVER_ERROR
