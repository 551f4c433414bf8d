"""A worker with aiokafka; see `harness.py`.

aiokafka commits offsets in a transaction without the member's generation, and reads committed offsets that a pending
transaction is about to change (no KIP-447). A loop with it is exactly-once only with one transactional id per input
partition, and if it ignores what it knows that it has copied, when a rebalance takes its consumer back.
"""

from __future__ import annotations

import asyncio
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import InvalidProducerEpoch, KafkaError, ProducerFenced

from tests.compat.transactions.workers.commands import Commands, say, stopping

TIMEOUT_SECONDS = 30


class Worker(Commands):
    producer: AIOKafkaProducer | None = None

    def __init__(self, bootstrap: str, runner: asyncio.Runner) -> None:
        super().__init__(bootstrap)
        self.runner = runner

    def do(self, name: str, words: list[str]) -> list[str] | None:
        return self.runner.run(getattr(self, name)(*words))

    async def _producer(self, transactional_id: str) -> AIOKafkaProducer:
        producer = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap, transactional_id=transactional_id, transaction_timeout_ms=20_000
        )
        await producer.start()
        return producer

    async def init(self, transactional_id: str) -> None:
        self.producer = await self._producer(transactional_id)

    async def begin(self) -> None:
        await self.producer.begin_transaction()

    async def send(self, topic: str, value: str) -> None:
        await self.producer.send_and_wait(topic, value.encode())

    async def commit(self) -> None:
        await self.producer.commit_transaction()

    async def abort(self) -> None:
        await self.producer.abort_transaction()

    async def read(self, topic: str, isolation: str, count: str) -> list[str]:
        consumer = AIOKafkaConsumer(bootstrap_servers=self.bootstrap, isolation_level=f"read_{isolation}")
        consumer.assign([TopicPartition(topic, 0)])
        async with consumer:
            consumer.seek(TopicPartition(topic, 0), 0)
            async with asyncio.timeout(TIMEOUT_SECONDS):
                return [(await consumer.getone()).value.decode() for _ in range(int(count))]

    def fenced(self, error: Exception) -> bool:
        return isinstance(error, (ProducerFenced, InvalidProducerEpoch))

    async def close(self) -> None:
        """Stop the producer; one that is fenced may say so again."""
        if self.producer is not None:
            try:
                await self.producer.stop()
            except KafkaError as error:
                say("closed", error)

    async def copy(self, source: str, target: str, group_id: str, transactional_id: str) -> None:
        while not stopping.is_set():
            try:
                await self._copy(source, target, group_id, transactional_id)
            except KafkaError as error:
                say("restarted", repr(error))
                await asyncio.sleep(0.1)

    async def _copy(self, source: str, target: str, group_id: str, transactional_id: str) -> None:
        # It waits until the last transaction of this id has ended: only then are the group's offsets true.
        producer = await self._producer(transactional_id)
        consumer = AIOKafkaConsumer(
            source,
            bootstrap_servers=self.bootstrap,
            group_id=group_id,
            session_timeout_ms=6_000,
            heartbeat_interval_ms=1_000,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
        )
        try:
            await consumer.start()
            await self._copy_batches(producer, consumer, target, group_id)
        finally:
            await consumer.stop()
            await producer.stop()

    async def _copy_batches(
        self, producer: AIOKafkaProducer, consumer: AIOKafkaConsumer, target: str, group_id: str
    ) -> None:
        copied: dict[TopicPartition, int] = {}
        while not stopping.is_set():
            for where, messages in (await consumer.getmany(timeout_ms=100)).items():
                news = [message for message in messages if message.offset >= copied.get(where, 0)]
                if not news:
                    continue
                async with producer.transaction():
                    for message in news:
                        await producer.send(target, message.value, key=message.value)
                    await producer.send_offsets_to_transaction({where: news[-1].offset + 1}, group_id)
                copied[where] = news[-1].offset + 1
                say("copied", len(news))


with asyncio.Runner() as runner:
    worker = Worker(sys.argv[1], runner)
    worker.run()
    runner.run(worker.close())
