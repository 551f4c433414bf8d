"""The delayed operations of ShareFetch: a fetch that waits for records to acquire, and one that waits for a session.

Kafka locks the partitions of a share fetch from its look at them until it has read and acquired, since its threads and
its remote reads come in between. Here both happen in one turn of the event loop, and nothing is locked.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import islice
from typing import NamedTuple, Protocol

from purgatorio.broker.causes.cause import NoShareRecordsYet, NoShareSessionLeft
from purgatorio.broker.causes.words import MAX_NAMED, shortened
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.share.share_reader import ShareSessionReader
from purgatorio.broker.share.share_session import ShareSession
from purgatorio.purgatory import DelayedOperation, GroupOperation, LaterChecks

WATCHED_PARTITIONS = 8
"""The most partitions under which a share fetch is watched, for the page. One of more is watched under its member."""


class ShareFetchKey(NamedTuple):
    """The watch key of share fetches: a partition that a group fetches from, for the page."""

    group_id: str
    tp: TopicPartition

    def __str__(self) -> str:
        return f"{shortened(self.group_id)}: {self.tp}"


class ShareMemberKey(NamedTuple):
    """The watch key of a member's share fetch from no partition or from many."""

    group_id: str
    member_id: str

    def __str__(self) -> str:
        return f"{shortened(self.group_id)}: {shortened(self.member_id)}"


class WaitingRequest(Protocol):
    """The request of a share fetch that waits. Either `acquire` or `failed` is called, once."""

    def acquire(self) -> None:
        """Acquire what there is, and answer."""
        ...

    def failed(self) -> None:
        """Answer with UNKNOWN_SERVER_ERROR."""
        ...

    def expired(self) -> None:
        """Count that its time was over before there was enough."""
        ...


class DelayedShareFetch(GroupOperation):
    """Waits until records of at least `min_bytes` can be acquired, or a partition has an error.

    It is watched under a group of keys, its session (see `GroupWatch`): an event on a partition's log, or on its share
    partition, marks the partition, and the operation looks at the marked ones alone.

    Args:
        session: the member's session, whose partitions are all watched.
        reader: looks at them.
        later: checks it in a later turn of the event loop if there is more to look at.
    """

    __slots__ = ("_later", "_reader", "_request", "_session", "min_bytes")

    def __init__(
        self,
        session: ShareSession,
        request: WaitingRequest,
        *,
        reader: ShareSessionReader,
        later: LaterChecks,
        max_wait_ms: int,
        min_bytes: int,
        client: str,
    ) -> None:
        super().__init__(max_wait_ms)
        self.client = client
        self.is_deferred = False
        self.min_bytes = min_bytes
        self._session = session
        self._request = request
        self._reader = reader
        self._later = later

    @property
    def weight(self) -> int:
        return 1 + len(self._session.worth) + len(self._session.marked)

    def watch_keys(self) -> tuple[Hashable, ...]:
        """Return the keys under which the page shows it."""
        session = self._session
        if 0 < len(session.partitions) <= WATCHED_PARTITIONS:
            return tuple([ShareFetchKey(session.group_id, each.tp) for each in session.partitions.values()])
        return (ShareMemberKey(session.group_id, session.member_id),)

    def try_complete(self) -> bool:
        """Complete if enough can be acquired, a partition has an error, or the session has ended.

        It looks at all marked partitions before, which may take several turns of the event loop.
        """
        session = self._session
        if session.marked:
            self._reader.look(session)
            if session.marked and session.is_open:
                self._later.add(self, "share fetch", self.watch_keys()[0])
                return False
        return self._is_due and self.force_complete()

    def could_complete(self) -> bool:
        """Return whether `try_complete` should complete it, by a look at every partition; for checks of the marks.

        Not if it is to be checked anyway, in a later turn.
        """
        if self.is_deferred:
            return False
        return not self._session.is_open or self._reader.is_due(self._session, self.min_bytes)

    @property
    def _is_due(self) -> bool:
        session = self._session
        if not session.is_open:
            return True
        has_enough = session.available_bytes >= self.min_bytes and session.holder.room > 0
        return bool(session.worth) and (has_enough or any(each.error is not None for each in session.worth))

    def on_complete(self) -> None:
        """Acquire what there is, and answer."""
        self._session.operation = None
        self._request.acquire()

    def on_expiration(self) -> None:
        """Count the expiry."""
        self._request.expired()

    def on_error(self, error: Exception) -> None:
        """Answer with UNKNOWN_SERVER_ERROR."""
        self._session.operation = None
        self._request.failed()

    def causes(self) -> tuple[NoShareRecordsYet]:
        """Return the bytes that are missing, and what keeps the member from records on the first partitions."""
        session = self._session
        positions = tuple(map(self._reader.position, islice(session.partitions.values(), MAX_NAMED)))
        more_count = len(session.partitions) - len(positions)
        return (NoShareRecordsYet(session.group_id, session.available_bytes, self.min_bytes, positions, more_count),)


class DelayedShareSession(DelayedOperation):
    """A request that would open one share session too many: it is refused when its time is over.

    So a client that tries again does not keep the broker busy. Kafka's name is an idle share fetch.

    Args:
        why: which limit is reached.
        refuse: answers with SHARE_SESSION_LIMIT_REACHED; called once.
    """

    __slots__ = ("_refuse", "_why")

    def __init__(self, max_wait_ms: int, why: str, client: str, refuse: Callable[[], None]) -> None:
        super().__init__(max_wait_ms)
        self.client = client
        self._why = why
        self._refuse = refuse

    def try_complete(self) -> bool:
        """Wait on: only time ends it."""
        return False

    def on_complete(self) -> None:
        """Refuse."""
        self._refuse()

    def causes(self) -> tuple[NoShareSessionLeft]:
        """Return which limit is reached."""
        return (NoShareSessionLeft(self._why),)
