"""The delayed operation of a call that failed: it is made again after a while, or when the coordinator has moved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from purgatorio.broker.causes.cause import ShareCoordinatorFailed
from purgatorio.broker.metadata.image import NO_LEADER
from purgatorio.broker.share.persisting.calls import Call
from purgatorio.protocol.errors import ErrorCode
from purgatorio.purgatory import DelayedOperation

PURGATORY: Final = "Persister"
"""Where these operations wait."""


class DelayedRetry(DelayedOperation):
    """A call that waits until it is made again.

    Args:
        has_moved: whether the call has another coordinator than the one that was asked.
        again: makes the call again; the second argument tells whether the time of the wait is over.
        give_up: ends the call with an error.
        cause: returns what the coordinator answered.
    """

    __slots__ = ("_again", "_call", "_cause", "_give_up", "_has_moved")

    def __init__(
        self,
        delay_ms: int,
        call: Call,
        *,
        has_moved: Callable[[Call], bool],
        again: Callable[[Call, bool], None],
        give_up: Callable[[Call, ErrorCode], None],
        cause: Callable[[Call], ShareCoordinatorFailed],
    ) -> None:
        super().__init__(delay_ms)
        self._call = call
        self._has_moved = has_moved
        self._again = again
        self._give_up = give_up
        self._cause = cause

    def try_complete(self) -> bool:
        """Complete when another broker coordinates the share partition."""
        return self._has_moved(self._call) and self.force_complete()

    def on_complete(self) -> None:
        """Make the call again."""
        self._again(self._call, not self._has_moved(self._call))

    def on_shutdown(self) -> None:
        """End the call: the broker stops."""
        self._give_up(self._call, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def on_error(self, error: Exception) -> None:
        """End the call with UNKNOWN_SERVER_ERROR."""
        self._give_up(self._call, ErrorCode.UNKNOWN_SERVER_ERROR)

    def causes(self) -> tuple[ShareCoordinatorFailed]:
        """Return what the coordinator answered."""
        return (self._cause(self._call),)

    def held_by(self) -> tuple[int, ...]:
        """Return the broker that coordinates the share partition, as far as it is known."""
        return () if self._call.asked == NO_LEADER else (self._call.asked,)
