"""A whole cluster lives by the clock that its user moves: deadlines, leases, delays, and what follows from them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from purgatorio.admin.cluster import Cluster
from purgatorio.protocol.api import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.purgatory.clock import ManualClock
from tests.broker.cluster.test_cluster import (
    ORDERS,
    client,
    config,
    create,
    followers_of,
    leader_of,
    produce_request,
    until,
)

DAY_MS = 24 * 3600 * 1000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def cluster(clock: ManualClock) -> AsyncIterator[Cluster]:
    async with Cluster(config(), clock, seed=1) as running:
        await create(running)
        yield running


async def produce(cluster: Cluster, **options: Any) -> asyncio.Task[Any]:
    """Send a record with acks=all to the leader, and wait until it is parked there."""
    leader = leader_of(cluster)
    connection = await client(leader)
    request = connection.request(ApiKey.PRODUCE, 9, produce_request(**options), timeout_ms=60_000)
    task = asyncio.create_task(request)
    await until(lambda: leader.produce_purgatory.num_delayed == 1)
    return task


def error_code(task: asyncio.Task[Any]) -> ErrorCode:
    (topic,) = task.result().responses
    (partition,) = topic.partition_responses
    return ErrorCode(partition.error_code)


async def test_a_produce_request_times_out_when_the_clock_says_so_and_nobody_is_fenced_meanwhile(
    cluster: Cluster, clock: ManualClock
) -> None:
    for follower in followers_of(cluster):
        follower.gate.hold()
    leader_epoch = leader_of(cluster).image.partition(*ORDERS).leader_epoch
    answer = await produce(cluster, timeout_ms=30_000)
    await clock.run_for(29_999)
    assert not answer.done()
    await clock.run_for(1)
    await until(answer.done)
    assert error_code(answer) is ErrorCode.REQUEST_TIMED_OUT
    image = leader_of(cluster).image
    assert image.partition(*ORDERS).leader_epoch == leader_epoch
    assert len(image.live_brokers) == 3


async def test_while_the_clock_stands_still_replication_goes_on_and_no_time_passes(
    cluster: Cluster, clock: ManualClock
) -> None:
    answer = await produce(cluster, timeout_ms=1)
    await until(answer.done)
    assert error_code(answer) is ErrorCode.NONE
    assert clock.now_ms() == 0


async def test_a_standstill_of_the_process_closes_no_client(cluster: Cluster, clock: ManualClock) -> None:
    """A client that has been idle for an hour of which the process ran a second."""
    connection = await client(leader_of(cluster))
    request = produce_request(timeout_ms=30_000)
    await connection.request(ApiKey.PRODUCE, 9, request, timeout_ms=60_000)
    clock.advance_ms(3_600_000)
    await connection.request(ApiKey.PRODUCE, 9, request, timeout_ms=60_000)


async def test_a_delayed_follower_waits_by_the_clock(cluster: Cluster, clock: ManualClock) -> None:
    for follower in followers_of(cluster):
        follower.gate.delay_ms = 5_000
    answer = await produce(cluster, timeout_ms=30_000)
    await clock.run_for(4_999)
    assert not answer.done()
    await clock.run_for(1)
    await until(answer.done)
    assert error_code(answer) is ErrorCode.NONE


async def test_a_killed_leader_is_fenced_after_its_session_timeout_and_another_leads(
    cluster: Cluster, clock: ManualClock
) -> None:
    leader = leader_of(cluster)
    await cluster.kill_broker(leader.broker_id)
    survivor = cluster.brokers[0]
    await clock.run_for(200)
    assert survivor.image.partition(*ORDERS).leader == leader.broker_id
    await clock.run_for(400)
    await until(lambda: survivor.image.partition(*ORDERS).leader not in (leader.broker_id, -1))
    assert survivor.image.brokers[leader.broker_id].fenced


async def test_a_process_that_stands_still_again_and_again_fences_no_broker(
    cluster: Cluster, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Two seconds pass without a turn of the event loop, ten times: SIGSTOP, a suspended laptop, a busy machine."""
    before = leader_of(cluster).image
    for _ in range(10):
        clock.advance_ms(2_000)
        await clock.run_for(50)
    await clock.run_for(1_000)
    after = leader_of(cluster).image
    assert after.partition(*ORDERS) == before.partition(*ORDERS)
    assert after.brokers == before.brokers
    assert all(broker.lifecycle.has_lease() for broker in cluster.brokers)
    assert "lease" not in caplog.text


async def test_a_cluster_whose_turns_are_slow_keeps_its_leaders_and_answers(
    cluster: Cluster, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """A busy machine: no turn takes less than 50 ms, as others run in between."""
    before, rng = leader_of(cluster).image, random.Random(1)
    answer = await produce(cluster, timeout_ms=30_000)
    for _ in range(500):
        clock.advance_ms(rng.randint(50, 300))
        await asyncio.sleep(0)
    assert error_code(answer) is ErrorCode.NONE
    after = leader_of(cluster).image
    assert after.partition(*ORDERS) == before.partition(*ORDERS)
    assert after.brokers == before.brokers
    assert "lease" not in caplog.text


async def test_followers_keep_their_connections_while_the_process_stands_still(
    cluster: Cluster, clock: ManualClock
) -> None:
    """The answers of leaders may wait unread: a follower counts only time in which the event loop ran."""
    await clock.run_for(5_000)
    peer_network = {broker.broker_id: list(broker.peer_network.connections) for broker in cluster.brokers}
    assert any(peer_network.values())
    clock.advance_ms(10 * 60_000)
    await clock.run_for(2_000)
    assert {broker.broker_id: list(broker.peer_network.connections) for broker in cluster.brokers} == peer_network
    assert not any(peer.closed for peers in peer_network.values() for peer in peers)


async def test_a_broker_that_dies_while_the_process_stands_still_is_fenced_when_it_goes_on(
    cluster: Cluster, clock: ManualClock
) -> None:
    leader = leader_of(cluster)
    await cluster.kill_broker(leader.broker_id)
    clock.advance_ms(2_000)
    survivor = cluster.brokers[0]
    await clock.run_for(500)
    await until(lambda: survivor.image.partition(*ORDERS).leader not in (leader.broker_id, -1))


async def test_a_day_may_pass_at_once_and_records_grow_old(clock: ManualClock) -> None:
    async with Cluster(config(log_retention_ms=3_600_000, log_roll_ms=3_600_000), clock, seed=1) as cluster:
        await create(cluster)
        answer = await produce(cluster)
        await until(answer.done)
        leader = leader_of(cluster)
        log = leader.replicas.partitions[ORDERS].log
        assert (log.log_start_offset, log.log_end_offset) == (0, 1)
        clock.advance_ms(DAY_MS)
        await clock.run_for(1)
        await until(lambda: log.log_start_offset == 1)
        assert leader_of(cluster) is leader
