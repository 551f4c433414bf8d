"""The tier beside Apache Kafka with a folder as its tier: the same client, loads and folder in memory, in turn.

64 MiB of records of 1 KB in segments of 1 MiB, of which the newest 1 MiB stays local; rounds each half a second.
"""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import count as counter
from pathlib import Path
from typing import Final, NamedTuple
from urllib.request import Request, urlopen

from apache_kafka import apache_kafka, classes_of, memory_folder
from loads import CONSUMER, QUEUE_LIMITS, lone_requests
from processes import Brokers, brokers
from purgatorio.admin.cli.build import build
from purgatorio.client.link import Address
from purgatorio.client.wire import TIMEOUT_SECONDS, Wire
from purgatorio.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from rows import MET, MISSED, Row, percentile, rounds_at_least, rounds_at_most
from wire import create_topic, produce_frame

ROUNDS: Final = 3
WARM_READS: Final = 3
MIB: Final = 1024 * 1024
VALUE_BYTES: Final = 1000
INTERVAL_MS: Final = 500
SLOW_MS: Final = 700
SLOW_SECONDS: Final = 15
CONFIGS: Final = {
    "remote.storage.enable": "true",
    "segment.bytes": str(MIB),
    "local.retention.bytes": str(MIB),
    "retention.ms": "-1",
}
LATEST_TIERED: Final = -5
EARLIEST_LOCAL: Final = -4
LIST_OFFSETS_VERSION: Final = 9
LOAD_PER_SECOND: Final = 5_000
_topics = counter()

WATCHED = """
import asyncio, json, selectors, sys, time
from purgatorio.admin.cluster import Cluster
from purgatorio.broker.config import ClusterConfig

class Watched(selectors.DefaultSelector):
    began, turns = time.thread_time(), []

    def select(self, timeout=None):
        self.turns.append(time.thread_time() - self.began)
        found = super().select(timeout)
        self.began = time.thread_time()
        return found

async def main(selector):
    settings = json.loads(sys.argv[1])
    async with Cluster(ClusterConfig(brokers=1, port=0, broker=settings)) as running:
        print(running.bootstrap, flush=True)
        lines = asyncio.Queue()
        asyncio.get_running_loop().add_reader(sys.stdin, lambda: lines.put_nowait(sys.stdin.readline()))
        while await lines.get():
            turns, selector.turns = sorted(selector.turns), []
            print(len(turns), turns[int(len(turns) * 0.999)] * 1000, turns[-1] * 1000, flush=True)

selector = Watched()
with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
    runner.run(main(selector))
"""
"""A broker on asyncio's own event loop, which says at each line how many turns there were since, how much CPU time the
longest took, and before that the 99.9th percentile."""


class Side(NamedTuple):
    """One of the two, with its tier in a folder."""

    running: Brokers
    slow: Callable[[bool], None]

    @property
    def address(self) -> Address:
        """Where its only broker listens."""
        return self.running.addresses[0]


class Figures(NamedTuple):
    """One round on one side: MB/s, milliseconds, records, and seconds of the broker's CPU for a GB of warm reads."""

    lag_ms: float
    cold: float
    warm: float
    first_ms: float
    timestamp_ms: float
    in_slow: float
    cpu_seconds: float


def rows(quick: bool = False) -> list[Row]:
    """Run all measurements of this file."""
    mib = 8 if quick else 64
    measured: tuple[list[Figures], list[Figures]] = ([], [])
    with _ours() as ours, _theirs() as theirs:
        for number in range(1 if quick else ROUNDS + 1):
            for side, found in zip((ours, theirs), measured, strict=True):
                figures = _round(side, mib, 2 if quick else SLOW_SECONDS)
                print(f"  {'ours' if side is ours else 'theirs'}: {figures}", file=sys.stderr, flush=True)
                if number or quick:  # Java compiles what it has run for a while
                    found.append(figures)
    return [*_compared(*measured), *_while_copying(quick), _holds([_turns(mib) for _ in range(1 if quick else ROUNDS)])]


def _compared(ours: list[Figures], theirs: list[Figures]) -> list[Row]:
    def ratios(name: str) -> tuple[list[float], str]:
        mine, other = ([float(getattr(each, name)) for each in side] for side in (ours, theirs))
        found = [a / b for a, b in zip(mine, other, strict=True)]
        return found, f"; {statistics.median(mine):,.3g} / {statistics.median(other):,.3g}"

    warm, warm_detail = ratios("warm")
    cpu_detail = "; {:.2g} / {:.2g} s of the brokers' CPU a GB".format(
        *(statistics.median(each.cpu_seconds for each in side) for side in (ours, theirs))
    )
    cold, cold_detail = ratios("cold")
    first, first_detail = ratios("first_ms")
    stamp, stamp_detail = ratios("timestamp_ms")
    lags, slow, slow_theirs = (
        [each.lag_ms for each in ours],
        min(each.in_slow for each in ours),
        statistics.median(each.in_slow for each in theirs),
    )
    theirs_ms = statistics.median(each.lag_ms for each in theirs)
    beside = "against Apache Kafka"
    cold_row = rounds_at_least(f"tier: reads that are not cached, {beside}", cold, 0, "×", cold_detail + " MB/s")
    return [
        rounds_at_least(f"tier: reads, {beside}", warm, 0.5, "×", warm_detail + " MB/s" + cpu_detail),
        Row(cold_row.name, cold_row.measured),
        rounds_at_most(f"tier: a consumer's first record, {beside}", first, 1.5, "×", first_detail + " ms"),
        rounds_at_most(f"tier: offset by timestamp, p50, {beside}", stamp, 2, "×", stamp_detail + " ms"),
        rounds_at_most(
            f"tier: last produce → all closed segments copied, each {INTERVAL_MS} ms",
            lags,
            INTERVAL_MS + 1000,
            " ms",
            f"; Apache Kafka {theirs_ms:,.0f} ms",
        ),
        Row(
            f"tier: records in {SLOW_SECONDS} s if each read takes {SLOW_MS} ms",
            f"{slow:,.0f} (Apache Kafka: {slow_theirs:,.0f})",
            "progress",
            MET if slow else MISSED,
        ),
    ]


# --- the two sides ---


def _settings(folder: str) -> dict[str, object]:
    return {
        "tier.location": folder,
        "remote.log.manager.task.interval.ms": INTERVAL_MS,
        "log.retention.check.interval.ms": 1000,
    }


@contextmanager
def _ours(loop: str = "") -> Iterator[Side]:
    with _folder() as folder, brokers(1, loop=loop, **_settings(folder)) as running:

        def slow(is_slow: bool) -> None:
            rule = {"tier": "get", "delay_ms": SLOW_MS} if is_slow else {}
            headers = {"Content-Type": "application/json"}
            url = f"{running.admin_url}/api/v1/faults"
            method = "POST" if is_slow else "DELETE"
            with urlopen(Request(url, json.dumps(rule).encode(), headers, method=method), timeout=30) as answer:
                answer.read()

        yield Side(running, slow)


@contextmanager
def _theirs() -> Iterator[Side]:
    with _folder() as folder, classes_of("FolderRsm.java") as classes:
        delay = Path(folder, "delay")

        def slow(is_slow: bool) -> None:
            if is_slow:
                delay.write_text(str(SLOW_MS))
            else:
                delay.unlink(missing_ok=True)

        settings = {
            "remote.log.storage.system.enable": "true",
            "remote.log.storage.manager.class.name": "FolderRsm",
            "rsm.config.dir": folder,
            "remote.log.metadata.manager.listener.name": "PLAINTEXT",
            "rlmm.config.remote.log.metadata.topic.replication.factor": 1,
            "rlmm.config.remote.log.metadata.topic.num.partitions": 2,
            "remote.log.manager.task.interval.ms": INTERVAL_MS,
            "log.retention.check.interval.ms": 1000,
        }
        with apache_kafka(1, settings, classes=classes) as running:
            yield Side(running, slow)


@contextmanager
def _folder() -> Iterator[str]:
    made = tempfile.mkdtemp(dir=memory_folder(), prefix="tier-")
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


# --- one round ---


def _round(side: Side, mib: int, slow_seconds: float) -> Figures:
    count, began_ms = mib * 1024, int(time.time() * 1000) - mib * 1024
    topic = _create(side.address)
    _fill(side.running.bootstrap, topic, count, began_ms)
    produced = time.perf_counter()
    lag_ms = (_until(side.address, topic, LATEST_TIERED, count - 1200) - produced) * 1000
    _until(side.address, topic, EARLIEST_LOCAL, count - 2400)
    cold = _read(side.running.bootstrap, topic, count)
    before = side.running.run_seconds
    warm = statistics.median(_read(side.running.bootstrap, topic, count) for _ in range(WARM_READS))
    cpu_seconds = (side.running.run_seconds - before) / (WARM_READS * count * VALUE_BYTES / 1e9)
    first_ms = statistics.median(_first_ms(side.running.bootstrap, topic) for _ in range(7))
    timestamp_ms = _timestamp_ms(side.address, topic, count, began_ms)
    fresh = _create(side.address)
    _fill(side.running.bootstrap, fresh, count, began_ms)
    _until(side.address, fresh, EARLIEST_LOCAL, count - 2400)
    side.slow(True)
    in_slow = _records_within(side.running.bootstrap, fresh, slow_seconds)
    side.slow(False)
    return Figures(lag_ms, cold, warm, first_ms, timestamp_ms, in_slow, cpu_seconds)


def _create(address: Address, configs: dict[str, str] | None = None) -> str:
    name = f"tiered-{next(_topics)}"
    create_topic(address, name, 1, configs=CONFIGS if configs is None else configs)
    return name


def _fill(bootstrap: str, topic: str, count: int, began_ms: int) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "acks": 1, "log_level": 0, **QUEUE_LIMITS})
    for number in range(count):
        producer.produce(topic, b"x" * VALUE_BYTES, partition=0, timestamp=began_ms + number)
        if number % 1000 == 0:
            producer.poll(0)
    producer.flush()


def _offset(wire: Wire, topic: str, timestamp: int) -> int:
    question = ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)])
    answer = wire.ask(ListOffsetsRequest(replica_id=-1, topics=[question]), LIST_OFFSETS_VERSION)
    return int(answer.topics[0].partitions[0].offset)


def _until(address: Address, topic: str, place: int, offset: int) -> float:
    """The time at which a special offset of the topic has reached one."""
    deadline = time.perf_counter() + 4 * TIMEOUT_SECONDS
    with closing(Wire(address)) as wire:
        while _offset(wire, topic, place) < offset:
            assert time.perf_counter() < deadline, f"{place} of {topic} has not reached {offset}"
            time.sleep(0.01)
    return time.perf_counter()


@contextmanager
def _consumer(bootstrap: str, topic: str) -> Iterator[Callable[[int, float], int]]:
    """A consumer from the beginning: a function that returns how many of so many records came in so many seconds."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, **CONSUMER})
    consumer.assign([TopicPartition(topic, 0, 0)])
    with contextlib.closing(consumer):
        yield lambda most, seconds: sum(each.error() is None for each in consumer.consume(most, seconds))


def _read(bootstrap: str, topic: str, count: int) -> float:
    """MB/s from the first record to the last."""
    with _consumer(bootstrap, topic) as take:
        taken = take(1, TIMEOUT_SECONDS)
        started = time.perf_counter()
        while taken < count:
            more = take(min(10_000, count - taken), TIMEOUT_SECONDS)
            assert more, "no records came"
            taken += more
        return count * VALUE_BYTES / 1e6 / (time.perf_counter() - started)


def _first_ms(bootstrap: str, topic: str) -> float:
    started = time.perf_counter()
    with _consumer(bootstrap, topic) as take:
        assert take(1, TIMEOUT_SECONDS)
        return (time.perf_counter() - started) * 1000


def _timestamp_ms(address: Address, topic: str, count: int, began_ms: int) -> float:
    rng, taken = random.Random(1), []
    with closing(Wire(address)) as wire:
        for _ in range(60):
            number = rng.randrange(count - 2400)
            started = time.perf_counter()
            assert _offset(wire, topic, began_ms + number) == number
            taken.append((time.perf_counter() - started) * 1000)
    return statistics.median(taken[10:])


def _records_within(bootstrap: str, topic: str, seconds: float) -> int:
    ends, taken = time.perf_counter() + seconds, 0
    with _consumer(bootstrap, topic) as take:
        while (left := ends - time.perf_counter()) > 0:
            taken += take(1000, left)
    return taken


# --- while segments are copied ---


class _Load:
    """A producer that writes to a topic, at a steady rate, in a thread."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self._bootstrap, "linger.ms": 5, "acks": 1, "log_level": 0})
        started = time.perf_counter()
        sent = 0
        while not self._stop.wait(0.01):
            while sent < (time.perf_counter() - started) * LOAD_PER_SECOND:
                producer.produce(self._topic, b"x" * VALUE_BYTES, partition=0)
                sent += 1
            producer.poll(0)
        producer.flush()

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def _while_copying(quick: bool) -> list[Row]:
    """The p50 of a produce request beside a producer whose topic is copied, against one whose topic is not."""
    ratios, microseconds = [], []
    with _ours() as side:
        request = produce_frame(_create(side.address, {}), 100, acks=1)
        tiered = _create(side.address)
        plain = _create(side.address, {**CONFIGS, "remote.storage.enable": "false", "retention.bytes": str(2 * MIB)})
        for _ in range(1 if quick else 7):
            p50 = []
            for topic in (tiered, plain):
                with _Load(side.running.bootstrap, topic):
                    time.sleep(0.2 if quick else 1)
                    p50.append(percentile(lone_requests(side.address, request, 200 if quick else 5000), 0.5) * 1e6)
            ratios.append(p50[0] / p50[1])
            microseconds.append(p50[0])
    detail = f"; {statistics.median(microseconds):.0f} µs beside {LOAD_PER_SECOND / 1000:g} MB/s that are copied"
    return [rounds_at_most("tier: produce p50 while segments are copied, against not", ratios, 1.2, "×", detail)]


def _holds(turns: list[tuple[float, float, float]]) -> Row:
    name = f"tier: longest hold of the event loop while segments are copied and read, {build()}, CPU"
    late_ms = statistics.median(late_ms for _, late_ms, _ in turns)
    detail = f"; p99.9 {late_ms:.2g} ms of {turns[0][0]:,.0f} turns"
    return rounds_at_most(name, [longest_ms for _, _, longest_ms in turns], 5, " ms", detail)


def _turns(mib: int) -> tuple[float, float, float]:
    """How many turns the event loop makes while segments are copied and read, their p99.9, and the longest; CPU ms."""
    with ExitStack() as stack:
        settings = _settings(stack.enter_context(_folder()))
        by_name = json.dumps({name.replace(".", "_"): value for name, value in settings.items()})
        child = subprocess.Popen(
            [sys.executable, "-c", WATCHED, by_name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        stack.callback(child.wait, TIMEOUT_SECONDS)
        assert child.stdin is not None
        assert child.stdout is not None
        stack.callback(child.stdin.close)
        bootstrap = child.stdout.readline().strip()
        host, _, port = bootstrap.rpartition(":")
        address = host, int(port)

        def told() -> list[float]:
            assert child.stdin is not None
            assert child.stdout is not None
            child.stdin.write("\n")
            child.stdin.flush()
            return list(map(float, child.stdout.readline().split()))

        def use(topic: str, mib: int) -> None:
            _fill(bootstrap, topic, mib * 1024, int(time.time() * 1000))
            _until(address, topic, EARLIEST_LOCAL, mib * 1024 - 2400)
            for _ in range(2):
                _read(bootstrap, topic, mib * 1024)

        use(_create(address), 4)  # the first request of a kind loads modules, and compiles its codec
        told()
        with _Load(bootstrap, _create(address)):
            use(_create(address), mib)
        count, late_ms, longest_ms = told()
    return count, late_ms, longest_ms
