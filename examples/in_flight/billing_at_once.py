"""A service that bills several orders at a time, and leaves those in work to others when its partitions are revoked."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, ConsumerRecord, TopicPartition
from aiokafka.errors import CommitFailedError
from progress import ContiguousPrefix, HighestDone

Bill = Callable[[bytes], Awaitable[None]]
Progress = Callable[[int], ContiguousPrefix | HighestDone]

MOST_AT_ONCE = 100


class Workers(ConsumerRebalanceListener):
    """A task for each order in work; one that fails ends the service."""

    def __init__(self, tasks: asyncio.TaskGroup, consumer: AIOKafkaConsumer, bill: Bill, progress: Progress) -> None:
        self._group = tasks
        self._consumer = consumer
        self._bill = bill
        self._new_progress = progress
        self._progress: dict[TopicPartition, ContiguousPrefix | HighestDone] = {}
        self._tasks: dict[asyncio.Task[None], TopicPartition] = {}

    async def begin(self, order: ConsumerRecord) -> None:
        """Begin to bill an order; wait before if there are too many in work."""
        while len(self._tasks) >= MOST_AT_ONCE:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        partition = TopicPartition(order.topic, order.partition)
        if partition not in self._progress:
            self._progress[partition] = self._new_progress(order.offset)
        self._progress[partition].begin(order.offset)
        task = self._group.create_task(self._work(partition, order))
        self._tasks[task] = partition
        task.add_done_callback(self._tasks.pop)

    async def _work(self, partition: TopicPartition, order: ConsumerRecord) -> None:
        await self._bill(order.value)
        progress = self._progress[partition]
        progress.done(order.offset)
        with suppress(CommitFailedError):  # the partition has a new owner, which bills the order again
            await self._consumer.commit({partition: progress.position})

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Give up what is in work: the next owner begins at the committed offset."""
        tasks = [task for task, partition in self._tasks.items() if partition in revoked]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for partition in revoked:
            self._progress.pop(partition, None)

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Nothing to do: the consumer begins at the committed offset."""


async def bill_orders(settings: dict[str, Any], bill: Bill, progress: Progress) -> None:
    """Bill orders until it is cancelled. `progress` says what to commit."""
    async with (
        AIOKafkaConsumer(
            group_id="billing", auto_offset_reset="earliest", enable_auto_commit=False, **settings
        ) as consumer,
        asyncio.TaskGroup() as tasks,
    ):
        workers = Workers(tasks, consumer, bill, progress)
        consumer.subscribe(["orders"], listener=workers)
        async for order in consumer:
            await workers.begin(order)
