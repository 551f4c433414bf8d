"""The topic has another name.

As in https://github.com/confluentinc/confluent-kafka-dotnet/issues/823.
"""

import pytest
from confluent_kafka import Consumer


@pytest.mark.kafka(brokers=1)
def test_an_order_is_read(kafka):
    kafka.topic("orders")
    kafka.topic("payments")
    kafka.produce("orders", "tea")
    settings = kafka.client_config("confluent", "consumer") | {"group.id": "billing", "auto.offset.reset": "earliest"}
    with Consumer(settings | {"client.id": "shipping"}) as consumer:
        consumer.subscribe(["order"])
        message = consumer.poll(1)
        assert message.value() == b"tea"
