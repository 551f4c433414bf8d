"""Tests of how the collector of cyclic garbage is set."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from purgatorio.admin.cluster import Cluster
from purgatorio.broker.log.arena import Arena
from purgatorio.broker.log.config import LogConfig
from purgatorio.broker.log.log import Log
from purgatorio.broker.log.memory import MemoryBudget
from purgatorio.broker.log.segment import Segment
from purgatorio.broker.time.garbage import MANY_OBJECTS, RENEWAL_DELAY_MS, THRESHOLDS, GarbageTuning, paused
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch
from purgatorio.purgatory.clock import ManualClock
from tests.broker.cluster.test_cluster import config, create


@pytest.fixture(autouse=True)
def collector_as_it_was() -> Iterator[None]:
    """No test leaves the collector of this process changed; what `tests/conftest.py` froze is thawed meanwhile."""
    was_frozen = gc.get_freeze_count()
    gc.unfreeze()
    thresholds = gc.get_threshold()
    yield
    assert (gc.get_threshold(), gc.get_freeze_count()) == (thresholds, 0)
    if was_frozen:
        gc.freeze()


def test_the_collector_rests_for_a_while_and_is_left_as_it_was() -> None:
    with paused():
        assert not gc.isenabled()
        with paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def is_old(each: object) -> bool:
    """Whether only a full pass visits an object."""
    return any(other is each for other in gc.get_objects(generation=2))


def test_many_objects_that_were_made_meanwhile_are_old_afterwards() -> None:
    """The modules of a first cluster: a pass over the youngest, which is due at once, would take 10 ms."""
    gc.collect()
    with paused(then_old=True):
        made: list[list[int]] = [[] for _ in range(MANY_OBJECTS + 1)]
    assert is_old(made[0])
    assert gc.get_freeze_count() == 0


def test_few_objects_that_were_made_meanwhile_stay_young() -> None:
    """What a later cluster leaves behind is found without a full pass."""
    gc.collect()
    with paused(then_old=True):
        made: list[list[int]] = [[] for _ in range(MANY_OBJECTS // 2)]
    assert not is_old(made[0])


def test_what_was_made_meanwhile_stays_young_unless_it_is_to_be_old() -> None:
    """A command frees at once what its modules leave behind: it would make its process larger."""
    gc.collect()
    with paused():
        made: list[list[int]] = [[] for _ in range(MANY_OBJECTS + 1)]
    assert not is_old(made[0])


def test_what_a_program_has_frozen_stays_frozen() -> None:
    gc.collect()
    gc.freeze()
    frozen = gc.get_freeze_count()
    try:
        with paused(then_old=True):
            made: list[list[int]] = [[] for _ in range(MANY_OBJECTS + 1)]
        # a frozen object may end meanwhile, as those of other threads do; to freeze would add those that were made
        assert frozen // 2 < gc.get_freeze_count() <= frozen
        assert not is_old(made[0])
    finally:
        gc.unfreeze()


def test_begin_freezes_all_objects_and_makes_passes_rare_and_end_undoes_both() -> None:
    tuning = GarbageTuning()
    tuning.begin()
    tuning.begin()
    assert gc.get_threshold() == THRESHOLDS
    assert gc.get_freeze_count() > 1_000
    tuning.end()
    tuning.end()


def test_no_pass_visits_the_batches_of_a_log() -> None:
    """A pass over 20,000 batches, of which each was an object in a list, took 3 ms; none of them is one now."""
    segment = Segment(0, 0, created_ms=0, sequence=0, arena=Arena())
    gc.collect()
    before = len(gc.get_objects())
    for number in range(20_000):
        segment.append(bytes(100), number, 0, 0)
    assert len(gc.get_objects()) - before < 400


def test_a_pass_visits_few_objects_for_a_megabyte_of_records() -> None:
    """With 2 GB of them a full pass may take 5 ms, in which it visits 20,000 objects."""
    log = Log(LogConfig(segment_bytes=12_000_000, max_message_bytes=1 << 20), memory=MemoryBudget(1 << 30))
    batch = build_batch([Record(0, 0, None, bytes(100_000), [])])
    for _ in range(120):
        log.append_as_leader(batch, leader_epoch=0, wall_ms=0)
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(240):
        log.append_as_leader(batch, leader_epoch=0, wall_ms=0)
    gc.collect()
    assert log.segment_count == 4
    assert len(gc.get_objects()) - before < 24 * 8


async def test_a_cluster_leaves_the_collector_as_it_is() -> None:
    before = gc.get_threshold(), gc.get_freeze_count()
    async with Cluster(config()):
        assert (gc.get_threshold(), gc.get_freeze_count()) == before


async def test_a_cluster_sets_the_collector_while_it_runs_if_it_is_asked_to() -> None:
    async with Cluster(config(), garbage=GarbageTuning()):
        assert gc.get_threshold() == THRESHOLDS


async def test_a_broker_that_ended_is_freed_although_it_was_frozen() -> None:
    clock = ManualClock()
    async with Cluster(config(), clock, seed=1, garbage=GarbageTuning()) as cluster:
        await create(cluster, partitions=3)
        replicas = weakref.ref(cluster.brokers[2].replicas)
        await cluster.kill_broker(3)
        await clock.run_for(RENEWAL_DELAY_MS - 1)
        gc.collect()
        assert replicas() is not None
        await clock.run_for(1)
        assert replicas() is None
