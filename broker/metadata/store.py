"""The interface behind which the truth about the cluster is kept.

A broker holds a `MetadataStore` of its own. It acts on the image that this store last showed it, and changes the truth
by submitting decisions. Whether the truth lives in this process or on other machines must not matter above this line:
nothing is delivered before the call that asked for it has returned, a broker may see its own change later than another
broker does, and while the store cannot be reached nothing is delivered at all: who must not wait for ever sets a time
limit of its own.

Leases tell who lives. A lease lasts for a time after it was granted or kept alive last, by the store's clock; once it
has run out it never comes back, so that what was done about its end stays right.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from purgatorio.broker.metadata.image import NO_LEASE, ClusterImage

T = TypeVar("T")

Decision = Callable[[ClusterImage], tuple[ClusterImage, T]]
"""Derives a new image and a result. Returning the very image it was given means that nothing changes.

A decision may be called several times, on newer images, until one of its proposals is committed, so it must do nothing
but decide.
"""


class StoreError(Exception):
    """A submitted decision was not committed; but for `StoreClosed`, the cluster is unchanged by it."""


class StoreClosed(StoreError):
    """The store was closed before it told what became of the decision."""


class StoreOverloaded(StoreError):
    """Too many decisions wait already."""


class StoreContended(StoreError):
    """Other brokers' changes came first, time after time."""


class LeaseLost(StoreError):
    """The lease that the decision depends on has run out."""


class MetadataStore(Protocol):
    """One broker's access to the truth about the cluster."""

    @property
    def image(self) -> ClusterImage:
        """The latest image that this broker has seen; its version never goes back."""
        ...

    def submit(
        self,
        decide: Decision[T],
        done: Callable[[T], None],
        failed: Callable[[Exception], None] | None = None,
        *,
        lease_id: int = NO_LEASE,
    ) -> None:
        """Change the truth: decide, compare, set; and again on a newer image when somebody else was faster.

        Decisions of one broker are taken in the order of their submission. At most one of the callbacks is called, once
        and never before `submit` has returned.

        Args:
            decide: the decision.
            done: receives the decision's result when `image` shows the change and the watchers have seen it; or, if
                the decision changes nothing, when that is confirmed to rest on the latest image.
            failed: receives a `StoreError`, or what `decide` raised. Without it the failure is only logged.
            lease_id: commit only while this lease lasts, else fail with `LeaseLost`.
        """
        ...

    def watch(self, callback: Callable[[ClusterImage], None]) -> Callable[[], None]:
        """Call back with every new image that this broker sees, from now on; images in between may be skipped.

        Returns:
            A function that ends the watch, at once and for good; calling it again does nothing.
        """
        ...

    def grant_lease(self, ttl_ms: int, granted: Callable[[int], None]) -> None:
        """Ask for a new lease that lasts for `ttl_ms`; `granted` receives its id."""
        ...

    def keep_lease(self, lease_id: int, kept: Callable[[bool], None]) -> None:
        """Let a lease begin anew; `kept` receives whether it still lasted."""
        ...

    def watch_lost_leases(self, callback: Callable[[int], None]) -> Callable[[], None]:
        """Call back with each lease that a broker of the image relies on and that has run out.

        The callback may come again for the same lease, until no broker that is not fenced relies on it.

        Returns:
            A function that ends the watch.
        """
        ...

    def close(self) -> None:
        """Deliver no further image; decisions whose outcome is not known yet fail with `StoreClosed`.

        May be called again.
        """
        ...
