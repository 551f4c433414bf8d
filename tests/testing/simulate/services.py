"""Services that the tests simulate: plain asyncio code with unmodified aiokafka."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import CommitFailedError


async def billing(bootstrap: str, bills: Any, *, topic: str = "orders", commit_first: bool = False) -> None:
    """Store each order, and commit it; before it is stored if asked to, which is the bug to find."""
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id="billing",
        isolation_level="read_committed",
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


async def copying(bootstrap: str) -> None:
    """Copy orders to invoices, a batch and its offsets in one transaction."""
    settings: dict[str, Any] = {"bootstrap_servers": bootstrap, "metadata_max_age_ms": 2_000}
    consumer = AIOKafkaConsumer(
        "orders",
        group_id="copying",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=3_000,
        heartbeat_interval_ms=500,
        **settings,
    )
    producer = AIOKafkaProducer(transactional_id="copying", transaction_timeout_ms=10_000, **settings)
    async with producer, consumer:
        while True:
            batch = await consumer.getmany(timeout_ms=500, max_records=5)
            if not batch:
                continue
            async with producer.transaction():
                for orders in batch.values():
                    for order in orders:
                        await producer.send("invoices", order.value)
                        await asyncio.sleep(0.02)
                offsets = {tp: orders[-1].offset + 1 for tp, orders in batch.items()}
                await producer.send_offsets_to_transaction(offsets, "copying")
