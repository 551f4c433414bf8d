"""The purgatory: where operations that cannot be answered yet wait for an event on one of their keys, or a deadline.

Its rules:

* Every operation is answered once: by an event, its deadline, `shutdown`, or with an error if its own code fails.
* An event inside a completion waits in the action queue until the outermost call has returned.
* Nothing that an operation raises reaches the caller or keeps the others from being checked.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from itertools import islice
from typing import Generic, NamedTuple, TypeVar, cast

from purgatorio.broker.purgatory.actions import ActionQueue
from purgatorio.broker.purgatory.delayed_operation import DelayedOperation, FinishedOperation, Outcome, Ticket
from purgatorio.broker.purgatory.timer import Timer
from purgatorio.broker.purgatory.timing_wheel import LevelSnapshot
from purgatorio.broker.purgatory.watchers import Watchers

_log = logging.getLogger(__name__)

Op = TypeVar("Op", bound=DelayedOperation)


class ParkedOperation(NamedTuple):
    """One operation that waits, as a page shows it. Times are those of the purgatory's clock."""

    id: int
    purgatory: str
    keys: tuple[Hashable, ...]
    parked_ms: int
    deadline_ms: int
    checks: int
    missing: str
    """The condition that it still misses."""
    client: str
    """Who asked for it."""


class WatchListSnapshot(NamedTuple):
    """One watch list, as a page shows it; `watched` counts tickets of completed operations too."""

    key: Hashable
    watched: int


class Purgatory(Generic[Op]):
    """Operations of one kind, each parked under its keys and with its deadline. Not thread-safe: one loop, one thread.

    Args:
        name: the kind, as metrics and logs name it: "Produce", "Fetch" …
        timer: where the deadlines wait; somebody must advance it (`Reaper`).
        actions: shared by all purgatories whose operations may raise events on each other's keys.
        purge_interval: about how many completed operations may be left in watch lists (Kafka's default).
        on_finished: told of every parked operation that ended. What it costs is paid only when it is set.
    """

    __slots__ = (
        "_actions",
        "_cause",
        "_checking",
        "_checks_due",
        "_closed",
        "_estimated_operations",
        "_event_key",
        "_last_id",
        "_parked",
        "_purge_due",
        "_timer",
        "_watchers",
        "name",
        "on_finished",
        "purge_interval",
    )

    def __init__(
        self,
        name: str,
        timer: Timer,
        *,
        actions: ActionQueue,
        purge_interval: int = 1000,
        on_finished: Callable[[FinishedOperation], object] | None = None,
    ) -> None:
        self.name = name
        self.purge_interval = purge_interval
        self.on_finished = on_finished
        self._timer = timer
        self._actions = actions
        self._watchers = Watchers()
        self._parked: dict[int, Op] = {}  # by id, which is also the order of parking
        self._last_id = 0
        self._estimated_operations = 0  # in watch lists, completed or not; corrected by each purge
        self._purge_due = False  # a purge is in the action queue
        self._checks_due: dict[Hashable, str] = {}  # keys whose check is in the action queue, and the first cause
        self._checking: DelayedOperation | None = None  # the one that the walk under way is at
        self._cause = ""  # of the walk under way
        self._event_key: Hashable | None = None  # likewise
        self._closed = False

    @property
    def watched(self) -> int:
        """Entries in all watch lists (Kafka's PurgatorySize).

        An operation counts once per key, and completed ones count until their list is walked or purged.
        """
        return self._watchers.size

    @property
    def num_delayed(self) -> int:
        """Operations that wait (Kafka's NumDelayedOperations), exactly."""
        return len(self._parked)

    def try_complete_else_watch(self, operation: Op, keys: Sequence[Hashable]) -> bool:
        """Answer the operation if its condition is met, otherwise park it under every key until its deadline.

        After `shutdown` it is not parked but answered as shutdown answers.

        Returns:
            Whether it is completed by the time this returns.

        Raises:
            ValueError: no keys, or an operation that was given to a purgatory before.
        """
        if not keys:
            raise ValueError("an operation needs at least one key to be watched under")
        if operation._owner is not None:
            raise ValueError(f"operation {operation.id} has been given to a purgatory before")
        self._last_id = operation.id = self._last_id + 1
        operation.keys = tuple(keys) if len(keys) == 1 else tuple(dict.fromkeys(keys))
        operation._owner = self
        actions = self._actions
        actions.depth += 1
        try:
            if not self._check(operation):
                if self._closed:
                    self._end(operation, "shutdown")
                else:
                    self._park(operation)
        finally:
            actions.leave()
        return operation.completed

    def check_and_complete(self, key: Hashable, cause: str = "") -> int:
        """An event on `key`: check the operations watched under it, oldest first, and complete those that can be.

        Inside a completion, or inside ``with actions``, the check is queued for later. Several for one key become one,
        which is enough: it will see the state that all of them led to.

        Args:
            key: what happened to; a key that nobody watches costs one lookup.
            cause: what happened, in words, for `FinishedOperation`.

        Returns:
            How many operations this completed; 0 if the check was queued.
        """
        tickets = self._watchers.lists.get(key)
        if tickets is None:
            return 0
        actions = self._actions
        if actions.depth:
            if key not in self._checks_due:
                self._checks_due[key] = cause
                actions.add(partial(self._check_due, key))
            return 0
        actions.depth = 1
        self._cause, self._event_key = cause, key
        try:
            return self._walk(key, tickets)
        finally:
            self._cause, self._event_key = "", None
            actions.leave()

    def cancel_for_key(self, key: Hashable) -> list[Op]:
        """Take out the operations watched under `key`, also from their other keys and the timer, without an answer.

        Returns:
            Those operations, oldest first. They are the caller's now, to answer (`force_complete`) or to drop.
        """
        cancelled = cast("list[Op]", self._watchers.take(key))
        actions = self._actions
        actions.depth += 1
        try:
            for operation in cancelled:
                detail = self._describe(operation) if self.on_finished is not None else ""
                self._release(operation)
                self._report(operation, "cancelled", detail)
        finally:
            actions.leave()
        return cancelled

    def find(self, operation_id: int) -> Op | None:
        """The parked operation of that id; None if it is not, or no longer, parked."""
        return self._parked.get(operation_id)

    def operations(self, limit: int = 100) -> list[ParkedOperation]:
        """Up to `limit` parked operations, oldest first, each with the condition that it misses."""
        return [
            ParkedOperation(
                operation.id,
                self.name,
                operation.keys,
                operation.parked_ms,
                operation.deadline_ms,
                operation.checks,
                self._describe(operation),
                operation.client,
            )
            for operation in islice(self._parked.values(), limit)
        ]

    def watch_lists(self, limit: int = 100) -> list[WatchListSnapshot]:
        """Up to `limit` watch lists with their lengths, in the order in which they came to be."""
        return [WatchListSnapshot(key, len(tickets)) for key, tickets in islice(self._watchers.lists.items(), limit)]

    def wheel(self) -> list[LevelSnapshot]:
        """The timing wheel in which the deadlines wait: every level, finest first, with the buckets that hold some."""
        return self._timer.snapshot()

    def purge(self) -> int:
        """Drop what completed operations left in watch lists, and return how many entries that was.

        Done by itself when more than `purge_interval` operations may have been left, and when nothing waits any more.
        Inside a completion it is queued, and returns 0.
        """
        if self._actions.depth:
            self._purge_later()
            return 0
        self._purge_due = False
        self._estimated_operations = len(self._parked)
        return self._watchers.sweep()

    def shutdown(self) -> int:
        """Answer everything parked by `on_shutdown`, oldest first, and park nothing more; returns how many were."""
        self._closed = True
        parked = list(self._parked.values())
        actions = self._actions
        actions.depth += 1
        try:
            for operation in parked:
                if not operation.completed:
                    self._end(operation, "shutdown")
        finally:
            actions.leave()
        return len(parked)

    def finish(self, operation: DelayedOperation, outcome: Outcome, error: Exception | None = None) -> None:
        """Answer an operation that was just marked completed, and let go of it. For `DelayedOperation` only."""
        observed = self.on_finished is not None and operation._ticket is not None
        detail = self._describe(operation) if observed and outcome != "completed" else ""
        parked = self._release(operation)
        actions = self._actions
        actions.depth += 1
        try:
            failure = error if error is not None else self._answer(operation, outcome)
            if failure is not None:
                self._answer_error(operation, failure)
                detail = repr(failure)
            if outcome == "expired":
                self._run_on_expiration(operation)
            if observed and parked:
                self._report(operation, outcome if failure is None else "error", detail)
        finally:
            actions.leave()

    def _check(self, operation: DelayedOperation) -> bool:
        """Ask the operation once; True if it is completed, be it by its own failure."""
        operation.checks += 1
        try:
            operation.try_complete()
        except Exception as error:  # one that fails must neither starve the others nor go unanswered (KAFKA-17240)
            self._fail(operation, error)
        return operation.completed

    def _park(self, operation: Op) -> None:
        timer = self._timer
        operation.parked_ms = now_ms = timer.now_ms()
        operation.deadline_ms = deadline_ms = now_ms + operation.delay_ms
        operation._ticket = ticket = Ticket(operation, deadline_ms)
        self._parked[operation.id] = operation
        self._estimated_operations += 1
        self._watchers.watch(ticket, operation.keys)
        # Watched now: an event from here on is not missed. One that came in the first check, is seen by the second.
        if ticket.operation is not None and not self._check(operation):
            timer.add(ticket)

    def _walk(self, key: Hashable, tickets: list[Ticket]) -> int:
        """Check every operation of a watch list, keep those that still wait, and return how many got completed."""
        completed = 0
        kept: list[Ticket] = []
        count = len(tickets)  # what is added behind while we walk has just been checked
        for ticket in islice(tickets, count):
            operation = ticket.operation
            if operation is None:
                continue  # completed elsewhere
            self._checking = operation
            operation.checks += 1
            try:
                operation.try_complete()
            except Exception as error:  # as in _check, of which this is the inlined copy: it is the hottest line here
                self._fail(operation, error)
            if ticket.operation is not None:
                kept.append(ticket)
            elif operation.completed:
                completed += 1
        self._checking = None
        if len(tickets) > count:
            kept += tickets[count:]
        self._watchers.replace(key, tickets, kept)
        return completed

    def _check_due(self, key: Hashable) -> None:
        """A check that was queued."""
        self.check_and_complete(key, self._checks_due.pop(key))

    def _end(self, operation: DelayedOperation, outcome: Outcome, error: Exception | None = None) -> None:
        operation.completed = True
        self.finish(operation, outcome, error)

    def _release(self, operation: DelayedOperation) -> bool:
        """Take an operation out of the timer and the books; False if it was not parked."""
        ticket = operation._ticket
        if ticket is None:
            return False
        operation._ticket = ticket.operation = None
        ticket.cancel()
        parked = self._parked
        del parked[operation.id]
        watchers = self._watchers
        if operation is not self._checking or len(operation.keys) > 1:  # else the walk drops its only ticket
            for key in operation.keys:
                watchers.stale[key] = None
        if self._estimated_operations - len(parked) > self.purge_interval or (watchers.stale and not parked):
            self._purge_later()
        return True

    def _purge_later(self) -> None:
        if not self._purge_due:
            self._purge_due = True
            self._actions.add(self.purge)

    def _answer(self, operation: DelayedOperation, outcome: Outcome) -> Exception | None:
        try:
            if outcome == "shutdown":
                operation.on_shutdown()
            else:
                operation.on_complete()
        except Exception as error:  # the client must get an answer all the same
            return error
        return None

    def _fail(self, operation: DelayedOperation, error: Exception) -> None:
        """`try_complete` failed; if it completed the operation first, the answer was given, and a log line is left."""
        if operation.completed:
            _log.error("%s operation %d failed after its answer", self.name, operation.id, exc_info=error)
        else:
            self._end(operation, "error", error)

    def _answer_error(self, operation: DelayedOperation, error: Exception) -> None:
        _log.error("%s operation %d on %r failed", self.name, operation.id, operation.keys, exc_info=error)
        try:
            operation.on_error(error)
        except Exception:  # nothing more can be done for this one; the others go on
            _log.exception("%s operation %d could not answer its error", self.name, operation.id)

    def _run_on_expiration(self, operation: DelayedOperation) -> None:
        try:
            operation.on_expiration()
        except Exception:  # the answer has been given; whoever is due next must not suffer
            _log.exception("%s operation %d failed in on_expiration", self.name, operation.id)

    def _describe(self, operation: DelayedOperation) -> str:
        try:
            return operation.missing()
        except Exception as error:  # a page must not fail by one operation, nor must an answer
            return f"unknown: {error!r}"

    @staticmethod
    def _holders(operation: DelayedOperation) -> tuple[Hashable, ...]:
        try:
            return operation.held_by()
        except Exception:  # as above
            _log.exception("an operation does not know what it waited for")
            return ()

    def _report(self, operation: DelayedOperation, outcome: Outcome, detail: str) -> None:
        if self.on_finished is None:
            return
        finished = FinishedOperation(
            operation.id,
            self.name,
            operation.keys,
            operation.parked_ms,
            self._timer.now_ms(),
            operation.deadline_ms,
            outcome,
            self._cause if outcome == "completed" else outcome,
            operation.checks,
            detail,
            operation.client,
            self._holders(operation),
            self._event_key if outcome == "completed" else None,
        )
        try:
            self.on_finished(finished)
        except Exception:  # an observer must not change what it observes
            _log.exception("the observer of %s operations failed", self.name)
