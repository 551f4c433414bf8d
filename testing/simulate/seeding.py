"""Which seeds a test runs, in which order, and for how long; and the memory of those that failed.

The pytest plugin says so for a session: `--kafka-sim-seed`, a budget of time, the part of an xdist worker, and a folder
of pytest's cache. Without it a test runs its own seeds, and remembers nothing.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Final

from purgatorio.late import dataclass

MAX_REMEMBERED: Final = 20
"""The failing seeds that are remembered of one test."""


class FailedSeeds:
    """The seeds of one test that failed when they were last run: a file for each, so that processes can share them.

    Args:
        folder: where the files lie, those of other tests too.
        test: the name of the test.
    """

    def __init__(self, folder: Path, test: str) -> None:
        self._folder = folder
        self._test = test
        self._prefix = hashlib.sha256(test.encode()).hexdigest()[:16]

    def __iter__(self) -> Iterator[int]:
        names = [path.name.rpartition("-")[2] for path in self._folder.glob(f"{self._prefix}-*")]
        return iter(sorted(int(name) for name in names if name.isdecimal()))

    def add(self, seed: int) -> None:
        """Remember a seed, unless there are `MAX_REMEMBERED`."""
        if len(list(self)) < MAX_REMEMBERED:
            self._file(seed).write_text(f"{self._test}\n")

    def discard(self, seed: int) -> None:
        """Forget a seed: it passes now."""
        self._file(seed).unlink(missing_ok=True)

    def _file(self, seed: int) -> Path:
        return self._folder / f"{self._prefix}-{seed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seeding:
    """The choices of a session about the seeds of one test.

    Attributes:
        only: these seeds and no others, if there are any.
        budget_seconds: the real time after which no seed begins; at least one is run.
        part: the number of the part to run, and of how many; seeds are dealt to the parts in turn.
        failed: the seeds that failed before; they come first.
        replay: the line that runs a seed of this test again, without the seed.
    """

    only: tuple[int, ...] = ()
    budget_seconds: float | None = None
    part: tuple[int, int] = (0, 1)
    failed: FailedSeeds | None = None
    replay: str | None = None

    def order(self, seeds: Sequence[int]) -> list[int]:
        """Return which of a test's seeds are run, in their order."""
        if self.only:
            return list(self.only)
        nth, of = self.part
        own = seeds[nth::of]
        if self.failed is None:
            return list(own)
        known = frozenset(seeds)
        mine = frozenset(own)
        first = [seed for seed in self.failed if seed in mine or (nth == 0 and seed not in known)]
        return list(dict.fromkeys([*first, *own]))

    def within_budget(
        self, seeds: Sequence[int], *, now_seconds: Callable[[], float] = time.perf_counter
    ) -> Iterator[int]:
        """Iterate over seeds until the budget is spent."""
        began = now_seconds()
        for nth, seed in enumerate(seeds):
            if nth and self.budget_seconds is not None and now_seconds() - began >= self.budget_seconds:
                return
            yield seed

    def note(self, seed: int, *, passed: bool) -> None:
        """Remember a seed that failed, and forget one that passes."""
        if self.failed is not None:
            (self.failed.discard if passed else self.failed.add)(seed)


_current: Final[ContextVar[Seeding]] = ContextVar("seeding", default=Seeding())  # noqa: B039 - it is frozen


def current_seeding() -> Seeding:
    """Return what the session says about the test that runs."""
    return _current.get()


@contextmanager
def seeded(seeding: Seeding) -> Iterator[None]:
    """Have tests run these seeds while the context lasts."""
    token = _current.set(seeding)
    try:
        yield
    finally:
        _current.reset(token)
