"""Lists of what the store has of a log, which changes its meaning when the log is truncated."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from purgatorio.broker.tier.remote_log import DESCRIBED_AT_ONCE, RemoteLog
from purgatorio.broker.tier.store import MemoryStore, Unavailable
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch
from tests.broker.tier.stores import FOLDER, TIERED, TestStore, copied, log_of, record_batch


async def test_a_segment_with_records_that_were_truncated_is_not_found_any_more() -> None:
    """After an unclean election the log has other records at its offsets."""
    log = log_of(7)
    remote = await copied(log, MemoryStore())
    found = remote.find(4, log)
    assert found is not None
    assert (found.start_offset, found.end_offset) == (4, 6)
    log.truncate_to(5)
    for number in range(3):
        log.append_as_leader(record_batch(2_000 + number), leader_epoch=1, wall_ms=2_000 + number)
    assert remote.find(4, log) is None
    assert remote.find(3, log) is not None


async def test_what_no_segment_has_costs_no_look_at_all_of_them_until_the_log_has_changed() -> None:
    store, log = MemoryStore(), log_of(7)
    await copied(log, store)
    remote = RemoteLog(FOLDER)
    await remote.list(store, 0)
    short = log_of(4)
    assert remote.find(4, short) is None
    settled = remote.segments
    assert remote.find(4, short) is None
    assert remote.segments is settled
    for number in range(4, 7):
        short.append_as_leader(record_batch(1_000 + number), leader_epoch=0, wall_ms=1_000 + number)
    assert remote.find(4, short) is not None
    await remote.list(store, 0)
    settled = remote.segments
    assert remote.find(6, short) is None
    assert remote.segments is not settled, "the store may have more"


async def test_of_several_segments_with_a_record_a_follower_begins_behind_the_one_that_ends_first() -> None:
    """What a longer one has more may be another log's, after an unclean election."""
    store = MemoryStore()
    await copied(log_of(7, config=replace(TIERED, segment_bytes=400), epochs=(0, 0, 0, 1, 1, 1, 1)), store)
    remote = RemoteLog(FOLDER)
    await copied(log_of(7), store)
    await remote.list(store, 2)
    found = remote.with_record(1, 0)
    assert found is not None
    assert (found.start_offset, found.end_offset) == (0, 2)


async def test_descriptions_are_read_several_at_a_time() -> None:
    log, store = log_of(2 * DESCRIBED_AT_ONCE + 9), TestStore()
    names = [each.name for each in (await copied(log, store)).segments]
    remote = RemoteLog(FOLDER)
    store.calls.clear()
    store.gate.clear()
    listing = asyncio.create_task(remote.list(store, 0))
    for _ in range(10):
        await asyncio.sleep(0)
    assert store.calls == [("list", FOLDER)] + [("get", "json")] * DESCRIBED_AT_ONCE
    store.gate.set()
    await listing
    assert [each.name for each in remote.described] == names
    assert len(store.calls) == 1 + len(names) == 1 + DESCRIBED_AT_ONCE + 4


async def test_a_list_that_fails_forgets_nothing_and_reads_no_description_twice() -> None:
    log, store = log_of(13), TestStore()
    before = await copied(log, store)
    remote = RemoteLog(FOLDER)
    store.troubles["get"] = [None, None, Unavailable("503")]
    with pytest.raises(Unavailable, match="503"):
        await remote.list(store, 3)
    assert (len(remote.described), remote.listed_in_epoch) == (0, -1)
    gets = store.calls.count(("get", "json"))
    await remote.list(store, 3)
    assert len(remote.described) == len(before.segments) == 6
    assert store.calls.count(("get", "json")) < gets + 6
    store.calls.clear()
    await remote.list(store, 4)
    assert [kind for kind, _ in store.calls] == ["list"]


async def test_a_long_list_shares_the_event_loop() -> None:
    log, store = log_of(61), TestStore()
    await copied(log, store)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    await RemoteLog(FOLDER).list(store, 0)
    counting.cancel()
    assert turns >= 30, "one description a turn"


async def test_the_producers_of_a_segment_are_read_when_they_are_needed() -> None:
    """They may be as much as the records."""
    log, store = log_of(0), TestStore()
    for sequence in range(3):
        batch = build_batch(
            [Record(0, 2_000, None, b"value" * 4, ())], producer_id=7, producer_epoch=0, base_sequence=sequence
        )
        log.append_as_leader(batch, leader_epoch=0, wall_ms=2_000)
    log.commit_to(3)
    own = await copied(log, store)
    other, restarted = RemoteLog(FOLDER), RemoteLog(FOLDER, keeps_producers=True)
    for remote in (other, restarted):
        await remote.list(store, 0)
    (kept,) = restarted.described
    assert kept.producers is not None
    assert list(kept.producers.states) == [7]
    for remote in (own, other):
        (segment,) = remote.described
        assert segment.producers is None
        whole = await remote.whole(store, segment)
        assert whole.producers is not None
        assert list(whole.producers.states) == [7]
