"""A delayed operation: a request that waits for a condition or a deadline, and is answered once, by the first of them.

Kafka guards the race of the two with a lock and a compare-and-set (KAFKA-385). Here everything that changes state is a
plain function in one thread, nothing interleaves, and `completed` is a bool that is looked at first.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Literal, NamedTuple, Protocol

from purgatorio.broker.purgatory.timing_wheel import TimerEntry

Outcome = Literal["completed", "expired", "cancelled", "shutdown", "error"]
"""How an operation ended: its condition was met or somebody forced it, the deadline won, `cancel_for_key` took it out,
the purgatory was shut down, or its own code failed."""


class FinishedOperation(NamedTuple):
    """What became of one parked operation, for a timeline or an event log. Times are those of the purgatory's clock."""

    id: int
    purgatory: str
    keys: tuple[Hashable, ...]
    parked_ms: int
    done_ms: int
    deadline_ms: int
    outcome: Outcome
    cause: str
    """The event that did it, as told to `check_and_complete`; the outcome, if it was no event."""
    checks: int
    detail: str
    """What it still missed, if it ended without its condition met; the exception, if it failed; otherwise empty."""
    client: str
    """Who asked for it."""
    held_by: tuple[Hashable, ...]
    """Whom it waited for last."""
    event_key: Hashable | None
    """The key that the event which did it was on; None if it was no event."""


class Owner(Protocol):
    """What an operation asks of the purgatory that it was given to."""

    def finish(self, operation: DelayedOperation, outcome: Outcome, error: Exception | None = None) -> None:
        """Answer an operation that has just been marked completed, and let go of it."""


class DelayedOperation:
    """A request that cannot be answered yet. Subclasses say when it can (`try_complete`), and how (`on_complete`).

    The answer is given once, by exactly one of `on_complete`, `on_shutdown` and `on_error`; the one exception is an
    `on_complete` or `on_shutdown` that fails half-way, after which `on_error` is called, so that there is an answer.

    Args:
        delay_ms: how long it may wait, from the time at which it is parked.
    """

    __slots__ = (
        "_owner",
        "_ticket",
        "checks",
        "client",
        "completed",
        "deadline_ms",
        "delay_ms",
        "id",
        "keys",
        "parked_ms",
    )

    id: int
    """Unique within its purgatory, ascending; 0 before it is given to one."""
    keys: tuple[Hashable, ...]
    """What it is watched under."""
    parked_ms: int
    """When it was parked; -1 before that."""
    deadline_ms: int
    """When it expires; -1 before it is parked."""
    checks: int
    """How often the purgatory has asked `try_complete`."""
    completed: bool
    """Whether it has been answered, or is just being."""
    client: str
    """Who asked for it, as observers are told; empty: not known."""

    def __init__(self, delay_ms: int) -> None:
        self.delay_ms = delay_ms
        self.completed = False
        self.checks = 0
        self.client = ""
        self.id = 0
        self.keys = ()
        self.parked_ms = self.deadline_ms = -1
        self._owner: Owner | None = None
        self._ticket: Ticket | None = None

    def try_complete(self) -> bool:
        """Check the condition and, if it is met, return `self.force_complete()`; otherwise False.

        Asked when it arrives and at each event on its keys, so it should be quick, and may be asked again at any time.
        The purgatory goes by `completed`, not by what this returns.
        """
        raise NotImplementedError

    def on_complete(self) -> None:
        """Answer: the condition is met, somebody forced it, or the deadline has come. Runs once."""
        raise NotImplementedError

    def on_expiration(self) -> None:
        """Count the expiry, or act on it: runs after the answer, only when the deadline won."""

    def on_error(self, error: Exception) -> None:
        """Answer with an unexpected error: `try_complete`, `on_complete` or `on_shutdown` raised it (KAFKA-17240).

        The purgatory has logged it. The default does nothing; whoever is waited for must override this. After a failed
        `on_complete` some of the answer may have been given already.
        """

    def on_shutdown(self) -> None:
        """Answer that the server stops, with an error that makes the client try elsewhere. Default: `on_complete`."""
        self.on_complete()

    def missing(self) -> str:
        """The condition that it still misses, in words, for a page: "orders-0: broker 3 is at 40 of 42"."""
        return ""

    def held_by(self) -> tuple[Hashable, ...]:
        """Whom it waits for; once it is answered, whom it waited for last. For observers; nobody, if not overridden."""
        return ()

    def force_complete(self) -> bool:
        """Complete it whether or not its condition is met. True if this call did, False if it was completed before.

        Outside of a purgatory it just runs `on_complete`, which then may raise.
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
        """What the deadline does: complete it and, if that did it, run `on_expiration`. True if this call did it."""
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
    """What the wheel and the watch lists hold of a parked operation.

    It lets go of the operation when that completes. Watch lists are cleaned now and then only, and an operation that is
    watched under a quiet key would stay there with its records: Kafka ran out of memory so (KAFKA-19389, KAFKA-19763).
    Here an empty ticket is all that stays, and no subclass has to remember to clear its fields.
    """

    __slots__ = ("operation",)

    operation: DelayedOperation | None

    def __init__(self, operation: DelayedOperation, deadline_ms: int) -> None:
        self.operation = operation
        self.deadline_ms = deadline_ms  # these two instead of super().__init__: it runs once per parked request
        self.bucket = None

    def run(self) -> None:
        """The deadline has come."""
        if self.operation is not None:
            self.operation.expire()
