"""Long work, in steps between which the event loop does everything else.

A work is a generator: it takes a step, and yields what the step has cost. The unit is a microsecond of CPU, as it was
measured once where the work is written; no clock is read while it runs, so that a simulation takes the same steps in
the same order. A yield itself costs 0.1 µs, so that the smallest steps can be yielded one by one.

The works of all brokers of a process share one `LongWork`. In a turn of the event loop each of them goes on until its
steps have cost `SLICE`, one after the other; when they have cost `TURN` together, the others go first in the next turn.
A work that yields 0 has done enough for this turn, whatever it has cost.

The turns of connections (`Turns` in `broker/server`) are no work of this kind: each of their turns is short, and ends
by the clock, since a request's cost is known only afterwards.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, NoReturn

from purgatorio.purgatory.clock import Clock

SLICE: Final = 2_000
"""The cost of one work's steps in one turn of the event loop, but for the last of them."""
TURN: Final = 5_000
"""The cost of all works' steps in one turn, but for the last of them."""

Steps = Iterator[int]
"""The steps of a work, and what each has cost, in microseconds of CPU; 0 ends the work's part of this turn."""


def take_slice(steps: Steps) -> tuple[int, bool]:
    """Take as many steps as a work may in one turn; return what they have cost, and whether others are left."""
    cost = 0
    for each in steps:
        cost += each
        if not each or cost >= SLICE:
            return cost, True
    return cost, False


class Work:
    """A work that is under way.

    Attributes:
        steps: those that are left.
        done: the task that waits for its end; None if none does.
    """

    __slots__ = ("done", "steps")

    def __init__(self, steps: Steps, done: asyncio.Future[None] | None = None) -> None:
        self.steps = steps
        self.done = done

    def go_on(self) -> tuple[int, bool]:
        """Take a slice, as `take_slice`."""
        return take_slice(self.steps)


class LongWork:
    """The works of a process, which share the turns of its event loop.

    Args:
        call_soon: the event loop's.
    """

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._under_way: deque[tuple[Work, OwnWork]] = deque()
        self._left = TURN
        self._is_called = False

    def of_owner(self) -> OwnWork:
        """Return where an owner, such as a broker, begins its works."""
        return OwnWork(self)

    def add(self, work: Work, owner: OwnWork) -> None:
        """Go on with a work in the next turns."""
        self._under_way.append((work, owner))
        self._wake()

    def begin_in_time(self, steps: Steps) -> bool:
        """Take a slice if this turn has time left; return whether others are left."""
        if self._left <= 0:
            return True
        cost, goes_on = take_slice(steps)
        self._left -= cost
        self._wake()  # another turn has its whole time
        return goes_on

    def drop(self, owner: OwnWork) -> None:
        """Take no further step of an owner's works."""
        dropped = [work for work, its_owner in self._under_way if its_owner is owner]
        self._under_way = deque(each for each in self._under_way if each[1] is not owner)
        for work in dropped:
            if work.done is not None:
                work.done.cancel()

    def _wake(self) -> None:
        if not self._is_called:
            self._is_called = True
            self._call_soon(self._turn)

    def _turn(self) -> None:
        """Take a slice of each work that is under way, until the time of this turn is used up."""
        self._is_called = False
        self._left = TURN
        try:
            for _ in range(len(self._under_way)):
                if self._left <= 0 or not self._under_way:  # a step may have ended its owner's works
                    break
                self._go_on(*self._under_way.popleft())
        finally:
            if self._under_way:
                self._wake()

    def _go_on(self, work: Work, owner: OwnWork) -> None:
        try:
            cost, goes_on = work.go_on()
        except Exception as error:
            owner.failed(work, error)
            return
        self._left -= cost
        if goes_on and not owner.has_ended:
            self._under_way.append((work, owner))
        elif work.done is not None and not work.done.done():
            work.done.cancel() if goes_on else work.done.set_result(None)


class OwnWork:
    """The works of one owner: a broker, or what outlives brokers.

    Attributes:
        has_ended: whether no further slice of them is taken.
    """

    def __init__(self, turns: LongWork) -> None:
        self._turns = turns
        self._failure: asyncio.Future[None] | None = None
        self.has_ended = False

    def begin(self, steps: Steps) -> None:
        """Take a slice now, which is all of a short work, and the other steps from the next turn on."""
        _, goes_on = take_slice(steps)
        if goes_on:
            self.later(steps)

    def begin_in_time(self, steps: Steps) -> None:
        """Take a slice now if this turn has time left, for works of which many begin together; then as `begin`."""
        if self._turns.begin_in_time(steps):
            self.later(steps)

    def later(self, steps: Steps) -> None:
        """Take steps from the next turn on."""
        self.add(Work(steps))

    def add(self, work: Work) -> None:
        """Go on with a work from the next turn on."""
        if not self.has_ended:
            self._turns.add(work, self)

    def whenever_woken(self, steps: Callable[[], Steps]) -> Callable[[], None]:
        """Return what has these steps taken from the next turn on; called again meanwhile, once more after them."""
        is_under_way = is_wanted = False

        def repeated() -> Steps:
            nonlocal is_under_way, is_wanted
            try:
                while is_wanted:
                    is_wanted = False
                    yield from steps()
            finally:
                is_under_way = False

        def wake() -> None:
            nonlocal is_under_way, is_wanted
            is_wanted = True
            if not is_under_way:
                is_under_way = True
                self.later(repeated())

        return wake

    async def take(self, steps: Steps) -> None:
        """Take all steps; return after the last. Cancelling it takes no further one."""
        done = asyncio.get_running_loop().create_future()
        work = Work(steps, done)
        if self.has_ended:
            done.cancel()
        self.add(work)
        try:
            await done
        finally:
            work.steps = iter(())

    async def repeat(self, clock: Clock, interval_ms: int | Callable[[], int], steps: Callable[[], Steps]) -> NoReturn:
        """Wait this long, take these steps, and repeat."""
        while True:
            await clock.sleep(interval_ms if isinstance(interval_ms, int) else interval_ms())
            await self.take(steps())

    async def run(self) -> None:
        """Wait until a work fails that no task waits for, and raise its error. Cancelled, it ends all works."""
        self._failure = asyncio.get_running_loop().create_future()
        try:
            await self._failure
        finally:
            self.end()

    def end(self) -> None:
        """Take no further slice of these works; of works that are begun later, the first one alone."""
        self.has_ended = True
        self._turns.drop(self)

    def failed(self, work: Work, error: Exception) -> None:
        """Raise the error of a work where it is waited for."""
        waiting = self._failure if work.done is None else work.done
        if waiting is None:
            raise error
        if not waiting.done():
            waiting.set_exception(error)
