"""One broker's view of a metadata store, wherever the store is: its pending decisions and its watchers."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from purgatorio.broker.metadata.image import NO_LEASE, ClusterImage
from purgatorio.broker.metadata.store import Decision, StoreClosed, StoreContended, StoreOverloaded, T
from purgatorio.late import dataclass

MAX_PENDING_DECISIONS: Final = 10_000
"""The most pending decisions of one broker. Each comes from one request, whose size the server limits."""

MAX_COMMIT_ATTEMPTS: Final = 100
"""The most attempts to commit one decision. At each conflict another broker succeeded, so few are needed."""

Callback = Callable[[], None]
CallSoon = Callable[[Callback], object]
Answered = Callable[[bool, Exception | None, ClusterImage], None]
"""Receives whether a proposal was committed, the error if another attempt is useless, and the latest image. It is
called after the view has received the images that were committed before."""

_logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Pending:
    """A submitted decision that is neither committed nor failed, without the type of its result."""

    decide: Callable[[ClusterImage], tuple[ClusterImage, Any]]
    done: Callable[[Any], None]
    failed: Callable[[Exception], None] | None
    lease_id: int
    attempts: int = 0


class StoreView(ABC):
    """The common part of all stores' views: decisions in their order, attempts after conflicts, and watchers.

    A store's own view adds how it is reached: `_propose`, and the leases.

    Args:
        image: the committed image.
        call_soon: runs a function in a later turn of the loop, in the order of the calls: `loop.call_soon`.
    """

    def __init__(self, image: ClusterImage, call_soon: CallSoon) -> None:
        self._call_soon = call_soon
        self._image = image
        self._watchers: dict[object, Callable[[ClusterImage], None]] = {}
        self._lease_watchers: dict[object, Callable[[int], None]] = {}
        self._pending: deque[_Pending] = deque()
        self._working = False
        self._closed = False

    @property
    def image(self) -> ClusterImage:
        """The latest image that this broker has seen."""
        return self._image

    @property
    def pending_decisions(self) -> int:
        """The number of decisions that are neither committed nor failed."""
        return len(self._pending)

    def submit(
        self,
        decide: Decision[T],
        done: Callable[[T], None],
        failed: Callable[[Exception], None] | None = None,
        *,
        lease_id: int = NO_LEASE,
    ) -> None:
        pending = _Pending(decide, done, failed, lease_id)
        if self._closed:
            self._fail_later(pending, StoreClosed("the metadata store is closed"))
        elif len(self._pending) >= MAX_PENDING_DECISIONS:
            self._fail_later(pending, StoreOverloaded(f"{MAX_PENDING_DECISIONS} metadata changes are pending"))
        else:
            self._pending.append(pending)
            if not self._working:
                self._working = True
                self._call_soon(self._decide)

    def watch(self, callback: Callable[[ClusterImage], None]) -> Callable[[], None]:
        return _add_watcher(self._watchers, callback)

    @abstractmethod
    def _propose(self, base: ClusterImage, proposed: ClusterImage, lease_id: int, answered: Answered) -> None:
        """Ask the store to commit `proposed` if `base` is the committed image, and the lease is valid."""

    def watch_lost_leases(self, callback: Callable[[int], None]) -> Callable[[], None]:
        return _add_watcher(self._lease_watchers, callback)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._watchers.clear()
        self._lease_watchers.clear()
        while self._pending:
            self._fail_later(self._pending.popleft(), StoreClosed("the metadata store was closed"))

    def _decide(self) -> None:
        """Make the first pending decision, on the image that this broker has seen."""
        if not self._pending:
            self._working = False
            return
        pending = self._pending[0]
        base = self._image
        try:
            proposed, result = pending.decide(base)
        except Exception as error:
            # Any error of a decision concerns one request only; the decisions behind it must go on.
            self._pending.popleft()
            self._fail_later(pending, error)
            self._call_soon(self._decide)
            return

        def answered(committed: bool, error: Exception | None, latest: ClusterImage) -> None:
            self._committed(pending, committed, error, result, latest)

        self._propose(base, proposed, pending.lease_id, answered)

    def _committed(
        self, pending: _Pending, committed: bool, error: Exception | None, result: Any, latest: ClusterImage
    ) -> None:
        """Handle the store's answer; the view has received the committed image before it."""
        if self._closed:
            return
        self._pending.popleft()
        if committed:
            self._run(pending.done, result)
        elif error is not None:
            self._fail_later(pending, error)
        else:
            self._retry_after_conflict(pending, latest)
            self._decide()
            return
        # After a conflict a broker decides again at once, after a commit a turn later: so no broker loses for ever.
        self._call_soon(self._decide)

    def _retry_after_conflict(self, pending: _Pending, latest: ClusterImage) -> None:
        pending.attempts += 1
        if pending.attempts >= MAX_COMMIT_ATTEMPTS:
            self._fail_later(pending, StoreContended(f"{pending.attempts} attempts conflicted with other changes"))
        else:
            self._pending.appendleft(pending)
        self._adopt(latest)

    def _receive(self, image: ClusterImage, lost_leases: tuple[int, ...]) -> None:
        """Handle the store's notification: the committed image and lost leases as of when it was sent."""
        self._adopt(image)
        for lease_id in lost_leases:
            for token, watcher in list(self._lease_watchers.items()):
                if token in self._lease_watchers:
                    self._run(watcher, lease_id)

    def _adopt(self, image: ClusterImage) -> None:
        """Adopt a newer image, and call the watchers."""
        if self._closed or image.version <= self._image.version:
            return
        self._image = image
        for token, watcher in list(self._watchers.items()):
            if token in self._watchers:
                self._run(watcher, image)

    def _fail_later(self, pending: _Pending, error: Exception) -> None:
        if pending.failed is None:
            _logger.error("a metadata change failed: %s", error, exc_info=error)
            return
        failed = pending.failed
        self._call_soon(lambda: self._run(failed, error))

    @staticmethod
    def _run(callback: Callable[[Any], None], argument: Any) -> None:
        """Run a callback; if it raises, the other callbacks must still run."""
        try:
            callback(argument)
        except Exception:
            # Any error of a callback is a bug of its owner; it is logged with its traceback and not raised.
            _logger.exception("a callback of the metadata store failed")


def _add_watcher(watchers: dict[object, Callable[[T], None]], callback: Callable[[T], None]) -> Callable[[], None]:
    """Add a watcher; returns a function that removes it."""
    token = object()
    watchers[token] = callback

    def unwatch() -> None:
        watchers.pop(token, None)

    return unwatch
