"""A consumer may read the topic, and not its group.

As in https://github.com/edenhill/kcat/issues/327.
"""

import pytest
from kafka import KafkaConsumer


@pytest.mark.kafka(brokers=1, sasl="PLAIN", topics={"orders": 1}, acls=["allow User:alice READ topic orders"])
def test_an_order_is_read(kafka):
    kafka.produce("orders", "tea")
    settings = kafka.client_config("kafka-python", "consumer", user="alice")
    consumer = KafkaConsumer("orders", group_id="billing", client_id="reader", auto_offset_reset="earliest", **settings)
    try:
        assert consumer.poll(timeout_ms=700)
    finally:
        consumer.close()
