"""The purgatory: operations per second and the highest load, against the design that it replaced.

The workload is the one that was published with the new design (Kafka 0.9): Poisson arrivals, three keys of a
hundred per request, a timeout of 200 ms, a log-normal time to completion with p50/p75 of 20/60 ms (few timeouts) and
200/400 ms (half of all requests time out). Time is virtual: a purgatory saturates at the rate at which a virtual second
costs it a second of CPU.
"""

from __future__ import annotations

import gc
import heapq
import math
import random
import time
from collections.abc import Hashable

from purgatorio.purgatory import ActionQueue, DelayedOperation, Purgatory, Timer
from request_purgatory_08 import DelayedRequest08, RequestPurgatory08
from rows import Row, at_least, at_most

KEYS = 100
KEYS_PER_REQUEST = 3
TIMEOUT_MS = 200
STEPS = 7
Z75 = 0.6744897501960817


class _Waiting(DelayedOperation):
    """Completes on request of the workload."""

    __slots__ = ("ready",)

    def __init__(self, delay_ms: int) -> None:
        super().__init__(delay_ms)
        self.ready = False

    def try_complete(self) -> bool:
        return self.ready and self.force_complete()

    def on_complete(self) -> None:
        pass


class _New:
    """The purgatory of this project under the workload."""

    def __init__(self) -> None:
        self.now_ms = 0
        self._timer = Timer(lambda: self.now_ms)
        self._purgatory: Purgatory[_Waiting] = Purgatory("Bench", self._timer, actions=ActionQueue())

    def arrive(self, keys: list[Hashable]) -> _Waiting:
        operation = _Waiting(TIMEOUT_MS)
        self._purgatory.try_complete_else_watch(operation, keys)
        return operation

    @staticmethod
    def complete(operation: _Waiting) -> None:
        operation.force_complete()

    def tick(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self._timer.advance(now_ms)


class _Old:
    """The model of Kafka 0.8's under the workload."""

    def __init__(self) -> None:
        self.now_ms = 0
        self._purgatory = RequestPurgatory08()

    def arrive(self, keys: list[Hashable]) -> DelayedRequest08:
        request = DelayedRequest08(self.now_ms + TIMEOUT_MS)
        self._purgatory.watch(request, keys)
        return request

    @staticmethod
    def complete(request: DelayedRequest08) -> None:
        request.satisfied = True

    def tick(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self._purgatory.expire(now_ms)


def _cpu_seconds(system: _New | _Old, count: int, rate: float, p50_ms: float, p75_ms: float) -> float:
    """CPU time for `count` requests that arrive at `rate` per virtual second, without the workload's own costs."""
    rng = random.Random(1)
    mu, sigma = math.log(p50_ms), math.log(p75_ms / p50_ms) / Z75
    arrivals, at_ms = [], 0.0
    for _ in range(count):
        at_ms += rng.expovariate(rate / 1000)
        keys: list[Hashable] = rng.sample(range(KEYS), KEYS_PER_REQUEST)
        arrivals.append((at_ms, at_ms + rng.lognormvariate(mu, sigma), keys))
    gc.collect()
    gc.disable()
    idle = _play(None, arrivals)
    busy = _play(system, arrivals)
    gc.enable()
    return busy - idle


def _play(system: _New | _Old | None, arrivals: list[tuple[float, float, list[Hashable]]]) -> float:
    """Run the workload; returns CPU seconds. Without a system: the workload's own costs."""
    completions: list[tuple[float, int, object]] = []
    started = time.process_time()
    now_ms = 0
    for number, (at_ms, done_ms, keys) in enumerate(arrivals):
        while now_ms < at_ms:
            now_ms += 1
            while completions and completions[0][0] <= now_ms:
                waiting = heapq.heappop(completions)[2]
                if system is not None:
                    system.complete(waiting)  # type: ignore[arg-type]
            if system is not None:
                system.tick(now_ms)
        waiting = system.arrive(keys) if system is not None else None
        heapq.heappush(completions, (done_ms, number, waiting))
    return time.process_time() - started


def saturation_rate(new_system: type[_New] | type[_Old], count: int, p50_ms: float, p75_ms: float) -> float:
    """Requests per second at which a second of the workload takes a second of CPU.

    A request costs more the more others wait, and so the higher the rate: each step goes half of the way, in orders of
    magnitude, from the rate it tried to the one that its cost would allow.
    """
    rate = 50_000.0
    for _ in range(STEPS):
        rate = math.sqrt(rate * count / _cpu_seconds(new_system(), count, rate, p50_ms, p75_ms))
    return rate


def against_the_old_design(quick: bool) -> list[Row]:
    """Both workloads, both designs."""
    count = 5_000 if quick else 250_000
    rows = []
    for name, p50_ms, p75_ms in (("low-timeout", 20, 60), ("high-timeout", 200, 400)):
        new = saturation_rate(_New, count, p50_ms, p75_ms)
        old = saturation_rate(_Old, count, p50_ms, p75_ms)
        detail = f" ({new / 1000:.0f}k against {old / 1000:.0f}k requests/s)"
        label = f"saturation rate against the 0.8 design, {name} workload"
        rows.append(
            at_least(label, new / old, 3, "×", detail) if p50_ms == 200 else Row(label, f"{new / old:.3g}×{detail}")
        )
    return rows


def _operations_per_second(parked: int, keys: int, count: int) -> float:
    """Watch an operation and complete it by its key, with this many others parked and each key watched once."""
    now = 0
    timer = Timer(lambda: now)
    purgatory: Purgatory[_Waiting] = Purgatory("Bench", timer, actions=ActionQueue())
    for number in range(parked):
        purgatory.try_complete_else_watch(_Waiting(3_600_000), [("parked", number)])
    names = [("key", number) for number in range(keys)]
    gc.collect()
    gc.disable()
    started = time.perf_counter()
    for number in range(count):
        key = names[number % keys]
        operation = _Waiting(30_000)
        purgatory.try_complete_else_watch(operation, (key,))
        operation.ready = True
        purgatory.check_and_complete(key)
    seconds = time.perf_counter() - started
    gc.enable()
    return count / seconds


def watch_and_complete(quick: bool) -> list[Row]:
    """From 1 to 1M parked, over 1 to 10k keys."""
    count = 5_000 if quick else 200_000
    sizes = (1, 1_000) if quick else (1, 1_000, 100_000, 1_000_000)
    rates = {parked: _operations_per_second(parked, 1, count) for parked in sizes}
    thousand = rates[1_000]
    rows = [at_least("purgatory watch→complete, 1,000 parked", thousand / 1000, 150, "k ops/s")]
    if not quick:
        spread = max(thousand / rate for parked, rate in rates.items() if parked >= 1_000)
        detail = ", ".join(f"{parked:,}: {rate / 1000:.0f}k" for parked, rate in rates.items())
        rows.append(at_most("the same, slowest from 1k to 1M parked", spread, 1.5, "× slower", f" ({detail})"))
    many = 100 if quick else 10_000
    rows.append(Row(f"the same over {many:,} keys", f"{_operations_per_second(1_000, many, count) / 1000:.0f}k ops/s"))
    return rows


def rows(quick: bool = False) -> list[Row]:
    """Run all measurements of this file."""
    return watch_and_complete(quick) + against_the_old_design(quick)
