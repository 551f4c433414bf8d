"""Topics and records without a client: creates topics, appends to their leaders, and waits until all is committed."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Final

from purgatorio.admin.operations.control import coordinators
from purgatorio.admin.operations.control.transaction_control import TransactionControl
from purgatorio.admin.operations.declare import Answer
from purgatorio.admin.operations.reading.records import IsolationLevel
from purgatorio.admin.operations.record_json import JsonRecord, partition_of
from purgatorio.broker.causes.words import and_more
from purgatorio.broker.cluster.cluster import BrokerCluster
from purgatorio.broker.cluster.decisions import decided, newest, until
from purgatorio.broker.cluster.errors import ClusterUnavailable, Invalid, NotThere
from purgatorio.broker.config.by_room import topic_settings
from purgatorio.broker.layers.faults.names import nearest
from purgatorio.broker.log.config import TOPIC_CONFIGS
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.controller import NewTopic, create_topics
from purgatorio.broker.metadata.image import NO_LEADER
from purgatorio.broker.node.broker import Broker
from purgatorio.broker.replica.partition import Partition
from purgatorio.broker.replica.producing.writes import AppendResult
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch

MAX_NAMED: Final = 10
"""Topics that are named when one is missing."""
PRODUCE_TIMEOUT_MS: Final = 10_000
COMMIT_PATIENCE_MS: Final = 100
"""The longest wait for followers that have yet to fetch what was acknowledged; a fetch takes them some milliseconds."""
ELECTION_PATIENCE_MS: Final = 1_000
"""The longest wait for followers of a new leader, which have to hear of it first; it learns from their fetches what is
committed of the records that it has from its predecessor."""
MARKER_PATIENCE_MS: Final = 1_000
"""The longest wait for the end markers of transactions, which the coordinator sends to the partitions' leaders."""


async def create(
    cluster: BrokerCluster,
    name: str,
    partitions: int,
    replicas: int,
    configs: Mapping[str, str],
    rng: random.Random,
) -> None:
    """Create a topic; return when each partition has a leader that runs, and that all running brokers know.

    Args:
        partitions: how many; -1: the default of the brokers.
        replicas: of each partition; -1: the default of the brokers.

    Raises:
        Invalid: the brokers refuse it.
        ClusterUnavailable: no broker runs, or brokers did not hear of it in time.
    """
    for config in configs:
        if config not in TOPIC_CONFIGS:
            hint = nearest(config, (*TOPIC_CONFIGS, "partitions", "replicas"))
            raise Invalid(f"topic {name!r} was not created: there is no topic config {config!r}{hint}")
    broker = newest(cluster.network)
    new, settings = NewTopic(name, partitions, replicas, configs=dict(configs)), topic_settings(broker.config)
    (result,) = await decided(
        broker.store,
        lambda image: create_topics(image, [new], settings=settings, rng=rng),
        f"topic {name!r} was not created",
    )
    if result.error:
        raise Invalid(f"topic {name!r} was not created: {result.message or result.error.name}")
    await until(lambda: _is_led(cluster, name), f"all brokers know the leaders of topic {name!r}")


def read_topic(cluster: BrokerCluster, name: str) -> Answer:
    """Return how many partitions a topic has (0: there is none), and what all brokers of this process know of it.

    It is `led` if its leaders run and have taken their roles, and so have all replicas; `in_sync`, if all replicas are.
    """
    topics = [each.image.topics.get(name) for each in cluster.network.brokers]
    states = [state for topic in topics if topic is not None for state in topic.partitions]
    is_current = all(topics) and all(each.replicas.is_current for each in cluster.network.brokers)
    return {
        "topic": name,
        "partition_count": max((len(topic.partitions) for topic in topics if topic is not None), default=0),
        "led": _is_led(cluster, name),
        "in_sync": is_current and all(len(each.isr) == len(each.replicas) for each in states),
    }


def _is_led(cluster: BrokerCluster, name: str) -> bool:
    dead = frozenset(cluster.broker_ids) - {each.broker_id for each in cluster.brokers}
    return all(_knows_leaders(each, name, dead) for each in cluster.network.brokers)


def partition_count(cluster: BrokerCluster, topic: str) -> int:
    """Return how many partitions a topic has.

    Raises:
        NotThere: there is no such topic.
        ClusterUnavailable: no broker runs.
    """
    known = newest(cluster.network).image.topics
    if topic not in known:
        names = ", ".join(sorted(known)[:MAX_NAMED]) + and_more(max(0, len(known) - MAX_NAMED))
        only = nearest(topic, known) or (f", only {names}" if known else ": the cluster has no topics")
        raise NotThere(f"there is no topic {topic!r}{only}")
    return len(known[topic].partitions)


def leader(cluster: BrokerCluster, topic: str, partition: int) -> Broker:
    """Return the broker that leads a partition.

    Raises:
        NotThere: there is no such topic or partition.
        AwaitsElection: its leader does not run, or does not lead yet.
        ClusterUnavailable: the partition has no leader.
    """
    return leading(cluster, topic, partition)[0]


def led(cluster: BrokerCluster, topic: str, partition: int) -> Partition:
    """Return the leader's replica of a partition; raises as `leader`."""
    return leading(cluster, topic, partition)[1]


def leading(cluster: BrokerCluster, topic: str, partition: int) -> tuple[Broker, Partition]:
    """Return the leader of a partition, and its replica; raises as `leader`."""
    if not 0 <= partition < partition_count(cluster, topic):
        raise NotThere(f"topic {topic!r} has no partition {partition}")
    return coordinators.led(cluster, newest(cluster.network).image, TopicPartition(topic, partition))


def batches_of(
    topic: str, records: Sequence[JsonRecord], count: int, at_ms: int
) -> tuple[list[tuple[TopicPartition, bytes]], list[tuple[int, int]]]:
    """Return a batch for each partition that gets some of the records; and of each record its partition and place.

    Args:
        count: the partitions of the topic.
        at_ms: the timestamp of records that have none.
    """
    by_partition: dict[int, list[Record]] = {}
    places = []
    without_key = 0
    for each in records:
        index = each.partition
        if index is None:
            index = partition_of(each.key, count, without_key)
            without_key += each.key is None
        found = by_partition.setdefault(index, [])
        timestamp_ms = at_ms if each.timestamp_ms is None else each.timestamp_ms
        places.append((index, len(found)))
        found.append(Record(len(found), timestamp_ms, each.key, each.value, each.headers))
    batches = [(TopicPartition(topic, index), build_batch(found)) for index, found in by_partition.items()]
    return batches, places


async def append(
    cluster: BrokerCluster, batches: Sequence[tuple[TopicPartition, bytes]], client: str
) -> list[AppendResult]:
    """Append a batch to each of some partitions with acks=all; return the results in their order.

    Args:
        client: whose the requests are that wait for followers meanwhile.

    Raises:
        NotThere: there is no such topic or partition.
        AwaitsElection, ClusterUnavailable: as `leader`.
    """
    loop = asyncio.get_running_loop()
    waits = []
    for (tp, batch), broker in [(each, leader(cluster, *each[0])) for each in batches]:
        answer: asyncio.Future[AppendResult] = loop.create_future()
        waits.append(answer)

        def done(results: Sequence[AppendResult], answer: asyncio.Future[AppendResult] = answer) -> None:
            if not answer.done():
                answer.set_result(results[0])

        broker.replicas.append([(tp, batch)], acks=-1, timeout_ms=PRODUCE_TIMEOUT_MS, done=done, client=client)
    return [await each for each in waits]


async def until_committed(
    cluster: BrokerCluster, topic: str, partitions: Iterable[int], isolation_level: IsolationLevel
) -> None:
    """Wait until what clients were acknowledged can be read.

    Records that were acknowledged before followers have them (acks=1) are committed a moment later, and so are
    transactions whose end was acknowledged before its markers are written; and a new leader learns a moment after its
    election what is committed. It waits so long, unless a follower is held, and at most `COMMIT_PATIENCE_MS`,
    `MARKER_PATIENCE_MS` and `ELECTION_PATIENCE_MS`.

    Raises:
        NotThere: there is no such topic or partition.
        AwaitsElection, ClusterUnavailable: as `leader`.
    """
    wanted = tuple(partitions)
    for index in wanted:
        led(cluster, topic, index)
    if any(broker.gate.held for broker in cluster.brokers):
        return
    if isolation_level == "read_committed":
        with contextlib.suppress(ClusterUnavailable):
            await until(lambda: not _ends_transactions(cluster), "transactions have their markers", MARKER_PATIENCE_MS)
    await until_replicated(lambda: (led(cluster, topic, index) for index in wanted))


async def until_replicated(replicas: Callable[[], Iterable[Partition]]) -> None:
    """Wait until all that leaders have is committed, at most `COMMIT_PATIENCE_MS`.

    Records that a new leader has from its predecessor may be acknowledged: for them, wait up to `ELECTION_PATIENCE_MS`.

    Args:
        replicas: returns those of the leaders by now.
    """

    def is_known() -> bool:
        return all(each.high_watermark >= each.leader_epoch_start_offset for each in replicas())

    def is_committed() -> bool:
        return all(each.high_watermark >= each.log.log_end_offset for each in replicas())

    with contextlib.suppress(ClusterUnavailable):
        await until(is_known, "new leaders know what is committed", ELECTION_PATIENCE_MS)
    with contextlib.suppress(ClusterUnavailable):
        await until(is_committed, "all records are committed", COMMIT_PATIENCE_MS)


def _ends_transactions(cluster: BrokerCluster) -> bool:
    """Return whether a transaction is committed or aborted, but lacks an end marker in some partition.

    The client gets its answer before the markers are written.
    """
    control = TransactionControl(cluster, lambda: newest(cluster.network).image)
    return any(each.value.is_decided for _, shard in control.shards() for each in shard.transactions.values())


def _knows_leaders(broker: Broker, name: str, dead: Container[int]) -> bool:
    """Return whether a broker knows the leaders of a topic, which live, and has the replicas that it shall have."""
    topic = broker.image.topics.get(name)
    return (
        topic is not None
        and all(state.leader != NO_LEADER and state.leader not in dead for state in topic.partitions)
        and broker.replicas.is_current
    )
