"""The delayed operation of dead letters that could not be written: until the next try, or until the leader moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from purgatorio.broker.causes.cause import DeadLettersNotWritten
from purgatorio.broker.causes.words import shortened
from purgatorio.broker.metadata.image import NO_LEADER
from purgatorio.broker.share.dead_letters.line import Line
from purgatorio.purgatory import DelayedOperation

MAX_TRIES: Final = 5
"""How often dead letters are written, at most; Kafka's constant."""
BACKOFF_MS: Final = 1_000
"""Doubled by each try that has failed: 2 s after the first one; Kafka's constant."""
MAX_BACKOFF_MS: Final = 30_000
"""The longest time between two tries; Kafka's constant."""


class LineKey(NamedTuple):
    """The watch key of dead letters: where their records are."""

    group_id: str
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{shortened(self.group_id)}: {self.topic}-{self.partition}"


class DelayedDeadLetters(DelayedOperation):
    """What is given up of a share partition, and waits until its dead letters are written once more.

    Args:
        has_moved: whether the dead-letter topic's partition has another leader than the one that was asked.
        again: begins the next try.
        end: forgets the line: the broker stops, or has failed.
    """

    __slots__ = ("_again", "_end", "_has_moved", "_line")

    def __init__(
        self,
        line: Line,
        *,
        has_moved: Callable[[Line], bool],
        again: Callable[[Line], None],
        end: Callable[[Line], None],
    ) -> None:
        super().__init__(min(BACKOFF_MS << line.waiting[0].tries, MAX_BACKOFF_MS))
        self._line = line
        self._has_moved = has_moved
        self._again = again
        self._end = end

    def try_complete(self) -> bool:
        """Complete when another broker leads the dead-letter topic's partition."""
        return self._has_moved(self._line) and self.force_complete()

    def on_complete(self) -> None:
        """Begin the next try."""
        self._again(self._line)

    def on_shutdown(self) -> None:
        """Leave the records to the next leader: they are ARCHIVING in their state."""
        self._end(self._line)

    def on_error(self, error: Exception) -> None:
        """Leave the records to the next leader."""
        self._end(self._line)

    def causes(self) -> tuple[DeadLettersNotWritten]:
        """Return why the last try failed."""
        line = self._line
        asked = None if line.asked == NO_LEADER else line.asked
        tries = line.waiting[0].tries if line.waiting else 0
        return (DeadLettersNotWritten(line.target, line.group_id, str(line.tp), asked, line.why, MAX_TRIES - tries),)

    def held_by(self) -> tuple[int, ...]:
        """Return the broker that was asked, if there was one."""
        return () if self._line.asked == NO_LEADER else (self._line.asked,)
