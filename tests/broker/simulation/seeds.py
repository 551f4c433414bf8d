"""Which seeds are simulated: a part of them that changes from day to day, so that all have their turn.

``pytest --simulation-seeds 101-200`` runs the seeds that it names; the seeds of a run are printed at its head.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass

SEEDS = 500
"""All seeds that a release has passed: 1 to this."""
SEEDS_A_DAY = 20
CHUNK = 5
"""Seeds of one test: few, so that the processes that share the tests are done at the same time."""
HEAVY_SEEDS = 10_000
HEAVY_CHUNK = 25


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
    def of_day(cls, day: datetime.date) -> Seeds:
        """The seeds of a day: every seed comes up once in SEEDS / SEEDS_A_DAY days."""
        first = 1 + day.toordinal() * SEEDS_A_DAY % SEEDS
        return cls(first, first + SEEDS_A_DAY - 1)

    def chunks(self, size: int) -> Sequence[Seeds]:
        """The same seeds, `size` at a time."""
        starts = range(self.first, self.last + 1, size)
        return [Seeds(start, min(start + size - 1, self.last)) for start in starts]
