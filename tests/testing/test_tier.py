"""`kafka.tier`: what a test does to the object store of its cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from purgatorio.testing import Fault, Kafka, TierSegment, cluster

VALUES = [f"record {number}".encode() for number in range(20)]
PATIENCE = 20


@pytest.fixture(scope="module")
def shared() -> Iterator[Kafka]:
    with cluster(brokers=3, tier=True) as running:
        yield running


@pytest.fixture
def kafka(shared: Kafka) -> Kafka:
    """A cluster with orders-0, of whose twenty records memory has none."""
    shared.reset()
    shared.topic("orders", remote_storage_enable=True)
    shared.produce("orders", *VALUES[:12])
    assert shared.tier.offload("orders") > 0
    shared.produce("orders", *VALUES[12:])
    assert shared.tier.offload("orders") > 0
    return shared


def consumer_of(kafka: Kafka) -> Consumer:
    """A consumer at the beginning of orders."""
    settings = {"client.id": "billing", "group.id": "billing", "auto.offset.reset": "earliest"}
    consumer = Consumer(kafka.client_config("confluent", "consumer") | settings)
    consumer.subscribe(["orders"])
    return consumer


def read(consumer: Consumer, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    while len(found) < count:
        (message,) = consumer.consume(1, PATIENCE) or (None,)
        assert message is not None, f"only {len(found)} of {count} records came"
        assert message.error() is None, message.error()
        found.append(message.value())
    return found


def test_a_held_read_is_seen_with_who_waits_for_what_and_let_go_and_every_record_comes(kafka: Kafka) -> None:
    """The test with which tiered storage is done: a real client, and nobody else lets one do this."""
    consumer = consumer_of(kafka)
    try:
        with kafka.tier.hold_reads("orders") as held:
            while not (calls := kafka.parked(api="Fault")):
                assert consumer.poll(0.05) is None
            (call,) = calls
            assert call.missing == "tier get: hold reads of orders holds it until it is released"
            (fetch, *_) = kafka.until_parked(api="RemoteFetch", client="billing").wait()
            assert fetch.missing.startswith("waits for orders-0 [0, 12) to come back from the memory store")
            assert f"held by rule {held.id}" in fetch.missing
            assert held.held == 1
            told = kafka.explain("billing")
            assert f"held by rule {held.id}" in told, told
        assert read(consumer, len(VALUES)) == VALUES
        assert kafka.faults == []
    finally:
        consumer.close()


def test_segments_are_those_that_were_offloaded(kafka: Kafka) -> None:
    first, second = kafka.tier.segments("orders")
    assert first[:4] == ("orders", 0, 0, 12)
    assert second == TierSegment("orders", 0, 12, 20, second.size_bytes)
    assert kafka.tier.segments("orders", partition=1) == []
    assert [record.value for record in kafka.records("orders")] == VALUES
    assert kafka.tier.verify("orders") == []


def test_a_store_that_fails_or_lies_for_a_while_costs_no_record(kafka: Kafka) -> None:
    away = kafka.tier.fail("get", topic="orders", count=2)
    broken = kafka.tier.corrupt(topic="orders", count=1)
    consumer = consumer_of(kafka)
    try:
        assert read(consumer, len(VALUES)) == VALUES
    finally:
        consumer.close()
    assert (away.fired, broken.fired) == (2, 1)
    assert away.until_fired(2).wait() == 2


def test_what_is_damaged_is_named_and_refused_offloads_say_why(kafka: Kafka) -> None:
    with kafka.tier.corrupt():
        damaged = kafka.tier.verify("orders")
    assert [each.partition(":")[0] for each in damaged] == ["orders-0 from offset 0", "orders-0 from offset 12"]
    kafka.produce("orders", "more")
    with kafka.tier.hold_writes() as held:
        with pytest.raises(ValueError, match=rf"orders-0 is copied up to 20 of 21 .* fault rule {held.id}"):
            kafka.tier.offload("orders", timeout_seconds=0.1)
        held.release()
        held.remove()
    assert kafka.tier.offload("orders") > 0


def test_an_hour_of_local_retention_takes_no_time(kafka: Kafka) -> None:
    kafka.topic("bills", remote_storage_enable=True, local_retention_ms=3_600_000, segment_ms=60_000)
    kafka.produce("bills", *VALUES)
    kafka.clock.advance(3_700)  # which may end with the check of retention: the copies come with the next round
    kafka.clock.advance(60)
    (segment,) = kafka.tier.segments("bills")
    assert (segment.start_offset, segment.end_offset) == (0, 20)
    assert [record.value for record in kafka.records("bills")] == VALUES


@pytest.mark.process
def test_the_brokers_may_be_processes(tmp_path: Path) -> None:
    pytest.importorskip("obstore")
    with (
        pytest.raises(ValueError, match="tier=True and processes=True do not go together"),
        cluster(processes=True, tier=True),
    ):
        pass
    with cluster(brokers=2, processes=True, tier=tmp_path) as kafka:
        kafka.topic("orders", partitions=2, remote_storage_enable=True)
        for partition in (0, 1):
            kafka.produce("orders", *VALUES, partition=partition)
        assert kafka.tier.offload("orders") > 0
        assert [each[1:4] for each in kafka.tier.segments("orders")] == [(0, 0, 20), (1, 0, 20)]
        with kafka.tier.hold_reads("orders") as held:
            assert (held.fired, held.held) == (0, 0)
        broken = kafka.tier.corrupt(topic="orders", partition=1)
        assert [each.partition(" ")[0] for each in kafka.tier.verify("orders")] == ["orders-1"]
        assert broken.until_fired(3).wait() == 3
        broken.remove()
        broken.remove()
        assert [record.value for record in kafka.records("orders", 0)] == VALUES


def test_a_cluster_without_a_tier_says_so_and_a_fault_says_what_it_is() -> None:
    with cluster(brokers=1) as kafka:
        for call in (kafka.tier.hold_reads, lambda: kafka.tier.fail("get"), lambda: kafka.tier.offload("orders")):
            with pytest.raises(ValueError, match=r"no tier|no topic"):
                call()
    with cluster(brokers=1, tier=True) as kafka:
        fault = kafka.tier.fail("put", error="Refused", name="full")
        assert isinstance(fault, Fault)
        assert str(fault) == "tier=put error=Refused name=full"
        assert [str(each) for each in kafka.faults] == [str(fault)]
        with pytest.raises(ValueError, match="Exists is one of put, not of get"):
            kafka.tier.fail("get", error="Exists")


def test_time_that_passes_deletes_in_the_tier_and_nothing_asks_for_it(kafka: Kafka) -> None:
    kafka.topic("bills", remote_storage_enable=True, retention_ms=60_000)
    kafka.produce("bills", b"old")
    assert kafka.tier.offload("bills") > 0
    kafka.clock.advance(50)
    kafka.produce("bills", b"new")
    assert [each.start_offset for each in kafka.tier.segments("bills")] == [0]
    kafka.clock.advance(45)  # the round after its time comes within 30 seconds
    assert kafka.tier.segments("bills") == []
    assert [record.value for record in kafka.records("bills")] == [b"new"]
