"""Very many timers in the wheel of a broker: no client, but delayed operations that only their deadlines end."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from purgatorio.admin.learn.clients.client import Client, Stage
from purgatorio.broker.causes.cause import OnlyDeadline
from purgatorio.purgatory import DelayedOperation

SLICE: Final = 250
"""Timers that are added or cancelled in one turn of the event loop, which takes some milliseconds."""
KEYS: Final = 1_000
LOOK_MS: Final = 100
MIN_DELAY_MS: Final = 60 * 60_000
"""None expires while a reader looks at them."""


class _Waiting(DelayedOperation):
    """A timer."""

    def try_complete(self) -> bool:
        return False

    def on_complete(self) -> None:
        """Do nothing: no client waits."""

    def causes(self) -> Sequence[OnlyDeadline]:
        return (OnlyDeadline(),)


class Timers(Client):
    """Adds timers with deadlines at random moments.

    Args:
        count: how many.
        most_ms: the longest time until a deadline; the shortest is an hour.

    Facts: `waiting`, those in the wheel; `cancelled`; `expired`; `add_us` and `cancel_us`, the time that one took.
    """

    def __init__(self, stage: Stage, name: str, *, count: int, most_ms: int) -> None:
        super().__init__(stage, name)
        self._count = count
        self._most_ms = most_ms
        self._timers: list[_Waiting] = []
        self.facts.update(waiting=0, cancelled=0, expired=0, add_us=0, cancel_us=0)

    async def live(self) -> None:
        purgatory, rng = self._stage.purgatory(), random.Random(self._count)
        spent_seconds = 0.0
        while len(self._timers) < self._count:
            begun_seconds = self._stage.clock.now_seconds()
            for number in range(SLICE):
                timer = _Waiting(rng.randrange(MIN_DELAY_MS, self._most_ms))
                self._timers.append(timer)
                purgatory.try_complete_else_watch(timer, (f"{self.name}-{number % KEYS}",))
            spent_seconds += self._stage.clock.now_seconds() - begun_seconds
            self.facts["add_us"] = round(spent_seconds * 1e6 / len(self._timers))
            self.facts["waiting"] = purgatory.num_delayed
            await self.sleep(0)
        while True:
            self.facts["waiting"] = waiting = purgatory.num_delayed
            self.facts["expired"] = len(self._timers) - waiting - int(self.facts["cancelled"])
            await self.sleep(LOOK_MS)

    async def leave(self) -> None:
        await self._cancel(self._timers)

    async def cancel(self, count: int) -> None:
        """Cancel so many, when there are as many: each in a step that is as long for ten as for a million."""
        while len(self._timers) < count:
            await self.sleep(LOOK_MS)
        self.facts["cancel_us"] = await self._cancel(self._timers[:count])
        self.facts["waiting"] = self._stage.purgatory().num_delayed

    async def _cancel(self, timers: Sequence[DelayedOperation]) -> int:
        """Cancel timers in slices; return the µs that one took."""
        purgatory, clock = self._stage.purgatory(), self._stage.clock
        spent_seconds = 0.0
        for first in range(0, len(timers), SLICE):
            begun_seconds = clock.now_seconds()
            for timer in timers[first : first + SLICE]:
                self.facts["cancelled"] = int(self.facts["cancelled"]) + purgatory.cancel(timer)
            spent_seconds += clock.now_seconds() - begun_seconds
            await self.sleep(0)
        return round(spent_seconds * 1e6 / max(1, len(timers)))
