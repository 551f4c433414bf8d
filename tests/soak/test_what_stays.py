"""What a cluster keeps of topics, groups, transactional ids and clients that are gone, when all retention is over."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from purgatorio.testing.simulate import World, simulate
from tests.soak.census import Census, take_census

RETENTION_SECONDS = 60
SETTINGS = {
    "transactional_id_expiration_ms": RETENTION_SECONDS * 1_000,
    "transaction_remove_expired_transaction_cleanup_interval_ms": 10_000,
    "producer_id_expiration_ms": RETENTION_SECONDS * 1_000,
    "log_retention_check_interval_ms": 10_000,
    "offsets_retention_minutes": RETENTION_SECONDS // 60,
    "offsets_retention_check_interval_ms": 10_000,
    "replica_fetch_wait_max_ms": 5_000,
    "replica_socket_timeout_ms": 9_000,
}
"""By default a transactional id is kept seven days, and so are committed offsets, unless their topic is deleted; a
producer id is kept one day."""
ROUNDS = 15
BLOCKS = "purgatorio.broker.log.segment.Segment._blocks"
STAYS = {
    BLOCKS: "records of topics that stay; of internal ones until their segment is full and compacted, tombstones too",
    "purgatorio.broker.log.arena.Block": "those",
    "purgatorio.broker.log.arena.Block._memory": "those",
    "purgatorio.broker.metrics.counters.BrokerMetrics._topics": "the next scrape drops them; at most MAX_TOPICS",
    "purgatorio.broker.metrics.counters.TopicStats": "those",
    "purgatorio.broker.txn.transaction.TransactionKey": "keys in the rings of finished operations",
    "purgatorio.broker.group.classic.rebalances.SyncKey": "likewise",
    "purgatorio.broker.group.delayed_heartbeat.MemberKey": "likewise",
    "purgatorio.broker.group.classic.rebalances.JoinKey": "likewise",
    "purgatorio.purgatory.delayed_operation.Ticket": "empty ones in watch lists, until the next purge",
    "purgatorio.broker.config.descriptions.SettingValue": "each broker describes its settings once",
    "purgatorio.purgatory.reaper.Reaper._listened_ms": "one for each timer",
}
"""What grows, and why that is no leak; `tests.soak.census.BOUNDED` has more."""
KEPT = "long-lived"
"""A topic that all producers write to: it outlives them, and has to forget them."""
OF_THE_WORLD = ("purgatorio.simulation.", "purgatorio.testing.")


async def live(bootstrap: str, number: int) -> None:
    """Create a topic, write to it in transactions, read it in a group, and delete it; each under a name of its own."""
    topic = f"short-lived-{number}"
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap, transactional_id=f"writer-{number}", transaction_timeout_ms=5_000
    )
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        client_id=f"reader-{number}",
        group_id=f"readers-{number}",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    await admin.start()
    await admin.create_topics([NewTopic(topic, 2, 3)])
    async with producer, consumer:
        async with producer.transaction():
            for partition in (0, 1):
                await producer.send_and_wait(topic, b"x", partition=partition)
            await producer.send_and_wait(KEPT, b"x")
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"never", partition=0)
        await producer.abort_transaction()
        count = 0
        while count < 2:
            count += sum(map(len, (await consumer.getmany(timeout_ms=500)).values()))
        await consumer.commit()
    await admin.delete_topics([topic])
    await admin.close()


async def live_many(bootstrap: str, numbers: range, done: asyncio.Event) -> None:
    for number in numbers:
        await live(bootstrap, number)
    done.set()


async def churn(world: World, numbers: range) -> tuple[Census, Census]:
    """Let so many clients, topics, groups and ids come and go; count what is left soon, and after all retention."""
    done = asyncio.Event()
    world.service(f"churn-{numbers.start}", live_many, world.bootstrap, numbers, done)
    await done.wait()
    await asyncio.sleep(5)
    soon = take_census()
    await asyncio.sleep(4 * RETENTION_SECONDS)
    return soon, take_census()


def growth(after: Census, before: Census) -> dict[str, str]:
    return {name: text for name, text in after.growth(before).items() if not name.startswith(OF_THE_WORLD)}


@pytest.mark.simulation
@pytest.mark.timeout(300)
def test_what_stays_of_clients_topics_groups_and_ids_that_are_gone_is_known_by_name() -> None:
    found: dict[str, Any] = {}

    async def scenario(world: World) -> None:
        _, before = await churn(world, range(3))
        soon, after = await churn(world, range(100, 100 + ROUNDS))
        found.update(soon=growth(soon, before), after=growth(after, before))
        found["logs"] = {
            tp.topic
            for broker in world._cluster.brokers.values()
            for tp, partition in broker.replicas.partitions.items()
            if partition.log.log_end_offset
        }

    outcome = simulate(scenario, seed=1, faults=(), limit_seconds=200, settings=SETTINGS, topics={KEPT: 1})
    assert outcome.passed, outcome.failures
    assert {name: text for name, text in found["after"].items() if name not in STAYS} == {}
    assert BLOCKS in found["after"]
    assert found["logs"] == {"__consumer_offsets", "__transaction_state", KEPT}
    held = [name for name in found["soon"] if name not in STAYS]
    assert any(".txn." in name for name in held), "transactional ids stay for their retention"
