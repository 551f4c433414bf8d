"""A consumer starts after the record, at the end of the topic.

As in https://github.com/confluentinc/confluent-kafka-python/issues/719.
"""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer


@pytest.mark.kafka(brokers=1)
async def test_an_order_is_read(kafka):
    kafka.topic("orders")
    kafka.produce("orders", "tea")
    settings = kafka.client_config("aiokafka", "consumer") | {"client_id": "late"}
    async with AIOKafkaConsumer("orders", group_id="billing", **settings) as consumer:
        message = await asyncio.wait_for(consumer.getone(), 0.4)
    assert message.value == b"tea"
