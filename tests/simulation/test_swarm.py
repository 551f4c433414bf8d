"""Swarm settings are drawn from the seed, cost about what the plain workload does, and reach the rare paths."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import itertools
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator

import pytest

from purgatorio.broker.metadata.controller import NewTopic, TopicSettings, create_topics
from purgatorio.protocol.compression import Compression
from purgatorio.simulation.checks.sometimes import SOMETIMES
from purgatorio.simulation.history.history import Fault
from purgatorio.simulation.run import Scenario, simulate
from purgatorio.simulation.swarm import CLOCK_RATES, NEAR_MS, draw, plain
from purgatorio.simulation.world.cluster import SimulatedCluster
from purgatorio.simulation.world.loop import SimulatedLoop
from purgatorio.simulation.world.network import SimulatedNetwork
from tests.simulation.seeds import SEEDS

SIZE = {"brokers": 3, "partitions": 2, "min_insync_replicas": 2}
# Seeds at which each path is known to be reached: few in all, since each takes two seconds. When the code changes,
# others may be: the search goes on over the seeds of other paths, and over the default seeds. A path that few seeds
# reach has a second one.
REACHED_AT = {
    "out-of-range": (379,),
    "restart": (379,),
    "truncate-segments": (379,),
    "wait-for-refused": (379,),
    "out-of-order": (379, 2302),
    "raised-epoch": (379,),
    "duplicate": (48,),
    "snapshot": (18,),
    "rack-read": (22,),
    "compaction": (39,),
    "memory-cap": (379,),
    "uncommitted-share": (7,),
    "lost-lease": (379,),
    "lost-answer": (379,),
    "reassignment": (22,),
    "deletion": (379,),
    "delete-records": (18,),
    "recreation": (22,),
    "clock-margin": (48,),
    "skipped-images": (48,),
    "replaced-process": (48,),
    "group-load": (39,),
    "rebalance-moved": (39,),
    "fenced-static": (39,),
    "expired-member": (39,),
    "marker-moved": (18,),
    "load-decided": (57,),
    "timed-out": (18,),
    "fenced-producer": (18,),
    "next-epoch": (18,),
    "asked-first": (18,),
    "parked-request": (18,),
    "loaded-offsets": (150,),
    "moved-offsets": (39,),
    "throttled": (39,),
    "lock-over": (36,),
    "lock-renewed": (36,),
    "session-over": (36,),
    "given-up": (36,),
    "share-load": (36,),
    "state-moved": (36,),
    "pruned": (36,),
}


@pytest.fixture
def loop() -> Iterator[SimulatedLoop]:
    loop = SimulatedLoop(random.Random(1))
    yield loop
    loop.close()


def test_each_path_has_a_seed_at_which_it_is_known_to_be_reached() -> None:
    assert list(REACHED_AT) == list(SOMETIMES)
    assert all(meaning.endswith(".") for meaning in SOMETIMES.values())


@functools.cache
def reached(seed: int) -> Counter[str]:
    return simulate(seed).reached


@pytest.mark.simulation
@pytest.mark.no_cover
@pytest.mark.timeout(420)
@pytest.mark.parametrize("path", REACHED_AT)
def test_a_path_is_reached_within_the_default_seeds(path: str, record_property: pytest.RecordProperty) -> None:
    others = itertools.chain.from_iterable(REACHED_AT.values())
    for seed in dict.fromkeys((*REACHED_AT[path], *others, *range(1, SEEDS + 1))):
        if reached(seed)[path]:
            if seed not in REACHED_AT[path]:
                record_property("note", f"rare path {path}: reached at seed {seed}, at none of {REACHED_AT[path]}")
            return
    pytest.fail(f"no default seed reaches it: {SOMETIMES[path]}")


def test_every_feature_is_on_in_some_seeds_and_off_in_others() -> None:
    swarms = [draw(random.Random(seed), **SIZE) for seed in range(100)]
    for features in (
        {swarm.racks for swarm in swarms},
        {swarm.one_process for swarm in swarms},
        {swarm.batch_records > 0 for swarm in swarms},
        {swarm.java for swarm in swarms},
        {swarm.burst > 1 for swarm in swarms},
        {swarm.client_latency_ms == NEAR_MS for swarm in swarms},
        {swarm.store_faults for swarm in swarms},
        {swarm.recreates for swarm in swarms},
        {swarm.memory_bytes > 0 for swarm in swarms},
        {swarm.clock_rates == CLOCK_RATES for swarm in swarms},
        {swarm.replaces for swarm in swarms},
        {swarm.skips_images for swarm in swarms},
        {swarm.keyed for swarm in swarms},
        {swarm.slow_turns for swarm in swarms},
        {bool(swarm.groups) for swarm in swarms},
        {bool(swarm.quotas) for swarm in swarms},
        {"producer_byte_rate" in swarm.quotas for swarm in swarms if swarm.quotas},
        {any(group.protocol == "consumer" for group in swarm.groups) for swarm in swarms},
        {any(group.static for group in swarm.groups) for swarm in swarms},
        {swarm.offsets_segment_bytes > 0 for swarm in swarms},
        {swarm.transactions is not None for swarm in swarms},
        {swarm.output is not None for swarm in swarms if swarm.transactions is not None},
        {swarm.transactions.zombies for swarm in swarms if swarm.transactions is not None},
        {swarm.transactions.state_segment_bytes > 0 for swarm in swarms if swarm.transactions is not None},
        {swarm.share is not None for swarm in swarms},
        {swarm.share.dead_letter_partitions > 0 for swarm in swarms if swarm.share is not None},
        {swarm.share.version > 1 for swarm in swarms if swarm.share is not None},
        {swarm.share.committed for swarm in swarms if swarm.share is not None and swarm.transactions is not None},
        {swarm.compression is Compression.NONE for swarm in swarms},
        {len(swarm.topics) > 1 for swarm in swarms},
        {swarm.brokers > 3 for swarm in swarms},
        {any(topic.keys for topic in swarm.topics) for swarm in swarms},
        {any(topic.deletes for topic in swarm.topics) for swarm in swarms},
        {any("segment.bytes" in topic.configs for topic in swarm.topics) for swarm in swarms},
    ):
        assert features == {True, False}
    assert sum(swarm == plain(**SIZE) for swarm in swarms) > 10


def test_every_workload_has_as_many_partitions() -> None:
    for seed in range(50):
        swarm = draw(random.Random(seed), **SIZE)
        assert sum(topic.partitions for topic in swarm.topics) == 2


@pytest.mark.simulation
@pytest.mark.process
@pytest.mark.parametrize("seed", [3, 18, 36])
def test_the_same_seed_gives_the_same_history_under_any_hash_seed(seed: int) -> None:
    """The seeds have racks, pipelined batches, compression, several topics, transactions, and groups of both kinds."""
    program = (
        "from purgatorio.simulation.run import simulate, Scenario;"
        f"print(simulate({seed}, Scenario(seconds=3.0)).history.digest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("0", "1")
    }
    assert len(digests) == 1
    assert len(digests.pop().strip()) == len(hashlib.sha256().hexdigest())


@pytest.mark.simulation
def test_the_plain_workload_is_run_on_request() -> None:
    report = simulate(3, Scenario(seconds=1.0, swarm=False))
    assert {event.partition for event in report.history if hasattr(event, "partition")} <= {"orders-0", "orders-1"}


# --- a process that is suspended as a whole ---


Disturb = Callable[[SimulatedCluster], Awaitable[None]]


async def suspend(cluster: SimulatedCluster) -> None:
    """Suspend all brokers for two seconds, three times."""
    nodes = list(cluster.nodes.values())
    for _ in range(3):
        if cluster.one_process:
            cluster.suspend()
        else:
            for node in nodes:
                node.pause()
        await asyncio.sleep(2)
        if cluster.one_process:
            cluster.resume()
        else:
            for node in nodes:
                node.resume()
        await asyncio.sleep(1)


async def slow_turns(cluster: SimulatedCluster) -> None:
    """Let all brokers make slow turns for a minute, each by its own or all of one process together."""
    rng = random.Random(1)
    for node in cluster.nodes_of(cluster.broker_ids):
        node.slow_down()
    for _ in range(400):
        await asyncio.sleep(rng.uniform(0.05, 0.3))
        for node in cluster.nodes_of(cluster.broker_ids):
            node.turn()
    for node in cluster.nodes_of(cluster.broker_ids):
        node.resume()


async def partitions_after(loop: SimulatedLoop, disturb: Disturb, *, one_process: bool) -> tuple[int, int]:
    """Disturb all brokers; return the highest leader epoch before and after."""
    cluster = SimulatedCluster(
        loop, SimulatedNetwork(loop, random.Random(1)), random.Random(2), one_process=one_process
    )
    await cluster.start()
    created: asyncio.Future[object] = loop.create_future()
    new = [NewTopic("orders", 6, 3)]
    cluster.store.open().submit(
        lambda image: create_topics(image, new, settings=TopicSettings(), rng=random.Random(0)), created.set_result
    )
    await created
    await asyncio.sleep(1)
    before = max(state.leader_epoch for state in cluster.partitions.values())
    await disturb(cluster)
    after = max(state.leader_epoch for state in cluster.partitions.values())
    await cluster.stop()
    return before, after


@pytest.mark.parametrize("disturb", [suspend, slow_turns])
def test_a_suspended_or_slow_process_costs_no_broker_its_leadership(loop: SimulatedLoop, disturb: Disturb) -> None:
    before, after = loop.run_until_complete(partitions_after(loop, disturb, one_process=True))
    assert after == before


@pytest.mark.parametrize("disturb", [suspend, slow_turns])
def test_brokers_that_are_processes_of_their_own_are_fenced_while_they_are_suspended_or_slow(
    loop: SimulatedLoop, disturb: Disturb
) -> None:
    before, after = loop.run_until_complete(partitions_after(loop, disturb, one_process=False))
    assert after > before


def test_only_brokers_of_one_process_can_be_suspended_together(loop: SimulatedLoop) -> None:
    cluster = SimulatedCluster(loop, SimulatedNetwork(loop, random.Random(1)), random.Random(2))
    with pytest.raises(ValueError, match="do not share a process"):
        cluster.suspend()


# --- slow turns ---

SLOW_TURNS = Scenario(faults=("slow-turns", "kill", "store"))
SLOW_SEEDS = (6, 13)
"""One of brokers in one process, one of brokers in processes of their own."""


@pytest.mark.simulation
@pytest.mark.parametrize("seed", SLOW_SEEDS)
def test_nothing_is_lost_while_turns_are_slow_and_brokers_die(seed: int) -> None:
    report = simulate(seed, SLOW_TURNS)
    assert report.anomalies == []
    assert any("slow turns of" in fault.what for fault in report.history.of(Fault))
    assert report.swarm.one_process is (seed == SLOW_SEEDS[0])
