"""Dead letters of records that only the tier has."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from purgatorio.broker.share.dead_letters.queue import BACKOFF_MS, MAX_TRIES
from purgatorio.broker.tier.store import NotThere
from tests.broker.replica.tiered import TIERED, Tiered
from tests.broker.share.dead_letters.world import World, dlq, owner
from tests.broker.tier.stores import TestStore


class TieredWorld(World, Tiered):
    """Broker 1, which leads orders-0: seven batches of a record, of which memory has the last three."""

    async def go_on(self, ms: int = 0) -> None:
        """Let time pass, the tier be read, and the queue go on."""
        self.turn()
        for _ in range(3):
            await self.turns(ms)
            self.turn()


@asynccontextmanager
async def world() -> AsyncIterator[TieredWorld]:
    """A broker whose reads run."""
    made = TieredWorld(dlq(), store=TestStore(), **TIERED)
    made.fill()
    await made.copy()
    assert made.partition().log.local_start_offset == 4
    task = asyncio.create_task(made.tiering.reads.run())
    try:
        yield made
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_what_only_the_tier_has_is_copied_part_by_part() -> None:
    async with world() as made:
        ada = owner()
        made.give_up(ada, 1, 5)
        await made.go_on()
        assert (made.offsets, {each.value for each in made.letters}) == ([1, 2, 3, 4, 5], {b"value" * 4})
        assert ada.told == [(1, 1, True), (2, 5, True)]
        assert made.queue.under_way == 0


async def test_the_order_in_which_records_are_given_up_is_kept() -> None:
    async with world() as made:
        ada = owner()
        for offset in (5, 3, 0, 6):
            made.give_up(ada, offset)
        await made.go_on()
        await made.go_on()
        assert made.offsets == [5, 3, 0, 6]


async def test_it_waits_for_a_slow_store() -> None:
    async with world() as made:
        made.store.gate.clear()
        made.give_up(owner(), 0)
        await made.go_on(1_000)
        assert (made.letters, made.queue.under_way) == ([], 1)
        made.store.gate.set()
        await made.go_on()
        assert made.offsets == [0]


async def test_a_read_that_failed_is_tried_again_after_a_while() -> None:
    async with world() as made:
        made.store.troubles["get"] = [NotThere("it is gone")]
        made.give_up(owner(), 0)
        await made.go_on()
        assert (made.letters, made.queue.under_way) == ([], 1)
        await made.go_on(BACKOFF_MS)
        assert made.offsets == [0]


async def test_what_cannot_be_read_at_all_becomes_a_letter_of_headers_alone(caplog: pytest.LogCaptureFixture) -> None:
    async with world() as made:
        ada = owner()
        made.store.objects.clear()
        made.give_up(ada, 0)
        for _ in range(MAX_TRIES):
            await made.go_on(BACKOFF_MS << MAX_TRIES)
        assert made.store.calls.count(("get", "log")) == MAX_TRIES - 1
        assert [(each.key, each.value) for each in made.letters] == [(None, None)]
        assert (ada.told, made.queue.under_way) == ([(0, 0, True)], 0)
        assert "the tier does not give it" in caplog.text


async def test_nothing_goes_on_when_the_broker_has_stopped() -> None:
    async with world() as made:
        made.store.gate.clear()
        made.give_up(owner(), 0)
        made.turn()
        made.queue.stop()
        made.store.gate.set()
        await made.go_on()
        assert made.letters == []
