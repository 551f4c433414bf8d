"""Configs that are changed while brokers run take effect at once: in existing topics, and for new connections."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from purgatorio.admin.cluster import Cluster
from purgatorio.broker.node.broker import Broker
from purgatorio.protocol.api import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from purgatorio.purgatory.clock import ManualClock
from tests.broker.cluster.test_cluster import (
    ORDERS,
    PATIENCE_MS,
    client,
    config,
    create,
    followers_of,
    leader_of,
    produce,
    produce_request,
    until,
)

ALL_BROKERS = ""
TOPIC, BROKER = 2, 4
SET, DELETE = 0, 1
RETENTION_CHECK_MS = 1_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def cluster(clock: ManualClock) -> AsyncIterator[Cluster]:
    async with Cluster(config(log_retention_check_interval_ms=RETENTION_CHECK_MS), clock, seed=1) as running:
        await create(running)
        yield running


async def alter(broker: Broker, resource: str, kind: int = BROKER, **configs: str | None) -> None:
    """Set configs (None: reset them), named with underscores; they are in effect at this broker when this returns."""
    changes = [
        AlterableConfig(name=name.replace("_", "."), config_operation=DELETE if value is None else SET, value=value)
        for name, value in configs.items()
    ]
    request = IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=kind, resource_name=resource, configs=changes)]
    )
    connection = await client(broker)
    response = await connection.request(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request, timeout_ms=PATIENCE_MS)
    connection.close()
    assert response.responses[0].error_code == ErrorCode.NONE, response.responses[0].error_message


async def test_a_default_of_all_brokers_takes_effect_in_existing_topics_and_ends_when_it_is_reset(
    cluster: Cluster,
) -> None:
    leader = leader_of(cluster)
    connection = await client(leader)
    await alter(leader, ALL_BROKERS, message_max_bytes="50")
    assert await produce(connection, produce_request()) == ErrorCode.MESSAGE_TOO_LARGE
    await alter(leader, ALL_BROKERS, message_max_bytes=None)
    assert await produce(connection, produce_request()) == ErrorCode.NONE
    connection.close()


async def test_a_brokers_own_value_takes_effect_at_this_broker_alone(cluster: Cluster) -> None:
    leader = leader_of(cluster)
    await alter(leader, ALL_BROKERS, log_retention_ms="5")
    await alter(leader, str(leader.broker_id), log_retention_ms="6")
    await until(lambda: all(broker.image == leader.image for broker in cluster.brokers))
    retention = {broker.broker_id: broker.replicas.partitions[ORDERS].log.config for broker in cluster.brokers}
    assert retention.pop(leader.broker_id).retention_ms == 6
    assert {config.retention_ms for config in retention.values()} == {5}


async def test_a_topics_own_config_wins_over_dynamic_defaults(cluster: Cluster) -> None:
    leader = leader_of(cluster)
    await alter(leader, "orders", TOPIC, retention_ms="7")
    await alter(leader, ALL_BROKERS, log_retention_ms="5")
    assert leader.replicas.partitions[ORDERS].log.config.retention_ms == 7


async def test_retention_deletes_by_a_changed_age_at_its_next_check(cluster: Cluster, clock: ManualClock) -> None:
    leader = leader_of(cluster)
    connection = await client(leader)
    await alter(leader, ALL_BROKERS, log_roll_ms="1", log_retention_ms="-1")
    for _ in range(3):
        assert await produce(connection, produce_request()) == ErrorCode.NONE
        await clock.run_for(10)
    log = leader.replicas.partitions[ORDERS].log
    await clock.run_for(RETENTION_CHECK_MS)
    assert log.log_start_offset == 0
    await alter(leader, ALL_BROKERS, log_retention_ms="100")
    await clock.run_for(RETENTION_CHECK_MS)
    assert log.log_start_offset > 0
    connection.close()


@pytest.mark.parametrize("killed", [True, False], ids=["followers are eligible", "followers have left"])
async def test_a_smaller_min_insync_replicas_of_all_brokers_commits_what_waits(
    cluster: Cluster, clock: ManualClock, killed: bool
) -> None:
    leader, followers = leader_of(cluster), followers_of(cluster)
    await alter(leader, ALL_BROKERS, min_insync_replicas="2")
    connection = await client(leader)
    assert await produce(connection, produce_request()) == ErrorCode.NONE
    for follower in followers:
        await (cluster.kill_broker if killed else cluster.stop_broker)(follower.broker_id)
    await clock.run_for(1_000)
    await until(lambda: leader.image.partition(*ORDERS).isr_ids == (leader.broker_id,))  # type: ignore[union-attr]
    assert bool(leader.image.partition(*ORDERS).elr) is killed  # type: ignore[union-attr]
    assert await produce(connection, produce_request()) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert await produce(connection, produce_request(acks=1)) == ErrorCode.NONE
    partition = leader.replicas.partitions[ORDERS]
    assert (partition.high_watermark, partition.log.log_end_offset) == (1, 2)
    await alter(leader, ALL_BROKERS, min_insync_replicas="1")
    assert partition.high_watermark == 2
    assert leader.image.partition(*ORDERS).elr == ()  # type: ignore[union-attr]
    assert await produce(connection, produce_request()) == ErrorCode.NONE
    connection.close()


async def test_a_broker_that_starts_again_has_the_dynamic_configs(cluster: Cluster) -> None:
    await alter(cluster.brokers[0], ALL_BROKERS, log_retention_ms="5", producer_id_expiration_ms="6")
    broker_id = followers_of(cluster)[0].broker_id
    await cluster.stop_broker(broker_id)
    await cluster.start_broker(broker_id)
    replicas = cluster.broker(broker_id).replicas
    await until(lambda: ORDERS in replicas.partitions)
    log = replicas.partitions[ORDERS].log
    assert (log.config.retention_ms, log.producers.expiration_ms) == (5, 6)


async def test_a_changed_limit_of_connections_holds_for_new_ones(cluster: Cluster) -> None:
    broker = cluster.brokers[0]
    first = await client(broker)
    await produce(first, produce_request())  # a client that has requested nothing would make room
    await alter(broker, str(broker.broker_id), max_connections="1")
    second = await client(broker)
    with pytest.raises(ConnectionError):
        await produce(second, produce_request())
    assert await produce(first, produce_request()) in (ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    first.close()
    second.close()


async def test_a_changed_assignment_interval_holds_for_share_groups_without_their_own(cluster: Cluster) -> None:
    broker = cluster.brokers[0]
    await alter(broker, "own", 32, share_assignment_interval_ms="7")
    await alter(broker, ALL_BROKERS, group_share_assignment_interval_ms="9")
    of = broker.coordinators.share_settings.of
    assert (of("any").assignment_interval_ms, of("own").assignment_interval_ms) == (9, 7)
