"""A member with aiokafka: `BOOTSTRAP TOPIC GROUP SESSION_MS [SETTING=VALUE …]`; see `harness.py`."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterable

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError


def say(*words: object) -> None:
    """Print a line, with the member's name, in one write."""
    sys.stdout.write(" ".join(map(str, (os.environ["MEMBER"], *words))) + "\n")
    sys.stdout.flush()


class Listener(ConsumerRebalanceListener):
    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        say("revoked", ",".join(str(p.partition) for p in revoked))

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        say("assigned", ",".join(str(p.partition) for p in assigned))


async def consume(consumer: AIOKafkaConsumer) -> None:
    stopping = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    while not stopping.done():
        for where, messages in (await consumer.getmany(timeout_ms=50)).items():
            for message in messages:
                say("record", message.partition, message.offset, message.key.decode(), message.value.decode())
            try:
                await consumer.commit({where: messages[-1].offset + 1})
            except KafkaError as error:  # the group rebalances: the next commit has this offset too
                print(repr(error), file=sys.stderr)
            else:
                say("committed", where.partition, messages[-1].offset + 1)


async def main() -> None:
    bootstrap, topic, group_id, session_ms, *settings = sys.argv[1:]
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group_id,
        session_timeout_ms=int(session_ms),
        heartbeat_interval_ms=int(session_ms) // 5,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        **dict(setting.split("=") for setting in settings),
    )
    consumer.subscribe([topic], listener=Listener())
    async with consumer:
        await consume(consumer)


asyncio.run(main())
