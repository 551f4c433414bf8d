"""Throughput: batches of small records against a mock cluster in C, large requests against a bare echo."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from loads import records_per_second
from processes import Brokers, brokers, echo
from purgatorio.client.wire import Wire
from rows import Row, rounds_at_least
from wire import create_topic, produce_frame

ROUNDS = 5
DEPTH = 16
LARGE_BYTES = 16 * 1024
MEMORY_BYTES = 64 * 1024 * 1024
WARM_UP = 2 * MEMORY_BYTES // LARGE_BYTES


def against_the_mock_cluster(running: Brokers, quick: bool) -> Row:
    """Batched records of 100 B, acks=1, one librdkafka client; both in turn."""
    count = 20_000 if quick else 300_000
    create_topic(running.addresses[0], "batched", 1)
    ratios, ours_rates, cpu_us = [], [], []
    for _ in range(1 if quick else ROUNDS):
        before = running.cpu_seconds
        ours = records_per_second({"bootstrap.servers": running.bootstrap}, "batched", count)
        cpu_us.append((running.cpu_seconds - before) / count * 1e6)
        mock = records_per_second({"bootstrap.servers": "mock", "test.mock.num.brokers": 1}, "batched", count)
        ratios.append(ours / mock)
        ours_rates.append(ours)
    detail = f"; {statistics.median(ours_rates) / 1e6:.2f} M records/s, {statistics.median(cpu_us):.2f} µs of CPU each"
    name = "batched 100 B records, one librdkafka client: against its C mock cluster"
    return rounds_at_least(name, ratios, 0.6, "×", detail)


def _pipelined_mb_per_second(wire: Wire, request: bytes, response_bytes: Callable[[], int], count: int) -> float:
    """Send requests `DEPTH` at a time, and wait for all their answers before the next."""
    answer_bytes = response_bytes()
    burst = request * DEPTH
    buffer = bytearray(1024 * 1024)
    started = time.perf_counter()
    for _ in range(count // DEPTH):
        wire.socket.sendall(burst)
        missing = answer_bytes * DEPTH
        while missing:
            missing -= wire.socket.recv_into(buffer, min(missing, len(buffer)))
    return count * len(request) / (time.perf_counter() - started) / 1e6


def against_the_echo(running: Brokers, quick: bool) -> Row:
    """Produce requests of 16 KiB, 16 deep, one connection; both in turn.

    The broker has filled its memory cap before, so that it appends into memory that it has used already: the first
    touch of a page costs what the machine makes it cost, on a virtual one more than everything else here.
    """
    count = 320 if quick else 8000
    request = produce_frame("large", LARGE_BYTES, acks=1)
    ratios, ours_rates, cpu_us = [], [], []
    with echo() as address:
        plain = Wire(address)
        wire = Wire(create_topic(running.addresses[0], "large", 1))
        _pipelined_mb_per_second(wire, request, lambda: 4 + len(wire.exchange(request)), 320 if quick else WARM_UP)
        for _ in range(1 if quick else ROUNDS):
            before = running.cpu_seconds
            ours = _pipelined_mb_per_second(wire, request, lambda: 4 + len(wire.exchange(request)), count)
            cpu_us.append((running.cpu_seconds - before) / count * 1e6)
            bare = _pipelined_mb_per_second(plain, request, lambda: len(request), count)
            ratios.append(ours / bare)
            ours_rates.append(ours)
        plain.close()
        wire.close()
    name = "16 KiB requests, 16 deep: MB/s against a bare uvloop echo of the same frames"
    detail = f"; {statistics.median(ours_rates):.0f} MB/s, {statistics.median(cpu_us):.0f} µs of CPU each"
    return rounds_at_least(name, ratios, 0.5, "×", detail)


def rows(quick: bool = False) -> list[Row]:
    """Run all measurements of this file."""
    with brokers() as running:
        small = against_the_mock_cluster(running, quick)
    with brokers(log_memory_bytes=MEMORY_BYTES) as running:
        return [small, against_the_echo(running, quick)]
