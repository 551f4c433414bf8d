"""Whether a rule is about a request, and about which of its partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, Final, Protocol

from purgatorio.broker.layers.faults.names import api_named
from purgatorio.broker.layers.faults.rule import Rule, is_from, topic_id_bytes
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.store import MetadataStore
from purgatorio.broker.routing.request import RequestContext
from purgatorio.protocol.api_key import BROKERS_ONLY, ApiKey
from purgatorio.protocol.entity import Entity
from purgatorio.protocol.parts import Named, named, named_partitions

SPLIT: Final = frozenset(
    (
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.OFFSET_COMMIT,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.DELETE_RECORDS,
    )
)
"""The APIs of whose requests some partitions are refused and the others answered."""


class KnownTopics(Protocol):
    """The topics that a broker knows; the broker's image, and a fake in tests."""

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return the name of a topic's id, or None."""
        ...

    def has_partition(self, topic: str, partition: int) -> bool:
        """Return whether the partition exists."""
        ...

    def of_share_session(self, group_id: str, member_id: str) -> Iterable[tuple[bytes, TopicPartition]]:
        """Return the partitions that a member of a share group fetches from, with the ids of their topics."""
        ...


class ShareSessionPartitions(Protocol):
    """The share sessions of a broker."""

    def partitions_of(self, group_id: str, member_id: str) -> Iterable[tuple[bytes, TopicPartition]]:
        """Return the partitions of a member, with the ids of their topics."""
        ...


class Matcher:
    """Matches requests against one rule.

    Args:
        rule: the rule.

    Attributes:
        api_key: the API that it is about; None: all.
    """

    __slots__ = ("_from_client", "_rule", "_topic_id", "api_key")

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self.api_key: ApiKey | None = None if rule.api is None else api_named(rule.api)
        self._topic_id = None if rule.topic_id is None else topic_id_bytes(rule.topic_id)
        self._from_client = self._asking()

    def _asking(self) -> Callable[[str], bool]:
        rule = self._rule
        if self.api_key in BROKERS_ONLY and rule.client is None and rule.replica is None:
            return lambda client: True
        return is_from(rule.client, rule.replica)

    def may_ask(self, ctx: RequestContext) -> bool:
        """Return whether the rule is about this client and version, whatever the request names."""
        version = self._rule.version
        return (version is None or ctx.api_version == version) and self._from_client(ctx.client_id or "")

    def matches(self, ctx: RequestContext, request: Any, topics: KnownTopics) -> list[Named] | None:
        """Return the partitions that the rule is about; an empty list if it is about the whole request; None: neither.

        A partition that does not exist is no match where partitions are answered one by one: the broker refuses it
        anyway, and the rule is kept for one that counts.
        """
        rule = self._rule
        if not self.may_ask(ctx):
            return None
        if rule.group is not None and rule.group not in named(request, Entity.GROUP_ID):
            return None
        if rule.transactional_id is not None and rule.transactional_id not in named(request, Entity.TRANSACTIONAL_ID):
            return None
        found: list[Named] = []
        if rule.names_partitions:
            found = self._partitions(ctx, request, topics)
            if not found:
                return None
        if rule.when is not None and not rule.when(request):
            return None
        return found

    def _partitions(self, ctx: RequestContext, request: Any, topics: KnownTopics) -> list[Named]:
        rule = self._rule
        if ctx.api_key == ApiKey.METADATA and rule.topic is not None and _asks_for_all(ctx, request):
            return [Named(rule.topic, None, -1, (-1, -1))]
        exists = topics.has_partition if ctx.api_key in SPLIT else None
        found = named_partitions(request, topics.topic_name)
        return [
            each
            for each in (chain(found, _of_session(request, topics)) if ctx.api_key == ApiKey.SHARE_FETCH else found)
            if (rule.topic is None or each.topic == rule.topic)
            and (self._topic_id is None or each.topic_id == self._topic_id)
            and (rule.partition is None or each.partition == rule.partition)
            and (exists is None or exists(each.topic, each.partition))
        ]


def _of_session(request: Any, topics: KnownTopics) -> Iterator[Named]:
    """Yield the partitions of a share session; requests after the first one name only what has changed."""
    if request.share_session_epoch > 0:
        for topic_id, tp in topics.of_share_session(request.group_id or "", request.member_id or ""):
            yield Named(tp.topic, topic_id, tp.partition, (-1, -1))


def _asks_for_all(ctx: RequestContext, request: Any) -> bool:
    """Return whether a Metadata request is about all topics: null, or in version 0 no names."""
    return request.topics is None or (ctx.api_version == 0 and not request.topics)


class ImageTopics:
    """The topics of a broker's image (see `KnownTopics`).

    Args:
        store: has the broker's image.
        share_sessions: the broker's.
    """

    def __init__(self, store: MetadataStore, share_sessions: ShareSessionPartitions) -> None:
        self._store = store
        self.of_share_session = share_sessions.partitions_of

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return the name of a topic's id, or None."""
        topic = self._store.image.topic_by_id(topic_id)
        return None if topic is None else topic.name

    def has_partition(self, topic: str, partition: int) -> bool:
        """Return whether the partition exists."""
        return self._store.image.partition(topic, partition) is not None
