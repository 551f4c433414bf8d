"""A delayed operation: a request that waits for a condition or a deadline, and is answered once, by the first of them.

Kafka guards the race of the two with a lock and a compare-and-set (KAFKA-385). Here all code that changes state is
plain functions in one thread. Nothing interleaves, and `completed` is a bool that every way to complete checks first.
"""

# compiled: docs/compiled.md

from __future__ import annotations

import logging
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, Protocol

from .native import mypyc_attr
from .timing_wheel import TimerEntry

Outcome = Literal["completed", "expired", "cancelled", "shutdown", "error"]
"""How an operation ended.

* completed: its condition was met, or `force_complete` was called
* expired: the deadline came first
* cancelled: `Purgatory.cancel` or `cancel_for_key` took it out
* shutdown: its purgatory was shut down
* error: its own code raised an exception
"""


class FinishedOperation(NamedTuple):
    """How one parked operation ended, for a timeline or an event log. Times are those of the purgatory's clock."""

    id: int
    purgatory: str
    keys: tuple[Hashable, ...]
    parked_ms: int
    done_ms: int
    deadline_ms: int
    outcome: Outcome
    cause: str
    """The event that completed it, as passed to `check_and_complete`. Without an event, the outcome."""
    checks: int
    causes: Sequence[Any]
    """The condition that it still missed if it ended unmet; of many causes the first `MAX_CAUSES`, and their number."""
    error: str
    """The exception, if it failed; otherwise empty."""
    client: str
    """The client that sent the request; empty if unknown."""
    held_by: tuple[Hashable, ...]
    """The parties that it waited for last, such as broker ids."""
    event_key: Hashable | None
    """The key of the event that completed it; None without an event."""


class Owner(Protocol):
    """The purgatory, as its operations use it."""

    def finish(self, operation: DelayedOperation, outcome: Outcome, error: Exception | None = None) -> None:
        """Answer an operation that has just been marked completed, and drop the reference to it."""


@mypyc_attr(allow_interpreted_subclasses=True)
class DelayedOperation:
    """A request that cannot be answered yet. A subclass defines when it can (`try_complete`), and how (`on_complete`).

    The answer is given once, by exactly one of `on_complete`, `on_shutdown` and `on_error`. There is one exception: if
    `on_complete` or `on_shutdown` fails half-way, `on_error` is called after it, so that the client gets an answer.

    Args:
        delay_ms: how long the operation may wait, from the time at which it is parked: an integer of at most
            `MAX_DELAY_MS`, which the purgatory checks. At 0 or below, the operation is checked, and expires immediately
            if its condition is not met.
    """

    __slots__ = (
        "_owner",
        "_round",
        "_ticket",
        "_watched",
        "checks",
        "client",
        "completed",
        "deadline_ms",
        "delay_ms",
        "id",
        "in_order",
        "keys",
        "parked_ms",
    )

    id: int
    """Unique within its purgatory, ascending; 0 before the operation is given to a purgatory."""
    keys: tuple[Hashable, ...]
    """The keys that it is watched under, without duplicates; or those that one of them stands for."""
    parked_ms: int
    """The time at which it was parked; -1 before that."""
    deadline_ms: int
    """The time at which it expires; -1 before it is parked."""
    checks: int
    """Number of times that the purgatory has called `try_complete`."""
    completed: bool
    """True from the moment at which its answer begins."""
    client: str
    """The client that sent the request, for observers; empty if unknown."""
    in_order: bool
    """True if all operations with this mark that are watched under its key later wait at least as long as it does:
    while it waits, events do not check them. A subclass may set it for operations of one key; False otherwise."""

    def __init__(self, delay_ms: int) -> None:
        self.delay_ms = delay_ms
        self.completed = False
        self.in_order = False
        self.checks = 0
        self.client = ""
        self.id = 0
        self.keys = ()
        self.parked_ms = self.deadline_ms = -1
        self._round = 0
        self._watched: tuple[Hashable, ...] = ()
        self._owner: Owner | None = None
        self._ticket: Ticket | None = None

    def try_complete(self) -> bool:
        """Check the condition. If it is met, return `self.force_complete()`; otherwise return False.

        The purgatory calls this when the operation arrives (twice if it is parked) and at each event on its keys. It
        should be quick, and must allow being called at any time. The purgatory reads `completed`, not the return value.
        """
        raise NotImplementedError

    def on_complete(self) -> None:
        """Answer the request, once: the condition is met, `force_complete` was called, or the deadline has come."""
        raise NotImplementedError

    def on_expiration(self) -> None:
        """Count the expiry, or act on it. Runs after the answer, only when the deadline came first."""

    def on_cancel(self) -> None:
        """Clean up: `Purgatory.cancel` or `cancel_for_key` has taken the operation out without an answer.

        The default does nothing. The caller of `cancel` owns the operation now, and may still answer it.
        """

    def on_error(self, error: Exception) -> None:
        """Answer with an unexpected error: `try_complete`, `on_complete` or `on_shutdown` raised it (KAFKA-17240).

        The purgatory has logged the error. The default does nothing; override this in every operation that a client
        waits for. After a failed `on_complete`, part of the answer may have been given already.
        """

    def on_shutdown(self) -> None:
        """Answer that the server stops, with an error that makes the client try elsewhere. Default: `on_complete`."""
        self.on_complete()

    def expiry_weight(self) -> int:
        """Return as how many operations it counts when it expires; override it if its answer takes very long.

        The reaper lets the event loop make a turn after some milliseconds, but looks at the clock only now and then.
        """
        return 1

    def causes(self) -> Sequence[Any]:
        """The condition that it still misses, as data: objects whose `str` are its words, or sentences.

        For observers, such as a page or a test that looks for one of its parts. The default is empty.
        """
        return ()

    def held_by(self) -> tuple[Hashable, ...]:
        """The parties that it waits for, such as broker ids; after the answer, those that it waited for last.

        For observers. The default is empty.
        """
        return ()

    def force_complete(self) -> bool:
        """Complete the operation, whether or not its condition is met.

        An operation that was never given to a purgatory just runs `on_complete`, and exceptions of it propagate.

        Returns:
            True if this call completed it, False if it was completed before.
        """
        if self.completed:
            return False
        self.completed = True
        owner = self._owner
        if owner is None:
            self.on_complete()
        else:
            owner.finish(self, "completed")
        return True

    def expire(self) -> bool:
        """Complete the operation as its deadline does, then run `on_expiration`.

        Returns:
            True if this call completed it, False if it was completed before.
        """
        if self.completed:
            return False
        self.completed = True
        owner = self._owner
        if owner is None:
            self.on_complete()
            self.on_expiration()
        else:
            owner.finish(self, "expired")
        return True


class Ticket(TimerEntry):
    """Stands for a parked operation in the wheel and in the watch lists.

    A ticket drops its operation when that completes. Watch lists are swept only now and then, and an operation that is
    also watched under a quiet key would stay in that list with its records: Kafka ran out of memory this way
    (KAFKA-19389, KAFKA-19763). Here only an empty ticket stays, and no subclass has to remember to clear its fields.
    """

    __slots__ = ("operation",)

    operation: DelayedOperation | None

    def __init__(self, operation: DelayedOperation, deadline_ms: int) -> None:
        self.operation = operation
        self.deadline_ms = deadline_ms  # these two instead of super().__init__: it runs once per parked request
        self.bucket = None

    def weight(self) -> int:
        """Return as how many entries the operation counts."""
        return 1 if self.operation is None else self.operation.expiry_weight()

    def run(self) -> None:
        """Expire the operation: the deadline has come."""
        if self.operation is not None:
            self.operation.expire()


_log = logging.getLogger(__name__)


MAX_CAUSES: Final = 100
"""The most causes of an operation that has ended: those who keep thousands of operations keep these as well."""


@dataclass(frozen=True)
class Remark:
    """A cause that is only words."""

    text: str

    def __str__(self) -> str:
        return self.text


def causes_of(operation: DelayedOperation) -> Sequence[Any]:
    """Return the condition that it misses; after a failure, that: it must break neither a page nor an answer."""
    try:
        return operation.causes()
    except Exception as error:  # the operation is the user's code, here and below
        return (Remark(f"unknown: {error!r}"),)


def first_causes_of(operation: DelayedOperation) -> Sequence[Any]:
    """Return the same, cut to `MAX_CAUSES`."""
    causes = causes_of(operation)
    more_count = len(causes) - MAX_CAUSES
    return causes if more_count <= 0 else (*causes[:MAX_CAUSES], Remark(f"and {more_count} more"))


def holders(operation: DelayedOperation) -> tuple[Hashable, ...]:
    """Return the parties that it waits for; after a failure, which is logged, none."""
    try:
        return operation.held_by()
    except Exception:
        _log.exception("an operation failed in held_by")
        return ()


def answer_error(purgatory: str, operation: DelayedOperation, error: Exception) -> None:
    """Log an unexpected error, and answer it; if that fails too, the operation stays unanswered."""
    _log.error("%s operation %d on %r failed", purgatory, operation.id, operation.keys[:8], exc_info=error)
    try:
        operation.on_error(error)
    except Exception:
        _log.exception("%s operation %d could not answer its error", purgatory, operation.id)


def run_on_expiration(purgatory: str, operation: DelayedOperation) -> None:
    """Run `on_expiration`; the answer has been given."""
    try:
        operation.on_expiration()
    except Exception:
        _log.exception("%s operation %d failed in on_expiration", purgatory, operation.id)


def run_on_cancel(purgatory: str, operation: DelayedOperation) -> None:
    """Run `on_cancel`; the operation is out of its purgatory."""
    try:
        operation.on_cancel()
    except Exception:
        _log.exception("%s operation %d failed in on_cancel", purgatory, operation.id)
