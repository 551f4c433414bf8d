"""The metadata store of a cluster that lives in one process.

`EmbeddedStore` holds the truth; each broker opens a view of it. Brokers share nothing but immutable images, and
everything arrives through the event loop, one turn or more after it was asked for, so that code written against this
store works against a remote one. Between a decision and its commit lies a turn of the loop too: conflicts are real here
as they are there.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from broker.metadata.image import ClusterImage
from broker.metadata.store import Decision, StoreClosed, StoreContended, StoreOverloaded, T

MAX_PENDING_DECISIONS: Final = 10_000
"""Decisions of one broker that may wait. Each is one administrative request, whose size the server bounds."""

MAX_COMMIT_ATTEMPTS: Final = 100
"""Attempts to commit one decision. Each conflict means that another broker got on, so a handful is the rule."""

CallSoon = Callable[[Callable[[], None]], object]

_logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Pending:
    """A decision that waits for its turn or for its commit, its type erased."""

    decide: Callable[[ClusterImage], tuple[ClusterImage, Any]]
    done: Callable[[Any], None]
    failed: Callable[[Exception], None] | None
    attempts: int = 0


class EmbeddedStore:
    """The truth of one process.

    Args:
        cluster_id: the cluster's name for itself, which clients see.
        call_soon: runs a function in a later turn of the loop, in the order of the calls: `loop.call_soon`.
    """

    def __init__(self, cluster_id: str, call_soon: CallSoon) -> None:
        self._call_soon = call_soon
        self._image = ClusterImage(version=0, cluster_id=cluster_id)
        self._views: list[EmbeddedView] = []

    @property
    def image(self) -> ClusterImage:
        """The truth."""
        return self._image

    def open(self) -> EmbeddedView:
        """Open a view for one broker; it has seen the present image."""
        view = EmbeddedView(self, self._call_soon)
        self._views.append(view)
        return view

    def _compare_and_set(self, expected: ClusterImage, proposed: ClusterImage) -> bool:
        """Make `proposed` the truth if `expected` still is; tells the views later."""
        if expected.version != self._image.version:
            return False
        if proposed is not expected:
            self._image = proposed.with_version(expected.version + 1)
            for view in self._views:
                view._notify()
        return True

    def _forget(self, view: EmbeddedView) -> None:
        self._views.remove(view)


class EmbeddedView:
    """One broker's `MetadataStore` over the `EmbeddedStore` of its process."""

    def __init__(self, store: EmbeddedStore, call_soon: CallSoon) -> None:
        self._store = store
        self._call_soon = call_soon
        self._image = store.image
        self._watchers: dict[object, Callable[[ClusterImage], None]] = {}
        self._pending: deque[_Pending] = deque()
        self._working = False
        self._notified = False
        self._closed = False

    @property
    def image(self) -> ClusterImage:
        """The latest image that this broker has seen."""
        return self._image

    @property
    def pending_decisions(self) -> int:
        """Decisions that are submitted and neither committed nor failed."""
        return len(self._pending)

    def submit(
        self,
        decide: Decision[T],
        done: Callable[[T], None],
        failed: Callable[[Exception], None] | None = None,
    ) -> None:
        """See `MetadataStore.submit`."""
        pending = _Pending(decide, done, failed)
        if self._closed:
            self._fail_later(pending, StoreClosed("the metadata store is closed"))
        elif len(self._pending) >= MAX_PENDING_DECISIONS:
            self._fail_later(pending, StoreOverloaded(f"{MAX_PENDING_DECISIONS} metadata changes wait already"))
        else:
            self._pending.append(pending)
            if not self._working:
                self._working = True
                self._call_soon(self._decide)

    def watch(self, callback: Callable[[ClusterImage], None]) -> Callable[[], None]:
        """See `MetadataStore.watch`."""
        token = object()
        self._watchers[token] = callback

        def unwatch() -> None:
            self._watchers.pop(token, None)

        return unwatch

    def close(self) -> None:
        """See `MetadataStore.close`."""
        if self._closed:
            return
        self._closed = True
        self._store._forget(self)
        self._watchers.clear()
        while self._pending:
            self._fail_later(self._pending.popleft(), StoreClosed("the metadata store was closed"))

    def _decide(self) -> None:
        """Take the decision that is first in line, on the image that this broker has seen."""
        if not self._pending:
            self._working = False
            return
        pending = self._pending[0]
        base = self._image
        try:
            proposed, result = pending.decide(base)
        except Exception as error:
            # Whatever it is, it concerns one request; the decisions behind it must go on.
            self._pending.popleft()
            self._fail_later(pending, error)
            self._call_soon(self._decide)
            return
        self._call_soon(lambda: self._commit(pending, base, proposed, result))

    def _commit(self, pending: _Pending, base: ClusterImage, proposed: ClusterImage, result: Any) -> None:
        if self._closed:
            return
        if self._store._compare_and_set(base, proposed):
            self._pending.popleft()
            # The store's notification came first, so this view shows the change by then.
            self._call_soon(lambda: self._run(pending.done, result))
            self._call_soon(self._decide)
            return
        pending.attempts += 1
        if pending.attempts >= MAX_COMMIT_ATTEMPTS:
            self._pending.popleft()
            self._fail_later(pending, StoreContended(f"lost {pending.attempts} races against other changes"))
        self._catch_up()
        self._decide()

    def _notify(self) -> None:
        if not self._notified:
            self._notified = True
            self._call_soon(self._catch_up)

    def _catch_up(self) -> None:
        """See the truth as it is now, and show it to the watchers."""
        self._notified = False
        if self._closed or self._image.version == self._store.image.version:
            return
        self._image = image = self._store.image
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
        """Run a callback; one that breaks must not keep the others from learning of a change."""
        try:
            callback(argument)
        except Exception:
            # Any error of a watcher is a bug of its own; it is logged with its traceback and goes no further.
            _logger.exception("a callback of the metadata store failed")
