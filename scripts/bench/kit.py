"""What tests with `purgatorio.testing` wait for: clusters, resets, the clock; and what rules and the log cost."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, redirect_stdout
from typing import Final

from loads import pipelined
from purgatorio.admin.cluster import Cluster
from purgatorio.broker.layers.faults import parse_rule
from purgatorio.client.wire import Wire
from purgatorio.testing import Kafka, cluster
from purgatorio.testing.loop_thread import LoopThread
from purgatorio.testing.options import ClusterOptions
from rows import MET, MISSED, Row, at_most
from wire import create_topic, produce_frame

FIRST: Final = """
import asyncio, time
began, cpu = time.perf_counter(), time.process_time()
from purgatorio.testing import cluster
with cluster():
    print((time.perf_counter() - began) * 1000, (time.process_time() - cpu) * 1000)
"""
"""A test process with pytest-asyncio or anyio has loaded asyncio before."""
MOVE_SECONDS: Final = 30
DEPTH: Final = 16


def rows(quick: bool = False) -> list[Row]:
    """Run all measurements of this file."""
    rounds = 2 if quick else 20
    return [
        _first(1 if quick else 7),
        *_later(rounds, 5 if quick else 100),
        _reset(rounds),
        *(_advance(topics, 1 if quick else 10) for topics in (1, 10)),
        *_requests(3 * rounds, 200 if quick else 1_000),
        _left_over(5 if quick else 1_000),
    ]


def _address(kafka: Kafka) -> tuple[str, int]:
    host, _, port = kafka.bootstrap_servers[0].rpartition(":")
    return host, int(port)


def _first(rounds: int) -> Row:
    taken = []
    for _ in range(rounds):
        ran = subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True, check=True)
        taken.append([float(each) for each in ran.stdout.split()])
    wall_ms, cpu_ms = (statistics.median(each) for each in zip(*taken, strict=True))
    return at_most(
        "test kit: first cluster of a process, three brokers, with imports",
        wall_ms,
        200,
        " ms",
        f" ({cpu_ms:.0f} of CPU)",
    )


def _timed(do: Callable[[], object], rounds: int, before: Callable[[], object] = lambda: None) -> tuple[float, str]:
    """Return the median in milliseconds of wall time, and in words that of CPU; `before` is done first each time."""
    wall_ms, cpu_ms = [], []
    for _ in range(rounds):
        before()
        began, cpu = time.perf_counter(), time.process_time()
        do()
        wall_ms.append((time.perf_counter() - began) * 1_000)
        cpu_ms.append((time.process_time() - cpu) * 1_000)
    return statistics.median(wall_ms), f" ({statistics.median(cpu_ms):.2g} of CPU)"


def _later(rounds: int, count: int) -> list[Row]:
    started: list[Kafka] = []
    wall_ms, cpu = _timed(lambda: started.append(Kafka()), rounds)
    for each in started:
        each.close()
    began = time.perf_counter()
    for _ in range(count):
        with cluster():
            pass
    seconds = time.perf_counter() - began
    return [
        at_most("test kit: a later cluster", wall_ms, 5, " ms", cpu),
        at_most("test kit: 100 clusters, one after the other", seconds * 100 / count, 3, " s"),
    ]


def _reset(rounds: int) -> Row:
    with cluster() as kafka:

        def use() -> None:
            kafka.produce(kafka.topic("orders", partitions=3), "a")

        wall_ms, cpu = _timed(kafka.reset, rounds, use)
        return at_most("test kit: reset of a cluster with a topic", wall_ms, 5, " ms", cpu)


def _advance(topics: int, rounds: int) -> Row:
    """From `advance` to the answer of a produce request that waits so long for followers that are held."""
    taken_ms = []
    with cluster(brokers=3, topics={f"t{number}": 3 for number in range(topics)}) as kafka:
        for _ in range(rounds):
            kafka.reset()
            address = create_topic(_address(kafka), "held", 3)
            leader = next(
                index for index, each in enumerate(kafka.bootstrap_servers, 1) if each.endswith(f":{address[1]}")
            )
            for broker in {1, 2, 3} - {leader}:
                kafka.hold_follower(broker)
            with closing(Wire(address)) as wire:
                wire.socket.sendall(produce_frame("held", 10, acks=-1))
                kafka.until_parked(api="Produce").wait()
                began = time.perf_counter()
                with redirect_stdout(sys.stderr):  # what it ended is printed for a test's report
                    kafka.clock.advance(MOVE_SECONDS)
                wire.receive()
                taken_ms.append((time.perf_counter() - began) * 1_000)
    what = (
        f"test kit: advance({MOVE_SECONDS}) → a produce request of {MOVE_SECONDS} s is answered, {topics} more topics"
    )
    return at_most(what, statistics.median(taken_ms), 50, " ms", f" (best {min(taken_ms):.3g})")


@contextmanager
def _running() -> Iterator[tuple[Cluster, LoopThread, Callable[[], float]]]:
    """A cluster of one broker without the kit, in a thread, and the CPU seconds that this thread has taken."""
    thread = LoopThread()
    running = Cluster(ClusterOptions(brokers=1).config())
    thread.run(running.start(), "start")
    clock = time.pthread_getcpuclockid(thread.call(threading.get_ident, "find the thread"))
    try:
        yield running, thread, lambda: time.clock_gettime(clock)
    finally:
        thread.end(running.stop(), "stop")


def _requests(rounds: int, count: int) -> list[Row]:
    """CPU of the broker's thread for a produce request: plain, with the log, with the log and a rule; in turn."""
    costs: dict[str, list[float]] = {"plain": [], "log": [], "rule": []}
    with _running() as (plain, _, plain_cpu), _running() as (logged, thread, logged_cpu):
        thread.call(logged.faults.record_requests, "record requests")
        rule = parse_rule({"api": "Produce", "topic": "another", "error": "NOT_LEADER_OR_FOLLOWER"})

        def cost(running: Cluster, cpu: Callable[[], float]) -> float:
            host, _, port = running.bootstrap.rpartition(":")
            before = cpu()
            pipelined((host, int(port)), produce_frame("t", 100, acks=1), depth=DEPTH, count=count)
            return (cpu() - before) / count * 1e6

        for running in (plain, logged):
            host, _, port = running.bootstrap.rpartition(":")
            create_topic((host, int(port)), "t", 1)
        for _ in range(rounds):
            costs["plain"].append(cost(plain, plain_cpu))
            costs["log"].append(cost(logged, logged_cpu))
            live = thread.call(lambda: logged.faults.add(rule), "add a rule")
            costs["rule"].append(cost(logged, logged_cpu))
            thread.call(lambda live=live: logged.faults.remove(live.id), "remove it")  # type: ignore[misc]
    plain_us, log_us = (statistics.median(costs[each]) for each in ("plain", "log"))
    more_us = statistics.median(rule - log for rule, log in zip(costs["rule"], costs["log"], strict=True))
    return [
        Row("test kit: the request log, a produce request", f"{log_us - plain_us:.2g} µs (of {log_us:.3g} µs of CPU)"),
        at_most(
            "test kit: one fault rule, a produce request of another topic",
            more_us / log_us * 100,
            2,
            " %",
            f" ({more_us:.2g} µs)",
        ),
    ]


def _left_over(count: int) -> Row:
    """Threads, open files and memory that clusters leave behind, after some that warm up."""

    def taken() -> tuple[int, int, float]:
        with open("/proc/self/statm", encoding="ascii") as pages:
            resident_mb = int(pages.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
        return threading.active_count(), len(os.listdir("/proc/self/fd")), resident_mb

    def run(number: int) -> tuple[int, int, float]:
        for _ in range(number):
            with cluster():
                pass
        return taken()

    threads, files, resident_mb = run(max(1, count // 5))
    after = run(count)
    left = f"{after[0] - threads} threads, {after[1] - files} files, {after[2] - resident_mb:.1f} MB"
    met = after[0] <= threads and after[1] <= files and after[2] - resident_mb < 1 + count / 250
    return Row(f"test kit: {count:,} clusters leave behind", left, "nothing", MET if met else MISSED)
