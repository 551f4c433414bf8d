"""The record is in another partition than the one that is read.

As in https://github.com/logstash-plugins/logstash-input-kafka/issues/32.
"""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition


@pytest.mark.kafka(brokers=1)
async def test_an_order_is_read(kafka):
    kafka.topic("orders", partitions=3)
    kafka.produce("orders", "tea", partition=2)
    settings = kafka.client_config("aiokafka", "consumer") | {"client_id": "reader"}
    async with AIOKafkaConsumer(auto_offset_reset="earliest", **settings) as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        message = await asyncio.wait_for(consumer.getone(), 0.4)
    assert message.value == b"tea"
