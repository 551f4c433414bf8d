"""The timing wheel against `loop.call_later`, and how punctual deadlines are when 100,000 fall into one second."""

from __future__ import annotations

import asyncio
import gc
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

from purgatorio.purgatory import Reaper, Timer, TimerEntry
from rows import Row, at_least, at_most, percentile

MEASURED = 50_000


def _loops() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    loops: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
    try:
        import uvloop
    except ImportError:
        return loops
    return {**loops, "uvloop": uvloop.new_event_loop}


def _wheel_microseconds(pending: int, delays: list[int]) -> float:
    """Add and cancel, per timer, with this many others pending."""
    timer = Timer(lambda: 0)
    for number in range(pending):
        timer.add(TimerEntry(delays[number % len(delays)]))
    entries = [TimerEntry(delay) for delay in delays]
    add = timer.add
    started = time.perf_counter()
    for entry in entries:
        add(entry)
    for entry in entries:
        entry.cancel()
    return (time.perf_counter() - started) / len(entries) * 1e6


def _call_later_microseconds(new_loop: Callable[[], Any], pending: int, delays: list[int]) -> float:
    loop = new_loop()
    handles = [loop.call_later(1000 + delays[number % len(delays)] / 1000, int) for number in range(pending)]
    call_later = loop.call_later
    started = time.perf_counter()
    measured = [call_later(1000 + delay / 1000, int) for delay in delays]
    for handle in measured:
        handle.cancel()
    seconds = time.perf_counter() - started
    for handle in handles:
        handle.cancel()
    loop.close()
    return seconds / len(delays) * 1e6


def against_call_later(quick: bool) -> list[Row]:
    """Add and cancel with 1k to 1M pending; the garbage collector is off, since no timer makes garbage."""
    rng = random.Random(0)
    delays = [rng.randrange(1, 60_000) for _ in range(2000 if quick else MEASURED)]
    rows = []
    for pending in (1_000, 10_000) if quick else (1_000, 100_000, 1_000_000):
        ratios: dict[str, list[float]] = {name: [] for name in _loops()}
        ours = []
        for _ in range(1 if quick else 3):
            gc.collect()
            gc.disable()
            ours.append(_wheel_microseconds(pending, delays))
            for name, new_loop in _loops().items():
                ratios[name].append(_call_later_microseconds(new_loop, pending, delays) / ours[-1])
            gc.enable()
        for name, found in ratios.items():
            label = f"wheel add+cancel against {name} call_later+cancel, {pending:,} pending"
            detail = f" faster ({statistics.median(ours):.2f} µs)"
            value = statistics.median(found)
            if name == "uvloop" and pending == 1_000_000:
                rows.append(at_least(label, value, 1.5, "×", detail))
            else:
                rows.append(Row(label, f"{value:.3g}×{detail}"))
    return rows


class _Late(TimerEntry):
    """A timer entry that notes its lateness."""

    __slots__ = ("lateness_ms",)

    def __init__(self, deadline_ms: int, lateness_ms: list[float]) -> None:
        super().__init__(deadline_ms)
        self.lateness_ms = lateness_ms

    def run(self) -> None:
        self.lateness_ms.append(time.monotonic() * 1000 - self.deadline_ms)


async def _punctuality(count: int) -> tuple[float, float]:
    """`count` deadlines within one second: returns their lateness at p99, and the longest stall of the loop."""

    def now_ms() -> int:
        return time.monotonic_ns() // 1_000_000

    timer = Timer(now_ms)
    rng = random.Random(0)
    lateness_ms: list[float] = []
    start_ms = now_ms() + 1000
    for _ in range(count):
        timer.add(_Late(start_ms + rng.randrange(1000), lateness_ms))
    gc.collect()
    gc.freeze()
    stalls_ms = []
    async with asyncio.TaskGroup() as tasks:
        reaper = tasks.create_task(Reaper(now_ms, [timer]).run())
        while timer.size:
            turn = time.perf_counter()
            await asyncio.sleep(0.001)
            stalls_ms.append((time.perf_counter() - turn) * 1000 - 1)
        reaper.cancel()
    gc.unfreeze()
    return percentile(lateness_ms, 0.99), max(stalls_ms)


def punctuality(quick: bool) -> list[Row]:
    """100,000 operations due in one second, on the loop that the broker runs on."""
    count = 5_000 if quick else 100_000
    found = []
    for _ in range(1 if quick else 3):
        with asyncio.Runner(loop_factory=list(_loops().values())[-1]) as runner:
            found.append(runner.run(_punctuality(count)))
    late_ms, stall_ms = (statistics.median(values) for values in zip(*found, strict=True))
    return [
        at_most(f"{count:,} operations due in one second: p99 fires late by", late_ms, 5, " ms"),
        at_most(f"{count:,} operations due in one second: longest stall of the loop", stall_ms, 10, " ms"),
    ]


def rows(quick: bool = False) -> list[Row]:
    """Run all measurements of this file."""
    return against_call_later(quick) + punctuality(quick)
