"""The delayed operation of Fetch: waits until `min_bytes` can be read."""

# compiled: docs/compiled.md

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import islice
from typing import Final, NamedTuple

from purgatorio.broker.causes.cause import FetchPosition, NoRecordsYet
from purgatorio.broker.causes.words import MAX_NAMED
from purgatorio.broker.replica.fetching.fetch_context import FetchContext, FetchEntry, ParkedFetch, PartitionFetch
from purgatorio.broker.replica.fetching.reader import ContextReader
from purgatorio.broker.replica.observer import ReplicaObserver
from purgatorio.broker.time.long_work import Steps
from purgatorio.logger import get_logger

logger = get_logger(__name__)

WATCHED_PARTITIONS: Final = 8
"""The most partitions under which a fetch is watched, for the page. One of more is watched under one key for all."""
PARTITIONS_PER_WEIGHT: Final = 4
"""As many partitions take as long to answer as another operation does."""


class FollowerKey(NamedTuple):
    """The watch key of a follower's fetches: checked when the set of partitions that the follower should fetch changes.

    Without it a follower would fetch a new partition only after its pending fetch expires, up to
    replica.fetch.wait.max.ms late.
    """

    broker_id: int

    def __str__(self) -> str:
        return f"follower {self.broker_id}"


class ConsumerKey(NamedTuple):
    """The watch key of a consumer's fetch of many partitions."""

    client: str

    def __str__(self) -> str:
        return f"consumer {self.client}"


TakeSteps = Callable[[Steps], None]
"""Takes the first of these steps now, and the others in later turns of the event loop, unless the client is gone."""


class DelayedFetch(ParkedFetch):
    """Waits until `min_bytes` can be read from the partitions together, or one of them must be answered at once.

    It is watched under a group of keys, its context (see `GroupWatch`): an event marks a partition of the context, and
    the operation looks at the marked ones alone. The keys of `watch_keys` are for the page.

    It reads the logs when it completes, and does not record a follower's progress a second time (KAFKA-9939):
    `ReplicaFetches` did so when the request arrived.

    Args:
        context: the partitions of the request, all of which were looked at.
        reader: looks at them, and reads them.
        answer: sends the response; called once. None: the session has taken a later request.
        observer: counts the fetch if it expires.
        take_steps: reads a fetch of very many partitions, without a session; None: all are read at once.
    """

    __slots__ = (
        "_answer",
        "_assignment",
        "_context",
        "_is_superseded",
        "_observer",
        "_reader",
        "_replica_id",
        "_take_steps",
    )

    def __init__(
        self,
        context: FetchContext,
        reader: ContextReader,
        answer: Callable[[list[FetchEntry] | None], None],
        observer: ReplicaObserver,
        take_steps: TakeSteps | None = None,
    ) -> None:
        super().__init__(context.params.max_wait_ms)
        self.client = context.params.client
        self._context = context
        self._reader = reader
        self._answer = answer
        self._observer = observer
        self._take_steps = take_steps
        self._is_superseded = False
        self.is_deferred = False
        self._replica_id = context.params.replica_id
        self._assignment = reader.assignment_of(self._replica_id)

    @property
    def weight(self) -> int:
        return 1 + self._context.size

    def watch_keys(self) -> tuple[tuple[Hashable, ...], tuple[Hashable, ...]]:
        """Return the keys to watch it under, and those to show: the partitions, and for a follower its key."""
        context, replica_id = self._context, self._replica_id
        shown = context.shown_keys
        if not shown:  # made once for a set of partitions, since a session may have thousands
            shown = tuple([fetch.tp for fetch in context.fetches])
            if replica_id >= 0:
                shown = (*shown, FollowerKey(replica_id))
            context.shown_keys = shown
        if replica_id >= 0:
            return shown[-1:], shown
        return ((ConsumerKey(self.client),) if len(shown) > WATCHED_PARTITIONS else shown), shown

    def try_complete(self) -> bool:
        """Complete if `min_bytes` can be read, or if a partition must be answered at once."""
        context, reader = self._context, self._reader
        if self._replica_id >= 0 and reader.assignment_of(self._replica_id) is not self._assignment:
            return self.force_complete()
        if context.marked:
            reader.look(context)
        return context.is_due and self.force_complete()

    def could_complete(self) -> bool:
        """Return whether `try_complete` should complete it, by a look at every partition; for checks of the marks.

        Not if it is to be checked anyway, in a later turn.
        """
        if self.is_deferred:
            return False
        is_reassigned = self._reader.assignment_of(self._replica_id) is not self._assignment
        return is_reassigned or self._reader.is_due(self._context)

    def expiry_weight(self) -> int:
        """Return more for many partitions: a hundred fetches of a thousand each may expire at once."""
        return 1 + self._context.size // PARTITIONS_PER_WEIGHT

    def causes(self) -> tuple[NoRecordsYet]:
        """Return the bytes that are missing, with the first fetch offsets, and what holds the fetch back at each."""
        context = self._context
        params, fetches = context.params, context.fetches
        positions = tuple(map(self._position, islice(fetches, MAX_NAMED)))
        follower_id = params.replica_id if params.is_follower else None
        more_count = len(fetches) - len(positions)
        return (NoRecordsYet(follower_id, context.available_bytes, params.min_bytes, positions, more_count),)

    def _position(self, fetch: PartitionFetch) -> FetchPosition:
        held_back_by = self._reader.held_back_by(self._context.params, fetch)
        return FetchPosition(fetch.tp, fetch.request.fetch_offset, held_back_by)

    def on_complete(self) -> None:
        """Read and answer."""
        self._left()
        if self._take_steps is None:
            self._answer(None if self._is_superseded else self._reader.read(self._context))
        else:
            self._take_steps(self._in_steps())

    def _in_steps(self) -> Steps:
        context = self._context
        try:
            entries, _ = yield from self._reader.read_in_steps(context)
        except Exception:  # as `on_error`: the purgatory does not see it any more
            logger.exception("a fetch of many partitions failed")
            entries = self._reader.failed(context)
        finally:
            context.answered()
        self._answer(entries)

    def supersede(self) -> None:
        """End the wait without a read, since the client's session has taken a later request."""
        self._is_superseded = True
        self.force_complete()

    def on_expiration(self) -> None:
        """Count the expiry as a follower's or a consumer's."""
        self._observer.fetch_expired(self._context.params.is_follower)

    def on_cancel(self) -> None:
        """Let no event reach it any more."""
        self._left()
        self._context.answered()

    def on_error(self, error: Exception) -> None:
        """Answer every partition with UNKNOWN_SERVER_ERROR."""
        self._left()
        entries = self._reader.failed(self._context)
        self._context.answered()
        self._answer(entries)

    def _left(self) -> None:
        """Note that the operation has left the purgatory."""
        context = self._context
        if context.operation is self:
            context.operation = None
            if not context.outlives_requests:
                self._reader.release(context)
