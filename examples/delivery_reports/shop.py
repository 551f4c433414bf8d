"""A shop that confirms orders: once without a look at the delivery report, and once with it."""

from confluent_kafka import KafkaError, Message, Producer


def place_order_broken(producer: Producer, item: str) -> bool:
    """Confirms orders that may be lost: `produce` only puts a record into the client's queue."""
    producer.produce("orders", item)
    producer.poll(0)
    return True


def place_order(producer: Producer, item: str) -> bool:
    """Return whether the order is kept: with acks=all, the default, all in-sync replicas have it by the report.

    False is "not known to be kept". The wait is as long as the producer's message.timeout.ms at most.
    """
    errors: list[KafkaError | None] = []

    def told(error: KafkaError | None, message: Message) -> None:
        errors.append(error)

    producer.produce("orders", item, on_delivery=told)
    while not errors:
        producer.poll(0.1)
    return errors[0] is None
