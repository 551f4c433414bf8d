"""A handler takes longer than max.poll.interval.ms.

As in https://github.com/Azure/azure-event-hubs-for-kafka/issues/65.
"""

import time

import pytest
from kafka import KafkaConsumer


@pytest.mark.kafka(brokers=1)
def test_an_order_is_handled(kafka):
    kafka.topic("orders")
    kafka.produce("orders", "tea")
    settings = kafka.client_config("kafka-python", "consumer") | {"client_id": "slow", "max_poll_interval_ms": 300}
    consumer = KafkaConsumer("orders", group_id="billing", auto_offset_reset="earliest", **settings)
    try:
        assert consumer.poll(timeout_ms=5000)
        time.sleep(0.6)  # the handler
        consumer.commit()
    finally:
        consumer.close(autocommit=False)
