"""Replicas with a tier, whose rounds and reads the test runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from purgatorio.protocol.messages.fetch import PartitionData
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch, read_header
from tests.batches import batches_of
from tests.broker.replica.harness import ORDERS, Harness, topic
from tests.broker.tier.stores import TestStore

TIERED = {
    "remote_storage_enable": "true",
    "segment_bytes": "200",
    "retention_ms": "-1",
    "retention_bytes": "-1",
    "local_retention_bytes": "200",
}


def record_batch(at_ms: int = 1_700_000_000_000) -> bytes:
    return build_batch([Record(0, at_ms, None, b"value" * 4, ())])


class Tiered(Harness):
    """Broker 1, which leads orders-0 alone: seven batches, of which the tier has six, and memory the last three."""

    store: TestStore

    def __init__(self, store: TestStore | None = None) -> None:
        super().__init__(store)
        assert store is not None
        self.store = store

    def fill(self, count: int = 7, first_ms: int = 1_700_000_000_000) -> None:
        """Append batches of one record, a second apart."""
        for number in range(count):
            self.produce(acks=1, records=record_batch(first_ms + 1000 * number))

    async def copy(self) -> None:
        """Copy what is closed, and apply retention."""
        await self.tiering.round()
        for _ in self.replicas.retention_steps():
            pass

    async def turns(self, ms: float = 0) -> None:
        """Let tasks run, and time pass, also for deadlines."""
        await self.clock.run_for(0)
        if ms:
            self.advance_ms(ms)
            await self.clock.run_for(0)


@asynccontextmanager
async def tiered(replicas: Sequence[int] = (1,), *, copies: bool = True, **configs: str) -> AsyncIterator[Tiered]:
    """A broker whose reads run."""
    harness = Tiered(TestStore())
    harness.set_topics(topic(replicas=tuple(replicas), **{**TIERED, **configs}))
    if copies:
        harness.fill()
        await harness.copy()
        log = harness.partition().log
        assert (log.log_start_offset, log.local_start_offset, log.log_end_offset) == (0, 4, 7)
        harness.store.calls.clear()
    task = asyncio.create_task(harness.tiering.reads.run())
    try:
        yield harness
    finally:
        task.cancel()
        await asyncio.wait([task])


def bases(data: PartitionData) -> list[int]:
    """The base offsets of an entry's batches."""
    assert data.records is not None
    return [read_header(each).base_offset for each in batches_of(list(data.records))]


__all__ = ["ORDERS", "TIERED", "Tiered", "bases", "record_batch", "tiered"]
