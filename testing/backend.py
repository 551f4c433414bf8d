"""How a test's cluster does operations: in its own event loop (`in_loop.py`), or as processes (`over_http.py`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from purgatorio.admin.operations.declare import Answer, Operation, Readable

if TYPE_CHECKING:
    from purgatorio.admin.cluster import Cluster
    from purgatorio.broker.layers.faults import AnyLive
    from purgatorio.testing.timeline import Timeline

R = TypeVar("R")


class Backend(Protocol):
    """Does operations on a cluster. All methods but `load` run in its event loop."""

    @property
    def timeline(self) -> Timeline:
        """The last changes of leaders and in-sync replicas."""

    @property
    def bootstrap(self) -> str:
        """The brokers' addresses, with commas between."""

    @property
    def cluster(self) -> Cluster:
        """The brokers' objects; a ValueError with a sentence if they are other processes."""

    def load(self, operations: Iterable[type[Operation]]) -> None:
        """Import what operations import when they are done."""

    async def ask(self, operation: Operation) -> Answer:
        """Do an operation, and return its answer; a leader that is to be elected is waited for.

        Raises:
            ValueError: it is refused, with the cluster's sentence.
            TimeoutError: records that it has appended are not replicated in time.
        """

    async def read(self, operation: Readable[R]) -> list[R]:
        """Return what an operation reads, with bytes and causes as they are at hand. Raises as `ask`."""

    async def admin_url(self) -> str:
        """Return the URL of the admin HTTP."""

    async def end(self) -> None:
        """End the cluster."""

    def fault_rules(self) -> tuple[Sequence[AnyLive], Sequence[AnyLive]]:
        """Return the fault rules, and those of them that are from the start on."""
