"""Client quotas in a test's hands, with real clients."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer

from purgatorio.testing import Kafka, cluster

FLUSH_SECONDS = 10


@pytest.fixture(scope="module")
def running() -> Iterator[Kafka]:
    with cluster(brokers=1, topics={"orders": 1}) as running:
        yield running


@pytest.fixture
def kafka(running: Kafka) -> Kafka:
    running.reset()
    return running


def producer(kafka: Kafka, client_id: str) -> Producer:
    return Producer(kafka.client_config("confluent", "producer") | {"client.id": client_id, "linger.ms": 0})


def test_a_throttled_client_waits_in_virtual_time_and_another_does_not(kafka: Kafka) -> None:
    """librdkafka goes on sending; only the broker holds it."""
    kafka.quota(client_id="", producer_byte_rate=1_000)
    billing, audit = producer(kafka, "billing"), producer(kafka, "audit")
    billing.produce("orders", bytes(70_000))
    assert billing.flush(FLUSH_SECONDS) == 0, "the answer comes at once"
    (muted,) = kafka.until_parked(api="Throttled").wait()
    assert muted.client == "billing"
    assert muted.missing.startswith("client `billing` is muted for 60.")
    assert muted.missing.endswith(" s: 7.01 kB/s of 1 kB/s, rule: default client")
    billing.produce("orders", b"late")
    audit.produce("orders", b"soon")
    assert audit.flush(FLUSH_SECONDS) == 0
    assert billing.flush(0.05) == 1
    kafka.clock.advance(muted.left_ms / 1_000)
    assert billing.flush(FLUSH_SECONDS) == 0


def test_a_mute_can_be_ended_early_and_a_quota_be_removed(kafka: Kafka) -> None:
    with kafka.quota(user="ANONYMOUS", producer_byte_rate=1_000):
        billing = producer(kafka, "billing")
        billing.produce("orders", bytes(70_000))
        (muted,) = kafka.until_parked(api="Throttled").wait()
        kafka.expire(muted)
    billing.produce("orders", b"free")
    assert billing.flush(FLUSH_SECONDS) == 0
    assert kafka.parked(api="Throttled") == []


async def test_confluent_kafka_and_aiokafka_are_slowed_in_real_time(kafka: Kafka) -> None:
    """A window allows 500 kB; what is above waits."""
    kafka.quota(client_id="", producer_byte_rate=50_000)
    own = producer(kafka, "confluent")
    started = time.monotonic()
    own.produce("orders", bytes(520_000))
    assert own.flush(FLUSH_SECONDS) == 0
    own.produce("orders", b"next")
    assert own.flush(FLUSH_SECONDS) == 0
    assert time.monotonic() - started > 0.4
    settings = kafka.client_config("aiokafka", "producer") | {"client_id": "aiokafka"}
    async with AIOKafkaProducer(**settings) as other:
        started = time.monotonic()
        await other.send_and_wait("orders", bytes(520_000))
        await other.send_and_wait("orders", b"next")
        assert time.monotonic() - started > 0.4


def test_reset_removes_quotas_and_a_snapshot_keeps_them(kafka: Kafka) -> None:
    quota = kafka.quota(client_id="billing", producer_byte_rate=1_000)
    assert repr(quota) == "<Quota client-id billing: producer_byte_rate=1000>"
    quotas = kafka._cluster.brokers[0].image.client_quotas
    kept = kafka.snapshot()
    kafka.reset()
    assert kafka._cluster.brokers[0].image.client_quotas == {}
    kafka.restore(kept)
    assert kafka._cluster.brokers[0].image.client_quotas == quotas


def test_what_cannot_be_is_refused_with_a_sentence(kafka: Kafka) -> None:
    with pytest.raises(ValueError, match="There is no quota 'byte_rate'"):
        kafka.quota(client_id="billing", byte_rate=1)
    with pytest.raises(ValueError, match="The entity has no parts"):
        kafka.quota(producer_byte_rate=1)


def test_a_mute_can_be_waited_for_before_there_is_any(kafka: Kafka) -> None:
    """Brokers make the purgatory with the first mute; its name is known before."""
    assert kafka.parked(api="Throttled") == []
