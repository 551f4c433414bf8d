"""Events of listeners and connections, for metrics."""

from __future__ import annotations

from typing import Protocol

from purgatorio.broker.server.limits import Refusal


class ServerObserver(Protocol):
    """Counts the events of a listener. The methods are on the hot path: they must be cheap and must not raise."""

    def connection_opened(self) -> None:
        """A connection was accepted."""
        ...

    def connection_closed(self) -> None:
        """An accepted connection is gone."""
        ...

    def refused(self, reason: Refusal) -> None:
        """A connection or a request was refused, so the connection closes."""
        ...

    def bytes_in(self, size_bytes: int) -> None:
        """Bytes were received; called once per chunk."""
        ...

    def bytes_out(self, size_bytes: int) -> None:
        """Bytes were given to the transport; called once per batch of answers."""
        ...

    def request(self, api_key: int, api_version: int, seconds: float) -> None:
        """A request was answered (or needed no answer), this long after its last byte was received.

        The time includes parking, and waiting for the answers of earlier requests of the connection.
        """
        ...
