"""A service that makes a bill of each order, in transactions: once the offset is not part of them, and once it is."""

from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition


def bill_orders_broken(consumer: Consumer, producer: Producer) -> None:
    """Bills orders twice: what fails between the transaction and the commit of the offset has the order read again."""
    producer.init_transactions()
    for order in orders(consumer):
        producer.begin_transaction()
        producer.produce("bills", order.value())
        producer.commit_transaction()
        consumer.commit(order, asynchronous=False)


def bill_orders(consumer: Consumer, producer: Producer) -> None:
    """Bills each order exactly once, for readers with isolation.level=read_committed: the offset is in the transaction.

    A bill whose transaction failed is in the topic, too, but aborted: `init_transactions` sees to it at the next start.
    """
    producer.init_transactions()
    for order in orders(consumer):
        producer.begin_transaction()
        producer.produce("bills", order.value())
        read = TopicPartition(order.topic(), order.partition(), order.offset() + 1)
        producer.send_offsets_to_transaction([read], consumer.consumer_group_metadata())
        producer.commit_transaction()


def orders(consumer: Consumer) -> Iterator[Message]:
    """The orders that are there; the consumer needs `enable.partition.eof`."""
    consumer.subscribe(["orders"])
    while (message := consumer.poll(10)) is not None:
        error = message.error()
        if error is None:
            yield message
        elif error.code() == KafkaError._PARTITION_EOF:
            return
        else:
            raise KafkaException(error)
