"""Turns of the event loop, shared among the connections of all brokers of a process, so that a crowd does not hold it.

An event loop reports in one turn all connections that have bytes to read: ten thousand, if as many clients send at
once. They are worked on for `MAX_TURN_SECONDS`; those that come later in the turn only take in their bytes, and go on
when the loop makes the calls that were asked for in the turn, or in later turns, in the order in which they came.
Between these turns the loop serves everything else.

They go by the clock, and are no `LongWork`: most requests cost less than it would take to say what they cost.

The loop does not report the end of a turn. It has when no connection worked for a while, or when a callback has run
that was asked for in that turn: uvloop reports bytes, then makes these calls, then asks the system for more bytes. One
is asked for when half of the time is used up, so that a lone busy connection is not put off.
"""

# compiled: docs/compiled.md

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

IS_COMPILED: Final = __file__.endswith((".so", ".pyd"))
MAX_TURN_SECONDS: Final = 0.001 if IS_COMPILED else 0.003
"""Time for which the requests of all connections are started in one turn of the event loop.

Connections that go first are not held to it, and followers append beside it: a turn with all of these takes twice that.
"""
PAUSE_SECONDS: Final = 0.0005
"""Without work for so long, the event loop has done other things meanwhile, or has waited: another turn begins.

Not if a callback will report it: a large request that arrives, or another process that computes, may take as long."""


class TurnTaker(Protocol):
    """A connection that has work to do."""

    def take_turn(self, now_seconds: float) -> None:
        """Do some of the work, set `Turns.busy_until_seconds`, and ask for another turn if there is more."""
        ...


class Turns:
    """The turns of the connections of a process, or of one broker.

    Args:
        call_soon: the event loop's.
        now_seconds: the clock's monotonic time.

    Attributes:
        busy_until_seconds: when a connection worked last; each connection says when it has done its work.
    """

    def __init__(self, call_soon: Callable[[Callable[[], None]], object], now_seconds: Callable[[], float]) -> None:
        self._call_soon = call_soon
        self._now_seconds = now_seconds
        self._first: deque[TurnTaker] = deque()
        self._others: deque[TurnTaker] = deque()
        self._scheduled = False
        self._asked = False
        self._ends_seconds = 0.0
        self._has_ended = True
        self.busy_until_seconds = 0.0

    def are_over(self, now_seconds: float) -> bool:
        """Return whether work has to `wait`: the time of the present turn is used up, or earlier work waits."""
        if self._others:
            return True
        if self._has_ended or (now_seconds - self.busy_until_seconds > PAUSE_SECONDS and not self._asked):
            self._has_ended = False
            self._ends_seconds = now_seconds + MAX_TURN_SECONDS
            return False
        self.busy_until_seconds = now_seconds
        left_seconds = self._ends_seconds - now_seconds
        if left_seconds < MAX_TURN_SECONDS / 2 and not self._asked:
            self._asked = True
            self._call_soon(self._end)
        return left_seconds < 0

    def _end(self) -> None:
        """Note that the present turn of the event loop is over, unless `_run` has noted it."""
        if self._asked:
            self._asked = False
            self._has_ended = True

    def wait(self, connection: TurnTaker, *, goes_first: bool) -> None:
        """Give a connection a turn, in a later turn of the event loop.

        Args:
            goes_first: it is another broker's, and goes before those of clients.
        """
        (self._first if goes_first else self._others).append(connection)
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._call_soon(self._run)

    def _run(self) -> None:
        """Give turns to those that wait now, as many as the turn has time for, and to one of each kind at least."""
        self._scheduled = self._asked = False
        now_seconds = self.busy_until_seconds = self._now_seconds()
        ends_seconds = now_seconds + MAX_TURN_SECONDS if self._has_ended else self._ends_seconds
        self._has_ended = True
        try:
            for waiting in (self._first, self._others):
                for _ in range(len(waiting)):
                    waiting.popleft().take_turn(now_seconds)
                    now_seconds = self.busy_until_seconds
                    if now_seconds > ends_seconds:
                        break
        finally:
            if self._first or self._others:
                self._schedule()
