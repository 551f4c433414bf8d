"""The metadata store of a cluster in one process.

`EmbeddedStore` holds the committed image; each broker opens a view of it. Brokers share only immutable images. View and
store exchange messages over a `Link`: they arrive later and in order, or not at all while the link is cut. So code that
is written for this store works with a remote one. A decision and its commit are separate messages, so conflicts occur
as they do with a remote store.
"""

from __future__ import annotations

import itertools
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Protocol

from purgatorio.broker.metadata.clients import ScramCredentials
from purgatorio.broker.metadata.image import NO_LEASE, ClusterImage
from purgatorio.broker.metadata.store import Decision, LeaseLost, StoreClosed, StoreContended, StoreOverloaded, T
from purgatorio.broker.time.clock import Clock

MAX_PENDING_DECISIONS: Final = 10_000
"""The most pending decisions of one broker. Each comes from one request, whose size the server limits."""

MAX_COMMIT_ATTEMPTS: Final = 100
"""The most attempts to commit one decision. At each conflict another broker succeeded, so few are needed."""

LEASE_CHECK_INTERVAL_MS: Final = 50

Callback = Callable[[], None]
CallSoon = Callable[[Callback], object]

_logger = logging.getLogger(__name__)


class Link(Protocol):
    """Carries messages between a broker and the store: in order, and after the call has returned."""

    def to_store(self, deliver: Callback) -> None:
        """Carry a message to the store, and run `deliver` there."""
        ...

    def to_broker(self, deliver: Callback) -> None:
        """Carry a message to the broker, and run `deliver` there."""
        ...


class DirectLink:
    """A link within one event loop: a message arrives in a later turn, or when a hold ends.

    Args:
        call_soon: runs a function in a later turn of the loop, in the order of the calls: `loop.call_soon`.
    """

    def __init__(self, call_soon: CallSoon) -> None:
        self._call_soon = call_soon
        self._kept: list[Callback] | None = None

    def to_store(self, deliver: Callback) -> None:
        self._send(deliver)

    def to_broker(self, deliver: Callback) -> None:
        self._send(deliver)

    def _send(self, deliver: Callback) -> None:
        if self._kept is None:
            self._call_soon(deliver)
        else:
            self._kept.append(deliver)

    def hold(self) -> None:
        """Keep all messages until `release`: the broker and the store do not reach each other."""
        if self._kept is None:
            self._kept = []

    def release(self) -> None:
        """Deliver what was kept, in order, and go on."""
        kept, self._kept = self._kept or [], None
        for deliver in kept:
            self._call_soon(deliver)


@dataclass(slots=True, eq=False)
class _Pending:
    """A submitted decision that is neither committed nor failed, without the type of its result."""

    decide: Callable[[ClusterImage], tuple[ClusterImage, Any]]
    done: Callable[[Any], None]
    failed: Callable[[Exception], None] | None
    lease_id: int
    attempts: int = 0


@dataclass(slots=True)
class _Lease:
    ttl_ms: int
    expires_ms: int


class EmbeddedStore:
    """The metadata store of one process.

    Args:
        call_soon: runs a function in a later turn of the loop, in the order of the calls: `loop.call_soon`.
        clock: times leases. Brokers that share a process use a `RunningClock`: leases must not expire while the
            process is suspended.
        version: the version of the first image, which is empty but for `credentials`.
        credentials: the cluster's first users.
    """

    def __init__(
        self,
        cluster_id: str,
        call_soon: CallSoon,
        clock: Clock,
        version: int = 0,
        credentials: ScramCredentials = MappingProxyType({}),
    ) -> None:
        self._call_soon = call_soon
        self._clock = clock
        self._image = ClusterImage(version=version, cluster_id=cluster_id, scram_credentials=credentials)
        self._views: list[EmbeddedView] = []
        self._leases: dict[int, _Lease] = {}
        self._lease_ids = itertools.count(1)

    @property
    def image(self) -> ClusterImage:
        """The committed image."""
        return self._image

    def open(self, link: Link | None = None) -> EmbeddedView:
        """Open a view for one broker, which shows the committed image; by default over a `DirectLink`."""
        view = EmbeddedView(self, link or DirectLink(self._call_soon), self._call_soon)
        self._views.append(view)
        if self._lost_leases():
            self._notify(view)
        return view

    # --- leases ---

    async def run(self) -> None:
        """Expire leases until cancelled."""
        while True:
            await self._clock.sleep(LEASE_CHECK_INTERVAL_MS)
            self.expire_leases()

    def expire_leases(self) -> None:
        """Remove expired leases, and notify the views of those that live brokers hold."""
        now_ms = self._clock.now_ms()
        self._leases = {key: lease for key, lease in self._leases.items() if now_ms < lease.expires_ms}
        if self._lost_leases():
            for view in self._views:
                self._notify(view)

    def _lost_leases(self) -> tuple[int, ...]:
        brokers = self._image.live_brokers.values()
        return tuple(b.lease_id for b in brokers if b.lease_id != NO_LEASE and b.lease_id not in self._leases)

    def _grant(self, ttl_ms: int) -> int:
        lease_id = next(self._lease_ids)
        self._leases[lease_id] = _Lease(ttl_ms, self._clock.now_ms() + ttl_ms)
        return lease_id

    def _keep(self, lease_id: int) -> bool:
        lease = self._leases.get(lease_id)
        if lease is not None:
            lease.expires_ms = self._clock.now_ms() + lease.ttl_ms
        return lease is not None

    # --- the committed image ---

    def _commit(self, expected: ClusterImage, proposed: ClusterImage, lease_id: int) -> tuple[bool, Exception | None]:
        """Return whether the image was committed, and the error if another attempt is useless."""
        if lease_id != NO_LEASE and lease_id not in self._leases:
            return False, LeaseLost(f"lease {lease_id} has expired")
        return self._compare_and_set(expected, proposed), None

    def _compare_and_set(self, expected: ClusterImage, proposed: ClusterImage) -> bool:
        """Commit `proposed` if `expected` is still the committed image; notifies the views."""
        if expected.version != self._image.version:
            return False
        if proposed is not expected:
            self._image = proposed.with_version(expected.version + 1)
            for view in self._views:
                self._notify(view)
        return True

    def _notify(self, view: EmbeddedView) -> None:
        """Send a view the committed image and the lost leases."""
        image, lost = self._image, self._lost_leases()
        view._link.to_broker(lambda: view._receive(image, lost))

    def _forget(self, view: EmbeddedView) -> None:
        self._views.remove(view)


class EmbeddedView:
    """One broker's `MetadataStore` over the `EmbeddedStore` of its process."""

    def __init__(self, store: EmbeddedStore, link: Link, call_soon: CallSoon) -> None:
        self._store = store
        self._link = link
        self._call_soon = call_soon
        self._image = store.image
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

    def grant_lease(self, ttl_ms: int, granted: Callable[[int], None]) -> None:
        self._call_store(lambda store: store._grant(ttl_ms), granted)

    def keep_lease(self, lease_id: int, kept: Callable[[bool], None]) -> None:
        self._call_store(lambda store: store._keep(lease_id), kept)

    def watch_lost_leases(self, callback: Callable[[int], None]) -> Callable[[], None]:
        return _add_watcher(self._lease_watchers, callback)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._store._forget(self)
        self._watchers.clear()
        self._lease_watchers.clear()
        while self._pending:
            self._fail_later(self._pending.popleft(), StoreClosed("the metadata store was closed"))

    def _call_store(self, function: Callable[[EmbeddedStore], T], done: Callable[[T], None]) -> None:
        """Run a function at the store, and deliver its result."""

        def at_store() -> None:
            if not self._closed:
                result = function(self._store)
                self._link.to_broker(lambda: None if self._closed else self._run(done, result))

        self._link.to_store(at_store)

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

        def at_store() -> None:
            if self._closed:
                return
            committed, error = self._store._commit(base, proposed, pending.lease_id)
            latest = self._store.image
            self._link.to_broker(lambda: self._committed(pending, committed, error, result, latest))

        self._link.to_store(at_store)

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
