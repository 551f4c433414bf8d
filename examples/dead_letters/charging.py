"""A job that charges orders, and puts aside those that it cannot read: once in a hurry, and once with care."""

import json
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

PutAside = Callable[[Producer, Message], None]


def charge_orders(consumer: Consumer, producer: Producer, charge: Callable[[str], None], put_aside: PutAside) -> None:
    """Charge all orders that are there; one that is no JSON becomes a dead letter, so that it blocks no others.

    Args:
        consumer: without auto-commit, and with `enable.partition.eof`.
    """
    consumer.subscribe(["orders"])
    while (message := consumer.poll(10)) is not None:
        error = message.error()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                return
            raise KafkaException(error)
        try:
            item = json.loads(message.value())["item"]
        except ValueError:
            put_aside(producer, message)
        else:
            charge(item)
        consumer.commit(message, asynchronous=False)


def put_aside_broken(producer: Producer, message: Message) -> None:
    """Loses orders: the job commits them while their dead letters are still in the client's queue."""
    producer.produce("orders.dead", message.value())
    producer.poll(0)


def put_aside(producer: Producer, message: Message) -> None:
    """Return when the broker has the dead letter; raise if it has not, so that the order is not committed."""
    errors: list[KafkaError | None] = []

    def told(error: KafkaError | None, message: Message) -> None:
        errors.append(error)

    producer.produce("orders.dead", message.value(), on_delivery=told)
    producer.flush()
    if errors[0] is not None:
        raise KafkaException(errors[0])
