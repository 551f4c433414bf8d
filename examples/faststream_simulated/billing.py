"""A FastStream service that bills orders: once with FastStream's default acknowledgement, and once with its own."""

import asyncio
from typing import Any

from faststream import AckPolicy, FastStream
from faststream.kafka import KafkaBroker
from faststream.kafka.annotations import KafkaMessage

SETTINGS: dict[str, Any] = {
    "group_id": "billing",
    "auto_offset_reset": "earliest",
    "session_timeout_ms": 3_000,
    "heartbeat_interval_ms": 500,
}
METADATA_MAX_AGE_MS = 2_000
"""aiokafka looks for the start of a partition at the leader that it knows, and asks for no other until then."""


async def run_broken(bootstrap_servers: list[str], bills: Any) -> None:
    """Loses orders: ACK_FIRST, the default, commits what was handed out, billed or not."""
    broker = KafkaBroker(bootstrap_servers, metadata_max_age_ms=METADATA_MAX_AGE_MS)

    @broker.subscriber("orders", **SETTINGS)
    async def bill(order: int) -> None:
        await charge(order)
        await bills.put(order, order)

    await FastStream(broker).run()


async def run(bootstrap_servers: list[str], bills: Any) -> None:
    """Loses none: an order is acknowledged when its bill is stored.

    A service that is killed in between bills it again, and stores the same row.
    """
    broker = KafkaBroker(bootstrap_servers, metadata_max_age_ms=METADATA_MAX_AGE_MS)

    @broker.subscriber("orders", ack_policy=AckPolicy.MANUAL, **SETTINGS)
    async def bill(order: int, message: KafkaMessage) -> None:
        await charge(order)
        await bills.put(order, order)
        await message.ack()

    await FastStream(broker).run()


async def charge(order: int) -> None:
    """Stand in for the payment provider, which takes its time."""
    await asyncio.sleep(2)
