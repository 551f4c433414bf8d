"""Tests of the part of a log with which a new cluster begins: whatever step of a copy the old one was killed at."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from purgatorio.broker.tier.claim import StoreClaim
from purgatorio.broker.tier.cleaning import SegmentCleaner, doom_useless
from purgatorio.broker.tier.names import DESCRIPTION, LOG, segment_of
from purgatorio.broker.tier.remote_log import RemoteLog
from purgatorio.broker.tier.restoring import part_in_tier
from purgatorio.broker.tier.store import MemoryStore
from purgatorio.protocol.compression import Buffer
from purgatorio.purgatory.clock import ManualClock
from tests.broker.tier.stores import FOLDER, TestStore, copied, copier_to, log_of


async def described(store: MemoryStore) -> RemoteLog:
    remote = RemoteLog(FOLDER)
    await remote.list(store, 100)
    return remote


async def test_a_log_begins_with_all_that_was_copied() -> None:
    store = TestStore()
    await copied(log_of(7, epochs=(0, 2)), store)
    part = part_in_tier((await described(store)).described, 0)
    assert part is not None
    assert (part.log_start_offset, part.end_offset, part.epochs, len(part.segments)) == (0, 6, ((0, 0), (2, 4)), 3)


async def test_nothing_was_copied() -> None:
    assert part_in_tier([], 0) is None


async def test_the_log_start_is_where_it_was_last_known_to_be() -> None:
    store = TestStore()
    await copied(log_of(7), store)
    segments = (await described(store)).described
    part = part_in_tier(segments, 3)
    assert part is not None
    assert (part.log_start_offset, part.end_offset, len(part.segments)) == (3, 6, 2)
    assert part_in_tier(segments, 6) is None, "all of it was deleted"


async def test_a_log_begins_behind_a_segment_that_is_missing() -> None:
    store = TestStore()
    await copied(log_of(9), store)
    del store.objects[sorted(key for key in store.objects if key.endswith(LOG))[1]]
    part = part_in_tier((await described(store)).described, 0)
    assert part is not None
    assert (part.log_start_offset, part.end_offset) == (4, 8)


async def test_the_newest_leaders_records_are_the_logs() -> None:
    """A leader copied [0, 8) in epoch 0; another one, elected uncleanly, had only [0, 4) of it, and copied [4, 6)."""
    store = TestStore()
    await copied(log_of(9), store)
    other = log_of(7, epochs=(0, 0, 0, 0, 1, 1, 1))
    await copied(other, store)
    part = part_in_tier((await described(store)).described, 0)
    assert part is not None
    assert (part.end_offset, part.epochs) == (6, ((0, 0), (1, 4)))


class Killed(Exception):
    """The process has ended."""


class Mortal(TestStore):
    """A store whose process is killed at its n-th write; `is_done` says whether that one was done."""

    def __init__(self, at: int, *, is_done: bool) -> None:
        super().__init__()
        self.left, self.is_done = at, is_done

    async def put(self, key: str, parts: Sequence[Buffer], *, create: bool) -> None:
        if "/claims/" not in key:
            self.left -= 1
            if self.left < 0 or (self.left == 0 and not self.is_done):
                raise Killed
        await super().put(key, parts, create=create)
        if "/claims/" not in key and self.left == 0:
            raise Killed


@pytest.mark.parametrize("is_done", [True, False])
@pytest.mark.parametrize("at", range(1, 7))
async def test_a_process_that_is_killed_at_any_step_of_a_copy_leaves_a_prefix_and_no_rubbish(
    at: int, is_done: bool
) -> None:
    store, log = Mortal(at, is_done=is_done), log_of(7)
    with pytest.raises(Killed):
        await copied(log, store)
    committed = {key for key in store.objects if key.endswith(DESCRIPTION)}
    assert len(committed) == (at - 1 + is_done) // 2

    store.left = 1_000
    clock = ManualClock()
    claim = StoreClaim(store, clock, "cluster", "the next one")
    assert await claim.hold() == 2
    claim.older = frozenset(committed)
    remote = RemoteLog(FOLDER, claim)
    await remote.list(store, 1)
    part = part_in_tier(remote.described, 0)
    end_offset = 0 if part is None else part.end_offset
    assert (end_offset, log.copied_to <= end_offset) == (2 * len(committed), True), "nothing that counted is lost"

    await swept(store, claim, remote, end_offset)
    left = {segment_of(key, end) for key in store.objects for end in (LOG, DESCRIPTION)} - {None}
    assert left == {segment_of(key) for key in committed}


async def test_what_an_earlier_owner_adds_later_is_rubbish() -> None:
    store, clock = TestStore(), ManualClock()
    copier, earlier = copier_to(store, clock), RemoteLog(FOLDER)
    log = log_of(9)
    for _ in range(2):
        await copier.copy_next(log, earlier, 0, lambda: True)
    claim = StoreClaim(store, clock, "cluster", "the next one")
    await claim.hold()
    claim.older = frozenset(key for key in store.objects if key.endswith(DESCRIPTION))
    before = set(store.objects)
    while await copier.copy_next(log, earlier, 0, lambda: True):
        pass
    assert len(store.objects) == len(before) + 4
    remote = RemoteLog(FOLDER, claim)
    await remote.list(store, 1)
    assert sorted(each.start_offset for each in remote.described) == [0, 2]
    await swept(store, claim, remote, 4)
    assert set(store.objects) == before


async def swept(store: MemoryStore, claim: StoreClaim, remote: RemoteLog, end_offset: int) -> None:
    """Delete what is no part of the log that a new leader begins with."""
    log = log_of(end_offset)
    remote.settle(log)
    doom_useless(remote, log)
    await SegmentCleaner(store, ManualClock(), claim).clean(remote, lambda: True)
