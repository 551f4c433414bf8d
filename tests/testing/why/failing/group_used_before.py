"""A group that has read the topic before goes on where it was.

As in https://github.com/confluentinc/confluent-kafka-python/issues/11.
"""

import pytest
from kafka import KafkaConsumer


def read(kafka, client_id):
    settings = kafka.client_config("kafka-python", "consumer")
    consumer = KafkaConsumer(
        "orders", group_id="billing", client_id=client_id, auto_offset_reset="earliest", **settings
    )
    try:
        found = consumer.poll(timeout_ms=700)
        assert found, f"{client_id} read nothing"
        return found
    finally:
        consumer.close()


@pytest.mark.kafka(brokers=1)
def test_two_services_read_the_order(kafka):
    kafka.topic("orders")
    kafka.produce("orders", "tea")
    read(kafka, "invoices")
    read(kafka, "receipts")
