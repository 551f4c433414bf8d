"""The time of one request: against librdkafka's mock cluster in C, acks=-1 against acks=1, and a woken long poll."""

from __future__ import annotations

import statistics

from loads import delivery_times, lone_requests, woken_polls
from processes import Brokers, brokers
from purgatorio.admin.cli.build import build
from rows import Row, at_most, percentile, rounds_at_most
from wire import create_topic, produce_frame

ROUNDS = 5


def against_the_mock_cluster(running: Brokers, quick: bool) -> Row:
    """One record at a time, acks=1, one librdkafka client; both in turn."""
    count = 200 if quick else 2000
    create_topic(running.addresses[0], "latency", 1)
    ratios, ours_us, mock_us, cpu_us = [], [], [], []
    for _ in range(1 if quick else ROUNDS):
        before = running.cpu_seconds
        ours = delivery_times({"bootstrap.servers": running.bootstrap}, "latency", count)
        cpu_us.append((running.cpu_seconds - before) / count * 1e6)
        mock = delivery_times({"bootstrap.servers": "mock", "test.mock.num.brokers": 1}, "latency", count)
        ours_us.append(percentile(ours, 0.5) * 1e6)
        mock_us.append(percentile(mock, 0.5) * 1e6)
        ratios.append(ours_us[-1] / mock_us[-1])
    ours_median_us, mock_median_us = statistics.median(ours_us), statistics.median(mock_us)
    detail = f"; {ours_median_us:.0f} µs against {mock_median_us:.0f}, {statistics.median(cpu_us):.0f} µs of CPU"
    name = f"one record at a time, acks=1, one librdkafka client, {build()}: p50 against its C mock cluster"
    return rounds_at_most(name, ratios, 1.3 if build() == "compiled" else 1.5, "×", detail)


def acks_all_against_acks_one(running: Brokers, quick: bool) -> Row:
    """Three replicas; both in turn over one connection."""
    count = 100 if quick else 1000
    leader = create_topic(running.addresses[0], "acks", 3)
    ratios, all_us, cpu_us = [], [], []
    for _ in range(1 if quick else ROUNDS):
        one = percentile(lone_requests(leader, produce_frame("acks", 100, acks=1), count), 0.5)
        before = running.cpu_seconds
        every = percentile(lone_requests(leader, produce_frame("acks", 100, acks=-1), count), 0.5)
        cpu_us.append((running.cpu_seconds - before) / count * 1e6)
        ratios.append(every / one)
        all_us.append(every * 1e6)
    detail = f"; {statistics.median(all_us):.0f} µs, {statistics.median(cpu_us):.0f} µs of CPU"
    return rounds_at_most("acks=-1, three replicas: p50 against acks=1", ratios, 2.2, "×", detail)


def woken_long_poll(running: Brokers, quick: bool) -> Row:
    """The time from sending a produce request to the answer of a consumer's parked fetch."""
    count = 50 if quick else 500
    address = create_topic(running.addresses[0], "wake", 1)
    waits_ms = [seconds * 1000 for seconds in woken_polls(address, "wake", produce_frame("wake", 100, acks=1), count)]
    name = "produce → parked consumer fetch answered, idle: p99"
    return at_most(name, percentile(waits_ms, 0.99), 3, " ms", f" (p50 {percentile(waits_ms, 0.5):.2f} ms)")


def rows(quick: bool = False) -> list[Row]:
    """Run all measurements of this file."""
    with brokers() as running:
        return [
            against_the_mock_cluster(running, quick),
            acks_all_against_acks_one(running, quick),
            woken_long_poll(running, quick),
        ]
