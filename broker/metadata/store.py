"""The interface of the metadata store, which holds the committed image of the cluster.

Each broker has a `MetadataStore` of its own. It acts on the image that this store last showed it, and changes the
committed image by submitting decisions. Callers must not rely on whether the committed image is in this process or on
other machines: callbacks run after the call has returned, a broker may see its own change later than another broker
does, and while the store is unreachable no callback runs at all. A caller that needs a time limit sets its own.

Leases show which brokers are alive. A lease expires a fixed time after it was granted or last kept, by the store's
clock. An expired lease is never valid again, so that fencing its broker stays correct.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeVar

from purgatorio.broker.metadata.image import NO_LEASE, ClusterImage

T = TypeVar("T")

Decision = Callable[[ClusterImage], tuple[ClusterImage, T]]
"""Derives a new image and a result. A decision that changes nothing returns the image that it was given.

A decision may be called several times, each time on a newer image, until its new image is committed; so it must have no
side effects.
"""


class StoreError(Exception):
    """A submitted decision was not committed. After `StoreClosed` alone it may have been committed all the same."""


class StoreClosed(StoreError):
    """The store was closed before the outcome of the decision was known."""


class StoreOverloaded(StoreError):
    """Too many decisions are pending."""


class StoreContended(StoreError):
    """Other brokers' changes were committed first at every attempt."""


class LeaseLost(StoreError):
    """The lease that the decision depends on has expired."""


class MetadataStore(Protocol):
    """One broker's access to the metadata store."""

    @property
    def image(self) -> ClusterImage:
        """The latest image that this broker has seen; its version never decreases."""
        ...

    def submit(
        self,
        decide: Decision[T],
        done: Callable[[T], None],
        failed: Callable[[Exception], None] | None = None,
        *,
        lease_id: int = NO_LEASE,
    ) -> None:
        """Change the committed image by compare-and-set; decide again on a newer image after a conflict.

        Decisions of one broker are made in the order of their submission. At most one of the callbacks is called, once,
        after `submit` has returned.

        Args:
            done: receives the decision's result when `image` shows the change and the watchers have been called; or,
                if the decision changes nothing, when the store has confirmed that it saw the committed image.
            failed: receives a `StoreError`, or the exception that `decide` raised. Without it a failure is logged.
            lease_id: commit only while this lease is valid, else fail with `LeaseLost`.
        """
        ...

    def watch(self, callback: Callable[[ClusterImage], None]) -> Callable[[], None]:
        """Call `callback` with every new image that this broker sees; intermediate images may be skipped.

        Returns:
            A function that ends the watch at once; further calls are no-ops.
        """
        ...

    def grant_lease(self, ttl_ms: int, granted: Callable[[int], None]) -> None:
        """Request a new lease that expires after `ttl_ms`; `granted` receives its id."""
        ...

    def keep_lease(self, lease_id: int, kept: Callable[[bool], None]) -> None:
        """Renew a lease for its full time; `kept` receives False if it had expired."""
        ...

    def watch_lost_leases(self, callback: Callable[[int], None]) -> Callable[[], None]:
        """Call `callback` with each expired lease of a live broker in the committed image.

        It may be called again for the same lease, until its broker is fenced or gone.

        Returns:
            A function that ends the watch.
        """
        ...

    def close(self) -> None:
        """Deliver no further image; pending decisions fail with `StoreClosed`. Further calls are no-ops."""
        ...


async def decide(store: MetadataStore, decision: Decision[T], *, lease_id: int = NO_LEASE) -> T:
    """Submit a decision, and return its result when `store` shows the change; see `MetadataStore.submit`.

    Raises:
        StoreError: it was not committed.
        Exception: what the decision raised.
    """
    answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def done(result: T) -> None:
        if not answer.done():  # else the waiting task was cancelled
            answer.set_result(result)

    def failed(error: Exception) -> None:
        if not answer.done():
            answer.set_exception(error)

    store.submit(decision, done, failed, lease_id=lease_id)
    return await answer
