"""The broker refuses a dead letter once: is each order charged or put aside?

It needs ``pip install -r requirements.txt``. Run it: ``pytest``
"""

import contextlib

import pytest
from charging import charge_orders, put_aside, put_aside_broken
from confluent_kafka import Consumer, KafkaException, Producer

BROKEN = pytest.mark.xfail(strict=True, raises=AssertionError, reason="it does not wait for the dead letter")


@pytest.mark.parametrize("put_aside", [pytest.param(put_aside_broken, marks=BROKEN), put_aside])
def test_each_order_is_charged_or_put_aside(kafka, put_aside) -> None:
    """A job that fails is started again."""
    kafka.topic("orders")
    kafka.topic("orders.dead")
    kafka.produce("orders", '{"item": "tea"}', "cake, please", '{"item": "juice"}')
    kafka.fault(api="Produce", topic="orders.dead", error="MESSAGE_TOO_LARGE", count=1)
    settings = kafka.client_config("confluent", "consumer") | {
        "group.id": "charging",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "fetch.wait.max.ms": 50,
    }
    charged = []
    for _ in range(2):
        with (
            contextlib.suppress(KafkaException),
            Consumer(settings) as consumer,
            Producer(kafka.client_config("confluent", "producer")) as producer,
        ):
            charge_orders(consumer, producer, charged.append, put_aside)
    assert charged == ["tea", "juice"]
    assert [record.value for record in kafka.records("orders.dead")] == [b"cake, please"]
