"""Services that the tests simulate: plain asyncio code with unmodified aiokafka."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener
from aiokafka.errors import CommitFailedError


async def billing(
    bootstrap: str, bills: Any, *, topic: str = "orders", commit_first: bool = False, work_seconds: float = 0.05
) -> None:
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
            await asyncio.sleep(work_seconds)
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


class _Totals(ConsumerRebalanceListener):  # type: ignore[misc]
    """What a member knows of the totals of its partitions."""

    def __init__(self, *, keeps: bool) -> None:
        self.of: dict[int, frozenset[bytes]] = {}
        self.lock = asyncio.Lock()
        self._keeps = keeps

    async def on_partitions_revoked(self, revoked: Any) -> None:
        async with self.lock:
            if not self._keeps:
                self.of.clear()

    async def on_partitions_assigned(self, assigned: Any) -> None:
        pass


async def collecting(bootstrap: str, table: Any, *, keeps: bool) -> None:
    """Add each order to the total of its partition, of which a copy is in memory.

    The bug to find is that the copy is kept when the partition goes to another member (`keeps`): when it comes back,
    the orders that the other has added are overwritten.
    """
    totals = _Totals(keeps=keeps)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id="collecting",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=3_000,
        heartbeat_interval_ms=500,
        metadata_max_age_ms=2_000,
    )
    consumer.subscribe(["orders"], listener=totals)
    async with consumer:
        async for order in consumer:
            async with totals.lock:
                if order.partition not in {tp.partition for tp in consumer.assignment()}:
                    continue  # it was fetched before a rebalance
                if order.partition not in totals.of:
                    totals.of[order.partition] = await table.get(order.partition, frozenset())
                totals.of[order.partition] |= {order.value}
                await table.put(order.partition, totals.of[order.partition])
                await _commit(consumer)
