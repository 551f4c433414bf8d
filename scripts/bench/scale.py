"""What it costs that much is there: idle partitions, connections, producers, a hot partition, a large creation."""

from __future__ import annotations

import statistics
import threading
import time
from contextlib import ExitStack, closing

from loads import lone_requests, pipelined
from processes import Brokers, allow_open_files, brokers
from purgatorio.client.wire import Wire
from rows import Row, at_most, percentile
from wire import create_topic, produce_frame

PARTITIONS = (1, 100, 1_000, 10_000)
PARTITIONS_OF_A_TOPIC = 1_000
CONNECTIONS = (1, 100, 1_000, 10_000)
CREATED = 5_000
WARM_UP_COUNTS = 3
"""How many times as many requests as are measured come before them: Java compiles what it has run for a while."""
SETTLED_PER_SECOND = 2_000
"""Brokers give the replicas of created partitions their roles, and followers begin to fetch, after the answer."""


def acks_all_beside_idle_partitions(
    running: Brokers, partitions: int, count: int, idle_seconds: float = 5
) -> tuple[float, float, float, float]:
    """p50 and p99 of lone acks=all requests in ms, idle CPU in % of a core, and memory in MB.

    The brokers hold this number of partitions with three replicas each, and one more that the requests go to.
    """
    for first in range(0, partitions, PARTITIONS_OF_A_TOPIC):
        size = min(PARTITIONS_OF_A_TOPIC, partitions - first)
        create_topic(running.addresses[0], f"idle-{first}", 3, partitions=size)
    leader = create_topic(running.addresses[0], "busy", 3)
    time.sleep(1 + partitions / SETTLED_PER_SECOND)
    before = running.cpu_seconds
    time.sleep(idle_seconds)
    idle = (running.cpu_seconds - before) / idle_seconds * 100
    request = produce_frame("busy", 100, acks=-1)
    lone_requests(leader, request, WARM_UP_COUNTS * count)
    times = lone_requests(leader, request, count)
    return percentile(times, 0.5) * 1000, percentile(times, 0.99) * 1000, idle, running.resident_mb


def _beside(running: Brokers, partitions: int, quick: bool) -> tuple[float, float, float, float]:
    return acks_all_beside_idle_partitions(running, partitions, *((50, 0.5) if quick else (2000, 5)))


def idle_partitions(quick: bool) -> list[Row]:
    """One row for each number of partitions, and how the last compares with the first."""
    rows, medians = [], []
    for partitions in PARTITIONS[:2] if quick else PARTITIONS:
        with brokers() as running:
            p50, p99, idle, resident = _beside(running, partitions, quick)
        medians.append(p50)
        name = f"{partitions:,} idle partitions × 3"
        rows.append(Row(f"acks=all beside {name}", f"p50 {p50:.3f} ms, p99 {p99:.2f} ms"))
        rows.append(at_most(f"{name}: CPU", idle, 5, " % of a core"))
        rows.append(at_most(f"{name}: memory", resident, 200, " MB"))
    name = "acks=all p50 beside the most idle partitions against beside one"
    return [*rows, at_most(name, medians[-1] / medians[0], 1.3, "×")]


def idle_connections(quick: bool) -> list[Row]:
    """Idle connections beside one that produces."""
    rows = []
    wanted = CONNECTIONS[:2] if quick else CONNECTIONS
    allow_open_files(wanted[-1] + 100)
    with brokers(1, **{"max.connections": wanted[-1] + 100, "max.connections.per.ip": wanted[-1] + 100}) as running:
        leader = create_topic(running.addresses[0], "busy", 1)
        request = produce_frame("busy", 100, acks=1)
        opened = 0
        with ExitStack() as stack:
            for connections in wanted:
                for _ in range(connections - opened):
                    stack.enter_context(closing(Wire(leader)))
                opened = connections
                times = lone_requests(leader, request, 50 if quick else 2000)
                p50 = percentile(times, 0.5) * 1e6
                rows.append(
                    Row(f"acks=1 beside {connections:,} connections", f"p50 {p50:.0f} µs, {running.resident_mb:.0f} MB")
                )
    return rows


def many_producers(quick: bool) -> list[Row]:
    """A thousand producers with one request each, and a hundred with eight each on one partition."""
    rows = []
    allow_open_files(1_100)
    with brokers() as running:
        leader = create_topic(running.addresses[0], "busy", 3)
        for connections, depth, acks in ((1_000, 1, 1), (100, 8, -1)):
            count = connections * depth * (1 if quick else 20)
            request = produce_frame("busy", 100, acks=acks)
            ran = pipelined(leader, request, depth=depth, connections=connections, count=count, warm_up=count // 4)
            name = f"{connections:,} producers, depth {depth}, acks={acks}, one partition"
            rows.append(Row(name, f"{ran.per_second:,.0f}/s, p99 {ran.at(0.99):.1f} ms"))
    return rows


def large_creation(quick: bool) -> list[Row]:
    """What a bystander's acks=all requests take while another client creates thousands of partitions in one request."""
    created = 100 if quick else CREATED
    with brokers() as running:
        leader = create_topic(running.addresses[0], "busy", 3)
        creating = threading.Thread(
            target=create_topic, args=(running.addresses[0], "many", 3), kwargs={"partitions": created}
        )
        request = produce_frame("busy", 100, acks=-1)
        with closing(Wire(leader)) as wire:
            waits: list[float] = []
            until = time.perf_counter() + (1 if quick else 8)
            creating.start()
            while time.perf_counter() < until or creating.is_alive():
                started = time.perf_counter()
                wire.exchange(request)
                waits.append(time.perf_counter() - started)
                time.sleep(0.002)
        creating.join()
    worst = f" (p50 {statistics.median(waits) * 1000:.2f} ms, worst {max(waits) * 1000:.0f} ms)"
    name = f"acks=all of a bystander while {created:,} partitions × 3 are created: p99"
    return [at_most(name, percentile(waits, 0.99) * 1000, 100, " ms", worst)]


def rows(quick: bool = False) -> list[Row]:
    """Run all measurements of this file."""
    return [*idle_partitions(quick), *idle_connections(quick), *many_producers(quick), *large_creation(quick)]
