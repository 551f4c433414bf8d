"""Share groups that read what only the tier has."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from purgatorio.broker.causes.words import in_words
from purgatorio.broker.coordinator.share_settings import OffsetReset, ResetTo, ShareSettings
from purgatorio.broker.share.acquiring import AcquireMode
from purgatorio.broker.tier.store import NotThere
from purgatorio.protocol.errors import ErrorCode
from tests.broker.replica.harness import ORDERS, topic
from tests.broker.replica.tiered import TIERED, Tiered
from tests.broker.replica.transactions import coordinator_of, end, send
from tests.broker.share.fetching import GROUP, ShareHarness
from tests.broker.tier.stores import TestStore


class TieredShares(ShareHarness, Tiered):
    """Broker 1, which leads orders-0: seven batches of a record, of which the tier has six, and memory the last three.

    Two batches are a segment, and a part.
    """

    def waiting(self) -> list[str]:
        """The sentences of the share fetches that wait."""
        return [in_words(each.causes) for each in self.share_fetch_purgatory.operations()]


@asynccontextmanager
async def shares(*, copies: bool = True, settings: ShareSettings | None = None) -> AsyncIterator[TieredShares]:
    """A broker whose reads run."""
    house = TieredShares(store=TestStore(), settings=settings, **TIERED)
    if copies:
        house.fill()
        await house.copy()
        assert house.partition().log.local_start_offset == 4
    task = asyncio.create_task(house.tiering.reads.run())
    try:
        yield house
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_members_acquire_what_only_the_tier_has_and_then_what_is_in_memory() -> None:
    async with shares() as house:
        ada = house.member()
        got = []
        for number in range(3):
            asked = ada.fetch(*[house.key()][number:])
            assert asked.answered == (number > 0), "what was read ahead, and what is in memory, is there at once"
            await house.turns()
            got += asked.acquired
        assert got == [(0, 1, 1), (2, 3, 1), (4, 6, 1)]
        (result,) = asked.results
        assert result.acquired is not None
        assert result.acquired.parts


async def test_nothing_is_locked_and_no_delivery_counts_while_the_store_is_slow() -> None:
    """Apache Kafka holds the fetch lock of the share partition meanwhile."""
    async with shares() as house:
        house.store.gate.clear()
        ada, bob = house.member("ada"), house.member("bob")
        first = [ada.fetch(house.key()), bob.fetch(house.key(), max_wait_ms=2_000)]
        await house.turns(340)
        read = "orders-0 [0, 2) to come back from the memory store: 340 ms"
        said = f"group `jobs` has 0 of 1 bytes: orders-0 from 0 waits for {read}"
        assert house.waiting() == [said, said]
        share = house.shares.partitions.of_group(GROUP)[0]
        assert (share.locks(), share.in_flight.record_count) == ([], 0)
        await house.turns(160)
        assert (first[0].acquired, first[1].answered) == ([], False), "the one has waited for its time"
        again = ada.fetch()
        house.store.gate.set()
        await house.turns()
        assert [again.acquired, first[1].acquired] == [[(0, 1, 1)], [(2, 3, 1)]]
        assert house.store.calls.count(("get", "log")) == 2, "each part was read once"


async def test_members_share_what_one_read_has_brought() -> None:
    async with shares() as house:
        members = [house.member(name) for name in ("ada", "bob")]
        asked = [each.fetch(house.key(), max_records=1, mode=AcquireMode.RECORD_LIMIT) for each in members]
        await house.turns()
        assert [each.acquired for each in asked] == [[(0, 0, 1)], [(1, 1, 1)]]


async def test_what_comes_in_memory_of_another_partition_does_not_wait_for_the_tier() -> None:
    async with shares(copies=False) as house:
        house.set_topics(topic(partitions=2, replicas=(1,), **TIERED))
        house.fill()
        await house.copy()
        house.store.gate.clear()
        asked = house.member().fetch(house.key(0), house.key(1))
        await house.turns()
        house.produce(ORDERS._replace(partition=1), acks=1)
        assert asked.acquired == [(0, 0, 1)]


async def test_a_read_that_failed_is_an_error_once_and_the_next_fetch_reads_again() -> None:
    async with shares() as house:
        house.store.troubles["get"] = [NotThere("it is gone")]
        ada = house.member()
        asked = ada.fetch(house.key())
        await house.turns()
        assert asked.errors == [(ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE)]
        again = ada.fetch()
        await house.turns()
        assert again.acquired == [(0, 1, 1)]


async def test_a_read_that_fails_when_no_fetch_waits_is_told_the_next_one() -> None:
    async with shares() as house:
        house.store.gate.clear()
        house.store.troubles["get"] = [None]
        ada = house.member()
        ada.fetch(house.key(), max_wait_ms=10)
        await house.turns(10)
        house.store.objects.clear()
        house.store.gate.set()
        await house.turns()
        assert ada.fetch().errors == [(ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE)]


async def test_a_member_waits_until_the_store_has_said_what_it_has() -> None:
    async with shares(copies=False) as house:
        house.fill()
        await house.copy()
        house.partition().remote = None  # as after an election
        asked = house.member().fetch(house.key())
        await house.turns()
        assert house.waiting() == [
            "group `jobs` has 0 of 1 bytes: orders-0 from 0 waits to hear what the memory store has of orders-0"
        ]
        assert not asked.answered


async def test_a_lost_leadership_answers_at_once() -> None:
    async with shares() as house:
        house.store.gate.clear()
        asked = house.member().fetch(house.key())
        house.set_topics(topic(leader=2, leader_epoch=1, replicas=(1, 2), **TIERED))
        assert asked.errors == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE)]


async def test_records_that_a_member_gives_back_are_read_from_the_tier_again() -> None:
    async with shares() as house:
        ada = house.member()
        ada.fetch(house.key())
        await house.turns()
        ada.acknowledge(house.key(), 0, 1, kind=2)
        asked = house.member("bob").fetch(house.key())
        assert asked.acquired == [(0, 1, 2)], "the cache has them still"


async def test_what_was_aborted_in_the_tier_is_delivered_to_no_member() -> None:
    settings = ShareSettings(auto_offset_reset=OffsetReset(ResetTo.EARLIEST), reads_committed=True)
    async with shares(copies=False, settings=settings) as house:
        coordinator_of(house, ErrorCode.NONE)
        send(house, 0)
        end(house, committed=False)
        house.fill()
        await house.copy()
        assert house.partition().log.local_start_offset > 2
        asked = house.member().fetch(house.key())
        await house.turns()
        assert asked.acquired[0][0] == 1, "the end marker is the first that is delivered, and clients pass over it"


async def test_a_group_that_begins_at_a_time_waits_for_its_look_up_in_the_tier() -> None:
    async with shares() as house:
        log = house.partition().log
        ago_ms = house.clock.wall_ms() - 1_700_000_003_000
        house.shares.settings.defaults = ShareSettings(auto_offset_reset=OffsetReset(ResetTo.DURATION, ago_ms))
        house.store.gate.clear()
        asked = house.member().fetch(house.key(), max_wait_ms=5_000)
        await house.turns(400)
        assert house.waiting() == [
            "group `jobs` has 0 of 1 bytes: orders-0 until the leader has read the group's state"
        ]
        house.store.gate.set()
        await house.turns()
        await house.turns()
        assert asked.acquired == [(3, 3, 1)]
        assert log.local_start_offset == 4


async def test_a_look_up_that_fails_leaves_the_group_without_a_beginning() -> None:
    async with shares() as house:
        ago_ms = house.clock.wall_ms() - 1_700_000_003_000
        house.shares.settings.defaults = ShareSettings(auto_offset_reset=OffsetReset(ResetTo.DURATION, ago_ms))
        house.store.troubles["get"] = [NotThere("it is gone")]
        ada = house.member()
        asked = ada.fetch(house.key())
        await house.turns()
        assert asked.errors == [(ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE)]
        again = ada.fetch()
        await house.turns()
        await house.turns()
        assert again.acquired == [(3, 3, 1)]


async def test_above_the_quota_of_reads_a_member_waits_and_goes_on_when_there_is_room() -> None:
    async with shares() as house:
        quota = house.tiering.reads.traffic.reads
        quota.limit = 10
        quota.record(100_000)
        asked = house.member().fetch(house.key(), max_wait_ms=60_000)
        await house.turns()
        (said,) = house.waiting()
        assert "orders-0 from 0 waits for the quota on reads of the tier: " in said
        quota.limit = None
        await house.turns(100)
        await house.turns()
        assert asked.acquired == [(0, 1, 1)]
