"""How an operator's changes reach the coordinators of this process, and are waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from purgatorio.broker.cluster.cluster import BrokerCluster
from purgatorio.broker.cluster.errors import AwaitsElection, ClusterUnavailable, Elsewhere, MayBeDone
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.coordinator.shard import Shard
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import NO_LEADER, ClusterImage
from purgatorio.broker.node.broker import Broker
from purgatorio.broker.replica.partition import Partition, PartitionError
from purgatorio.protocol.coordinator_partition import coordinator_partition
from purgatorio.purgatory.clock import Clock, time_limit

S = TypeVar("S", bound=Shard)
T = TypeVar("T")


def led_shards(
    brokers: Iterable[Broker], image: ClusterImage, shards_of: Callable[[Broker], Iterable[S]]
) -> Iterator[tuple[Broker, S]]:
    """Yield the shards with their coordinators; loading ones too, but not those of former coordinators."""
    for broker in brokers:
        for shard in shards_of(broker):
            state = image.partition(*shard.tp)
            if state is not None and state.leader == broker.broker_id:
                yield broker, shard


def coordinator_of(
    cluster: BrokerCluster, image: ClusterImage, topic: str, what: str, name: str, shard_of: Callable[[Broker], S]
) -> tuple[Broker, S] | None:
    """Return the coordinator of a group or transactional id, and its shard that keeps it; None if there is no topic.

    Args:
        topic: the topic in which coordinators keep such.
        what: of which kind it is, for messages.

    Raises:
        AwaitsElection: the coordinator does not run, or loads what it keeps.
        ClusterUnavailable: there is none.
    """
    known = image.topics.get(topic)
    if known is None:
        return None
    tp = TopicPartition(topic, coordinator_partition(name, len(known.partitions)))
    broker = running_leader(cluster, image, tp, f"{tp}, which keeps {what} {name},")
    try:
        return broker, shard_of(broker)
    except CoordinatorError as error:
        raise AwaitsElection(f"broker {broker.broker_id}, the coordinator of {name}: {error}") from error


def led(cluster: BrokerCluster, image: ClusterImage, tp: TopicPartition) -> tuple[Broker, Partition]:
    """Return the leader of a partition, and its replica.

    Raises:
        AwaitsElection: its leader does not run, or does not lead yet.
        ClusterUnavailable: there is none here.
    """
    broker = running_leader(cluster, image, tp, str(tp))
    try:
        replica = broker.replicas.lookup.find(tp)
        replica.check_leader(-1)
    except PartitionError as error:
        raise AwaitsElection(f"{tp}: {error}") from error
    return broker, replica


def running_leader(cluster: BrokerCluster, image: ClusterImage, tp: TopicPartition, what: str) -> Broker:
    """Return the broker that leads a partition.

    Args:
        what: names the partition in messages.

    Raises:
        AwaitsElection: its leader is a broker of this process, and does not run.
        Elsewhere: its leader is a broker of another process.
        ClusterUnavailable: it has no leader.
    """
    state = image.partition(*tp)
    leader = NO_LEADER if state is None else state.leader
    for broker in cluster.brokers:
        if broker.broker_id == leader:
            return broker
    if leader == NO_LEADER:
        raise ClusterUnavailable(f"{what} has no leader now")
    refusal = AwaitsElection if leader in cluster.broker_ids else Elsewhere
    raise refusal(f"broker {leader}, the leader of {what} does not run")


async def answer_of(change: Callable[[Callable[[T], None]], None], clock: Clock, time_limit_ms: int, what: str) -> T:
    """Make a change, and return what it calls back with; it may do so more than once, or not in time.

    Args:
        what: names the coordinator in a message.

    Raises:
        MayBeDone: it did not call back in time.
    """
    answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def answered(result: T) -> None:
        if not answer.done():
            answer.set_result(result)

    change(answered)
    try:
        async with time_limit(clock, time_limit_ms):
            return await answer
    except TimeoutError:
        raise MayBeDone(f"{what} does not answer; it may still do it") from None
