"""What `Kafka.records` returns of topics with transactions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer

from purgatorio.testing import Kafka, cluster


@pytest.fixture
def kafka() -> Iterator[Kafka]:
    with cluster(brokers=1) as running:
        yield running


def values(kafka: Kafka, **options: Any) -> list[bytes | None]:
    return [each.value for each in kafka.records("bills", **options)]


async def test_records_of_aborted_and_open_transactions_are_no_committed_ones(kafka: Kafka) -> None:
    """One producer aborts a transaction, commits one, and leaves one open; a record without transaction is behind."""
    kafka.topic("bills")
    producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, transactional_id="billing-1")
    async with producer:
        await producer.begin_transaction()
        await producer.send_and_wait("bills", b"aborted")
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send_and_wait("bills", b"committed")
        assert values(kafka, isolation_level="read_committed") == [b"committed"]
        await producer.begin_transaction()
        await producer.send_and_wait("bills", b"open")
        kafka.produce("bills", "plain")
        assert values(kafka, isolation_level="read_committed") == [b"committed"]
        assert values(kafka) == [b"aborted", b"committed", b"open", b"plain"]


async def test_a_transaction_is_waited_for_whose_end_was_told_before_its_markers_are_there() -> None:
    """The coordinator sends the markers to another broker, after it has told the producer."""
    with cluster() as kafka:
        kafka.topic("bills", replicas=1)
        async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, transactional_id="billing-1") as producer:
            kafka.move_coordinator(transactional_id="billing-1", to=next(iter({1, 2, 3} - {kafka.leader("bills")})))
            for nth in range(10):
                async with producer.transaction():
                    await producer.send("bills", b"paid")
                assert len(values(kafka, isolation_level="read_committed")) == nth + 1


def test_an_isolation_level_that_is_none_is_refused_and_the_near_one_is_named(kafka: Kafka) -> None:
    kafka.topic("bills")
    with pytest.raises(ValueError, match="not 'commited'"):
        values(kafka, isolation_level="commited")
    with pytest.raises(ValueError, match="did you mean read_committed"):
        values(kafka, isolation_level="read-commited")
