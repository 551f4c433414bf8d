"""Keeps the resident memory of a process of brokers within what their settings allow (memory.bytes).

Each kind of memory has a bound of its own, and counts its bytes. No count has the rest: holes that the allocator cannot
use, modules that load late, objects of many small clients. So a `MemoryGuard` asks the system how much the process has.
Of what is too much it gives back first what is free, and lowers the cap of the logs by the rest: old records go a
little earlier, and nobody ends the process for its size. When there is room again, the logs get it back.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from purgatorio.broker.log.arena import TRIM_PAUSE_MS, TRIMMED_BYTES
from purgatorio.broker.log.heap import heap
from purgatorio.broker.log.memory import MemoryBudget
from purgatorio.logger import get_logger
from purgatorio.purgatory.clock import Alarm, Clock

LOOK_INTERVAL_MS: Final = 200
LATE_BYTES: Final = 8 * 1024 * 1024
"""A process may take so much besides: for modules that load with the first request of a kind, and their objects."""
FLOOR_DIVISOR: Final = 4
"""The logs keep this part of what they may have, whatever else there is."""
RETURN_DIVISOR: Final = 4
"""A cap that was lowered is raised by this part of the room, so that it does not swing."""
STATM: Final = Path("/proc/self/statm")

_log = get_logger(__name__)


def resident_bytes() -> int | None:
    """Return how much memory of the machine this process has; None on a system without /proc."""
    try:
        return int(STATM.read_bytes().split()[1]) * mmap.PAGESIZE
    except OSError:
        return None


class MemoryUse(NamedTuple):
    """Memory of a broker in bytes: what it may take (memory.bytes), and what takes how much of it now."""

    limit_bytes: int
    logs_bytes: int
    requests_bytes: int
    answers_bytes: int


class MemoryGuard:
    """Lowers the caps of logs while a process has more memory than its brokers may take.

    Args:
        brokers: returns the memory of the logs of each broker that runs now, and its memory.bytes.
        clock: the machine's.
        resident: see `resident_bytes`.

    Attributes:
        idle_bytes: what the process had at the start, without the records with which it began.
    """

    def __init__(
        self,
        brokers: Callable[[], Sequence[tuple[MemoryBudget, int]]],
        clock: Clock,
        resident: Callable[[], int | None] = resident_bytes,
    ) -> None:
        self._brokers = brokers
        self._clock = clock
        self._resident = resident
        self._alarm: Alarm | None = None
        self._lowered_bytes = 0
        self.idle_bytes = 0

    def start(self) -> None:
        """Look from now on, until `stop`. The brokers answer, and have no clients yet."""
        process_bytes = self._resident()
        if process_bytes is not None:
            self.idle_bytes = process_bytes - sum(budget.used_bytes for budget, _ in self._brokers())
            self._wait()

    def stop(self) -> None:
        """Look no more."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _wait(self, delay_ms: int = LOOK_INTERVAL_MS) -> None:
        self.stop()
        self._alarm = self._clock.call_later(delay_ms, self._look)

    def _look(self) -> None:
        self._wait()
        brokers = self._brokers()
        if not brokers:
            return
        budgets = [budget for budget, _ in brokers]
        most_bytes = self.idle_bytes + LATE_BYTES + sum(own_bytes for _, own_bytes in brokers)
        process_bytes = self._resident()
        if process_bytes is not None and process_bytes > most_bytes:
            self._give_back(budgets, process_bytes - most_bytes)
            process_bytes = self._resident()
        if process_bytes is None:
            return
        # What the arenas have free is room for records, although the process has it.
        excess_bytes = process_bytes - most_bytes - sum(budget.arena.idle_bytes for budget in budgets)
        if excess_bytes > 0:
            if not self._lowered_bytes:
                _log.warning(
                    "the process has more memory than its brokers may take: their logs get less until it has not",
                    resident_bytes=process_bytes,
                    idle_bytes=self.idle_bytes,
                    memory_bytes=most_bytes - self.idle_bytes - LATE_BYTES,
                )
            self._lower(budgets, self._lowered_bytes + excess_bytes)
        elif self._lowered_bytes:
            self._lower(budgets, max(0, self._lowered_bytes + excess_bytes // RETURN_DIVISOR))

    def _give_back(self, budgets: Sequence[MemoryBudget], excess_bytes: int) -> None:
        """Give free memory back to the system: of the heap, and of the arenas as much as is needed, in parts."""
        if (process_heap := heap()) is not None:
            process_heap.trim()
        left_bytes = most_bytes = min(excess_bytes, TRIMMED_BYTES)
        for budget in budgets:
            left_bytes -= budget.arena.give_back(left_bytes)
        if most_bytes < excess_bytes and left_bytes <= 0:
            self._wait(TRIM_PAUSE_MS)

    def _lower(self, budgets: Sequence[MemoryBudget], lowered_bytes: int) -> None:
        """Have the logs take so much less than they may have, each broker's a part of it by its share."""
        whole_bytes = sum(budget.share_bytes for budget in budgets)
        most_bytes = whole_bytes - whole_bytes // FLOOR_DIVISOR
        self._lowered_bytes = lowered_bytes = min(lowered_bytes, most_bytes)
        for budget in budgets:
            budget.lower(budget.share_bytes - lowered_bytes * budget.share_bytes // max(1, whole_bytes))
