"""The partitions of one fetch request, or of one fetch session, and what is known of each between two looks at it.

`FetchWatch` has the fetches that wait to hear of a partition.
"""

# compiled: docs/compiled.md

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.tier.reads import PartRead
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.fetch import FetchPartition, PartitionData
from purgatorio.purgatory import GroupWatch, LaterChecks, Purgatory, TakeLater
from purgatorio.purgatory.key_group import GroupOperation, KeyGroup, WatchedKey

NOT_TOLD = -1


class ParkedFetch(GroupOperation):
    """A request for the partitions of a context that waits in the purgatory: a `DelayedFetch`."""

    __slots__ = ()

    @abstractmethod
    def supersede(self) -> None:
        """End the wait without a read, since the client's session has taken a later request."""


@dataclass(slots=True)
class FetchParams:
    """The parameters of a fetch request as a whole.

    Attributes:
        replica_id: the follower's broker id, or -1 for a consumer.
        replica_epoch: the follower's broker epoch (KIP-903).
        rack_id: the rack of a consumer that may be sent to a preferred read replica (KIP-392); "" if not given.
        may_read_followers: whether the consumer's request version knows KIP-392, so that it may read from followers.
        max_wait_ms: the longest time that the request may wait; 0 or less: it does not wait.
        min_bytes: the number of bytes that is enough for a response, at most `max_bytes`.
        max_bytes: the limit of the response; only its first batch may exceed it.
        client: the client id, for observers.
        read_committed: whether the consumer reads up to the last stable offset rather than the high watermark.
        remote_parts: what the response that was read last needs of the tier.
    """

    replica_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    read_committed: bool = False
    replica_epoch: int = -1
    rack_id: str = ""
    may_read_followers: bool = False
    client: str = ""
    remote_parts: tuple[RemotePart, ...] = ()

    @property
    def is_follower(self) -> bool:
        """Whether a follower fetches; a follower reads up to the log end offset."""
        return self.replica_id >= 0


class PartitionFetch(WatchedKey["FetchContext"]):
    """One partition of a fetch request or session. Compared and hashed by identity.

    Attributes:
        topic_id: the topic id if the request names topics by id, else None.
        request: the position to read at, from the request that named the partition last.
        error_code: an error that the handler found already (an unknown topic id).
        available_bytes: the bytes that can be read, at most the partition's limit, as of the last look.
        high_watermark: the high watermark in the client's last answer of the session; -1: none, or an error after it.
        log_start_offset: likewise the log start offset.
        stable_offset: for a consumer under read_committed, the last stable offset as of the last look.
        context: the request or session.
    """

    __slots__ = (
        "available_bytes",
        "error_code",
        "high_watermark",
        "log_start_offset",
        "request",
        "stable_offset",
        "topic_id",
        "tp",
    )

    def __init__(
        self,
        tp: TopicPartition,
        topic_id: bytes | None,
        request: FetchPartition,
        error_code: ErrorCode = ErrorCode.NONE,
    ) -> None:
        self.tp = tp
        self.topic_id = topic_id
        self.request = request
        self.error_code = error_code
        self.available_bytes = 0
        self.high_watermark = NOT_TOLD
        self.log_start_offset = NOT_TOLD
        self.stable_offset = NOT_TOLD


FetchEntry = tuple[PartitionFetch, PartitionData]
"""A partition of a fetch with its entry in the response."""


class RemotePart:
    """A partition of a consumer's fetch whose records are to come from the tier.

    Attributes:
        data: its entry in the response, which lacks the records.
        max_bytes: the most bytes to read.
        end_offset: read only batches that end before it.
        min_one: read the first batch even if it is larger (KIP-74).
        read: the read that brings them; None: it has not begun.
        is_joined: the read had begun for another fetch.
    """

    __slots__ = ("data", "end_offset", "fetch", "is_joined", "max_bytes", "min_one", "read")

    def __init__(
        self, fetch: PartitionFetch, data: PartitionData, max_bytes: int, end_offset: int, min_one: bool
    ) -> None:
        self.fetch = fetch
        self.data = data
        self.max_bytes = max_bytes
        self.end_offset = end_offset
        self.min_one = min_one
        self.read: PartRead | None = None
        self.is_joined = False


class FetchContext(KeyGroup[PartitionFetch, ParkedFetch]):
    """A fetch without a session: all its partitions are named in the request, and all are in the response.

    Every event of a partition marks it, and a look at the marked partitions keeps the sums right. So a fetch of
    thousands of partitions costs, while it waits, what changed.

    Args:
        fetches: the partitions, in the order of the request.

    Attributes:
        params: the parameters of the newest request.
        with_news: of a session, the partitions that may have news, in the order of the response.
        urgent: the partitions that must be answered at once, such as one with an error.
        absent: the partitions that did not exist when the request came. The others are waited for, as in Kafka.
        available_bytes: the bytes that can be read from all partitions, as of the last look at each.
        is_full: whether the response lists all partitions.
        is_watched: whether events mark the partitions.
        shown_keys: the keys under which observers see its requests, until the partitions change.
    """

    outlives_requests = False
    """Whether further requests come: the context is that of a session."""

    __slots__ = (
        "absent",
        "available_bytes",
        "fetches",
        "is_full",
        "is_watched",
        "params",
        "shown_keys",
        "urgent",
        "with_news",
    )

    def __init__(self, params: FetchParams, fetches: Collection[PartitionFetch]) -> None:
        self.params = params
        self.fetches = fetches
        self.marked = dict.fromkeys(fetches)
        self.with_news: dict[PartitionFetch, None] = {}
        self.urgent: dict[PartitionFetch, None] = {}
        self.absent: dict[PartitionFetch, None] = {}
        self.shown_keys: tuple[Hashable, ...] = ()
        self.available_bytes = 0
        self.is_full = True
        self.is_watched = False
        self.operation = None
        for fetch in fetches:
            fetch.context = self

    @property
    def is_due(self) -> bool:
        """Whether the response is due: enough can be read, a partition must be answered at once, or none exists."""
        if self.urgent or self.available_bytes >= self.params.min_bytes:
            return True
        return len(self.absent) == len(self.fetches)

    @property
    def size(self) -> int:
        """How many partitions the response may have to list."""
        return len(self.fetches if self.is_full else self.with_news)

    @property
    def worth_reading(self) -> Collection[PartitionFetch]:
        """The partitions that the response may have to list."""
        return self.fetches

    def looked_at(self, fetch: PartitionFetch, available_bytes: int | None) -> None:
        """Keep the result of a look at a partition; None: it must be answered at once."""
        size_bytes = available_bytes or 0
        self.available_bytes += size_bytes - fetch.available_bytes
        fetch.available_bytes = size_bytes
        if self.absent:
            self.absent.pop(fetch, None)
        if available_bytes is None:
            self.urgent[fetch] = None
        elif self.urgent:
            self.urgent.pop(fetch, None)
        if self.outlives_requests:
            self.with_news[fetch] = None

    def found_absent(self, fetch: PartitionFetch) -> None:
        """Remember that a partition does not exist: the answer names it, but does not leave for it."""
        self.looked_at(fetch, 0)
        self.absent[fetch] = None

    def answered(self) -> None:
        """Note that the response is complete; without a session, drop the partitions.

        They refer to the context, and a request must not leave cycles for Python's garbage collector.
        """
        self.fetches = ()
        self.marked = {}
        self.urgent = {}
        self.absent = {}

    def supersede(self) -> None:
        """End the wait of an earlier request, for which the response of a later one would be read."""
        if self.operation is not None:
            self.operation.supersede()


_Watch = GroupWatch[TopicPartition, PartitionFetch]


class FetchWatch(NamedTuple):
    """The watches of the fetch purgatory: an event may concern some kinds of fetches only.

    Attributes:
        followers: fetches of followers, which read up to the log end offset.
        consumers: fetches of consumers, which read up to the high watermark.
        committed: fetches of consumers under read_committed, which read up to the last stable offset.
    """

    followers: _Watch
    consumers: _Watch
    committed: _Watch

    @classmethod
    def over(
        cls,
        purgatory: Purgatory[Any],
        take_later: TakeLater,
        follower_fetch_woken: Callable[[PartitionFetch], None],
    ) -> FetchWatch:
        """Return the watches of a purgatory; a follower's fetch is never put off, since an in-sync replica is."""
        later = LaterChecks(purgatory, take_later)
        return cls(
            GroupWatch(purgatory, None, follower_fetch_woken),
            GroupWatch(purgatory, later),
            GroupWatch(purgatory, later),
        )

    def add(self, fetch: PartitionFetch) -> None:
        """Wait for the next event of the partition."""
        params = fetch.context.params
        if params.replica_id >= 0:
            self.followers.watch(fetch.tp, fetch)
        else:
            (self.committed if params.read_committed else self.consumers).watch(fetch.tp, fetch)

    def discard(self, fetch: PartitionFetch) -> None:
        """Wait no more."""
        if fetch.context.params.replica_id >= 0:
            self.followers.discard(fetch.tp, fetch)
        else:  # a session may have changed its isolation level
            self.consumers.discard(fetch.tp, fetch)
            self.committed.discard(fetch.tp, fetch)

    def partitions(self) -> list[TopicPartition]:
        """Return all partitions for which fetches wait."""
        return list({**self.followers.lists, **self.consumers.lists, **self.committed.lists})
