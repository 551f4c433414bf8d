"""What goes of the tier: which segments, in which order, and what stays when the store fails."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from purgatorio.broker.log.log import Log
from purgatorio.broker.tier import claim
from purgatorio.broker.tier.claim import ClaimLost, StoreClaim
from purgatorio.broker.tier.cleaning import DELETE_MS, SegmentCleaner, delete_segment, doom, doom_useless, retained_from
from purgatorio.broker.tier.names import DESCRIPTION, LOG
from purgatorio.broker.tier.remote_log import RemoteLog
from purgatorio.broker.tier.store import MemoryStore, Refused, Unavailable
from purgatorio.purgatory.clock import ManualClock
from tests.broker.tier.stores import FOLDER, TestStore, copied, log_of, record_batch

NOW_MS = 10_000


def offsets(remote: RemoteLog) -> list[tuple[int, int]]:
    return [(each.start_offset, each.end_offset) for each in remote.segments]


def cleaner_of(store: MemoryStore, clock: ManualClock | None = None) -> SegmentCleaner:
    clock = clock or ManualClock()
    return SegmentCleaner(store, clock, StoreClaim(store, clock, "cluster", "owner"))


def starts(store: MemoryStore, end: str = DESCRIPTION) -> list[int]:
    """The start offsets of the segments with such an object."""
    return [int(key.rpartition("/")[2].partition("-")[0]) for key in sorted(store.objects) if key.endswith(end)]


async def of_seven(store: MemoryStore, **config: int) -> tuple[Log, RemoteLog]:
    """A log of seven records from 1000 ms on, a millisecond apart, of which six are copied, two in each segment."""
    log = log_of(7)
    remote = await copied(log, store)
    log.config = replace(log.config, **config)
    return log, remote


@pytest.mark.parametrize(
    ("retention_ms", "start_offset"), [(-1, 0), (9_000, 0), (8_999, 0), (8_998, 2), (8_996, 4), (8_994, 6), (0, 6)]
)
async def test_segments_go_when_their_newest_record_is_older_than_retention_ms(retention_ms, start_offset) -> None:
    log, remote = await of_seven(MemoryStore(), retention_ms=retention_ms)
    assert retained_from(remote, log, NOW_MS) == start_offset


async def test_segments_go_while_the_log_would_still_be_retention_bytes_long() -> None:
    store = MemoryStore()
    log, remote = await of_seven(store)
    size, last = next(each.size_bytes for each in remote.segments), log.size_between(6, 7)
    for bytes_left, start_offset in (
        (3 * size + last, 0),
        (2 * size + last + 1, 0),
        (2 * size + last, 2),
        (size + last, 4),
        (last, 6),
        (0, 6),
    ):
        log.config = replace(log.config, retention_bytes=bytes_left)
        assert retained_from(remote, log, NOW_MS) == start_offset, "what is in the tier and in memory counts once"


async def test_what_is_in_memory_too_counts_once_and_what_the_tier_has_alone_counts() -> None:
    log, remote = await of_seven(MemoryStore())
    total = log.size_bytes
    log.config = replace(log.config, retention_bytes=total, local_retention_bytes=0)
    log.apply_retention(NOW_MS, 7)
    assert (log.local_start_offset, retained_from(remote, log, NOW_MS)) == (6, 0)
    log.config = replace(log.config, retention_bytes=total - 1)
    assert retained_from(remote, log, NOW_MS) == 0
    log.append_as_leader(record_batch(1_008), leader_epoch=0, wall_ms=1_008)
    log.append_as_leader(record_batch(1_009), leader_epoch=0, wall_ms=1_009)
    log.commit_to(9)
    assert retained_from(remote, log, NOW_MS) == 2


async def test_nothing_goes_that_is_not_known_to_be_copied() -> None:
    """KAFKA-20732: while "highest copied" is unset, everything counts twice there, and live records go."""
    log = log_of(7, config=replace(log_of(0).config, retention_bytes=log_of(7).size_bytes // 2, retention_ms=0))
    assert retained_from(RemoteLog(FOLDER), log, NOW_MS) == 0


async def test_copies_of_the_same_records_count_once() -> None:
    store, log = MemoryStore(), log_of(7)
    await copied(log, store)
    remote = RemoteLog(FOLDER)
    log.copied(0, exactly=True)
    await copied(log, store, remote=remote)
    await remote.list(store, 0)
    remote.settle(log)
    assert len(remote.segments) == 6
    log.config = replace(log.config, retention_bytes=log.size_bytes)
    assert retained_from(remote, log, NOW_MS) == 0


async def test_a_segment_without_timestamps_goes_with_the_next_one_that_has_one() -> None:
    log = log_of(0)
    for at_ms in (-1, -1, 5, 6, -1, -1, 7):
        log.append_as_leader(record_batch(at_ms), leader_epoch=0, wall_ms=1_000)
    log.commit_to(7)
    remote = await copied(log, MemoryStore())
    log.config = replace(log.config, retention_ms=100)
    assert [each.max_timestamp_ms for each in remote.segments] == [-1, 6, -1]
    assert retained_from(remote, log, NOW_MS) == 4
    log.config = replace(log.config, retention_ms=-1, retention_bytes=-1)
    assert retained_from(remote, log, NOW_MS) == 0


async def test_a_topic_that_keeps_all_records_keeps_them_in_the_tier() -> None:
    log, remote = await of_seven(MemoryStore(), retention_ms=0)
    log.config = replace(log.config, cleanup_policy=())
    assert retained_from(remote, log, NOW_MS) == 0


async def test_what_lies_before_an_offset_is_deleted_and_the_description_goes_first() -> None:
    store = TestStore()
    log, remote = await of_seven(store)
    store.calls.clear()
    log.advance_log_start(5)
    assert doom(remote, log, 5)
    assert not doom(remote, log, 5), "all before it is doomed already"
    remote.settle(log)
    assert offsets(remote) == [(4, 6)]
    await cleaner_of(store).clean(remote, lambda: True)
    assert sorted(store.calls) == [("delete", "json")] * 2 + [("delete", "log")] * 2
    assert (starts(store), starts(store, LOG), remote.doomed) == ([4], [4], {})
    assert (log.copied_to, remote.copied_to) == (6, 6)


async def test_the_records_go_after_the_description() -> None:
    store = TestStore()
    await store.put("a/b.json", [b"{}"], create=True)
    await store.put("a/b.log", [b"records"], create=True)
    store.calls.clear()
    await delete_segment(store, "a/b")
    assert (store.calls, store.objects) == ([("delete", "json"), ("delete", "log")], {})


async def test_what_was_not_deleted_is_tried_again_and_not_read_meanwhile() -> None:
    store = TestStore()
    log, remote = await of_seven(store)
    cleaner = cleaner_of(store)
    await remote.list(store, 0)
    doom(remote, log, 4)
    store.troubles["delete"] = [Refused("no"), None]
    with pytest.raises(Refused):
        await cleaner.clean(remote, lambda: True)
    assert (starts(store), len(remote.doomed)) == ([0, 4], 1), "the other ones are deleted"
    await remote.list(store, 0)
    remote.settle(log)
    assert offsets(remote) == [(4, 6)], "a new list does not bring it back"
    await cleaner.clean(remote, lambda: True)
    assert (starts(store), starts(store, LOG), remote.doomed) == ([4], [4], {})


async def test_a_leader_of_another_epoch_begins_anew() -> None:
    store = TestStore()
    log, remote = await of_seven(store)
    doom(remote, log, 4)
    await remote.list(store, 1)
    assert doomed(remote) == []


async def test_a_store_that_is_away_is_not_asked_for_the_rest() -> None:
    store, log = TestStore(), log_of(100)
    remote = await copied(log, store)
    store.calls.clear()
    doom(remote, log, 98)
    store.troubles["delete"] = [Unavailable("503")] * 16
    with pytest.raises(Unavailable):
        await cleaner_of(store).clean(remote, lambda: True)
    assert (len(store.calls), len(remote.doomed)) == (16, 49)


async def test_a_deletion_that_is_not_answered_has_failed() -> None:
    store, clock = TestStore(), ManualClock()
    log, remote = await of_seven(store)

    async def silent(key: str) -> None:
        await asyncio.Event().wait()

    store.delete = silent  # type: ignore[method-assign]
    doom(remote, log, 2)
    task = asyncio.create_task(cleaner_of(store, clock).clean(remote, lambda: True))
    await clock.run_for(DELETE_MS)
    with pytest.raises(Unavailable, match="no answer to a deletion in 30 s"):
        await task


async def test_who_leads_no_more_deletes_no_more() -> None:
    store, log = TestStore(), log_of(100)
    remote = await copied(log, store)
    doom(remote, log, 98)
    answers = [True, False]
    await cleaner_of(store).clean(remote, lambda: answers.pop(0))
    assert (len(starts(store)), len(remote.doomed)) == (49 - 16, 33)


async def test_who_has_lost_its_claim_deletes_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim, "CHECK_MS", 0)
    store, log, clock = TestStore(), log_of(100), ManualClock()
    remote = await copied(log, store)
    doom(remote, log, 98)

    class Losing(StoreClaim):
        """A claim that another cluster takes when it is looked at for the second time."""

        looks = 0

        async def hold(self) -> int:
            self.looks += 1
            if self.looks > 1:
                await StoreClaim(store, clock, "cluster", "another").hold()
            return await super().hold()

    cleaner = SegmentCleaner(store, clock, Losing(store, clock, "cluster", "owner"))
    with pytest.raises(ClaimLost):
        await cleaner.clean(remote, lambda: True)
    assert (len(starts(store)), len(remote.doomed)) == (49 - 16, 33)


async def listed(store: MemoryStore, log: Log, epoch: int = 0) -> RemoteLog:
    remote = RemoteLog(FOLDER)
    await remote.list(store, epoch)
    remote.settle(log, exactly=True)
    doom_useless(remote, log)
    return remote


def doomed(remote: RemoteLog) -> list[int]:
    return [name.start_offset for name in remote.doomed]


async def test_segments_of_leaders_that_an_unclean_election_has_removed_go() -> None:
    store = MemoryStore()
    await copied(log_of(7, epochs=(1, 2)), store)
    log = log_of(2, epochs=(5,))
    assert doomed(await listed(store, log, 5)) == [0, 2, 4]
    unknown = log_of(0)
    assert doomed(await listed(store, unknown, 5)) == [], "it has no epochs yet"
    behind = log_of(0)
    behind.begin_behind(20, log_start_offset=0, epochs=[(5, 20)], producers=None)
    assert doomed(await listed(store, behind, 5)) == [], "it does not know what it has before 20"


async def test_segments_that_differ_from_what_is_committed_go_when_it_is() -> None:
    store = MemoryStore()
    await copied(log_of(9, epochs=(1, 2)), store)
    log = log_of(5, epochs=(1,))
    assert doomed(await listed(store, log, 3)) == []
    while log.log_end_offset < 9:
        log.append_as_leader(record_batch(1_000), leader_epoch=3, wall_ms=1_000)
    assert doomed(await listed(store, log, 3)) == []
    log.commit_to(9)
    assert doomed(await listed(store, log, 3)) == [4, 6]


def log_of_sizes(*ends: int, count: int = 9) -> Log:
    """A log of records that rolls at these offsets."""
    log = log_of(0)
    for number in range(count):
        log.config = replace(log.config, segment_bytes=100 if number in ends else 100_000)
        log.append_as_leader(record_batch(1_000), leader_epoch=0, wall_ms=1_000)
    log.commit_to(count)
    return log


@pytest.mark.parametrize("rolls", [[[4, 8], [4, 8]], [[4, 8], [2, 4, 8]], [[2, 4, 6, 8], [8]], [[4, 8], [2, 6]]])
async def test_copies_of_the_same_records_stay_since_a_late_deletion_may_take_one_of_them(
    rolls: Sequence[Sequence[int]],
) -> None:
    """A store may do a deletion of an unfinished copy when its description has come: the only copy left was lost."""
    store = MemoryStore()
    for ends in rolls:
        await copied(log_of_sizes(*ends), store, remote=RemoteLog(FOLDER))
    log = log_of_sizes(*rolls[0])
    remote = await listed(store, log)
    remote.settle(log)
    assert (doomed(remote), log.copied_to) == ([], 8)


async def test_records_without_a_description_go_but_not_those_of_a_newer_leader() -> None:
    store, log = MemoryStore(), log_of(7, epochs=(0, 3))
    await copied(log, store)
    for key in [key for key in sorted(store.objects) if key.endswith(DESCRIPTION)][:2]:
        del store.objects[key]
    assert doomed(await listed(store, log, 2)) == []
    remote = await listed(store, log, 3)
    assert doomed(remote) == [0, 2]
    await cleaner_of(store).clean(remote, lambda: True)
    assert (starts(store, LOG), starts(store)) == ([4], [4])


async def test_records_without_a_description_stay_while_an_older_leader_may_still_describe_them() -> None:
    """It may delete what it has copied in memory, if it has not heard of the next leader."""
    store, log = MemoryStore(), log_of(7, epochs=(0, 3))
    await copied(log, store)
    for key in [key for key in sorted(store.objects) if key.endswith(DESCRIPTION)]:
        del store.objects[key]
    remote = RemoteLog(FOLDER)
    await remote.list(store, 4, all_heard=False)
    doom_useless(remote, log)
    assert (len(remote.unheard), doomed(remote)) == (3, [])
    await remote.list(store, 4)
    doom_useless(remote, log)
    assert (len(remote.unheard), doomed(remote)) == (0, [0, 2, 4])


async def test_a_copy_whose_epochs_were_deleted_meanwhile_keeps_nothing_from_being_listed() -> None:
    store, log = MemoryStore(), log_of(7)
    remote = await copied(log, store)
    remote.add(replace(next(iter(remote.described)), epochs=()), log)
    doom_useless(remote, log)
    assert doomed(remote) == []


async def test_a_damaged_segment_goes_when_the_next_one_has_to() -> None:
    store = TestStore()
    log, _ = await of_seven(store)
    store.objects[store.key(LOG)] = b""
    remote = await listed(store, log)
    doom(remote, log, 1)
    assert doomed(remote) == []
    doom(remote, log, 2)
    assert doomed(remote) == [0]


async def test_what_the_store_has_lost_is_copied_again_if_it_is_in_memory() -> None:
    store = TestStore()
    log, _ = await of_seven(store)
    for key in [store.key(DESCRIPTION), store.key(LOG)]:
        del store.objects[key]
    remote = await listed(store, log)
    assert log.copied_to == 0
    await copied(log, store, remote=remote)
    assert log.copied_to == 6


@pytest.mark.parametrize("left", [None, b"", b"half"])
async def test_records_that_the_store_has_lost_of_a_known_segment_are_noticed_by_the_next_list(left) -> None:
    """The leader of the next epoch may be the same one: it knows the description, which is still there."""
    store = TestStore()
    log, remote = await of_seven(store)
    key = store.key(LOG)
    if left is None:
        del store.objects[key]
    else:
        store.objects[key] = left
    await remote.list(store, 1)
    remote.settle(log, exactly=True)
    assert [name.start_offset for name in remote.damaged] == [0]
    assert log.copied_to == 0, "memory has them still, and keeps them"
    await copied(log, store, remote=remote)
    assert log.copied_to == 6


async def test_a_hole_before_what_is_in_memory_keeps_nothing_from_being_copied() -> None:
    """Its segments were copied again and again, since the copied part did not grow."""
    store = TestStore()
    log, _ = await of_seven(store, local_retention_bytes=0)
    log.apply_retention(NOW_MS, 7)
    assert log.local_start_offset == 6
    for key in [store.key(DESCRIPTION), store.key(LOG)]:
        del store.objects[key]
    for at_ms in range(2_000, 2_004):
        log.append_as_leader(record_batch(at_ms), leader_epoch=0, wall_ms=at_ms)
    log.commit_to(11)
    remote = await listed(store, log)
    await copied(log, store, remote=remote)
    assert (log.copied_to, offsets(remote)) == (10, [(2, 4), (4, 6), (6, 8), (8, 10)])
