"""An acknowledgement waits for a follower that does not fetch.

As in https://github.com/Yolean/kubernetes-kafka/issues/116.
"""

import asyncio

from aiokafka import AIOKafkaProducer


async def test_an_order_is_acknowledged(kafka):
    kafka.topic("orders")
    kafka.move_leader("orders", to=1)
    kafka.hold_follower(2)
    settings = kafka.client_config("aiokafka", "producer") | {"client_id": "billing", "request_timeout_ms": 1000}
    async with AIOKafkaProducer(acks="all", **settings) as producer:
        await asyncio.wait_for(producer.send_and_wait("orders", b"tea"), 0.4)
