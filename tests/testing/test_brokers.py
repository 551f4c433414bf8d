"""Brokers that are added and hidden, as a real client sees it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from aiokafka.admin import AIOKafkaAdminClient

from purgatorio.broker.cluster.cluster import BrokerStateError
from purgatorio.testing import Kafka, cluster


@pytest.fixture
def kafka() -> Iterator[Kafka]:
    with cluster(brokers=2, racks=["a", "b", "c"]) as running:
        yield running


async def seen(kafka: Kafka) -> dict[int, str]:
    """The brokers that a client learns of, with their racks."""
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap)
    await admin.start()
    try:
        found = await admin.describe_cluster()
    finally:
        await admin.close()
    return {each["node_id"]: each["rack"] for each in found["brokers"]}


async def test_clients_learn_of_a_broker_that_is_added_and_topics_get_replicas_there(kafka: Kafka) -> None:
    assert kafka.add_broker() == 3
    assert kafka.brokers == [1, 2, 3]
    assert await seen(kafka) == {1: "a", 2: "b", 3: "c"}
    kafka.topic("orders", replicas=3)
    kafka.produce("orders", "tea")
    kafka.move_leader("orders", to=3)
    assert kafka.leader("orders") == 3
    assert kafka.add_broker(rack="z") == 4
    assert (await seen(kafka))[4] == "z"


async def test_a_broker_that_was_added_stops_and_starts_as_others_and_is_gone_after_a_reset(kafka: Kafka) -> None:
    before = kafka.bootstrap
    snapshot = kafka.snapshot()
    added = kafka.add_broker()
    kafka.kill(added)
    assert "3 (does not run)" in kafka.report()
    kafka.start(added)
    assert kafka.brokers == [1, 2, 3]
    kafka.reset()
    assert kafka.brokers == [1, 2]
    assert kafka.bootstrap == before == kafka._cluster.bootstrap
    with pytest.raises(BrokerStateError, match="there is no broker 3, only 1, 2"):
        kafka.start(added)
    kafka.restore(snapshot)
    assert kafka.add_broker() == added


def test_a_snapshot_that_needs_an_added_broker_is_refused(kafka: Kafka) -> None:
    kafka.add_broker()
    kafka.topic("orders", replicas=3)
    snapshot = kafka.snapshot()
    with pytest.raises(Exception, match="needs broker 3"):
        kafka.restore(snapshot)


async def test_a_hidden_broker_runs_and_no_client_learns_of_it(kafka: Kafka) -> None:
    with kafka.hide(2) as hidden:
        assert list(await seen(kafka)) == [1]
        assert kafka.brokers == [1, 2]
        kafka.topic("orders")
        kafka.produce("orders", "tea")
        assert hidden.fired > 0
        kafka.add_broker()
        kafka.hide(3)
        assert list(await seen(kafka)) == [1]
    assert list(await seen(kafka)) == [1, 2]


def test_only_a_broker_that_there_is_can_be_hidden(kafka: Kafka) -> None:
    with pytest.raises(ValueError, match="there is no broker 7, only 1, 2"):
        kafka.hide(7)
