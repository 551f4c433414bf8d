"""A follower is held back: is an order confirmed that it does not have?

It needs ``pip install -r requirements.txt``. Run it: ``pytest``
"""

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from shop import place_order, place_order_broken

BROKEN = pytest.mark.xfail(
    strict=True, raises=AssertionError, reason="it confirms orders that only the client's queue has"
)


@pytest.fixture
def producer(kafka) -> Iterator[Producer]:
    """A producer that gives a record up after a second."""
    with Producer(kafka.client_config("confluent", "producer") | {"message.timeout.ms": 1000}) as producer:
        yield producer


@pytest.mark.parametrize("place", [pytest.param(place_order_broken, marks=BROKEN), place_order])
def test_no_order_is_confirmed_that_only_the_leader_has(kafka, producer, place) -> None:
    """A follower is held, so that the broker does not acknowledge the order: it could be lost with the leader."""
    kafka.topic("orders")
    kafka.move_leader("orders", to=1)
    kafka.hold_follower(3)
    assert not place(producer, "tea")
    assert [each.api for each in kafka.requests(api="Produce") if each.ended == "answered"] == []


def test_an_order_is_confirmed_when_all_replicas_have_it(kafka, producer) -> None:
    """No follower is held: the order is confirmed and kept."""
    kafka.topic("orders")
    assert place_order(producer, "tea")
    assert [record.value for record in kafka.records("orders")] == [b"tea"]
