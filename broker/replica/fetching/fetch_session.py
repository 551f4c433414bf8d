"""Fetch sessions (KIP-227): a client names its partitions once, and then only what is new, altered or to be forgotten.

A response within a session lists the partitions with news: records, another high watermark or log start offset than in
the client's last answer, an error, a preferred read replica, a diverging epoch. A partition that is left out is "still
there": the client still reads from the same offset.

Order of the response: a partition that gave records goes behind the others, so that full responses starve none
(KAFKA-12330).
"""

# compiled: docs/compiled.md

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Final

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.replica.fetching.fetch_context import NOT_TOLD, FetchContext, FetchParams, PartitionFetch
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.fetch import INITIAL_EPOCH, PartitionData
from purgatorio.purgatory.clock import Clock

MAX_EPOCH: Final = 2**31 - 1
MIN_EVICTION_MS: Final = 120_000
"""A session that was used less long ago, and one that is younger, is safe from sessions of its own kind."""
MAX_CONSUMER_PARTITIONS: Final = 100_000
"""The most partitions in all consumers' sessions of a broker; each takes some 500 bytes. Followers' are not counted: a
broker's own replicas bound them."""


def next_epoch(epoch: int) -> int:
    """Return the epoch that the next request of a session must have; after the largest comes 1."""
    return 1 if epoch == MAX_EPOCH else epoch + 1


def key_of(fetch: PartitionFetch) -> Hashable:
    """Return what a session knows a partition by: its topic's id, or its name if the request has no ids."""
    return (fetch.tp.topic if fetch.topic_id is None else fetch.topic_id), fetch.tp.partition


class FetchSession(FetchContext):
    """One client's session. It begins with a full request, whose response lists all partitions.

    Args:
        session_id: its id, which no other session of the broker has.
        params: the parameters of the request.
        fetches: the partitions; of those that are named twice, the last one counts.
        by_topic_id: whether requests name topics by id.
        owner: the connection of a consumer, the broker id of a follower.
        now_ms: monotonic time.

    Attributes:
        epoch: the epoch of the next request.
        is_privileged: whether it is a follower's session, which consumers do not evict.
        used_ms: the time of the last request.
        readable_by: what noted that the client may read all topics, of the ACLs that it knew; None: nothing has.
        to_note: the partitions of a follower that is not in their ISR, or whose state the leader does not know any
            more. They are noted with each request, as if it named them: the follower is still at their offsets.
    """

    __slots__ = (
        "_by_key",
        "by_topic_id",
        "created_ms",
        "epoch",
        "is_privileged",
        "owner",
        "readable_by",
        "replica",
        "session_id",
        "to_note",
        "used_ms",
    )

    outlives_requests = True

    def __init__(
        self,
        session_id: int,
        params: FetchParams,
        fetches: Iterable[PartitionFetch],
        *,
        by_topic_id: bool,
        owner: Hashable,
        now_ms: int,
    ) -> None:
        self._by_key = {key_of(fetch): fetch for fetch in fetches}
        super().__init__(params, self._by_key.values())
        self.session_id = session_id
        self.by_topic_id = by_topic_id
        self.owner = owner
        self.replica = params.replica_id, params.replica_epoch
        self.is_privileged = params.is_follower
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.created_ms = self.used_ms = now_ms
        self.to_note: dict[PartitionFetch, None] = {}
        self.readable_by: object = None
        self.is_watched = True

    # --- requests ---

    def belongs_to(self, params: FetchParams) -> bool:
        """Return whether this may be the client's session: a consumer's, or the same follower incarnation's."""
        return self.replica == (params.replica_id, params.replica_epoch)

    def expects(self, epoch: int) -> bool:
        """Return whether a request has the next epoch: the session has taken all requests before it, and no later."""
        return epoch == self.epoch

    def accept(self, params: FetchParams, named: Iterable[PartitionFetch], now_ms: int) -> list[PartitionFetch]:
        """Take an incremental request, and return the session's partitions that it names.

        The epoch moves now, not with the response, so that a repeated request is found out.
        """
        self.supersede()
        before, self.params = self.params, params
        self.epoch = next_epoch(self.epoch)
        self.used_ms = now_ms
        if _reads_alike(before) != _reads_alike(params):
            self.marked.update(dict.fromkeys(self.fetches))
        return [self._name(fetch) for fetch in named]

    def _name(self, fetch: PartitionFetch) -> PartitionFetch:
        """Add or alter a partition."""
        key = key_of(fetch)
        known = self._by_key.get(key)
        if known is None:
            fetch.context = self
            self._by_key[key] = known = fetch
            self.shown_keys = ()
        else:
            if known.request.current_leader_epoch != fetch.request.current_leader_epoch:
                # The client has ignored the answers from before it knew of the epoch.
                known.high_watermark = known.log_start_offset = NOT_TOLD
            known.request = fetch.request
        self.marked[known] = None
        return known

    def forget(self, keys: Iterable[Hashable]) -> list[PartitionFetch]:
        """Remove partitions, and return those that were there."""
        forgotten = [fetch for key in keys if (fetch := self._by_key.pop(key, None)) is not None]
        for fetch in forgotten:
            self.shown_keys = ()
            self.available_bytes -= fetch.available_bytes
            for held in (self.marked, self.urgent, self.absent, self.with_news, self.to_note):
                held.pop(fetch, None)
        return forgotten

    def resolve_names(self, image: ClusterImage) -> None:
        """Find the topics whose ids this broker did not know when they were named (KAFKA-13111)."""
        for fetch in self.marked:
            if fetch.error_code and fetch.topic_id is not None:
                topic = image.topic_by_id(fetch.topic_id)
                if topic is not None:
                    fetch.tp = TopicPartition(topic.name, fetch.tp.partition)
                    fetch.error_code = ErrorCode.NONE
                    self.shown_keys = ()

    # --- looks and responses ---

    @property
    def worth_reading(self) -> Collection[PartitionFetch]:
        """All partitions for the first response, then those that may have news."""
        return list(self.fetches if self.is_full else self.with_news)

    def note_answer(self, fetch: PartitionFetch, data: PartitionData, size_bytes: int) -> bool:
        """Note the answer about a partition; returns whether it has news for the client."""
        differs = data.high_watermark != fetch.high_watermark or data.log_start_offset != fetch.log_start_offset
        refused = data.error_code != 0 or data.diverging_epoch.end_offset >= 0 or data.preferred_read_replica >= 0
        more = fetch.available_bytes > 0 or fetch in self.urgent or fetch in self.absent
        if size_bytes or not more:
            self.with_news.pop(fetch, None)
        if more:
            self.with_news[fetch] = None  # until the client names it with another offset
        # The client does not keep what comes with an error, so it is answered again when that is over.
        fetch.high_watermark = NOT_TOLD if refused else data.high_watermark
        fetch.log_start_offset = NOT_TOLD if refused else data.log_start_offset
        return self.is_full or size_bytes > 0 or refused or differs

    def not_answered(self, keys: Iterable[Hashable]) -> None:
        """Note that the client did not get an answer with these partitions: they are read and answered again."""
        for key in keys:
            fetch = self._by_key.get(key)
            if fetch is not None:
                fetch.high_watermark = fetch.log_start_offset = NOT_TOLD
                self.marked[fetch] = self.with_news[fetch] = None

    def end(self) -> None:
        """Drop the partitions, which refer to the session; see `FetchContext.answered`."""
        self.forget(list(self._by_key))

    def answered(self) -> None:
        """Look again, at the next request, at the partitions whose errors and urgent news the answer has."""
        for told in (self.urgent, self.absent):
            if told:
                self.marked.update(told)
                told.clear()
        self.is_full = False


def _reads_alike(params: FetchParams) -> tuple[bool, bool]:
    return params.read_committed, params.may_read_followers


class FetchSessionCache:
    """The sessions of one broker, within bounds.

    To make room, the session that was idle longest goes if that is long; otherwise the smallest one, if it is smaller
    than the new one. Followers' sessions count as larger than consumers'. So a consumer evicts no follower, and equals
    do not evict each other.

    Args:
        slots: the most sessions (max.incremental.fetch.session.cache.slots).
        clock: times when sessions were used.
        rng: chooses the ids, which clients must not be able to predict.
        closed: called with each session that ends, however it ends.
        max_consumer_partitions: the most partitions in the sessions of consumers.

    Attributes:
        evictions: the sessions that made room for others.
    """

    def __init__(
        self,
        *,
        slots: int,
        clock: Clock,
        rng: random.Random,
        closed: Callable[[FetchSession], None],
        max_consumer_partitions: int = MAX_CONSUMER_PARTITIONS,
    ) -> None:
        self.evictions = 0
        self._slots = slots
        self._clock = clock
        self._rng = rng
        self._closed = closed
        self._max_consumer_partitions = max_consumer_partitions
        self._consumer_partitions = 0
        self._sessions: dict[int, FetchSession] = {}  # in the order of their last use
        self._by_owner: dict[Hashable, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        """The partitions of all sessions."""
        return sum(len(session.fetches) for session in self._sessions.values())

    def find(self, session_id: int) -> FetchSession | None:
        """Return a session; None if there is none with that id."""
        return self._sessions.get(session_id)

    def open(
        self, params: FetchParams, fetches: list[PartitionFetch], *, by_topic_id: bool, owner: Hashable
    ) -> FetchSession | None:
        """Return a new session; None if there is no room for it.

        It replaces an earlier one of the same connection, and of the same follower: a client that asks for a new
        session with each request must not fill the cache.
        """
        owner = params.replica_id if params.is_follower else owner
        earlier = self._by_owner.get(owner)
        if earlier is not None:
            self.close(earlier)
        if not fetches or not self._make_room(params.is_follower, len(fetches)):
            return None
        session_id = self._new_id()
        session = FetchSession(
            session_id, params, fetches, by_topic_id=by_topic_id, owner=owner, now_ms=self._clock.now_ms()
        )
        self._sessions[session_id] = self._by_owner[owner] = session
        self._count(session, len(session.fetches))
        return session

    def accept(
        self,
        session: FetchSession,
        params: FetchParams,
        named: list[PartitionFetch],
        forgotten: Iterable[Hashable],
    ) -> tuple[list[PartitionFetch], list[PartitionFetch]]:
        """Let a session take an incremental request.

        Returns:
            The session's partitions that the request names, and those that it forgot.
        """
        del self._sessions[session.session_id]
        self._sessions[session.session_id] = session
        before = len(session.fetches)
        known = session.accept(params, named, self._clock.now_ms())
        gone = dict.fromkeys(session.forget(forgotten))
        self._count(session, len(session.fetches) - before)
        return [fetch for fetch in known if fetch not in gone], list(gone)

    @property
    def is_overfull(self) -> bool:
        """Whether the sessions of consumers have grown past their limit."""
        return self._consumer_partitions > self._max_consumer_partitions

    def withheld(self, session_id: int, keys: Iterable[Hashable], *, was_full: bool) -> None:
        """Undo what an answer changed that the client did not get.

        Args:
            session_id: the answer's.
            keys: the partitions in it, as `key_of` names them.
            was_full: whether the request named all its partitions; the client takes its session for ended then.
        """
        session = self._sessions.get(session_id)
        if session is None:
            return
        if was_full:
            self.close(session)
        else:
            session.not_answered(keys)

    def close(self, session: FetchSession) -> None:
        """End a session."""
        if self._sessions.pop(session.session_id, None) is not None:
            del self._by_owner[session.owner]
            self._count(session, -len(session.fetches))
            self._closed(session)

    def _count(self, session: FetchSession, partitions: int) -> None:
        if not session.is_privileged:
            self._consumer_partitions += partitions

    def _new_id(self) -> int:
        while True:
            session_id = self._rng.randrange(1, 2**31)
            if session_id not in self._sessions:
                return session_id

    def _make_room(self, is_privileged: bool, partitions: int) -> bool:
        limit = self._max_consumer_partitions
        while len(self._sessions) >= self._slots or (
            not is_privileged and self._consumer_partitions + partitions > limit
        ):
            evicted = self._evictable(is_privileged, partitions)
            if evicted is None:
                return False
            self.evictions += 1
            self.close(evicted)
        return True

    def _evictable(self, is_privileged: bool, partitions: int) -> FetchSession | None:
        """Return the session to evict for a new one; None if the new one is not worth it."""
        now_ms = self._clock.now_ms()
        idle = next(iter(self._sessions.values()), None)
        if idle is None or now_ms - idle.used_ms > MIN_EVICTION_MS:
            return idle
        candidates = [
            session
            for session in self._sessions.values()
            if now_ms - session.created_ms > MIN_EVICTION_MS or (is_privileged and not session.is_privileged)
        ]
        smallest = min(candidates, key=_size, default=None)
        return smallest if smallest is not None and _size(smallest) < (is_privileged, partitions, 0) else None


def _size(session: FetchSession) -> tuple[bool, int, int]:
    return session.is_privileged, len(session.fetches), session.session_id
