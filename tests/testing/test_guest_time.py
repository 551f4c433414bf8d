"""A cluster in the process of a test that moves time: freezegun and time-machine move the test's, not the brokers'."""

from __future__ import annotations

import contextlib
import unittest
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
import time_machine
from confluent_kafka import Consumer, Producer
from freezegun import freeze_time

from purgatorio import unpatched
from purgatorio.testing import Kafka, cluster

pytestmark = pytest.mark.slow

Moving = Callable[[], AbstractContextManager[Any]]

MOVES: dict[str, Moving] = {
    "freezegun, past": lambda: freeze_time("2020-01-01"),
    "freezegun, future": lambda: freeze_time("2031-01-01"),
    "freezegun, ticking": lambda: freeze_time("2024-05-01", tick=True),
    "time-machine, past": lambda: time_machine.travel("2020-01-01"),
    "time-machine, future": lambda: time_machine.travel("2031-01-01"),
    "time-machine, standing": lambda: time_machine.travel("2024-05-01", tick=False),
}


@pytest.fixture(params=MOVES.values(), ids=MOVES.keys())
def moved(request: pytest.FixtureRequest) -> Moving:
    """Moves the test's time."""
    moving: Moving = request.param
    return moving


def works(kafka: Kafka) -> None:
    """A real client's records are taken, kept, and read; an election follows a death; only `kafka.clock` moves time."""
    assert abs(kafka.clock.now() - unpatched.wall_ns() / 1e9) < 5
    kafka.topic("orders")
    assert sent(kafka) is None
    kafka.produce("orders", "cake")
    kafka.apply_retention()
    kafka.kill(kafka.leader("orders"))
    assert [each.value for each in kafka.records("orders")] == [b"tea", b"cake"]
    assert read(kafka) == b"tea"
    before = kafka.clock.now()
    kafka.clock.advance(60)
    assert 59 < kafka.clock.now() - before < 65


def sent(kafka: Kafka) -> str | None:
    """Send a record by librdkafka, which stamps it with the machine's time; return the error."""
    errors: list[str | None] = []
    with Producer(kafka.client_config("confluent", "producer")) as producer:
        producer.produce("orders", b"tea", on_delivery=lambda error, _: errors.append(error and error.name()))
        producer.flush(12)
    return errors[0]


def read(kafka: Kafka) -> bytes:
    """Read the first record as the member of a group."""
    config = kafka.client_config("confluent", "consumer") | {"group.id": "billing", "auto.offset.reset": "earliest"}
    with Consumer(config) as consumer:
        consumer.subscribe(["orders"])
        message = consumer.poll(10)
    assert message is not None
    value: bytes = message.value()
    return value


@pytest.mark.ci
def test_a_cluster_that_was_made_before_keeps_its_time(moved: Moving) -> None:
    with cluster() as kafka, moved():
        works(kafka)


def test_a_cluster_that_is_made_within_keeps_its_time_there_and_beyond(moved: Moving) -> None:
    with contextlib.ExitStack() as stack:
        with moved():
            kafka = stack.enter_context(cluster())
            works(kafka)
        assert sent(kafka) is None
        assert 59 < kafka.clock.now() - unpatched.wall_ns() / 1e9 < 65


def test_a_frozen_clock_of_the_brokers_goes_on_from_where_it_stood(moved: Moving) -> None:
    with cluster(brokers=1) as kafka:
        kafka.clock.freeze()
        stood = kafka.clock.now()
        with moved():
            assert kafka.clock.now() == stood
            kafka.clock.unfreeze()
            assert 0 <= kafka.clock.now() - stood < 1


@freeze_time("2020-01-01")
def test_a_test_that_is_decorated() -> None:
    with cluster() as kafka:
        works(kafka)


@freeze_time("2020-01-01")
class TestFrozen(unittest.TestCase):
    """A class that is decorated, as the marker of pytest-freezer freezes: before the fixtures are made."""

    def setUp(self) -> None:
        self.kafka = self.enterContext(cluster())

    def test_it(self) -> None:
        works(self.kafka)


@pytest.fixture
def users(request: pytest.FixtureRequest) -> Iterator[Kafka]:
    with freeze_time("2031-01-01"), cluster(brokers=1, sasl="OAUTHBEARER", topics={"orders": 1}) as kafka:
        yield kafka


def test_a_token_of_a_client_is_valid_by_the_brokers_time(users: Kafka) -> None:
    assert sent(users) is None


@pytest.mark.process
@pytest.mark.parametrize("moves", ["freezegun, past", "time-machine, standing"])
def test_brokers_in_processes_keep_their_time(moves: str) -> None:
    with MOVES[moves](), cluster(processes=True) as kafka:
        works(kafka)
