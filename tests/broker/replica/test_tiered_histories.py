"""Random histories of a tiered partition: whatever the store does, a consumer gets the right records, or an error.

The records of a partition are numbered in their values, so that a gap, a repetition or other bytes are seen.
"""

from __future__ import annotations

import asyncio
import random

import pytest

from purgatorio.broker.tier.copying import PAUSE_MS
from purgatorio.broker.tier.reads import FIRST_PAUSE_MS, TRIES
from purgatorio.broker.tier.store import NotThere, Refused, Unavailable
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch, iter_batches, iter_records
from tests.broker.replica.harness import topic
from tests.broker.replica.tiered import ORDERS, TIERED, Tiered, tiered

STEPS = 60


def produce(broker: Tiered, rng: random.Random) -> None:
    """Append a batch of a few records, whose values are their offsets."""
    start = broker.partition().log.log_end_offset
    count = rng.randint(1, 3)
    values = [Record(n, 1_700_000_000_000 + start + n, None, b"%020d" % (start + n), ()) for n in range(count)]
    broker.produce(acks=1, records=build_batch(values))


async def copy(broker: Tiered, rng: random.Random) -> None:
    """Make a round, in which some calls may fail, and apply retention."""
    for kind in ("put", "list", "delete"):
        errors: list[Exception | None] = [Unavailable("503"), Refused("no"), None, None, None]
        broker.store.troubles[kind] = [rng.choice(errors) for _ in range(rng.randint(0, 2))]
    task = asyncio.create_task(broker.copy())
    while not task.done():
        await broker.clock.run_for(PAUSE_MS)
    await task
    broker.store.troubles.clear()


async def read_all(broker: Tiered) -> list[int]:
    """Read as a consumer from the log's start to the high watermark; each answer is right, or an error."""
    log = broker.partition().log
    offset, found = log.log_start_offset, list[int]()
    while offset < log.high_watermark:
        fetched = broker.fetch((ORDERS, offset))
        await broker.clock.run_for(0)
        if not fetched.answered:  # the reads are tried again, sooner than the deadline, which the test does not move
            await broker.clock.run_for(FIRST_PAUSE_MS * 4**TRIES)
        data = fetched.data
        if data.error_code:
            assert data.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
            return found
        assert data.records, "it was read to its end"
        for part in data.records:
            for _, batch in iter_batches(part):
                for record in iter_records(batch):
                    if record.offset >= offset:
                        assert record.value == b"%020d" % record.offset
                        found.append(record.offset)
        offset = found[-1] + 1
    return found


@pytest.mark.parametrize("seed", range(20))
async def test_a_consumer_reads_every_record_whatever_fails_while_they_are_copied(seed: int) -> None:
    rng = random.Random(seed)
    async with tiered(copies=False) as broker:
        epoch = 0
        for _ in range(STEPS):
            step = rng.random()
            if step < 0.6:
                produce(broker, rng)
            elif step < 0.85:
                await copy(broker, rng)
            elif step < 0.9:
                broker.partition().log.advance_log_start(rng.randint(0, broker.partition().high_watermark))
            elif step < 0.95:
                epoch += 1
                broker.set_topics(topic(replicas=(1,), leader_epoch=epoch, partition_epoch=epoch, **TIERED))
            else:
                found = await read_all(broker)
                assert found == list(range(broker.partition().log.log_start_offset, broker.partition().high_watermark))
            log = broker.partition().log
            assert log.log_start_offset <= log.local_start_offset <= max(log.copied_to, log.log_start_offset)
        await broker.copy()
        found = await read_all(broker)
        assert found == list(range(broker.partition().log.log_start_offset, broker.partition().high_watermark))


@pytest.mark.parametrize("seed", range(20))
async def test_a_store_that_loses_cuts_and_changes_objects_gives_errors_and_no_gap(seed: int) -> None:
    rng = random.Random(seed)
    async with tiered(copies=False) as broker:
        for _ in range(30):
            produce(broker, rng)
        await broker.copy()
        for key in [key for key in sorted(broker.store.objects) if key.endswith(".log") and rng.random() < 0.3]:
            data = broker.store.objects[key]
            broker.store.objects[key] = rng.choice(
                [b"", data[: rng.randrange(len(data))], bytes(len(data)), data[::-1]]
            )
        if rng.random() < 0.5:
            broker.store.troubles["get"] = [rng.choice([NotThere("gone"), None]) for _ in range(5)]
        found = await read_all(broker)
        assert found == list(range(len(found)))
