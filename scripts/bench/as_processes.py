"""Brokers as processes of their own, beside the same brokers in one process; and how soon a kill is got over.

Both clusters run all the time, and each cell is measured in turn. On two cores, which the client needs as well, there
is little to gain.
"""

from __future__ import annotations

import os
import shutil
import signal
import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from itertools import count as counter

from loads import accepted, pipelined_at
from processes import Brokers, brokers, brokers_on_etcd
from rows import Row, at_least, at_most
from wire import Wire, create_topic, metadata_of, produce_frame

ROUNDS = 5
CONNECTIONS = 8
_topics = counter()

Target = tuple[tuple[str, int], bytes]


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


def _beside_one_process(name: str, depth: int, acks: int, bar: float, both: tuple[Brokers, Brokers], count: int) -> Row:
    """Requests a second of processes against one process: the median of ratios, each of two runs in turn."""
    targets = [_targets(running, CONNECTIONS if acks == 1 else 1, acks) for running in both]
    ratios, rates = [], []
    for _ in range(ROUNDS):
        ran = [pipelined_at(each, depth=depth, count=count, warm_up=count // 5).per_second for each in targets]
        ratios.append(ran[1] / ran[0])
        rates.append(ran[1])
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}; {statistics.median(rates):,.0f} requests/s"
    return at_least(name, statistics.median(ratios), bar, "×", f" ({spread})")


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


def rows(quick: bool = False) -> list[Row]:
    """Run all measurements of this file."""
    count = 400 if quick else 20_000
    with brokers() as one, brokers(processes=True) as several:
        both = one, several
        found = [
            at_most("three processes and their supervisor, start", several.start_seconds, 1.5, " s"),
            at_most("the same, memory (what they share once)", several.memory_mb, 150, " MB"),
            Row("three brokers in one process, memory", f"{one.memory_mb:.0f} MB"),
            _beside_one_process("8 connections, depth 1: processes against one", 1, 1, 1.6, both, count),
            _beside_one_process("8 connections, depth 64: processes against one", 64, 1, 1.6, both, count),
            _beside_one_process("acks=all, depth 64: processes against one", 64, -1, 1.4, both, count),
        ]
    kills = 1 if quick else 3

    def median(start: Callable[[], AbstractContextManager[Brokers]]) -> float:
        return statistics.median(_seconds_to_get_over_a_kill(start) for _ in range(kills))

    found.append(at_most("processes: kill -9 to acknowledged again", median(lambda: brokers(processes=True)), 1, " s"))
    if shutil.which("etcd") is None:
        return [*found, Row("on etcd: kill -9 to acknowledged again", "there is no etcd on this machine")]
    return [*found, at_most("on etcd: kill -9 to acknowledged again", median(brokers_on_etcd), 5, " s")]
