"""The brokers' time, moved by hand, as real clients see it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator

import confluent_kafka
import kafka as kafka_python
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from purgatorio.testing import Kafka, cluster

DAY_SECONDS = 24 * 3600


@pytest.fixture
def kafka() -> Iterator[Kafka]:
    with cluster(topics={"orders": 1}) as running:
        yield running


def hold_followers(kafka: Kafka) -> None:
    leader = kafka.leader("orders")
    for each in kafka.brokers:
        if each != leader:
            kafka.hold_follower(each)


def test_a_produce_request_that_waits_30_seconds_is_answered_within_milliseconds() -> None:
    with cluster(topics={"orders": 1}, replica_lag_time_max_ms=60_000) as kafka:
        hold_followers(kafka)
        producer = kafka_python.KafkaProducer(
            bootstrap_servers=kafka.bootstrap_servers, acks="all", retries=0, request_timeout_ms=30_000
        )
        with contextlib.closing(producer):
            sent = producer.send("orders", b"paid")
            kafka.until_parked(api="Produce").wait()
            before = time.monotonic()
            advanced = kafka.clock.advance(30)
            with pytest.raises(kafka_python.errors.RequestTimedOutError):
                sent.get(timeout=10)
            assert time.monotonic() - before < 5, "the bar is 50 ms on an idle machine; this only tells it from waiting"
        (ended,) = [each for each in advanced.ended if each.purgatory == "Produce"]
        assert (advanced.seconds, ended.client) == (30, producer.config["client_id"])


@pytest.mark.clients
def test_librdkafka_acknowledges_without_an_offset_what_a_later_answer_implies(kafka: Kafka) -> None:
    """Its first request times out, and the second is answered before the first is sent again: IMPLICITACK in its log.

    The broker has not been asked for the offset; a retry would have been told it.
    """
    backoff = {"retry.backoff.ms": 60_000, "retry.backoff.max.ms": 60_000}
    reports: list[tuple[bytes | None, object, int | None]] = []

    def report(error: object, message: confluent_kafka.Message) -> None:
        reports.append((message.value(), error, message.offset()))

    hold_followers(kafka)
    config = kafka.client_config("confluent", "producer") | backoff | {"enable.idempotence": True}
    with confluent_kafka.Producer(config, on_delivery=report) as producer:
        for count, value in enumerate((b"first", b"second"), 1):
            producer.produce("orders", value)
            while len(kafka.parked(api="Produce")) < count:
                producer.poll(0.01)
        kafka.expire(kafka.parked(api="Produce")[0])
        kafka.release()
        assert producer.flush(10) == 0
    assert reports == [(b"first", None, None), (b"second", None, 1)]
    assert [record.value for record in kafka.records("orders")] == [b"first", b"second"]


def test_brokers_keep_their_leases_and_followers_stay_in_sync(kafka: Kafka, capsys: pytest.CaptureFixture[str]) -> None:
    kafka.produce("orders", "a")
    before = kafka.leader("orders")
    advanced = kafka.clock.advance(120)
    assert advanced.changes == ()
    assert kafka.leader("orders") == before
    assert "the brokers' clock moved 120 s" in capsys.readouterr().out


async def test_held_followers_fall_out_of_sync_when_their_time_is_over(kafka: Kafka) -> None:
    hold_followers(kafka)
    async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, acks=1) as producer:
        await producer.send_and_wait("orders", b"paid")
    assert kafka.clock.advance(10).changes == ()
    (change,) = kafka.clock.advance(50).changes
    assert change.startswith("orders-0: in sync")
    assert change.endswith(f"→ {kafka.leader('orders')}")


async def test_members_sessions_end_only_if_that_is_asked_for(kafka: Kafka) -> None:
    consumer = AIOKafkaConsumer(
        "orders",
        bootstrap_servers=kafka.bootstrap,
        group_id="billing",
        enable_auto_commit=False,
        session_timeout_ms=10_000,
    )
    async with consumer:
        assert await asyncio.to_thread(kafka.clock.advance, 60) is not None
        assert [each.purgatory for each in kafka.parked(api="Heartbeat")] == ["Heartbeat"]
        advanced = await asyncio.to_thread(lambda: kafka.clock.advance(60, sessions=True))
        (ended,) = [each for each in advanced.ended if each.purgatory == "Heartbeat"]
        assert "no heartbeat of member aiokafka" in ended.missing


async def test_a_long_poll_that_is_expired_is_answered_at_once(kafka: Kafka) -> None:
    consumer = AIOKafkaConsumer("orders", bootstrap_servers=kafka.bootstrap, fetch_max_wait_ms=60_000)
    async with consumer:
        (fetch,) = await kafka.until_parked(api="Fetch", client=consumer._client._client_id)
        kafka.expire(fetch)
        with pytest.raises(ValueError, match="does not wait any more"):
            kafka.expire(fetch)


async def test_a_members_session_is_ended_by_hand_and_the_others_get_its_partitions(kafka: Kafka) -> None:
    kafka.topic("paid", partitions=2)
    first, second = (
        AIOKafkaConsumer("paid", bootstrap_servers=kafka.bootstrap, group_id="billing", client_id=name)
        for name in ("one", "two")
    )
    async with first, second:
        with pytest.raises(ValueError, match="no member 'three'; its members: one"):
            kafka.expire_member("billing", "three")
        expired = kafka.expire_member("billing", "two")
        assert expired.startswith("two-")


async def test_an_open_transaction_is_aborted_when_its_time_is_over(kafka: Kafka) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=kafka.bootstrap, transactional_id="copier", transaction_timeout_ms=60_000
    )
    async with producer:
        with pytest.raises(ValueError, match="no transactional id other"):
            kafka.expire_transaction("other")
        with pytest.raises(ValueError, match="no open transaction"):
            kafka.expire_transaction("copier")
        await producer.begin_transaction()
        await producer.send_and_wait("orders", b"half")
        kafka.expire_transaction("copier")
        await kafka_is_settled(kafka)
        with pytest.raises(ValueError, match="no open transaction"):
            kafka.expire_transaction("copier")


async def kafka_is_settled(kafka: Kafka) -> None:
    async with asyncio.timeout(10):
        while kafka.parked(api="Transaction") or kafka.parked(api="TransactionTimeout"):  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def test_a_transaction_times_out_by_the_clock(kafka: Kafka) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=kafka.bootstrap, transactional_id="copier", transaction_timeout_ms=60_000
    )
    async with producer:
        await producer.begin_transaction()
        await producer.send_and_wait("orders", b"half")
        advanced = kafka.clock.advance(61)
        assert [each.purgatory for each in advanced.ended] == ["TransactionTimeout"]


def test_records_grow_old_and_are_deleted() -> None:
    with cluster(topics={"orders": 1}, log_retention_ms=DAY_SECONDS * 1000, log_roll_ms=3_600_000) as kafka:
        kafka.produce("orders", "old")
        before = kafka.clock.now()
        kafka.clock.advance(2 * DAY_SECONDS)
        assert kafka.clock.now() - before >= 2 * DAY_SECONDS
        assert kafka.records("orders") == []


def test_a_frozen_clock_moves_only_by_hand(kafka: Kafka) -> None:
    kafka.clock.freeze()
    before = kafka.clock.now()
    kafka.produce("orders", "a")
    assert kafka.clock.now() == before
    kafka.clock.advance(1.5)
    assert kafka.clock.now() == before + 1.5
    kafka.clock.unfreeze()
    kafka.produce("orders", "b")


def test_after_a_reset_records_are_as_old_as_their_clients_say(kafka: Kafka) -> None:
    """Else the tests behind one that moved the clock would lose their records to retention."""
    kafka.clock.advance(30)
    kafka.reset()
    assert abs(kafka.clock.now() - time.time()) < 5


def test_a_reset_ends_the_freezing(kafka: Kafka) -> None:
    kafka.clock.freeze()
    kafka.reset()
    before = kafka.clock.now()
    while kafka.clock.now() == before:
        time.sleep(0.001)


def test_time_goes_forward_only(kafka: Kafka) -> None:
    for wrong in (-1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="time goes forward"):
            kafka.clock.advance(wrong)
