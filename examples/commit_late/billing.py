"""A service that bills each order: once with a bug that aiokafka's default settings invite, and once without it."""

from collections.abc import Awaitable, Callable
from typing import Any

from aiokafka import AIOKafkaConsumer

Bill = Callable[[bytes], Awaitable[None]]


async def bill_orders_broken(settings: dict[str, Any], bill: Bill) -> None:
    """Loses orders: auto-commit commits what was handed out, so an order counts as done before it is billed.

    When `bill` fails, the consumer stops, and commits even then.
    """
    async with AIOKafkaConsumer("orders", group_id="billing", auto_offset_reset="earliest", **settings) as consumer:
        async for order in consumer:
            await bill(order.value)


async def bill_orders(settings: dict[str, Any], bill: Bill) -> None:
    """Loses none: commits an order when it is billed. One may be billed again after a crash between the two."""
    async with AIOKafkaConsumer(
        "orders", group_id="billing", auto_offset_reset="earliest", enable_auto_commit=False, **settings
    ) as consumer:
        async for order in consumer:
            await bill(order.value)
            await consumer.commit()
