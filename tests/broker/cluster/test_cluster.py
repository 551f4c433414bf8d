"""Three brokers in one process, over real sockets: replication, waiting, stopping."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from purgatorio.admin.cluster import Cluster
from purgatorio.broker.causes.words import in_words
from purgatorio.broker.cluster.cluster import BrokerStateError
from purgatorio.broker.config import ClusterConfig
from purgatorio.broker.delays.recorder import TOPIC
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import PartitionState
from purgatorio.broker.node.broker import Broker
from purgatorio.broker.server.peer import PeerConnection
from purgatorio.broker.time.system_clock import SystemClock
from purgatorio.protocol.api import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from purgatorio.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from purgatorio.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from purgatorio.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch, iter_batches, iter_records
from tests.logs import capture_logs

ORDERS = TopicPartition("orders", 0)
PATIENCE_MS = 20_000


def config(**broker: Any) -> ClusterConfig:
    return ClusterConfig(port=0, admin_port=0, broker=broker)


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    """A cluster whose followers' long polls outlast every test, so that no test depends on tnext_leader end."""
    async with Cluster(config(replica_fetch_wait_max_ms=120_000)) as running:
        yield running


async def until(condition: Callable[[], bool]) -> None:
    """Run other tasks until the condition holds."""
    async with asyncio.timeout(PATIENCE_MS / 1000):
        while not condition():  # noqa: ASYNC110 - there is no event for what any test may wait for
            await asyncio.sleep(0)


async def client(broker: Broker) -> PeerConnection:
    connection = PeerConnection(SystemClock(), client_id="test")
    await connection.connect(*broker.address)
    return connection


async def create(cluster: Cluster, name: str = "orders", partitions: int = 1) -> None:
    connection = await client(cluster.brokers[0])
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=3)
    response = await connection.request(
        ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=[topic]), timeout_ms=PATIENCE_MS
    )
    assert response.topics[0].error_code == ErrorCode.NONE
    connection.close()
    await until(lambda: all(name in broker.image.topics for broker in cluster.brokers))


def leader_of(cluster: Cluster, tp: TopicPartition = ORDERS) -> Broker:
    state = cluster.brokers[0].image.partition(*tp)
    assert state is not None
    return next(broker for broker in cluster.brokers if broker.broker_id == state.leader)


def followers_of(cluster: Cluster) -> list[Broker]:
    leader = leader_of(cluster)
    return [broker for broker in cluster.brokers if broker is not leader]


def produce_request(value: bytes = b"value", *, acks: int = -1, timeout_ms: int = PATIENCE_MS) -> ProduceRequest:
    records = build_batch([Record(0, 1_700_000_000_000, None, value, ())])
    data = TopicProduceData(name="orders", partition_data=[PartitionProduceData(index=0, records=records)])
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[data])


async def produce(connection: PeerConnection, request: ProduceRequest) -> ErrorCode:
    response = await connection.request(ApiKey.PRODUCE, 9, request, timeout_ms=PATIENCE_MS)
    return ErrorCode(response.responses[0].partition_responses[0].error_code)


def log_bytes(broker: Broker) -> bytes:
    log = broker.replicas.partitions[ORDERS].log
    read = log.read(0, max_bytes=10_000_000, end_offset=log.log_end_offset)
    return b"".join(read.parts)


async def test_with_acks_all_every_replica_has_the_same_bytes(cluster: Cluster) -> None:
    await create(cluster)
    connection = await client(leader_of(cluster))
    for number in range(20):
        assert await produce(connection, produce_request(str(number).encode())) == ErrorCode.NONE
    first, *others = (log_bytes(broker) for broker in cluster.brokers)
    assert len(first) > 0
    assert others == [first, first]
    connection.close()


async def test_a_follower_fetches_a_new_topic_before_its_long_poll_ends(cluster: Cluster) -> None:
    await create(cluster, "earlier", partitions=3)
    await until(lambda: all(broker.fetch_purgatory.num_delayed == 2 for broker in cluster.brokers))
    await create(cluster)
    connection = await client(leader_of(cluster))
    assert await produce(connection, produce_request(timeout_ms=10_000)) == ErrorCode.NONE
    connection.close()


async def test_acks_all_waits_for_a_held_follower_and_is_answered_when_it_is_released(cluster: Cluster) -> None:
    await create(cluster)
    leader, (held, _) = leader_of(cluster), followers_of(cluster)
    connection = await client(leader)
    assert await produce(connection, produce_request()) == ErrorCode.NONE
    held.gate.hold()
    producing = asyncio.create_task(produce(connection, produce_request()))
    sentence = f"orders-0: broker {held.broker_id} is at 1 of 2"
    await until(lambda: [in_words(op.causes) for op in leader.produce_purgatory.operations()] == [sentence])
    assert not producing.done()
    held.gate.release()
    assert await producing == ErrorCode.NONE
    assert leader.produce_purgatory.num_delayed == 0
    connection.close()


async def test_a_produce_request_times_out_if_a_follower_does_not_fetch(cluster: Cluster) -> None:
    await create(cluster)
    leader = leader_of(cluster)
    for follower in followers_of(cluster):
        follower.gate.hold()
    connection = await client(leader)
    assert await produce(connection, produce_request(timeout_ms=50)) == ErrorCode.REQUEST_TIMED_OUT
    assert leader.finished.last(1)[0].outcome == "expired"
    connection.close()


async def test_stopping_answers_parked_requests_and_leaves_no_task_or_socket() -> None:
    before = asyncio.all_tasks()
    cluster = Cluster(config(replica_fetch_wait_max_ms=120_000))
    await cluster.start()
    await create(cluster)
    leader = leader_of(cluster)
    for follower in followers_of(cluster):
        follower.gate.hold()
    producer, consumer = await client(leader), await client(leader)
    producing = asyncio.create_task(produce(producer, produce_request()))
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    fetch = FetchRequest(max_wait_ms=120_000, min_bytes=1, topics=[FetchTopic(topic="orders", partitions=[partition])])
    polling = asyncio.create_task(consumer.request(ApiKey.FETCH, 12, fetch, timeout_ms=PATIENCE_MS))
    await until(lambda: leader.produce_purgatory.num_delayed == 1 and leader.fetch_purgatory.num_delayed >= 1)
    await cluster.stop()
    assert await producing == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (await polling).responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not any(purgatory.num_delayed for broker in cluster.brokers for purgatory in broker.purgatories)
    await until(lambda: asyncio.all_tasks() <= before)
    for _, host, port in cluster.addresses:
        socket.create_server((host, port)).close()


async def test_a_port_in_use_is_an_error_and_leaves_no_task_or_socket() -> None:
    before = asyncio.all_tasks()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        cluster = Cluster(ClusterConfig(brokers=1, port=port, admin_port=0))
        with capture_logs() as logs, pytest.raises(OSError, match="Address already in use"):
            await cluster.start()
    await until(lambda: asyncio.all_tasks() <= before)
    assert "broker stopped" not in [entry["event"] for entry in logs], "it had not started"


async def test_a_failed_broker_is_reported() -> None:
    cluster = Cluster(config())
    await cluster.start()
    watching = asyncio.create_task(cluster.failed())
    await asyncio.sleep(0)

    async def break_an_invariant() -> None:
        raise AssertionError("an invariant")

    cluster.brokers[1]._spawn(break_an_invariant(), "bug")
    with pytest.raises(ExceptionGroup):
        await watching
    with pytest.raises(ExceptionGroup):
        await cluster.stop()


def partition_state(cluster: Cluster) -> PartitionState:
    state = cluster.store.image.partition(*ORDERS)
    assert state is not None
    return state


async def produce_until_acknowledged(cluster: Cluster, value: bytes) -> None:
    """Find the leader, send, and retry, as a producer does."""
    async with asyncio.timeout(PATIENCE_MS / 1000):
        while True:
            leaders = [b for b in cluster.brokers if b.broker_id == partition_state(cluster).leader]
            for leader in leaders:
                connection = await client(leader)
                code = await produce(connection, produce_request(value))
                connection.close()
                if code == ErrorCode.NONE:
                    return
                assert code.retriable
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("how", ["stop_broker", "kill_broker"])
async def test_when_a_leader_ends_the_next_one_has_every_acknowledged_record(how: str) -> None:
    async with Cluster(config(min_insync_replicas=2)) as cluster:
        await create(cluster)
        for number in range(5):
            await produce_until_acknowledged(cluster, str(number).encode())
        gone = leader_of(cluster)
        await getattr(cluster, how)(gone.broker_id)
        await produce_until_acknowledged(cluster, b"after")
        state = partition_state(cluster)
        assert state.leader != gone.broker_id
        assert gone.broker_id not in state.isr_ids
        assert log_bytes(leader_of(cluster)).count(b"after") == 1
        assert leader_of(cluster).replicas.partitions[ORDERS].high_watermark == 6


async def test_a_restarted_broker_starts_empty_catches_up_and_leads_again() -> None:
    async with Cluster(config(leader_imbalance_check_interval_ms=10)) as cluster:
        await create(cluster)
        await produce_until_acknowledged(cluster, b"before")
        gone = leader_of(cluster)
        await cluster.stop_broker(gone.broker_id)
        await produce_until_acknowledged(cluster, b"while it was away")
        await cluster.start_broker(gone.broker_id)
        again = cluster.broker(gone.broker_id)
        assert again.address == gone.address
        await until(lambda: partition_state(cluster).leader == gone.broker_id)
        await until(lambda: again.replicas.partitions[ORDERS].is_leader)
        assert sorted(partition_state(cluster).isr_ids) == [1, 2, 3]
        assert log_bytes(again).count(b"before") == log_bytes(again).count(b"while it was away") == 1


async def test_with_two_of_three_brokers_stopped_acks_all_is_refused_until_one_is_back() -> None:
    async with Cluster(config(min_insync_replicas=2)) as cluster:
        await create(cluster)
        leader, others = leader_of(cluster), followers_of(cluster)
        connection = await client(leader)
        for other in others:
            await cluster.stop_broker(other.broker_id)
        await until(lambda: leader.replicas.partitions[ORDERS].isr == (leader.broker_id,))
        assert await produce(connection, produce_request()) == ErrorCode.NOT_ENOUGH_REPLICAS
        await cluster.start_broker(others[0].broker_id)
        await until(lambda: len(leader.replicas.partitions[ORDERS].isr) == 2)
        assert await produce(connection, produce_request()) == ErrorCode.NONE
        connection.close()


async def test_an_isr_that_shrinks_after_the_append_is_answered_with_an_error() -> None:
    async with Cluster(config(min_insync_replicas=2)) as cluster:
        await create(cluster)
        leader, others = leader_of(cluster), followers_of(cluster)
        connection = await client(leader)
        for other in others:
            other.gate.hold()
        # Fetches that are parked already still replicate the record, but do not acknowledge it.
        producing = asyncio.create_task(produce(connection, produce_request()))
        await until(lambda: leader.produce_purgatory.num_delayed == 1)
        for other in others:
            await cluster.kill_broker(other.broker_id)
        assert await producing == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        connection.close()


async def test_a_partition_that_lost_every_replica_is_offline_until_an_unclean_election() -> None:
    async with Cluster(config()) as cluster:
        await create(cluster)
        await produce_until_acknowledged(cluster, b"lost")
        for broker_id in (1, 2, 3):
            await cluster.kill_broker(broker_id)
        for broker_id in (1, 2, 3):
            await cluster.start_broker(broker_id)
        assert partition_state(cluster).leader == -1
        connection = await client(cluster.brokers[0])
        request = ElectLeadersRequest(
            election_type=1, topic_partitions=[TopicPartitions(topic="orders", partitions=[0])], timeout_ms=10_000
        )
        response = await connection.request(ApiKey.ELECT_LEADERS, 2, request, timeout_ms=PATIENCE_MS)
        assert response.replica_election_results[0].partition_result[0].error_code == ErrorCode.NONE
        connection.close()
        await produce_until_acknowledged(cluster, b"found")
        assert b"lost" not in log_bytes(leader_of(cluster))


async def test_a_broker_can_be_stopped_once_and_started_once() -> None:
    async with Cluster(config()) as cluster:
        await cluster.stop_broker(2)
        with pytest.raises(BrokerStateError, match="broker 2 is not running"):
            await cluster.kill_broker(2)
        with pytest.raises(BrokerStateError, match="there is no broker 9, only 1, 2, 3"):
            await cluster.start_broker(9)
        await cluster.start_broker(2)
        with pytest.raises(BrokerStateError, match="broker 2 is running already"):
            await cluster.start_broker(2)


async def test_a_killed_broker_leaves_no_task_or_socket() -> None:
    before = asyncio.all_tasks()
    cluster = Cluster(config())
    await cluster.start()
    await create(cluster)
    for broker_id in (1, 2, 3):
        await cluster.kill_broker(broker_id)
    await cluster.stop()
    await until(lambda: asyncio.all_tasks() <= before)


async def test_the_broker_on_which_delayed_operations_waited_records_them() -> None:
    async with Cluster(ClusterConfig(port=0, admin_port=0, record_delays=True)) as cluster:
        await until(lambda: all(TOPIC in broker.image.topics for broker in cluster.brokers))
        await create(cluster)
        leader = leader_of(cluster)
        connection = await client(leader)
        for _ in range(3):
            assert await produce(connection, produce_request()) == ErrorCode.NONE
        events: list[dict[str, Any]] = []
        while len([event for event in events if event["purgatory"] == "Produce"]) < 3:
            events = await recorded_by(cluster, leader)
        connection.close()
    produced = [event for event in events if event["purgatory"] == "Produce"]
    assert {event["broker"] for event in events} == {leader.broker_id}
    assert [event["id"] for event in produced] == [1, 2, 3]
    assert {event["client"] for event in produced} == {"test"}
    assert all(len(event["held_by"]) == 1 and event["cause"] == "high watermark" for event in produced)


async def test_a_stopping_broker_records_the_remaining_operations_first() -> None:
    async with Cluster(ClusterConfig(port=0, admin_port=0, record_delays=True)) as cluster:
        await until(lambda: all(TOPIC in broker.image.topics for broker in cluster.brokers))
        await create(cluster)
        leader = leader_of(cluster)
        (mine,) = (
            nth for nth, state in enumerate(leader.image.topics[TOPIC].partitions) if state.leader == leader.broker_id
        )
        connection = await client(leader)
        for _ in range(3):
            assert await produce(connection, produce_request()) == ErrorCode.NONE
        await cluster.stop_broker(leader.broker_id)
        connection.close()
        next_leader = cluster.brokers[0].image.topics[TOPIC].partitions[mine].leader
        log = cluster.broker(next_leader).replicas.partitions[TopicPartition(TOPIC, mine)].log
        data = b"".join(log.read(0, max_bytes=10_000_000, end_offset=log.log_end_offset).parts)
    events = [json.loads(record.value or b"") for _, batch in iter_batches(data) for record in iter_records(batch)]
    produced = [event["id"] for event in events if event["purgatory"] == "Produce"]
    assert produced == [1, 2, 3]


async def test_a_failure_to_record_delayed_operations_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("purgatorio.broker.delays.recorder.TOPIC_CONFIGS", {"retention.bytes": "many"})
    with capture_logs() as logged:
        async with Cluster(ClusterConfig(port=0, admin_port=0, record_delays=True)):
            await until(lambda: any(entry["log_level"] == "error" for entry in logged))
    (entry,) = (entry for entry in logged if entry["log_level"] == "error")
    assert entry["event"] == "delayed operations are not recorded"
    assert "retention.bytes" in entry["why"]


async def recorded_by(cluster: Cluster, broker: Broker) -> list[dict[str, Any]]:
    """Return the delayed operations that a broker has recorded so far."""
    topic = broker.image.topics[TOPIC]
    await asyncio.sleep(0)
    (mine,) = (nth for nth, state in enumerate(topic.partitions) if state.leader == broker.broker_id)
    log = broker.replicas.partitions[TopicPartition(TOPIC, mine)].log
    data = b"".join(log.read(0, max_bytes=10_000_000, end_offset=log.log_end_offset).parts)
    return [json.loads(record.value or b"") for _, batch in iter_batches(data) for record in iter_records(batch)]


async def test_no_client_can_pose_as_a_follower_by_guessing_a_small_broker_epoch(cluster: Cluster) -> None:
    """Otherwise acks=all would be answered for a record that no replica has."""
    await create(cluster)
    leader = leader_of(cluster)
    connection = await client(leader)
    follower_id = followers_of(cluster)[0].broker_id
    for epoch in range(12):
        request = FetchRequest(replica_state=ReplicaState(replica_id=follower_id, replica_epoch=epoch))
        answer = await connection.request(ApiKey.FETCH, 15, request, timeout_ms=PATIENCE_MS)
        assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH
    connection.close()
