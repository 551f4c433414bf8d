"""Which seeds are simulated: a part of them that changes from day to day, so that all have their turn.

``pytest --simulation-seeds 101-200`` runs the seeds that it names; the seeds of a run are printed at its head.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

SEEDS = 500
"""All seeds that a release has passed: 1 to this."""
SEEDS_A_DAY = 20
TRANSACTIONAL_SEEDS = 8_400
"""CI simulates those of seeds 1 to this that have transactions, 2,001, by turns."""
SEEDS_A_TURN = 84
"""Of these twenty have transactions: a minute of CPU."""
CHUNK = 5
"""Seeds of one test: few, so that the processes that share the tests are done at the same time."""
PYTHONS = 4
"""CI's versions of Python, from 3.11 on; each takes a turn of its own."""
HEAVY_SEEDS = 10_000
HEAVY_CHUNK = 25
TRANSACTIONAL_CHUNK = 21


def turn_of(environment: Mapping[str, str], day: datetime.date, minor_version: int) -> int:
    """Return the number of CI's turn: by the number of its run, which GitHub counts, else by the day."""
    run = int(environment.get("GITHUB_RUN_NUMBER", day.toordinal()))
    return run * PYTHONS + (minor_version - 11) % PYTHONS


@dataclass(frozen=True)
class Seeds:
    """Some seeds in a row, as text ``101-200``."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"

    @classmethod
    def parse(cls, text: str) -> Seeds:
        """Read ``101-200``, or ``7`` alone.

        Raises:
            ValueError: it is neither, or names no seed.
        """
        found = re.fullmatch(r"(\d+)(?:-(\d+))?", text)
        if found is None or int(found[1]) > int(found[2] or found[1]):
            raise ValueError(f"seeds are given as 101-200 or 7, not {text!r}")
        return cls(int(found[1]), int(found[2] or found[1]))

    @classmethod
    def of_day(cls, day: datetime.date, count: int = SEEDS_A_DAY) -> Seeds:
        """The seeds of a day, or the first of them: every seed comes up once in SEEDS / SEEDS_A_DAY days."""
        first = 1 + day.toordinal() * SEEDS_A_DAY % SEEDS
        return cls(first, first + count - 1)

    @classmethod
    def of_turn(cls, turn: int) -> Seeds:
        """The seeds of a turn of CI: every one comes up once in TRANSACTIONAL_SEEDS / SEEDS_A_TURN turns."""
        first = 1 + turn * SEEDS_A_TURN % TRANSACTIONAL_SEEDS
        return cls(first, first + SEEDS_A_TURN - 1)

    @property
    def each(self) -> range:
        """The numbers."""
        return range(self.first, self.last + 1)

    def chunks(self, size: int) -> Sequence[Seeds]:
        """The same seeds, `size` at a time."""
        starts = range(self.first, self.last + 1, size)
        return [Seeds(start, min(start + size - 1, self.last)) for start in starts]
