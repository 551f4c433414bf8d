"""The delayed operation of a request that a fault rule delays, holds, or never answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from purgatorio.broker.causes.cause import FaultActs
from purgatorio.broker.causes.words import in_words
from purgatorio.broker.routing.request import Channel, Reply
from purgatorio.purgatory import DelayedOperation

HOLD_MS: Final = 3_600_000
"""The longest that a request is held or kept without an answer; clients give up much earlier."""


class FaultedRequest(DelayedOperation):
    """A request that waits because a rule says so.

    Args:
        delay_ms: how long it waits if it is not released.
        cause: why it waits.
        reply: the request's.
        go_on: begins the work; None: the request is never answered, and its connection is closed at the deadline.
        muted: the request's connection, which starts no further request before this one goes on: the work of pipelined
            requests is done in their order.
    """

    __slots__ = ("_cause", "_go_on", "_muted", "_reply")

    def __init__(
        self, delay_ms: int, cause: FaultActs, reply: Reply, go_on: Callable[[], None] | None, muted: Channel | None
    ) -> None:
        super().__init__(delay_ms)
        self._muted = muted
        self._cause = cause
        self._reply = reply
        self._go_on = go_on

    def try_complete(self) -> bool:
        """Wait on: no event ends the wait but the deadline or `force_complete`."""
        return False

    def on_complete(self) -> None:
        """Begin the work, and then, in a later turn, that of the requests behind."""
        if self._muted is not None:
            self._muted.unmute()
        if self._go_on is not None:
            self._go_on()
        else:
            self._reply.close(f"its time is over: {in_words(self.causes())}")

    def on_shutdown(self) -> None:
        """Close the connection: the client asks another broker."""
        self._reply.close("the broker stops")

    def on_error(self, error: Exception) -> None:
        """Close the connection: the handler failed, and may have answered a part."""
        self._reply.close(f"the request failed after it had waited: {type(error).__name__}")

    def causes(self) -> tuple[FaultActs]:
        """Return which rule the request waits for."""
        return (self._cause,)
