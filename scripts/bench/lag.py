"""How late the brokers' event loop is while clients of all kinds use it: the histogram that the brokers measure."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from itertools import accumulate, count
from urllib.request import urlopen

from loads import pipelined
from processes import Brokers, brokers
from purgatorio.broker.metrics.loop_lag import BUCKETS_MS
from purgatorio.protocol.api import ApiKey
from purgatorio.protocol.messages.metadata import MetadataRequest
from rows import Row, at_most
from wire import METADATA_VERSION, Wire, create_topic, fetch_frame, frame, produce_frame

TOPICS = 20
BURST = 200
BARE_LOOP = """
import asyncio, sys
from purgatorio.broker.time.event_loop import loop_factory
from purgatorio.broker.time.clock import SystemClock
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


def _clients(running: Brokers) -> list[Callable[[], None]]:
    """One step of each client: pipelined and lone producers, a consumer that polls, metadata, a scrape."""
    leader = create_topic(running.addresses[0], "mixed", 3)
    for number in range(TOPICS):
        create_topic(running.addresses[0], f"idle-{number}", 3)
    lone, consumer, admin = Wire(leader), Wire(leader), Wire(leader)
    small = [produce_frame("mixed", 100, acks=acks) for acks in (1, -1)]
    large = produce_frame("mixed", 16 * 1024, acks=1)
    metadata = frame(ApiKey.METADATA, METADATA_VERSION, MetadataRequest(topics=None))
    ends = count(100, 10)

    def poll() -> None:
        consumer.exchange(fetch_frame("mixed", next(ends), max_wait_ms=50))

    def ask() -> None:
        admin.exchange(metadata)
        time.sleep(0.02)

    def scrape() -> None:
        _scrape(running.admin_url)
        time.sleep(0.5)

    def lone_requests() -> None:
        for request in (*small, large):
            lone.exchange(request)
        time.sleep(0.002)

    def bursts() -> None:
        for request in (*small, large):
            pipelined(leader, request, depth=32, count=BURST)
        time.sleep(0.02)

    return [poll, ask, scrape, lone_requests, bursts]


def rows(quick: bool = False) -> list[Row]:
    """Run the clients at once, and read the histogram."""
    with brokers() as running:
        clients = _clients(running)
        stop = threading.Event()

        def repeat(step: Callable[[], None]) -> None:
            while not stop.is_set():
                step()

        threads = [threading.Thread(target=repeat, args=(step,)) for step in clients]
        for thread in threads:
            thread.start()
        time.sleep(0.2 if quick else 2)
        before = histogram(_scrape(running.admin_url))
        machine = _of_a_bare_loop(0.5 if quick else 20)
        after = histogram(_scrape(running.admin_url))
        stop.set()
        for thread in threads:
            thread.join()
    detail = f" (p99 {quantile(before, after, 0.99):.1f} ms; a loop without work meanwhile, p99.9 {machine:.1f} ms)"
    return [
        at_most("lag of the event loop under a mixed load: p99.9", quantile(before, after, 0.999), 5, " ms", detail)
    ]
