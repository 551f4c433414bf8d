"""The purgatory: operations that cannot be answered yet wait here for an event on one of their keys, or a deadline.

Its rules:

* Every operation is answered once: by an event, its deadline, `shutdown`, or with an error if its own code fails.
* The action queue keeps an event that is raised inside a completion until the outermost call has returned.
* An exception of an operation neither reaches the caller nor keeps other operations from being checked.
* An operation that is refused for its delay or its keys leaves nothing behind.
"""

# compiled: docs/compiled.md

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Sequence
from itertools import islice
from typing import Any, TypeVar, cast, overload

from .actions import ActionQueue, DueChecks
from .delayed_operation import (
    DelayedOperation,
    FinishedOperation,
    Outcome,
    Ticket,
    answer_error,
    first_causes_of,
    run_on_cancel,
    run_on_expiration,
)
from .snapshots import ended
from .timer import MAX_DELAY_MS, Timer, whole_ms
from .view import PurgatoryView
from .waiter import wait_in
from .watchers import distinct

_log = logging.getLogger(__name__)

Op = TypeVar("Op", bound=DelayedOperation)
T = TypeVar("T")


class Purgatory(PurgatoryView[Op]):
    """Operations of one kind, each parked under its keys and with its deadline. Not thread-safe: one loop, one thread.

    Args:
        name: the kind of operation, for metrics and logs: "Produce", "Fetch" …
        timer: where the deadlines wait; its owner must advance it (see `Reaper`).
        actions: shared by all purgatories whose operations may raise events on each other's keys.
        purge_interval: number of completed operations whose tickets may stay in watch lists (Kafka's default).
        on_finished: called with every parked operation that has ended. Its cost arises only if it is set.
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
        "_purge_due",
        "_round",
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
        super().__init__(name, timer)
        self.purge_interval = purge_interval
        self.on_finished = on_finished
        self._actions = actions
        self._last_id = 0
        self._estimated_operations = 0  # in watch lists, completed or not; corrected by each purge
        self._purge_due = False  # a purge is in the action queue
        self._checks_due = DueChecks(actions, self._run_checks)
        self._round = 0  # counts walks and rounds of checks; an operation is checked once in each
        self._checking: DelayedOperation | None = None  # the one that the walk under way is at
        self._cause = ""  # of the walk under way
        self._event_key: Hashable | None = None  # likewise
        self._closed = False

    def try_complete_else_watch(
        self, operation: Op, keys: Sequence[Hashable], *, shown_keys: tuple[Hashable, ...] = ()
    ) -> bool:
        """Answer the operation if its condition is met, otherwise park it under every key until its deadline.

        After `shutdown` the operation is not parked but answered by its `on_shutdown`. An operation that is refused
        with an exception has not been checked; with its mistake corrected, it can be passed again.

        Args:
            shown_keys: what observers see as its keys, if one of `keys` stands for many (see `check`).

        Returns:
            True if the operation is completed when this returns.

        Raises:
            TypeError: the operation's `delay_ms` is no integer (a float, also a whole one or NaN), or is a bool; a key
                is not hashable; or `keys` is a string instead of a sequence of keys.
            ValueError: there are no keys, `delay_ms` is above `MAX_DELAY_MS`, or the operation was given to a purgatory
                before.
        """
        if operation._owner is not None:
            raise ValueError(f"operation {operation.id} has been given to a purgatory before")
        delay_ms = operation.delay_ms
        if delay_ms.__class__ is not int or delay_ms > MAX_DELAY_MS:
            operation.delay_ms = whole_ms(delay_ms)
        operation._watched = watched = distinct(keys)
        operation.keys = shown_keys or watched
        self._last_id = operation.id = self._last_id + 1
        operation._owner = self
        actions = self._actions
        actions.depth += 1
        try:
            operation.checks += 1
            try:
                operation.try_complete()
            except Exception as error:  # a failure must neither starve other operations nor go unanswered (KAFKA-17240)
                self._fail(operation, error)
            if not operation.completed:
                self._park(operation)
        finally:
            actions.depth -= 1  # as `actions.leave()`, without the call
            if actions.queue and not actions.depth:
                actions.settle()
        return operation.completed

    def check_and_complete(self, key: Hashable, cause: str = "") -> int:
        """Handle an event on `key`: check the operations watched under it, oldest first.

        Inside a completion, or inside ``with actions``, the check is queued. Several checks of one key become one,
        which is enough: it sees the state that all the events led to.

        Args:
            key: the key of the event; if no operation is watched under it, this costs one lookup.
            cause: the event in words, for `FinishedOperation`.

        Returns:
            The number of operations that this completed; 0 if the check was queued.
        """
        tickets = self._watchers.lists.get(key)
        if tickets is None:
            return 0
        actions = self._actions
        if actions.depth:
            self._checks_due.add_key(key, cause)
            return 0
        actions.depth = 1
        self._round += 1
        self._cause, self._event_key = cause, key
        try:
            return self._walk(key, tickets)
        finally:
            self._cause, self._event_key = "", None
            actions.depth -= 1  # as `actions.leave()`, without the call
            if actions.queue and not actions.depth:
                actions.settle()

    def check(self, operation: DelayedOperation, cause: str = "", event_key: Hashable | None = None) -> bool:
        """Handle an event that concerns one parked operation: check it alone.

        An operation that waits for thousands of things need not be watched under thousands of keys, if its owner knows
        which events concern it. Inside a completion, or inside ``with actions``, the check is queued, and several of
        them become one. Cause and key of the event are for `FinishedOperation`.

        Returns:
            True if this completed it; False if it waits on, is not parked here, or the check was queued.
        """
        if operation._ticket is None or operation._owner is not self:
            return False
        actions = self._actions
        if actions.depth:
            self._checks_due.add_operation(operation.id, cause, event_key)
            return False
        actions.depth = 1
        self._cause, self._event_key = cause, event_key
        try:
            self._check(operation)
        finally:
            self._cause, self._event_key = "", None
            actions.depth -= 1  # as `actions.leave()`, without the call
            if actions.queue and not actions.depth:
                actions.settle()
        return operation.completed

    @overload
    async def wait(self, *keys: Hashable, timeout_ms: int) -> None: ...

    @overload
    async def wait(self, *keys: Hashable, timeout_ms: int, until: Callable[[], T]) -> T: ...

    async def wait(self, *keys: Hashable, timeout_ms: int, until: Callable[[], Any] | None = None) -> Any:
        """Wait for an event on one of the keys or, with `until`, for a state that such an event leads to.

        Without `until`, the next event after this call ends the wait. With `until`, a wait ends at once if `until`
        holds already; otherwise each event on the keys checks it. It still holds when this returns, because no other
        task runs between the last check and the caller's next statement (if the caller awaits this directly).

        It is safe to cancel the waiting task at any time: the wait leaves the purgatory, and logs nothing.

        Args:
            keys: one or more; pass a tuple as one key, several keys as several arguments.
            timeout_ms: an integer of at most `MAX_DELAY_MS`; at 0 or below, `until` is checked once.
            until: a quick function without side effects that returns a true value when the caller can go on. Events
                call it, outside of the waiting task. An exception that it raises ends the wait.

        Returns:
            The value of `until`; None without `until`.

        Raises:
            TimeoutError: the deadline came first.
            WaitAborted: the purgatory was shut down, or the wait was cancelled by `cancel` or `cancel_for_key`.
            TypeError: see `try_complete_else_watch`.
            ValueError: see `try_complete_else_watch`.
        """
        return await wait_in(self, self._timer.now_ms, keys, timeout_ms, until)

    def postpone(self, operation: DelayedOperation, delay_ms: int) -> bool:
        """Move the deadline of a parked operation to `delay_ms` from now: later, or earlier.

        For an operation that each event gives more time, such as a session that a heartbeat prolongs: in O(1), without
        a check, and without an end for observers. At 0 or below, the operation expires before this returns.

        Returns:
            True if its deadline was moved; False if it was not parked here.

        Raises:
            TypeError: `delay_ms` is no integer, or a bool.
            ValueError: `delay_ms` is above `MAX_DELAY_MS`.
        """
        ticket = operation._ticket
        if ticket is None or operation._owner is not self:
            return False
        if delay_ms.__class__ is not int or delay_ms > MAX_DELAY_MS:
            delay_ms = whole_ms(delay_ms)
        timer = self._timer
        ticket.deadline_ms = operation.deadline_ms = timer.now_ms() + delay_ms
        if delay_ms > 0:
            timer.add(ticket)
        else:
            timer.run_now(ticket)
        return True

    def cancel(self, operation: DelayedOperation) -> bool:
        """Take one operation out of its keys and the timer, without an answer; call its `on_cancel`.

        The caller owns the operation then, and may answer it (`force_complete`) or drop it.

        Returns:
            True if the operation was parked here. False if it has ended, or was cancelled before, or never parked here.
        """
        if operation._owner is not self or operation._ticket is None:
            return False
        actions = self._actions
        actions.depth += 1
        try:
            self._cancel(operation)
        finally:
            actions.leave()
        return True

    def cancel_for_key(self, key: Hashable) -> list[Op]:
        """Take the operations watched under `key` out of all their keys and the timer, without an answer, as `cancel`.

        Returns:
            Those operations, oldest first. The caller owns them then.
        """
        operations = cast("list[Op]", self._watchers.take(key))
        actions = self._actions
        actions.depth += 1
        try:
            return [operation for operation in operations if self._cancel(operation)]
        finally:
            actions.leave()

    def purge(self) -> int:
        """Drop the empty tickets that completed operations left in watch lists.

        The purgatory does this itself when more than `purge_interval` operations may have left tickets, and when no
        operation is parked any more. Inside a completion the purge is queued.

        Returns:
            The number of tickets dropped; 0 if the purge was queued.
        """
        if self._actions.depth:
            self._purge_later()
            return 0
        self._purge_due = False
        self._estimated_operations = len(self._parked)
        return self._watchers.sweep()

    def shutdown(self) -> int:
        """Answer every parked operation by its `on_shutdown`, oldest first, and park no more from now on.

        Returns:
            The number of operations that were parked.
        """
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
        """Answer an operation that has just been marked completed, and drop it. Only `DelayedOperation` calls this."""
        observed = self.on_finished is not None and operation._ticket is not None
        causes = first_causes_of(operation) if observed and outcome != "completed" else ()
        parked = self._release(operation)
        actions = self._actions
        actions.depth += 1
        try:
            failure = error
            if failure is None:
                try:
                    if outcome == "shutdown":
                        operation.on_shutdown()
                    else:
                        operation.on_complete()
                except Exception as raised:  # the client must get an answer all the same
                    failure = raised
            if failure is not None:
                answer_error(self.name, operation, failure)
            if outcome == "expired":
                run_on_expiration(self.name, operation)
            if observed and parked:
                self._report(operation, outcome if failure is None else "error", causes, failure)
        finally:
            actions.depth -= 1  # as `actions.leave()`, without the call
            if actions.queue and not actions.depth:
                actions.settle()

    def _park(self, operation: Op) -> None:
        """Watch the operation, check it again, and add its deadline to the timer; after `shutdown`, answer it."""
        if self._closed:
            self._end(operation, "shutdown")
            return
        timer = self._timer
        operation.parked_ms = now_ms = timer.now_ms()
        delay_ms = operation.delay_ms
        operation.deadline_ms = deadline_ms = now_ms + delay_ms
        operation._ticket = ticket = Ticket(operation, deadline_ms)
        self._parked[operation.id] = operation
        self._estimated_operations += 1
        try:
            self._watchers.watch(ticket, operation._watched)
            # Watched now: no later event is missed. The second check sees an event that came during the first.
            if ticket.operation is not None:
                operation.checks += 1
                operation.try_complete()
        except Exception as error:  # as in try_complete_else_watch
            self._fail(operation, error)
        except BaseException:  # an interrupt must not leave an operation here that has no deadline
            self._release(operation)
            raise
        if ticket.operation is not None:
            if delay_ms > 0:
                timer.add(ticket)
            else:
                timer.run_now(ticket)

    def _walk(self, key: Hashable, tickets: list[Ticket]) -> int:
        """Check every operation of a watch list, keep those that still wait, and return how many got completed.

        An operation that was checked in this round is not checked again; one in order is not behind one that waits.
        """
        completed = 0
        in_order_waits = False
        kept: list[Ticket] = []
        this_round = self._round
        count = len(tickets)  # tickets that are appended during the walk have just been checked
        for ticket in islice(tickets, count):
            operation = ticket.operation
            if operation is None:
                continue  # completed elsewhere
            if operation._round == this_round or (in_order_waits and operation.in_order):
                kept.append(ticket)
                continue
            operation._round = this_round
            self._checking = operation
            operation.checks += 1
            try:
                operation.try_complete()
            except Exception as error:  # as in try_complete_else_watch; a method for both would cost a call per check
                self._fail(operation, error)
            if ticket.operation is not None:
                kept.append(ticket)
                in_order_waits = in_order_waits or operation.in_order
            elif operation.completed:
                completed += 1
        self._checking = None
        if len(tickets) > count:
            kept += tickets[count:]
        self._watchers.replace(key, tickets, kept)
        return completed

    def _run_checks(self) -> None:
        """Run the checks that are due, each operation once; what happens meanwhile is an event of the next round."""
        keys, operations = self._checks_due.take()
        self._round += 1
        actions = self._actions
        actions.depth += 1
        try:
            for key, cause in keys.items():
                tickets = self._watchers.lists.get(key)
                if tickets is not None:
                    self._cause, self._event_key = cause, key
                    self._walk(key, tickets)
            for operation_id, (cause, event_key) in operations.items():
                operation = self._parked.get(operation_id)
                if operation is not None and operation._round != self._round:
                    self._cause, self._event_key = cause, event_key
                    self._check(operation)
        finally:
            self._cause, self._event_key = "", None
            actions.depth -= 1  # the queue, which runs this, goes on with what was added

    def _check(self, operation: DelayedOperation) -> None:
        """Check one parked operation by itself."""
        ticket = operation._ticket
        operation.checks += 1
        try:
            operation.try_complete()
        except Exception as error:  # as in try_complete_else_watch
            self._fail(operation, error)
        if operation._ticket is None and ticket is not None:
            self._watchers.drop(ticket, operation._watched)

    def _end(self, operation: DelayedOperation, outcome: Outcome, error: Exception | None = None) -> None:
        operation.completed = True
        self.finish(operation, outcome, error)

    def _cancel(self, operation: DelayedOperation) -> bool:
        """Release an operation without an answer; False if it was not parked any more."""
        causes = first_causes_of(operation) if self.on_finished is not None else ()
        if not self._release(operation):
            return False
        run_on_cancel(self.name, operation)
        self._report(operation, "cancelled", causes)
        return True

    def _release(self, operation: DelayedOperation) -> bool:
        """Take an operation out of the timer and the index of parked operations; False if it was not parked."""
        ticket = operation._ticket
        if ticket is None:
            return False
        operation._ticket = ticket.operation = None
        ticket.cancel()
        parked = self._parked
        del parked[operation.id]
        watchers = self._watchers
        if operation is not self._checking or len(operation._watched) > 1:  # otherwise the walk drops its only ticket
            for key in operation._watched:
                watchers.stale[key] = None
        if self._estimated_operations - len(parked) > self.purge_interval or (watchers.stale and not parked):
            self._purge_later()
        return True

    def _purge_later(self) -> None:
        if not self._purge_due:
            self._purge_due = True
            self._actions.add(self.purge)

    def _fail(self, operation: DelayedOperation, error: Exception) -> None:
        """Handle a failure of `try_complete`. If it came after the answer, only log it; otherwise answer the error."""
        if operation.completed:
            _log.error("%s operation %d failed after its answer", self.name, operation.id, exc_info=error)
        else:
            self._end(operation, "error", error)

    def _report(
        self, operation: DelayedOperation, outcome: Outcome, causes: Sequence[Any], failure: Exception | None = None
    ) -> None:
        if self.on_finished is None:
            return
        met = outcome == "completed"
        finished = ended(
            self.name,
            operation,
            outcome,
            done_ms=self._timer.now_ms(),
            cause=self._cause if met else outcome,
            event_key=self._event_key if met else None,
            causes=causes,
            error="" if failure is None else repr(failure),
        )
        try:
            self.on_finished(finished)
        except Exception:  # a failing observer must not change the outcome
            _log.exception("the observer of %s operations failed", self.name)
