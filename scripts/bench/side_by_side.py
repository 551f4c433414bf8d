"""Side by side with Apache Kafka: the same client, the same cores, each cell measured in turn; medians of the turns.

Kafka's brokers are processes of their own with their logs in memory; ours share one process, as `purgatorio cluster`
runs them. Both clusters run all the time, so each is measured beside the other's idle work.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count as counter

from apache_kafka import apache_kafka
from loads import (
    consumed_per_second,
    delivery_times,
    end_to_end,
    pipelined,
    records_per_second,
    woken_polls,
)
from processes import Brokers, brokers
from rows import Row, percentile, rounds_at_least
from scale import acks_all_beside_idle_partitions
from transactions import exactly_once_loop, transactions_of_one_record
from wire import create_topic, produce_frame

ROUNDS = 3
IDLE_SECONDS = 5
_topics = counter()


@dataclass(frozen=True)
class Figure:
    """One figure of a cell.

    Attributes:
        unit: printed behind the figure.
        best: "low" or "high".
        bar: the least ratio in our favour that we promise; None: no promise.
    """

    name: str
    unit: str
    best: str
    bar: float | None = None


@dataclass(frozen=True)
class Cell:
    """One measurement of both sides.

    Attributes:
        measure: returns the value of each figure, from the brokers and the number of requests (small when quick).
        count: that number in a full run.
    """

    figures: tuple[Figure, ...]
    measure: Callable[[Brokers, int], tuple[float, ...]]
    count: int


def _topic(running: Brokers, replication_factor: int | None = None) -> tuple[str, tuple[str, int]]:
    """A new topic with a replica on every broker, and the address of its leader."""
    name = f"bench-{next(_topics)}"
    return name, create_topic(running.addresses[0], name, replication_factor or len(running.addresses))


def _idle(running: Brokers, count: int) -> tuple[float, ...]:
    before = running.cpu_seconds
    time.sleep(min(IDLE_SECONDS, count))
    busy = (running.cpu_seconds - before) / min(IDLE_SECONDS, count)
    return running.start_seconds, running.resident_mb, busy * 100


def _one_at_a_time(acks: int, running: Brokers, count: int) -> tuple[float, ...]:
    topic, _ = _topic(running)
    times = delivery_times({"bootstrap.servers": running.bootstrap, "acks": acks}, topic, count)
    return percentile(times, 0.5) * 1e6, percentile(times, 0.99) * 1000


def _batched(acks: int, running: Brokers, count: int) -> tuple[float, ...]:
    topic, _ = _topic(running)
    before = running.cpu_seconds
    rate = records_per_second({"bootstrap.servers": running.bootstrap, "acks": acks}, topic, count)
    return rate / 1e6, (running.cpu_seconds - before) / count * 1e6


def _consume(running: Brokers, count: int) -> tuple[float, ...]:
    topic, _ = _topic(running)
    records_per_second({"bootstrap.servers": running.bootstrap, "acks": 1}, topic, count)
    return (consumed_per_second(running.bootstrap, topic, count) / 1e6,)


def _requests(
    acks: int, depth: int, connections: int, value_bytes: int, records: int, running: Brokers, count: int
) -> tuple[float, ...]:
    topic, leader = _topic(running)
    request = produce_frame(topic, value_bytes, acks=acks, records=records)
    warm_up = min(count, depth * connections * 20)
    ran = pipelined(leader, request, depth=depth, connections=connections, count=count, warm_up=warm_up)
    return ran.per_second, ran.at(0.99)


def _raw_batches(acks: int, running: Brokers, count: int) -> tuple[float, ...]:
    per_second, _ = _requests(acks, 16, 1, 100, 500, running, count)
    return (per_second * 500 / 1e6,)


def _large(running: Brokers, count: int) -> tuple[float, ...]:
    per_second, _ = _requests(1, 16, 1, 16 * 1024, 1, running, count)
    return (per_second * 16 * 1024 / 1e6,)


def _wake(running: Brokers, count: int) -> tuple[float, ...]:
    topic, leader = _topic(running, 1)
    times = woken_polls(leader, topic, produce_frame(topic, 100, acks=1), count)
    return (percentile(times, 0.5) * 1e6,)


def _end_to_end(running: Brokers, count: int) -> tuple[float, ...]:
    topic, _ = _topic(running)
    times = end_to_end(running.bootstrap, topic, count, per_second=2000, value_bytes=1024)
    return percentile(times, 0.5) * 1e6, percentile(times, 0.99) * 1e6


def _low(name: str, unit: str, bar: float | None = None) -> Figure:
    return Figure(name, unit, "low", bar)


def _high(name: str, unit: str, bar: float | None = None) -> Figure:
    return Figure(name, unit, "high", bar)


def _common(lone_bar: float) -> list[Cell]:
    """The cells that are measured with any number of brokers."""
    return [
        Cell((_low("start", " s"), _low("memory", " MB"), _low("idle CPU", " % of a core")), _idle, IDLE_SECONDS),
        Cell(
            (_low("librdkafka one record at a time, acks=1, p50", " µs", lone_bar), _low("the same, p99", " ms")),
            partial(_one_at_a_time, 1),
            2000,
        ),
        Cell(
            (_high("librdkafka batches of 100 B records, acks=1", " M/s"), _low("broker CPU a million records", " s")),
            partial(_batched, 1),
            300_000,
        ),
        Cell((_high("librdkafka consumes them", " M/s"),), _consume, 300_000),
        Cell((_high("raw batches of 500 × 100 B, acks=1", " M/s"),), partial(_raw_batches, 1), 2000),
        Cell((_high("requests of 16 KiB, 16 deep", " MB/s"),), _large, 8000),
    ]


def _cells(brokers_count: int) -> list[Cell]:
    if brokers_count == 1:
        return [
            *_common(1 / 1.15),
            Cell(
                (_high("acks=1, one connection, depth 64", "/s"), _low("the same, p99", " ms")),
                partial(_requests, 1, 64, 1, 100, 1),
                20_000,
            ),
            Cell(
                (_high("8 connections, depth 64", "/s"), _low("p99", " ms")),
                partial(_requests, 1, 64, 8, 100, 1),
                40_000,
            ),
            Cell(
                (_high("8 connections, depth 1", "/s", 0.8), _low("p99", " ms")),
                partial(_requests, 1, 1, 8, 100, 1),
                20_000,
            ),
            Cell((_low("a long poll is woken, p50", " µs"),), _wake, 500),
            Cell(
                (_low("2,000/s of 1 KB end to end, p50", " µs"), _low("the same, p99", " µs")),
                _end_to_end,
                6000,
            ),
        ]
    return [
        *_common(1.0),
        Cell(
            (_low("librdkafka one record at a time, acks=all, p50", " µs"), _low("the same, p99", " ms")),
            partial(_one_at_a_time, -1),
            2000,
        ),
        Cell(
            (
                _high("librdkafka batches of 100 B records, acks=all", " M/s"),
                _low("broker CPU a million records", " s"),
            ),
            partial(_batched, -1),
            300_000,
        ),
        Cell((_high("raw batches of 500 × 100 B, acks=all", " M/s"),), partial(_raw_batches, -1), 1000),
        Cell(
            (_high("acks=all, depth 64", "/s"), _low("the same, p99", " ms")),
            partial(_requests, -1, 64, 1, 100, 1),
            20_000,
        ),
        *_transactions(),
    ]


def _transactions() -> list[Cell]:
    return [
        Cell(
            (_low("a transaction of one record: commit, p50", " µs", 1.0), _low("the whole of it, p50", " µs")),
            transactions_of_one_record,
            500,
        ),
        Cell(
            (_high("exactly-once loop of librdkafka", " records/s"), _low("its commits, p50", " ms")),
            exactly_once_loop,
            10_000,
        ),
    ]


def figure_row(figure: Figure, group: str, ours: list[float], theirs: list[float], cpu: str = "") -> Row:
    """The row of a figure: how many times better ours is, by the rounds, and both medians."""
    name = f"{group}: {figure.name}"
    medians = f"{statistics.median(ours):,.4g} / {statistics.median(theirs):,.4g}{figure.unit}{cpu}"
    if not all(ours) or not all(theirs):
        return Row(name, medians)
    pairs = zip(ours, theirs, strict=True)
    ratios = [other / mine if figure.best == "low" else mine / other for mine, other in pairs]
    row = rounds_at_least(name, ratios, figure.bar or 0, "× as good", f"; {medians}")
    return row if figure.bar is not None else Row(row.name, row.measured)


def _measured(cell: Cell, running: Brokers, requests: int) -> tuple[tuple[float, ...], float]:
    """The value of each figure of a cell, and the microseconds of CPU that the brokers used for each request."""
    before = running.cpu_seconds
    values = cell.measure(running, requests)
    return values, (running.cpu_seconds - before) / requests * 1e6


def _side_by_side(count: int, quick: bool) -> list[Row]:
    group = "one broker" if count == 1 else f"{count} brokers"
    rows = []
    with brokers(count) as ours, apache_kafka(count) as theirs:
        for cell in _cells(count):
            measured: dict[str, list[tuple[tuple[float, ...], float]]] = {"ours": [], "theirs": []}
            requests = max(1, cell.count // 100) if quick else cell.count
            if not quick:
                # Not counted: Java compiles what it has run for a while.
                cell.measure(ours, requests)
                cell.measure(theirs, requests)
            for _ in range(1 if quick else ROUNDS):
                measured["ours"].append(_measured(cell, ours, requests))
                measured["theirs"].append(_measured(cell, theirs, requests))
            used = [statistics.median(cpu_us for _, cpu_us in measured[side]) for side in ("ours", "theirs")]
            for index, figure in enumerate(cell.figures):
                mine, other = ([values[index] for values, _ in measured[side]] for side in ("ours", "theirs"))
                cpu = "" if index or cell.measure is _idle else ", CPU each {:,.3g} / {:,.3g} µs".format(*used)
                rows.append(figure_row(figure, group, mine, other, cpu))
                print(f"  {rows[-1].name}: {rows[-1].measured}", file=sys.stderr, flush=True)
    return rows


def _scaling(quick: bool) -> list[Row]:
    """acks=all beside idle partitions, three replicas each, on clusters of their own."""
    rows = []
    for partitions in (10,) if quick else (1, 100, 1000):
        sides = []
        for cluster in (brokers, apache_kafka):
            with cluster(3) as running:
                sides.append(acks_all_beside_idle_partitions(running, partitions, 50 if quick else 1000))
        for figure, mine, other in zip((_low("p50", " ms"), _low("p99", " ms")), *sides, strict=False):
            rows.append(figure_row(figure, f"acks=all beside {partitions:,} idle partitions × 3", [mine], [other]))
    return rows


def rows(quick: bool = False) -> list[Row]:
    """Run all measurements of this file."""
    return [*_side_by_side(1, quick), *_side_by_side(3, quick), *_scaling(quick)]
