"""The records of a replica, also those that only the tier has."""

from __future__ import annotations

import asyncio

import pytest

from purgatorio.admin.operations.reading.records import IsolationLevel, read_runs
from purgatorio.broker.replica.partition import PartitionError
from purgatorio.broker.tier.store import NotThere
from purgatorio.protocol.errors import ErrorCode
from tests.broker.replica.tiered import Tiered, tiered
from tests.broker.replica.transactions import coordinator_of, end, send


async def read(broker: Tiered, level: IsolationLevel = "read_uncommitted", start_offset: int = 0) -> list[list[int]]:
    """The offsets, by runs."""
    runs = read_runs(broker.partition(), broker.tiering, level, start_offset)
    return [[each.offset for each in run] async for run in runs]


async def test_the_tier_is_read_part_by_part_and_then_what_is_in_memory() -> None:
    async with tiered() as broker:
        assert await read(broker) == [[0, 1], [2, 3], [4, 5, 6]]
        assert await read(broker, start_offset=3) == [[3], [4, 5, 6]]
        assert await read(broker, start_offset=5) == [[5, 6]]


async def test_what_is_deleted_is_left_out() -> None:
    async with tiered() as broker:
        broker.partition().log.advance_log_start(3)
        assert await read(broker) == [[3], [4, 5, 6]]


async def test_a_part_that_cannot_be_read_is_an_error_and_no_gap() -> None:
    async with tiered() as broker:
        broker.store.troubles["get"] = [NotThere("it is gone")]
        with pytest.raises(PartitionError, match="it is gone"):
            await read(broker)


async def test_a_store_that_was_not_listed_is_waited_for() -> None:
    async with tiered() as broker:
        broker.partition().remote = None  # as after an election
        reading = asyncio.create_task(read(broker))
        await broker.turns(1)
        assert not reading.done()
        await broker.clock.run_for(60_000)
        with pytest.raises(PartitionError) as failed:
            await reading
        assert failed.value.error_code == ErrorCode.REQUEST_TIMED_OUT


async def test_what_was_aborted_in_the_tier_is_left_out_under_read_committed() -> None:
    async with tiered(copies=False) as broker:
        coordinator_of(broker, ErrorCode.NONE)
        send(broker, 0)
        end(broker, committed=False)
        broker.fill()
        await broker.copy()
        assert broker.partition().log.local_start_offset > 2
        committed = [offset for run in await read(broker, "read_committed") for offset in run]
        everything = [offset for run in await read(broker) for offset in run]
        assert (everything[0], committed[0], everything[1:]) == (0, 2, committed)
