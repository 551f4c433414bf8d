"""The text that a failed test shows."""

from __future__ import annotations

import contextlib
import re
import socket
import threading

from purgatorio.protocol.api import encode_request
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from purgatorio.testing import cluster
from purgatorio.testing.report import MAX_LINES, MAX_WIDTH, section


def test_a_section_says_how_much_it_leaves_out() -> None:
    assert section("title", ["a", "b"], later=2, earlier=-3) == ["title:", "  a", "  b", "  … 2 more"]
    assert section("title", ["a"], earlier=1) == ["title:", "  … 1 earlier", "  a"]
    assert section("title", []) == []


def test_lines_and_their_lengths_are_bounded() -> None:
    with cluster(brokers=40) as kafka:
        kafka.topic("orders", partitions=100, replicas=3)
        kafka.stop(1)
        lines = kafka.report().splitlines()
    assert len(lines) <= MAX_LINES
    assert len(lines[0]) == MAX_WIDTH
    assert lines[0].endswith("…")


def test_an_idle_cluster_says_that_nothing_waits() -> None:
    """Followers' own fetches wait all the time, and are left out."""
    with cluster() as kafka:
        kafka.topic("orders")
        kafka.produce("orders", "first")
        kafka.until_parked(api="Fetch").wait()
        assert kafka.report().splitlines()[1:] == ["parked operations: none", "topics:", "  orders-0 ends at offset 1"]


def test_waits_that_have_ended_are_told_with_what_they_missed_and_alike_ones_once() -> None:
    """A client that gives up in its ``async with`` has nothing parked by the time at which the report is made."""

    def produce() -> None:
        with contextlib.suppress(TimeoutError):
            kafka.produce("orders", "late")

    with cluster() as kafka:
        kafka.topic("orders")
        leader = kafka.move_leader("orders")
        for follower in {1, 2, 3} - {leader}:
            kafka.hold_follower(follower)
        for _ in range(3):
            producing = threading.Thread(target=produce)
            producing.start()
            kafka.expire(kafka.until_parked(api="Produce").wait()[0])
            producing.join()
        lines = kafka.report().splitlines()
    at = lines.index("waits that ended without what they waited for, the last one first:")
    wanted = rf"  [\d.]+ s ago broker {leader} Produce of purgatorio.testing, expired after \d+ ms: orders-0: "
    assert re.match(wanted + r"broker \d is at 0 of 3.* \(2 more like it before\)$", lines[at + 1])
    assert not lines[at + 2].startswith("  ")


def test_a_client_that_has_closed_its_end_is_not_connected() -> None:
    """It leaves a fetch parked, for whose answer the broker waits."""
    one = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000)
    fetch = FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=[FetchTopic(topic="orders", partitions=[one])])
    with cluster(brokers=1) as kafka:
        kafka.topic("orders")
        host, _, port = kafka.bootstrap.rpartition(":")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(b"".join(encode_request(ApiKey.FETCH, 12, 1, "billing", fetch)))
            kafka.until_parked(api="Fetch", client="billing").wait()
            assert kafka.clients == ["billing"]
        assert kafka.left_open(patience_seconds=5) == []
        assert [each.client for each in kafka.parked(api="Fetch")] == ["billing"]
        assert "connected clients" not in kafka.report()
