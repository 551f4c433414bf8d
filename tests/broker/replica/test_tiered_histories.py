"""Random histories of a tiered partition: whatever the store does, a consumer gets the right records, or an error.

The records of a partition are numbered in their values, so that a gap, a repetition or other bytes are seen.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import pytest

from purgatorio.broker.replica.tiering import UNHEARD_MS
from purgatorio.broker.tier.copying import PAUSE_MS
from purgatorio.broker.tier.names import segment_of
from purgatorio.broker.tier.reads import FIRST_PAUSE_MS, TRIES
from purgatorio.broker.tier.segment_file import from_bytes
from purgatorio.broker.tier.store import NotThere, Refused, Unavailable
from purgatorio.protocol.compression import Buffer
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.fetch import PartitionData
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch, iter_batches, iter_records
from tests.broker.replica.harness import topic
from tests.broker.replica.test_delayed_remote_list_offsets import answer, ask
from tests.broker.replica.tiered import ORDERS, TIERED, Tiered, tiered
from tests.broker.tier.stores import TestStore

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


async def leading(broker: Tiered) -> None:
    """Let a replica lead that was elected: an empty one looks first what the tier has."""
    while not broker.partition().is_leader:
        await broker.tiering.round()


def values_of(data: PartitionData) -> dict[int, bytes]:
    """The values that a fetch has brought, by offset."""
    batches = (batch for part in data.records or () for _, batch in iter_batches(part))
    return {record.offset: record.value or b"" for batch in batches for record in iter_records(batch)}


@pytest.mark.parametrize("seed", range(20))
async def test_after_unclean_elections_a_consumer_gets_the_records_of_the_log_that_is_left(seed: int) -> None:
    """Copies of what was truncated are other logs', however much they have in common with this one."""
    rng = random.Random(seed)
    async with tiered(copies=False) as broker:
        written = list[bytes]()
        epoch = 0
        for _ in range(STEPS):
            step = rng.random()
            if step < 0.6:
                written.append(b"%010d%010d" % (epoch, len(written)))
                broker.produce(acks=1, records=build_batch([Record(0, 1_700_000_000_000, None, written[-1], ())]))
            elif step < 0.8:
                await copy(broker, rng)
            elif step < 0.9:
                log = broker.partition().log
                followed = topic(leader=2, replicas=(1, 2), leader_epoch=epoch + 1, partition_epoch=epoch + 1, **TIERED)
                broker.set_topics(followed)
                lowest = min(max(log.local_start_offset, 1), log.log_end_offset)  # an empty one takes what the tier has
                broker.replicas.truncate_to(broker.partition(), rng.randint(lowest, log.log_end_offset))
                del written[log.log_end_offset :]
                epoch += 2
                broker.set_topics(topic(replicas=(1,), leader_epoch=epoch, partition_epoch=epoch, **TIERED))
                await leading(broker)
            elif written:
                offset = rng.randrange(len(written))
                fetched = broker.fetch((ORDERS, offset))
                await broker.turns(100)
                if fetched.data.error_code:
                    assert fetched.data.error_code in (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.OFFSET_NOT_AVAILABLE)
                    continue
                values = values_of(fetched.data)
                assert values == {each: written[each] for each in values}
                assert not values or offset in values
            log = broker.partition().log
            assert log.log_end_offset == len(written)
        await copy(broker, random.Random(0))
        await broker.copy()
        log = broker.partition().log
        segments = broker.tiering.remote_of(broker.partition()).segments
        assert segments.end_from(0) >= log.local_start_offset, "what is not in memory is copied"
        for offset in range(log.log_end_offset):
            fetched = broker.fetch((ORDERS, offset))
            await broker.turns(100)
            assert values_of(fetched.data)[offset] == written[offset]


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


RETENTION_MS = 4_000


class Deaf(TestStore):
    """A store of which some answers to writes are lost."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self.rng = rng
        self.is_deaf = True

    async def put(self, key: str, parts: Sequence[Buffer], *, create: bool) -> None:
        await super().put(key, parts, create=create)
        if self.is_deaf and self.rng.random() < 0.2:
            raise Refused("this is not true")


class Pair:
    """Two replicas, each broker 1 of its own image; the one that leads names the other one broker 2."""

    def __init__(self, store: TestStore, rng: random.Random) -> None:
        self.store = store
        self.rng = rng
        self.leader, self.follower = Tiered(store), Tiered(store)
        self.epoch = 0
        self.configs = {**TIERED, "retention_ms": str(RETENTION_MS), "local_retention_ms": "2000"}
        self.tell()

    def tell(self) -> None:
        """Tell both who leads, in which epoch."""
        for broker, leader in ((self.follower, 2), (self.leader, 1)):
            broker.set_topics(
                topic(
                    leader=leader,
                    replicas=(1, 2),
                    leader_epoch=self.epoch,
                    partition_epoch=self.epoch,
                    **self.configs,
                )
            )

    async def pass_time(self, ms: int) -> None:
        """Move the clocks of both."""
        for broker in (self.leader, self.follower):
            await broker.clock.run_for(ms)

    def produce(self) -> None:
        """Append a batch of a few records, whose values are their offsets."""
        log = self.leader.partition().log
        start, at_ms = log.log_end_offset, self.leader.clock.wall_ms()
        values = [Record(n, at_ms, None, b"%020d" % (start + n), ()) for n in range(self.rng.randint(1, 3))]
        self.leader.produce(acks=1, records=build_batch(values))

    def replicate(self) -> None:
        """Let the follower fetch once, and append what comes."""
        log = self.follower.partition().log
        fetched = self.leader.fetch(
            (ORDERS, log.log_end_offset), replica_id=2, max_wait_ms=0, log_start_offset=log.log_start_offset
        )
        self.leader.advance_ms(0)
        data = fetched.data
        assert data.error_code == ErrorCode.NONE, "an in-sync follower has what leaves the leader's memory"
        records = b"".join(data.records or ())
        self.follower.replicas.append_as_follower(
            self.follower.partition(), records, data.high_watermark, data.log_start_offset
        )

    async def move(self) -> None:
        """Elect the other replica, and let the old leader cut what it has not replicated."""
        if self.rng.random() < 0.5:
            self.replicate()
        self.epoch += 1
        self.leader, self.follower = self.follower, self.leader
        self.tell()
        await leading(self.leader)
        log = self.follower.partition().log
        _, end_offset = self.leader.partition().log.end_offset_for_epoch(log.epochs.latest_epoch)
        self.follower.replicas.truncate_to(self.follower.partition(), min(end_offset, log.log_end_offset))
        self.replicate()

    def delete_records(self) -> None:
        """Delete records before an offset."""
        offset = self.rng.randint(0, self.leader.partition().high_watermark)
        self.leader.replicas.delete_records([(ORDERS, offset)], timeout_ms=1_000, done=lambda results: None)

    async def upkeep(self) -> None:
        """Let the leader copy and delete, whatever fails, both apply retention, and the follower hear of copies."""
        await copy(self.leader, self.rng)
        for _ in self.follower.replicas.retention_steps():
            pass
        said = answer(ask(self.leader, -5))
        if said.offset >= 0:
            self.follower.tiering.copied_by_leader(self.follower.partition(), said.offset, said.leader_epoch)

    def check(self) -> None:
        """What is not in memory of either replica is in the store: from the leader's log start on there is no hole."""
        for broker in (self.leader, self.follower):
            log = broker.partition().log
            assert log.log_start_offset <= log.local_start_offset <= log.log_end_offset
            offset = max(log.log_start_offset, self.leader.partition().log.log_start_offset)
            for start, end in sorted(self.in_store()):
                offset = end if start <= offset < end else offset
            assert offset >= log.local_start_offset

    def in_store(self) -> list[tuple[int, int]]:
        """The offsets of the segments in the store that have both of their objects, and whatever else there is."""
        keys = {key.rpartition(".")[0] for key in self.store.objects if "/claims/" not in key}
        found = []
        for key in keys:
            if f"{key}.json" in self.store.objects:
                assert f"{key}.log" in self.store.objects, "the description goes first"
                name = segment_of(f"{key}.json")
                assert name is not None
                size_bytes = len(self.store.objects[f"{key}.log"])
                segment = from_bytes(self.store.objects[f"{key}.json"], name, size_bytes)
                found.append((segment.start_offset, segment.end_offset))
        return found


@pytest.mark.parametrize("seed", range(20))
async def test_retention_deletions_and_leader_moves_leave_no_hole_and_no_rubbish(seed: int) -> None:
    rng = random.Random(seed)
    store = Deaf(rng)
    pair = Pair(store, rng)
    tasks = [asyncio.create_task(each.tiering.reads.run()) for each in (pair.leader, pair.follower)]
    try:
        for _ in range(STEPS):
            step = rng.random()
            if step < 0.4:
                pair.produce()
            elif step < 0.6:
                pair.replicate()
            elif step < 0.8:
                await pair.upkeep()
            elif step < 0.9:
                await pair.pass_time(rng.randint(0, 1_000))
            elif step < 0.95:
                pair.delete_records()
            else:
                await pair.move()
            pair.check()
        store.is_deaf = False
        pair.configs.update(retention_ms="-1", local_retention_ms="-1")
        pair.tell()
        for _ in range(4):
            pair.replicate()
            for broker in (pair.leader, pair.follower):
                await broker.copy()
            await pair.pass_time(UNHEARD_MS)  # so that earlier leaders have heard
        log = pair.leader.partition().log
        found = await read_all(pair.leader)
        assert found == list(range(log.log_start_offset, log.high_watermark))
        segments = pair.in_store()
        assert len(store.objects) == 2 * len(segments) + 1, "nothing but segments and the claim"
        assert all(end > log.log_start_offset for _, end in segments)
        assert not [a for a in segments for b in segments if a != b and b[0] <= a[0] and a[1] <= b[1]]
        assert len(set(segments)) == len(segments)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
