"""Sums up the invoices of a topic: once with a bug that shows when old records come back slowly, once without it."""

from confluent_kafka import Consumer, TopicPartition


def sum_up_broken(consumer: Consumer, topic: str) -> int:
    """Leaves invoices out: it takes a second without a record for the end of the topic."""
    consumer.assign(partitions_of(consumer, topic))
    total = 0
    while (invoice := consumer.poll(1)) is not None:
        total += int(invoice.value())
    return total


def sum_up(consumer: Consumer, topic: str) -> int:
    """Asks where the topic ends, and reads up to there, however long it takes."""
    partitions = partitions_of(consumer, topic)
    ends = {each.partition: consumer.get_watermark_offsets(each, timeout=10)[1] for each in partitions}
    left = {partition for partition, end in ends.items() if end}
    consumer.assign(partitions)
    total = 0
    while left:
        invoice = consumer.poll(1)
        if invoice is None:
            continue
        total += int(invoice.value())
        if invoice.offset() + 1 >= ends[invoice.partition()]:
            left.discard(invoice.partition())
    return total


def partitions_of(consumer: Consumer, topic: str) -> list[TopicPartition]:
    """Return all partitions of a topic, from their first records on."""
    known = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    return [TopicPartition(topic, partition, 0) for partition in known]
