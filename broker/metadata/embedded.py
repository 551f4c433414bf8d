"""The metadata store of a cluster in one process.

`EmbeddedStore` holds the committed image; each broker opens a view of it. Brokers share only immutable images. View and
store exchange messages over a `StoreChannel`: they arrive later and in order, or not at all while the link is cut. So
code that is written for this store works with a remote one. A decision and its commit are separate messages, so
conflicts occur as they do with a remote store.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from types import MappingProxyType
from typing import Final, Protocol

from purgatorio.broker.metadata.clients import ScramCredentials
from purgatorio.broker.metadata.image import NO_LEASE, ClusterImage
from purgatorio.broker.metadata.keys import KeyChanges, applied, committed
from purgatorio.broker.metadata.store import LeaseLost, T
from purgatorio.broker.metadata.view import Answered, Callback, CallSoon, StoreView
from purgatorio.late import dataclass
from purgatorio.purgatory.clock import Clock

LEASE_CHECK_INTERVAL_MS: Final = 50


class StoreChannel(Protocol):
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
        self._followers: dict[object, Callable[[ClusterImage, tuple[int, ...]], None]] = {}
        self._leases: dict[int, _Lease] = {}
        self._lease_ids = itertools.count(1)

    @property
    def image(self) -> ClusterImage:
        """The committed image."""
        return self._image

    def open(self, link: StoreChannel | None = None) -> EmbeddedView:
        """Open a view for one broker, which shows the committed image; by default over a `DirectLink`."""
        view = EmbeddedView(self, link or DirectLink(self._call_soon), self._call_soon)
        self._views.append(view)
        if self.lost_leases():
            self._notify(view)
        return view

    def follow(self, callback: Callable[[ClusterImage, tuple[int, ...]], None]) -> Callable[[], None]:
        """Call `callback` with each committed image and with the lost leases, at once: `served` sends them on.

        Returns:
            A function that ends it.
        """
        token = object()
        self._followers[token] = callback

        def unfollow() -> None:
            self._followers.pop(token, None)

        return unfollow

    def begin_with(self, image: ClusterImage) -> None:
        """Take a newer image for the committed one; the views hear of it as of a commit."""
        assert image.version > self._image.version, "views take no notice of an image of the same version"
        self._image = image
        self._notify_all()

    # --- leases ---

    async def run(self) -> None:
        """Expire leases until cancelled."""
        while True:
            await self._clock.sleep(LEASE_CHECK_INTERVAL_MS)
            self.expire_leases()

    def end(self, lease_ids: Iterable[int]) -> None:
        """End leases before their time: their holders are known to have ended."""
        for lease_id in lease_ids:
            self._leases.pop(lease_id, None)
        self.expire_leases()

    def expire_leases(self) -> None:
        """Remove expired leases, and notify the views of those that live brokers hold."""
        now_ms = self._clock.now_ms()
        self._leases = {key: lease for key, lease in self._leases.items() if now_ms < lease.expires_ms}
        if self.lost_leases():
            self._notify_all()

    def lost_leases(self) -> tuple[int, ...]:
        """Return the expired leases of live brokers."""
        brokers = self._image.live_brokers.values()
        return tuple(b.lease_id for b in brokers if b.lease_id != NO_LEASE and b.lease_id not in self._leases)

    def grant(self, ttl_ms: int) -> int:
        """Return a new lease."""
        lease_id = next(self._lease_ids)
        self._leases[lease_id] = _Lease(ttl_ms, self._clock.now_ms() + ttl_ms)
        return lease_id

    def keep(self, lease_id: int) -> bool:
        """Renew a lease; returns False if it has expired."""
        lease = self._leases.get(lease_id)
        if lease is not None:
            lease.expires_ms = self._clock.now_ms() + lease.ttl_ms
        return lease is not None

    # --- the committed image ---

    def _commit(self, expected: ClusterImage, proposed: ClusterImage, lease_id: int) -> tuple[bool, Exception | None]:
        """Return whether the image was committed, and the error if another attempt is useless."""
        lost = self._lease_error(lease_id)
        return (False, lost) if lost is not None else (self._compare_and_set(expected, proposed), None)

    def commit_keys(self, version: int, changed: KeyChanges, lease_id: int) -> tuple[bool, Exception | None]:
        """Commit what a decision of another process changed in the image with this version; see `_commit`.

        Args:
            changed: the keys; none: the decision changed nothing.
        """
        lost = self._lease_error(lease_id)
        if lost is not None or version != self._image.version:
            return False, lost
        if changed.puts:
            self._image = applied(self._image, committed(changed, version + 1))
            self._notify_all()
        return True, None

    def _lease_error(self, lease_id: int) -> LeaseLost | None:
        is_lost = lease_id != NO_LEASE and lease_id not in self._leases
        return LeaseLost(f"lease {lease_id} has expired") if is_lost else None

    def _compare_and_set(self, expected: ClusterImage, proposed: ClusterImage) -> bool:
        """Commit `proposed` if `expected` is still the committed image; notifies the views."""
        if expected.version != self._image.version:
            return False
        if proposed is not expected:
            self._image = proposed.with_version(expected.version + 1)
            self._notify_all()
        return True

    def _notify_all(self) -> None:
        for view in self._views:
            self._notify(view)
        for follow in list(self._followers.values()):
            follow(self._image, self.lost_leases())

    def _notify(self, view: EmbeddedView) -> None:
        """Send a view the committed image and the lost leases."""
        image, lost = self._image, self.lost_leases()
        view._link.to_broker(lambda: view._receive(image, lost))

    def _forget(self, view: EmbeddedView) -> None:
        self._views.remove(view)


class EmbeddedView(StoreView):
    """One broker's `MetadataStore` over the `EmbeddedStore` of its process."""

    def __init__(self, store: EmbeddedStore, link: StoreChannel, call_soon: CallSoon) -> None:
        super().__init__(store.image, call_soon)
        self._store = store
        self._link = link

    def grant_lease(self, ttl_ms: int, granted: Callable[[int], None]) -> None:
        self._call_store(lambda store: store.grant(ttl_ms), granted)

    def keep_lease(self, lease_id: int, kept: Callable[[bool], None]) -> None:
        self._call_store(lambda store: store.keep(lease_id), kept)

    def close(self) -> None:
        if not self._closed:
            self._store._forget(self)
            super().close()

    def _call_store(self, function: Callable[[EmbeddedStore], T], done: Callable[[T], None]) -> None:
        """Run a function at the store, and deliver its result."""

        def at_store() -> None:
            if not self._closed:
                result = function(self._store)
                self._link.to_broker(lambda: None if self._closed else self._run(done, result))

        self._link.to_store(at_store)

    def _propose(self, base: ClusterImage, proposed: ClusterImage, lease_id: int, answered: Answered) -> None:
        def at_store() -> None:
            if not self._closed:
                committed, error = self._store._commit(base, proposed, lease_id)
                latest = self._store.image
                self._link.to_broker(lambda: answered(committed, error, latest))

        self._link.to_store(at_store)
