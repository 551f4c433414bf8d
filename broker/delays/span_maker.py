"""What makes spans of a broker's delayed operations, and what it is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from purgatorio.broker.replica.producing.delayed_produce import PendingAck
from purgatorio.purgatory import FinishedOperation

Watch = Callable[[FinishedOperation], None]
WatchAcks = Callable[[int, Sequence[PendingAck]], None]
"""Called with the id of a produce request that waits for the in-sync replicas, and with what it waits for."""


class Spans(Protocol):
    """Makes spans of a broker's operations."""

    @property
    def watch_acks(self) -> WatchAcks | None:
        """Return what is told of produce requests that wait; None: nothing needs to know."""

    def also(self, watch: Watch) -> Watch:
        """Return what is to be called with each operation that has ended, which calls `watch` as well."""

    async def close(self) -> None:
        """Send what has not been sent yet, within a limit of time, and stop."""
