"""The interface that makes spans of a broker's delayed operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from purgatorio.broker.replica.producing.writes import WatchAcks
from purgatorio.purgatory import FinishedOperation

Watch = Callable[[FinishedOperation], None]


class Spans(Protocol):
    """Makes spans of a broker's operations."""

    @property
    def watch_acks(self) -> WatchAcks | None:
        """Return the observer of produce requests that wait; None: there is none."""

    def also(self, watch: Watch) -> Watch:
        """Return a function to call with each operation that has ended; it calls `watch` as well."""

    async def close(self) -> None:
        """Send what has not been sent yet, within a limit of time, and stop."""
