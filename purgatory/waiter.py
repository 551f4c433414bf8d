"""Waiting in a purgatory from asyncio code: the operation behind `Purgatory.wait`, and the loop around it."""

# compiled: docs/compiled.md

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from .delayed_operation import DelayedOperation, Outcome
from .timer import whole_ms


class Parking(Protocol):
    """The methods of `Purgatory` that a wait uses."""

    name: str

    def try_complete_else_watch(self, operation: Any, keys: Sequence[Hashable], /) -> bool:
        """Answer the operation, or park it under the keys."""

    def cancel(self, operation: Any, /) -> bool:
        """Take the operation out, if it is parked."""


class WaitAborted(Exception):
    """A `Purgatory.wait` ended without an event and before its deadline.

    Attributes:
        outcome: "shutdown" if the purgatory was shut down, "cancelled" if `cancel_for_key` or `cancel` took the wait
            out of the purgatory. (If the waiting task itself is cancelled, `wait` raises `asyncio.CancelledError`.)
    """

    def __init__(self, message: str, outcome: Literal["cancelled", "shutdown"]) -> None:
        super().__init__(message)
        self.outcome = outcome


@dataclass(frozen=True)
class Unmet:
    """A task waits for an event, or for one after which its condition holds."""

    has_condition: bool

    def __str__(self) -> str:
        return "the condition does not hold yet" if self.has_condition else "no event yet"


class Waiter(DelayedOperation):
    """An operation whose answer wakes one asyncio task.

    The future gets the outcome as its result and never an exception: asyncio would log an exception that the task, if
    it is cancelled in the meantime, never retrieves.

    Args:
        delay_ms: as of any operation.
        until: completes the operation when it returns a true value; without it, the first event after `arm` does.
    """

    __slots__ = ("_armed", "_expiring", "_until", "ended", "error")

    ended: asyncio.Future[Outcome]
    """Done when the operation has ended; cancelled if the waiting task is."""
    error: Exception | None
    """The exception that `until` raised."""

    def __init__(self, delay_ms: int, until: Callable[[], object] | None) -> None:
        super().__init__(delay_ms)
        self.ended = asyncio.get_running_loop().create_future()
        self.error = None
        self._until = until
        self._armed = False
        self._expiring = False

    def arm(self) -> None:
        """From now on a check means an event: the two checks on arrival are over."""
        self._armed = True

    def try_complete(self) -> bool:
        """Complete if `until` holds or fails; without `until`, if an event has come."""
        try:
            met = self._armed if self._until is None else bool(self._until())
        except Exception as error:  # raised in the waiting task, as if the task had called `until` itself
            self.error = error
            met = True
        return met and self.force_complete()

    def expire(self) -> bool:
        """Complete as the deadline does, and remember that it did."""
        self._expiring = not self.completed
        return super().expire()

    def on_complete(self) -> None:
        """Wake the task."""
        self._end("error" if self.error is not None else "expired" if self._expiring else "completed")

    def on_shutdown(self) -> None:
        """Wake the task, which raises `WaitAborted`."""
        self._end("shutdown")

    def on_cancel(self) -> None:
        """Wake the task, which raises `WaitAborted`, unless the task took the operation out itself."""
        self._end("cancelled")

    def causes(self) -> tuple[Unmet]:
        """Return whether the task waits for an event or a condition."""
        return (Unmet(has_condition=self._until is not None),)

    def _end(self, outcome: Outcome) -> None:
        if not self.ended.done():  # it is done if the waiting task was cancelled, and has not run since
            self.ended.set_result(outcome)


async def wait_in(
    purgatory: Parking,
    now_ms: Callable[[], int],
    keys: tuple[Hashable, ...],
    timeout_ms: int,
    until: Callable[[], Any] | None,
) -> Any:
    """Wait as `Purgatory.wait` describes.

    Another task may run between the event and the waiting task, and make the condition false again; then the wait goes
    on with the time that is left.
    """
    left_ms = whole_ms(timeout_ms)
    deadline_ms = now_ms() + left_ms
    while True:
        waiter = Waiter(left_ms, until)
        purgatory.try_complete_else_watch(waiter, keys)
        waiter.arm()
        try:
            outcome = await waiter.ended
        finally:
            purgatory.cancel(waiter)
        if outcome == "expired":
            raise TimeoutError(f"{purgatory.name}: {waiter.causes()[0]} on {keys!r} after {timeout_ms} ms")
        if outcome == "shutdown" or outcome == "cancelled":
            raise WaitAborted(f"{purgatory.name}: the wait on {keys!r} ended: {outcome}", outcome)
        if waiter.error is not None:
            raise waiter.error
        if until is None:
            return None
        if value := until():
            return value
        left_ms = deadline_ms - now_ms()
