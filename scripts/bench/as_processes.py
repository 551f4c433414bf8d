"""Brokers as processes of their own, beside the same brokers in one process, and beside Apache Kafka; and how soon a
kill is got over.

All clusters run all the time, and each cell is measured in turn: medians of the ratios of each turn, after a first one
that is not counted. Before that, Apache Kafka answers so many requests that Java has compiled what they need. All
brokers and the client share two cores. Without Java, Apache Kafka is left out.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import shutil
import signal
import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from itertools import count as counter
from urllib.request import urlopen

from apache_kafka import VERSION, apache_kafka
from loads import accepted, pipelined_at
from processes import Brokers, brokers, brokers_on_etcd
from purgatorio.admin.cli.admin_client import AdminClient
from purgatorio.admin.cli.build import build
from purgatorio.client.wire import Wire
from purgatorio.protocol.messages.metadata import MetadataResponsePartition
from rows import Row, at_most, rounds_at_least
from wire import create_topic, metadata_of, produce_frame

ROUNDS = 5
JAVA_WARM_UP_COUNT = 150_000  # requests, after which the rate grows no more
CONNECTIONS = 8
KAFKA = f"Apache Kafka {VERSION}"
_topics = counter()

Target = tuple[tuple[str, int], bytes]


@dataclass(frozen=True)
class Cell:
    """One load.

    Attributes:
        beside_one: the least ratio of processes to one process that we promise.
        beside_kafka: the least ratio of compiled processes to Apache Kafka that we promise; None: no promise.
    """

    name: str
    connections: int
    depth: int
    acks: int
    beside_one: float
    beside_kafka: float | None


CELLS = (
    Cell("8 connections, depth 1", CONNECTIONS, 1, 1, 1.6, 1.0),
    Cell("8 connections, depth 64", CONNECTIONS, 64, 1, 1.6, 1.3),
    Cell("acks=all, depth 64", 1, 64, -1, 1.4, None),
)


@dataclass
class Side:
    """A cluster, and what it did in each round.

    Attributes:
        rates: requests a second.
        costs: microseconds of CPU a request of each of its processes, and of the client last.
    """

    name: str
    running: Brokers
    targets: list[Target]
    rates: list[float]
    costs: list[list[float]]

    def measure(self, cell: Cell, count: int, *, counts: bool) -> None:
        """Run one round, and keep what it found if it counts."""
        used = self._used()
        ran = pipelined_at(self.targets, depth=cell.depth, count=count, warm_up=count // 5)
        if not counts:
            return
        self.rates.append(ran.per_second)
        all_requests = count + count // 5
        self.costs.append(
            [(after - before) / all_requests * 1e6 for after, before in zip(self._used(), used, strict=True)]
        )

    def _used(self) -> list[float]:
        own = resource.getrusage(resource.RUSAGE_SELF)
        return [*map(_run_seconds, self.running.pids), own.ru_utime + own.ru_stime]

    def said(self) -> str:
        """The median rate, and what a request cost."""
        costs = [statistics.median(each) for each in zip(*self.costs, strict=True)]
        parts = " + ".join(f"{each:.0f}" for each in costs[:-1])
        rate = f"{statistics.median(self.rates):,.0f}/s"
        return f"{self.name} {rate} at {parts} µs of CPU a request, the client {costs[-1]:.0f}"


def _run_seconds(pid: int) -> float:
    """CPU time of a process's main thread on Linux, exactly; a JVM has many threads, of which all count."""
    threads = os.listdir(f"/proc/{pid}/task")
    found = 0
    for each in threads:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{each}/schedstat") as file:
            found += int(file.read().split()[0])
    return found / 1e9


def _targets(running: Brokers, connections: int, acks: int) -> list[Target]:
    """Leaders on all brokers in turn, with requests to them: a topic each, which all brokers have if acks=-1."""
    found: list[Target] = []
    wanted = [running.addresses[number % len(running.addresses)] for number in range(connections)]
    for address in wanted:
        leader = None
        while leader != address:  # the next topic has another first replica
            topic = f"spread-{next(_topics):04}"
            leader = create_topic(running.addresses[0], topic, len(running.addresses) if acks == -1 else 1)
        found.append((address, produce_frame(topic, 100, acks=acks)))
    return found


def _cell(cell: Cell, clusters: dict[str, Brokers], count: int) -> list[Row]:
    """Processes beside one process and beside Apache Kafka; what a request costs whom."""
    sides = {
        name: Side(name, running, _targets(running, cell.connections, cell.acks), [], [])
        for name, running in clusters.items()
    }
    for nth in range(ROUNDS + 1):
        for side in sides.values():
            side.measure(cell, count, counts=nth > 0)
    several, one, kafka = sides["processes"], sides["one process"], sides.get(KAFKA)
    rows = [rounds_at_least(f"{cell.name}: processes against one process", _ratios(several, one), cell.beside_one, "×")]
    for side in (several, one) if kafka is not None else ():
        name = f"{cell.name}: {side.name} against {KAFKA}, {build()}"
        rows.append(_beside_kafka(name, _ratios(side, kafka), cell.beside_kafka if side is several else None))
    return [*rows, Row(f"{cell.name}: rates and costs", "; ".join(side.said() for side in sides.values()))]


def _ratios(side: Side, other: Side) -> list[float]:
    return [mine / theirs for mine, theirs in zip(side.rates, other.rates, strict=True)]


def _beside_kafka(name: str, ratios: list[float], bar: float | None) -> Row:
    """A row whose bar is for the compiled build."""
    row = rounds_at_least(name, ratios, bar or 0.0, "×")
    return row if bar is not None and build() == "compiled" else Row(row.name, row.measured)


def _seconds_to_get_over_a_kill(start: Callable[[], AbstractContextManager[Brokers]]) -> float:
    """Seconds from `kill -9` of a leader's process until its partition acknowledges an acks=all request again."""
    with start() as running:
        leader = create_topic(running.addresses[0], "killed", 3)
        with closing(Wire(leader)) as wire:
            accepted(wire, produce_frame("killed", 100, acks=-1))
        others = [address for address in running.addresses if address != leader]
        os.kill(running.pids[running.addresses.index(leader) - len(running.addresses)], signal.SIGKILL)
        killed = time.perf_counter()
        with closing(Wire(others[0])) as wire:
            while (address := _leader(wire)) not in others:
                time.sleep(0.005)
        with closing(Wire(address)) as wire:
            accepted(wire, produce_frame("killed", 100, acks=-1))
        return time.perf_counter() - killed


def _leader(wire: Wire) -> tuple[str, int] | None:
    metadata = metadata_of(wire, ["killed"])
    leader = metadata.topics[0].partitions[0].leader_id
    return next(((each.host, each.port) for each in metadata.brokers if each.node_id == leader), None)


def _many_partitions_on_etcd(count: int) -> list[Row]:
    """How long a topic of so many partitions takes until all brokers know it, and what a change of one ISR writes."""
    with brokers_on_etcd(**{"replica.lag.time.max.ms": 10_000}) as running, contextlib.ExitStack() as stack:
        began = time.perf_counter()
        leader = create_topic(running.addresses[0], "many", 3, partitions=count)
        wires = [stack.enter_context(closing(Wire(each))) for each in running.addresses]
        while any(sum(each.leader_id >= 0 for each in _partitions(wire)) < count for wire in wires):
            time.sleep(0.01)
        created_seconds = time.perf_counter() - began
        held = running.addresses.index(next(each for each in running.addresses if each != leader)) + 1
        before = _bytes_when_quiet(running.etcd_url)  # until then the follower has fetched each partition once
        AdminClient(running.admin_url).post(f"brokers/{held}/follower", {"held": True})
        with closing(Wire(leader)) as wire:
            accepted(wire, produce_frame("many", 100, acks=1))
        while len(_partitions(wires[0])[0].isr_nodes) == 3:
            time.sleep(0.01)
        written_kb = (_received_bytes(running.etcd_url) - before) / 1000
    return [
        at_most(f"{count:,} partitions on etcd, until all brokers know them", created_seconds, 10, " s"),
        at_most("a change of one ISR there, with the leases' upkeep: written", written_kb, 64, " kB"),
    ]


def _partitions(wire: Wire) -> list[MetadataResponsePartition]:
    """The partitions of topic "many", by index."""
    found: list[MetadataResponsePartition] = metadata_of(wire, ["many"]).topics[0].partitions
    return sorted(found, key=lambda each: each.partition_index)


def _bytes_when_quiet(etcd_url: str) -> float:
    """What etcd has received when it gets no more than the upkeep of leases: a creation has writes that follow it."""
    last, now = -1.0, _received_bytes(etcd_url)
    while now - last > 500:
        time.sleep(1)
        last, now = now, _received_bytes(etcd_url)
    return now


def _received_bytes(etcd_url: str) -> float:
    with urlopen(f"{etcd_url}/metrics", timeout=30) as answer:
        found = re.search(rb"^etcd_network_client_grpc_received_bytes_total (\S+)$", answer.read(), re.MULTILINE)
    assert found is not None
    return float(found.group(1))


def rows(quick: bool = False) -> list[Row]:
    """Run all measurements of this file."""
    count = 400 if quick else 20_000
    with contextlib.ExitStack() as stack:
        one, several = stack.enter_context(brokers()), stack.enter_context(brokers(processes=True))
        found = [
            at_most("three processes and their supervisor, start", several.start_seconds, 1.5, " s"),
            at_most("the same, memory (what they share once)", several.memory_mb, 150, " MB"),
            Row("three brokers in one process, memory", f"{one.memory_mb:.0f} MB"),
        ]
        clusters = {"processes": several, "one process": one}
        if not quick and shutil.which("java") is not None:
            clusters[KAFKA] = stack.enter_context(apache_kafka(3))
            for acks in (1, -1):
                pipelined_at(_targets(clusters[KAFKA], CONNECTIONS, acks), depth=64, count=JAVA_WARM_UP_COUNT)
        for cell in CELLS:
            found += _cell(cell, clusters, count)
    kills = 1 if quick else 3

    def median(start: Callable[[], AbstractContextManager[Brokers]]) -> float:
        return statistics.median(_seconds_to_get_over_a_kill(start) for _ in range(kills))

    found.append(at_most("processes: kill -9 to acknowledged again", median(lambda: brokers(processes=True)), 1, " s"))
    if shutil.which("etcd") is None:
        return [*found, Row("on etcd: kill -9 to acknowledged again", "there is no etcd on this machine")]
    found.append(at_most("on etcd: kill -9 to acknowledged again", median(brokers_on_etcd), 5, " s"))
    return [*found, *_many_partitions_on_etcd(100 if quick else 10_000)]
