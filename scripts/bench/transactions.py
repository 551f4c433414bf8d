"""Transactions over three replicas: what a commit costs, what open ones cost others, and reading past aborted ones."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from itertools import count as counter

from confluent_kafka import Consumer, Producer

from loads import pipelined
from processes import Brokers, allow_open_files, brokers
from producing import TransactionalProducer
from purgatorio.client.fetch import batches
from purgatorio.client.wire import TIMEOUT_SECONDS, Wire, decoded
from purgatorio.protocol.api_key import ApiKey
from rows import Row, at_most, percentile
from wire import create_topic, fetch_frame, produce_frame

ROUNDS = 5
TRANSACTIONS = 500
OPEN = 1_000
ABORTED = 10_000
COPIED = 100
"""Records of one transaction of the exactly-once loop."""
_names = counter()


def _topic(running: Brokers) -> tuple[str, tuple[str, int]]:
    name = f"transactions-{next(_names)}"
    return name, create_topic(running.addresses[0], name, len(running.addresses))


def _seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def transactions_of_one_record(running: Brokers, count: int) -> tuple[float, float]:
    """The p50 of EndTxn, and of a whole transaction (add, produce, end), in microseconds.

    A whole transaction includes what is left of the one before: the coordinator begins no new one until that has ended.
    """
    topic, leader = _topic(running)
    ends, wholes = [], []
    with closing(TransactionalProducer(running.addresses[0], f"id-of-{topic}", topic, leader)) as producer:
        for _ in range(count):
            started = time.perf_counter()
            producer.add()
            producer.produce()
            ends.append(_seconds(lambda: producer.end(committed=True)))
            wholes.append(time.perf_counter() - started)
    return percentile(ends, 0.5) * 1e6, percentile(wholes, 0.5) * 1e6


def produce_p50(running: Brokers, count: int) -> float:
    """The p50 of a lone produce request with acks=-1, in microseconds."""
    topic, leader = _topic(running)
    request = produce_frame(topic, 100, acks=-1)
    return pipelined(leader, request, depth=1, count=count, warm_up=min(count, 50)).at(0.5) * 1000


def exactly_once_loop(running: Brokers, count: int) -> tuple[float, float]:
    """Records a second through a loop of librdkafka's that consumes, produces and commits; p50 of its commits in ms."""
    source, _ = _topic(running)
    target, _ = _topic(running)
    config = {"bootstrap.servers": running.bootstrap, "log_level": 0}
    filling = Producer(config)
    for _ in range(count):
        filling.produce(source, b"x" * 100)
        filling.poll(0)
    assert filling.flush(TIMEOUT_SECONDS) == 0
    producer = Producer({**config, "transactional.id": f"loop-of-{source}", "linger.ms": 0})
    producer.init_transactions(TIMEOUT_SECONDS)
    consumer = Consumer(
        {**config, "group.id": f"group-of-{source}", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([source])
    commits: list[float] = []
    left, started = count, 0.0
    with closing(consumer):
        while left > 0:
            messages = consumer.consume(COPIED, TIMEOUT_SECONDS)
            started = started or time.perf_counter()
            producer.begin_transaction()
            for message in messages:
                producer.produce(target, message.value())
            producer.send_offsets_to_transaction(
                consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), TIMEOUT_SECONDS
            )
            commits.append(_seconds(lambda: producer.commit_transaction(TIMEOUT_SECONDS)))
            left -= len(messages)
        seconds = time.perf_counter() - started
    return count / seconds, percentile(commits, 0.5) * 1000


def commits(running: Brokers, quick: bool) -> list[Row]:
    """Commits against lone produce requests, in turn."""
    count = 20 if quick else TRANSACTIONS
    ends, wholes, produces = [], [], []
    for _ in range(1 if quick else ROUNDS + 1):  # the first round warms up
        produces.append(produce_p50(running, count))
        end, whole = transactions_of_one_record(running, count)
        ends.append(end)
        wholes.append(whole)
    produce = statistics.median(produces[-ROUNDS:])
    rows = []
    for name, times, bar in (("commit (EndTxn)", ends, 4), ("the whole transaction", wholes, None)):
        ratio = statistics.median(mine / other for mine, other in zip(times[-ROUNDS:], produces[-ROUNDS:], strict=True))
        named = f"a transaction of one record over three replicas, {name}: p50 against produce with acks=-1"
        detail = f" ({statistics.median(times[-ROUNDS:]):.0f} µs, {produce:.0f} µs)"
        rows.append(at_most(named, ratio, bar, "×", detail) if bar else Row(named, f"{ratio:.3g}×{detail}"))
    return rows


def open_ones(running: Brokers, quick: bool) -> Row:
    """Plain produce requests to a partition in which others' transactions are open, and to one without any."""
    count, requests = (20, 500) if quick else (OPEN, 20_000)
    topics = [_topic(running) for _ in range(2)]
    busy, leader = topics[0]
    frames = [produce_frame(topic, 100, acks=-1) for topic, _ in topics]
    allow_open_files(2 * count + 100)
    with ExitStack() as stack:
        for number in range(count):
            producer = TransactionalProducer(running.addresses[0], f"open-{number}", busy, leader)
            stack.callback(producer.close)
            producer.add()
            producer.produce()
        costs = []
        for number in range(1 if quick else 2 * ROUNDS):
            cpu_seconds = {}
            for index in (0, 1) if number % 2 else (1, 0):
                before = running.cpu_seconds
                pipelined(topics[index][1], frames[index], depth=64, count=requests)
                cpu_seconds[index] = running.cpu_seconds - before
            costs.append((cpu_seconds[0] / cpu_seconds[1] - 1) * 100)
    name = f"{count:,} open transactions in the partition: plain produce requests, acks=-1, 64 deep, take more CPU by"
    return at_most(name, statistics.median(costs), 3, " %", f" (rounds {min(costs):.1f} … {max(costs):.1f} %)")


def _fetches(wire: Wire, topic: str, end: int) -> tuple[list[bytes], int]:
    """The requests that read a partition up to an offset under read_committed, and how many aborted transactions the
    answers name.
    """
    requests, offset, aborted = [], 0, 0
    while offset < end:
        requests.append(fetch_frame(topic, offset, max_wait_ms=1000, committed=True))
        answer = decoded(ApiKey.FETCH, wire.exchange(requests[-1])).responses[0].partitions[0]
        assert not answer.error_code, answer
        aborted += len(answer.aborted_transactions or ())
        for header, *_ in batches(answer):
            offset = header.last_offset + 1
    return requests, aborted


def _exchange_all(wire: Wire, requests: list[bytes]) -> None:
    for request in requests:
        wire.exchange(request)


def aborted_ones(running: Brokers, quick: bool) -> Row:
    """Reading a partition of aborted transactions, and one with as many plain batches, in turn."""
    count = 100 if quick else ABORTED
    (aborted, leader), (plain, plain_leader) = _topic(running), _topic(running)
    with closing(TransactionalProducer(running.addresses[0], f"aborts-{aborted}", aborted, leader)) as producer:
        for _ in range(count):
            producer.add()
            producer.produce()
            producer.end(committed=False)
    pipelined(plain_leader, produce_frame(plain, 100, acks=-1), depth=64, count=2 * count - 1)  # one to begin with
    ratios = []
    with closing(Wire(leader)) as of_aborted, closing(Wire(plain_leader)) as of_plain:
        behind, named = _fetches(of_aborted, aborted, 2 * count)
        beside, _ = _fetches(of_plain, plain, 2 * count)
        assert named >= count
        for _ in range(1 if quick else 4 * ROUNDS):
            mine = _seconds(lambda: _exchange_all(of_aborted, behind))
            ratios.append(mine / _seconds(lambda: _exchange_all(of_plain, beside)))
    name = f"fetching past {count:,} aborted transactions, read_committed: against as many plain batches"
    return at_most(name, statistics.median(ratios), 1.5, "×", f" (best {min(ratios):.2f}×)")


def loops(running: Brokers, quick: bool) -> Row:
    """A loop of librdkafka's."""
    count = 500 if quick else 50_000
    ran = [exactly_once_loop(running, count) for _ in range(1 if quick else 3)]
    rate = statistics.median(rate for rate, _ in ran)
    commit_ms = statistics.median(commit_ms for _, commit_ms in ran)
    name = f"exactly-once loop of librdkafka, transactions of {COPIED} records over three replicas"
    return Row(name, f"{rate:,.0f} records/s (commit p50 {commit_ms:.2f} ms)")


def rows(quick: bool = False) -> list[Row]:
    """Run all measurements of this file."""
    made = []
    with brokers() as running:
        for measure in (commits, loops, open_ones, aborted_ones):
            measured = measure(running, quick)
            made += measured if isinstance(measured, list) else [measured]
            print(f"  {made[-1].name}: {made[-1].measured}", file=sys.stderr, flush=True)
    return made
