"""Tests of claims: of two clusters that have the same store, the later one owns it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from purgatorio.broker.tier.claim import CALLS_MS, CHECK_MS, ClaimLost, StoreClaim
from purgatorio.broker.tier.names import SegmentName, claim_key
from purgatorio.broker.tier.store import MemoryStore, StoredObject, Unavailable
from purgatorio.protocol.compression import Buffer
from purgatorio.purgatory.clock import ManualClock


class SlowStore(MemoryStore):
    """A store whose calls take turns, so that calls of several processes interleave; `lists` counts those of a kind."""

    lists = 0
    trouble: Exception | None = None
    is_silent = False

    async def list(self, prefix: str) -> Sequence[StoredObject]:
        self.lists += 1
        found = await super().list(prefix)
        await asyncio.sleep(0)
        if self.is_silent:
            await asyncio.Event().wait()
        if self.trouble is not None:
            raise self.trouble
        return found

    async def put(self, key: str, parts: Sequence[Buffer], *, create: bool) -> None:
        await asyncio.sleep(0)
        await super().put(key, parts, create=create)
        if self.trouble is not None:
            raise self.trouble


def claim_of(store: MemoryStore, owner: str, clock: ManualClock | None = None) -> StoreClaim:
    return StoreClaim(store, clock or ManualClock(), "shop", owner)


async def test_the_first_claim_has_number_1_and_is_looked_at_from_time_to_time() -> None:
    store, clock = SlowStore(), ManualClock()
    claim = claim_of(store, "a", clock)
    assert await claim.hold() == 1
    assert list(store.objects) == ["shop/claims/0000000001"]
    await claim.hold()
    clock.advance_ms(CHECK_MS - 1)
    await claim.hold()
    assert store.lists == 1
    clock.advance_ms(1)
    assert await claim.hold() == 1
    assert store.lists == 2


async def test_of_claims_that_are_made_at_once_each_has_its_number_and_the_highest_owns_the_store() -> None:
    store, clock = SlowStore(), ManualClock()
    claims = [claim_of(store, owner, clock) for owner in "abc"]
    assert sorted(await asyncio.gather(*(claim.hold() for claim in claims))) == [1, 2, 3]
    clock.advance_ms(CHECK_MS)
    for claim in claims:
        if claim.number == 3:
            assert await claim.hold() == 3
            continue
        for _ in range(2):  # for ever
            with pytest.raises(
                ClaimLost, match=r"another cluster has claimed the memory store for shop \(claim 3, after [12]\)"
            ):
                await claim.hold()


async def test_brokers_of_one_cluster_share_its_claim() -> None:
    store = SlowStore()
    claims = [claim_of(store, "a") for _ in range(3)]
    assert await asyncio.gather(*(claim.hold() for claim in claims)) == [1, 1, 1]
    assert await claim_of(store, "b").hold() == 2


async def test_a_store_that_fails_has_not_lost_the_claim() -> None:
    store, clock = SlowStore(), ManualClock()
    claim = claim_of(store, "a", clock)
    store.trouble = Unavailable("503")
    with pytest.raises(Unavailable, match="503"):
        await claim.hold()
    assert claim.number == 0
    store.trouble = None
    await claim.hold()
    clock.advance_ms(CHECK_MS)
    store.trouble = Unavailable("503")
    with pytest.raises(Unavailable, match="503"):
        await claim.hold()
    store.trouble = None
    assert await claim.hold() == 1


async def test_a_store_that_does_not_have_the_claim_any_more_is_not_the_one_that_was_claimed() -> None:
    """A folder whose disk is not there looks like an empty one."""
    store, clock = SlowStore(), ManualClock()
    claim = claim_of(store, "a", clock)
    await claim.hold()
    before, store.objects = store.objects, {}
    assert await claim.hold() == 1
    clock.advance_ms(1)
    with pytest.raises(Unavailable, match="the memory store does not have claim 1 of this cluster any more"):
        await claim.hold(clock.now_ms())
    store.objects = before
    assert await claim.hold(clock.now_ms()) == 1


async def test_a_claim_whose_answer_was_lost_is_found_again() -> None:
    store = SlowStore()
    claim = claim_of(store, "a")
    await claim_of(store, "a").hold()
    assert await claim.hold() == 1


@pytest.mark.parametrize("damaged", [b'{"owner": "a"', b'{"owner": "b", "crc32c": 3251651376}', b""])
async def test_a_claim_that_is_damaged_on_its_way_is_read_again_later(damaged: bytes) -> None:
    store = SlowStore()
    await claim_of(store, "a").hold()
    claim, answers, get = claim_of(store, "a"), [damaged], store.get

    async def lying(key: str, start: int, length: int) -> Buffer:
        return answers.pop() if answers else await get(key, start, length)

    store.get = lying  # type: ignore[method-assign]
    with pytest.raises(Unavailable, match="claim 1 is damaged on its way from the memory store"):
        await claim.hold()
    assert await claim.hold() == 1


async def test_a_claim_that_cannot_be_read_is_anothers() -> None:
    store = SlowStore()
    store.objects[claim_key("shop", 4)] = b"\xff"
    assert await claim_of(store, "a").hold() == 5


async def test_a_store_that_does_not_answer_is_not_waited_for_longer_than_a_minute() -> None:
    store, clock = SlowStore(), ManualClock()
    store.is_silent = True
    task = asyncio.create_task(claim_of(store, "a", clock).hold())
    await clock.run_for(CALLS_MS)
    with pytest.raises(Unavailable, match="no answer about claims in 60 s"):
        await task


async def test_segments_of_this_claim_count_and_those_of_earlier_ones_that_were_there() -> None:
    store = SlowStore()
    store.objects[claim_key("shop", 1)] = b"{}"
    claim = claim_of(store, "a")
    await claim.hold()
    old, own, later = (SegmentName(0, 3, number, "0" * 32) for number in (1, 2, 3))
    claim.older = {f"shop/00/0/{old}.json"}
    assert claim.counts(f"shop/00/0/{own}.json", own)
    assert claim.counts(f"shop/00/0/{old}.json", old)
    assert not claim.counts(f"shop/00/1/{old}.json", old), "it was not there"
    assert not claim.counts(f"shop/00/0/{later}.json", later)
