"""The record is still in the producer.

As in https://github.com/confluentinc/confluent-kafka-python/issues/104.
"""

import pytest
from confluent_kafka import Producer


@pytest.mark.kafka(brokers=1)
def test_an_order_is_kept(kafka):
    kafka.topic("orders")
    settings = kafka.client_config("confluent", "producer") | {"client.id": "checkout", "linger.ms": 5000}
    with Producer(settings) as producer:
        producer.produce("orders", "tea")
        producer.poll(0.3)
        assert [record.value for record in kafka.records("orders")] == [b"tea"]
