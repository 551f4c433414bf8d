"""Services that the tests simulate: plain asyncio code with unmodified aiokafka."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import CommitFailedError


async def billing(bootstrap: str, bills: Any, *, commit_first: bool = False) -> None:
    """Store each order, and commit it; before it is stored if asked to, which is the bug to find."""
    consumer = AIOKafkaConsumer(
        "orders",
        bootstrap_servers=bootstrap,
        group_id="billing",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    await consumer.start()
    try:
        async for order in consumer:
            if commit_first:
                await _commit(consumer)
            await asyncio.sleep(0.05)
            await bills.put(order.value, order.value)
            if not commit_first:
                await _commit(consumer)
    finally:
        await consumer.stop()


async def _commit(consumer: Any) -> None:
    with contextlib.suppress(CommitFailedError):  # the group rebalanced: another member gets what was not committed
        await consumer.commit()
