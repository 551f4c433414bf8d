"""How late the brokers' event loop is while clients of all kinds use it: the histogram that the brokers measure."""

from __future__ import annotations

import contextlib
import re
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import accumulate, count
from urllib.request import urlopen

from loads import pipelined
from processes import Brokers, brokers
from purgatorio.admin.cli.build import build
from purgatorio.broker.metrics.loop_lag import BUCKETS_MS
from purgatorio.client.wire import Wire, frame
from purgatorio.protocol.messages.metadata import MetadataRequest
from rows import Row, rounds_at_most
from wire import create_topic, fetch_frame, produce_frame

ROUNDS = 5
TOPICS = 20
BURST = 200
BARE_LOOP = """
import asyncio, sys
from purgatorio.broker.time.event_loop import loop_factory
from purgatorio.broker.time.system_clock import SystemClock
from purgatorio.broker.metrics.loop_lag import BUCKETS_MS, LoopLag

async def main():
    lag = LoopLag(SystemClock())
    lag.start()
    await asyncio.sleep(float(sys.argv[1]))
    lag.stop()
    print(*lag.buckets)

with asyncio.Runner(loop_factory=loop_factory()) as runner:
    runner.run(main())
"""


def _scrape(admin_url: str) -> str:
    with urlopen(f"{admin_url}/metrics", timeout=30) as answer:
        return str(answer.read().decode())


def histogram(scraped: str) -> dict[float, float]:
    """Entries at or below each bound, by milliseconds."""
    found = re.findall(r'^purgatorio_event_loop_lag_ms_bucket\{le="([^"]+)"\} (\S+)$', scraped, re.MULTILINE)
    return {float(bound): float(entries) for bound, entries in found}


def quantile(before: dict[float, float], after: dict[float, float], share: float) -> float:
    """The lag below which a share of the time between two scrapes lay, in milliseconds; interpolated in its bucket."""
    wanted = share * (after[float("inf")] - before[float("inf")])
    low_bound = low = 0.0
    for bound in sorted(after):
        entries = after[bound] - before[bound]
        if entries >= wanted:
            return (
                low_bound
                if bound == float("inf")
                else low_bound + (bound - low_bound) * (wanted - low) / (entries - low)
            )
        low_bound, low = bound, entries
    return low_bound


def _of_a_bare_loop(seconds: float) -> float:
    """The p99.9 of an event loop that has nothing to do, in milliseconds: what the machine and the clients cause."""
    command = [sys.executable, "-c", BARE_LOOP, str(seconds)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    after = dict(zip((*BUCKETS_MS, float("inf")), accumulate(map(float, printed.split())), strict=True))
    return quantile(dict.fromkeys(after, 0.0), after, 0.999)


class MixedClients:
    """Clients of all kinds: pipelined and lone producers, a consumer that polls, metadata, a scrape.

    Attributes:
        answered: requests of producers that were answered.
    """

    def __init__(self, running: Brokers) -> None:
        self._running = running
        self._leader = leader = create_topic(running.addresses[0], "mixed", 3)
        for number in range(TOPICS):
            create_topic(running.addresses[0], f"idle-{number}", 3)
        self._lone, self._consumer, self._admin = Wire(leader), Wire(leader), Wire(leader)
        small = [produce_frame("mixed", 100, acks=acks) for acks in (1, -1)]
        self._requests = (*small, produce_frame("mixed", 16 * 1024, acks=1))
        self._metadata = frame(MetadataRequest(topics=None))
        self._ends = count(100, 10)
        self._stop = threading.Event()
        self.answered = 0

    def _poll(self) -> None:
        self._consumer.exchange(fetch_frame("mixed", next(self._ends), max_wait_ms=50))

    def _ask(self) -> None:
        self._admin.exchange(self._metadata)
        time.sleep(0.02)

    def _scrape(self) -> None:
        _scrape(self._running.admin_url)
        time.sleep(0.5)

    def _produce_one_by_one(self) -> None:
        for request in self._requests:
            self._lone.exchange(request)
            self.answered += 1
        time.sleep(0.002)

    def _produce_in_bursts(self) -> None:
        for request in self._requests:
            pipelined(self._leader, request, depth=32, count=BURST)
            self.answered += BURST
        time.sleep(0.02)

    def _repeat(self, step: Callable[[], None]) -> None:
        while not self._stop.is_set():
            step()

    @contextlib.contextmanager
    def busy(self) -> Iterator[None]:
        """Have each client repeat its step in a thread, until the block ends."""
        steps = (self._poll, self._ask, self._scrape, self._produce_one_by_one, self._produce_in_bursts)
        threads = [threading.Thread(target=self._repeat, args=(step,)) for step in steps]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()


def rows(quick: bool = False) -> list[Row]:
    """Run the clients at once, and read the histogram."""
    worst_ms, p99_ms, machine_ms, cpu_us = [], [], [], []
    with brokers() as running:
        clients = MixedClients(running)
        with clients.busy():
            time.sleep(0.2 if quick else 2)
            for _ in range(1 if quick else ROUNDS):
                before = histogram(_scrape(running.admin_url))
                busy_seconds, answered = running.cpu_seconds, clients.answered
                machine_ms.append(_of_a_bare_loop(0.5 if quick else 10))
                cpu_us.append((running.cpu_seconds - busy_seconds) / max(1, clients.answered - answered) * 1e6)
                after = histogram(_scrape(running.admin_url))
                worst_ms.append(quantile(before, after, 0.999))
                p99_ms.append(quantile(before, after, 0.99))
    detail = f"; p99 {statistics.median(p99_ms):.1f} ms, {statistics.median(cpu_us):.0f} µs of CPU a produce request"
    detail += f"; a loop without work meanwhile, p99.9 {statistics.median(machine_ms):.1f} ms"
    name = f"lag of the event loop under a mixed load, {build()}: p99.9"
    return [rounds_at_most(name, worst_ms, 4 if build() == "compiled" else 8, " ms", detail)]
