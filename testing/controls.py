"""What a test does to its cluster, in the cluster's own event loop; `Kafka` does it from any thread."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from purgatorio.broker.broker import Broker
from purgatorio.broker.cluster import Cluster
from purgatorio.broker.config.topics import topic_settings
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.controller import NewTopic, TopicResult, create_topics
from purgatorio.broker.metadata.image import NO_LEADER, ClusterImage
from purgatorio.broker.purgatory import ParkedOperation
from purgatorio.broker.replica.results import AppendResult
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.records import Record as WireRecord
from purgatorio.protocol.records import build_batch, iter_batches, iter_records

POLL_SECONDS: Final = 0.001
"""The time between two looks at a condition that no event of the broker announces."""
PRODUCE_TIMEOUT_MS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Parked:
    """A request, or another operation, that waits in a broker's purgatory.

    Attributes:
        broker: the id of the broker.
        id: the operation's number, unique in this cluster while it waits.
        purgatory: Kafka's name of the purgatory: "Produce", "Fetch", "Rebalance" …
        client: the client id; empty if no client waits for it.
        keys: what it watches, as the page shows it.
        missing: a sentence: what it waits for.
        waited_ms: how long it has waited, on the broker's clock.
        left_ms: how long until its deadline.
    """

    broker: int
    id: int
    purgatory: str
    client: str
    keys: tuple[str, ...]
    missing: str
    waited_ms: int
    left_ms: int


@dataclass(frozen=True, slots=True)
class Record:
    """A record in a log.

    Attributes:
        topic, partition, offset: where it is.
        key, value, headers: its content.
        timestamp_ms: its timestamp.
    """

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int


class Controls:
    """Controls of a running cluster. All methods run in its event loop.

    Args:
        cluster: the cluster.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._rng = random.Random()

    # --- topics and records ---

    async def topic(self, name: str, partitions: int, replicas: int, configs: Mapping[str, str]) -> None:
        """Create a topic; return when each partition has a leader that all running brokers know.

        Raises:
            ValueError: the broker refuses it; the message is the broker's.
        """
        broker = self._any_broker()
        new = NewTopic(name, partitions, replicas, configs=dict(configs))
        settings = topic_settings(broker.config)
        answer: asyncio.Future[tuple[TopicResult, ...]] = asyncio.get_running_loop().create_future()
        broker.store.submit(
            lambda image: create_topics(image, [new], settings=settings, rng=self._rng),
            answer.set_result,
            answer.set_exception,
        )
        (result,) = await answer
        if result.error:
            raise ValueError(f"topic {name!r} was not created: {result.message or result.error.name}")
        await self.until(lambda: all(_has_leaders(each.image, name) for each in self.cluster.brokers))

    async def produce(self, topic: str, records: Iterable[WireRecord], partition: int) -> int:
        """Append records to a partition with acks=all; return the offset of the first.

        Raises:
            ValueError: the partition does not exist, or the broker refuses the records.
            TimeoutError: the in-sync replicas do not have them in time.
        """
        leader = self.leader(topic, partition)
        tp = TopicPartition(topic, partition)
        answer: asyncio.Future[AppendResult] = asyncio.get_running_loop().create_future()
        leader.replicas.append(
            [(tp, build_batch(records))],
            acks=-1,
            timeout_ms=PRODUCE_TIMEOUT_MS,
            done=lambda results: None if answer.done() else answer.set_result(results[0]),
            client="purgatorio.testing",
        )
        result = await answer
        if result.error_code == ErrorCode.REQUEST_TIMED_OUT:
            raise TimeoutError(f"{tp}: the in-sync replicas do not have the records; see parked()")
        if result.error_code:
            raise ValueError(f"{tp}: {result.error_message or result.error_code.name}")
        return result.base_offset

    def records(self, topic: str, partition: int | None) -> list[Record]:
        """Return the committed records of a topic, by partition and offset.

        Raises:
            ValueError: the topic or partition does not exist, or has no leader now.
        """
        count = self._partition_count(topic)
        found: list[Record] = []
        for index in range(count) if partition is None else (partition,):
            replica = self.leader(topic, index).replica(TopicPartition(topic, index))
            assert replica is not None, "a leader has a replica"
            log = replica.log
            read = log.read(log.log_start_offset, max_bytes=1 << 62, end_offset=replica.high_watermark)
            for header, batch in iter_batches(b"".join(read.parts)):
                if header.is_control:
                    continue
                found.extend(
                    Record(topic, index, each.offset, each.key, each.value, tuple(each.headers), each.timestamp_ms)
                    for each in iter_records(batch)
                )
        return found

    # --- what waits ---

    def parked(self, api: str | None = None, topic: str | None = None, client: str | None = None) -> list[Parked]:
        """Return what waits in the brokers' purgatories, oldest first in each; heartbeats only if asked for."""
        found = []
        for broker in self.cluster.brokers:
            for purgatory in broker.purgatories:
                if purgatory.name != api and (api is not None or purgatory.name in ("Heartbeat", "TransactionTimeout")):
                    continue
                now_ms = purgatory.now_ms()
                found += [_shown(broker, each, now_ms) for each in purgatory.operations(limit=1_000)]
        return [
            each
            for each in found
            if (client is None or each.client == client)
            and (topic is None or any(key == topic or key.startswith(f"{topic}-") for key in each.keys))
        ]

    async def until(self, holds: Callable[[], object]) -> None:
        """Wait until a condition holds."""
        while not holds():  # noqa: ASYNC110 - no one event tells that any condition holds
            await asyncio.sleep(POLL_SECONDS)

    # --- brokers ---

    def hold_follower(self, broker_id: int) -> None:
        """Have a broker send no fetch to leaders: nothing that it follows is acknowledged by it."""
        self.cluster.broker(broker_id).gate.hold()

    def release(self, broker_id: int | None) -> None:
        """Let a held follower, or all of them, fetch again."""
        for broker in self.cluster.brokers if broker_id is None else [self.cluster.broker(broker_id)]:
            broker.gate.release()

    def leader(self, topic: str, partition: int) -> Broker:
        """Return the broker that leads a partition.

        Raises:
            ValueError: the topic or partition does not exist, or has no leader now.
        """
        if not 0 <= partition < self._partition_count(topic):
            raise ValueError(f"topic {topic!r} has no partition {partition}")
        state = self._any_broker().image.partition(topic, partition)
        for broker in self.cluster.brokers:
            if state is not None and broker.broker_id == state.leader:
                return broker
        raise ValueError(f"{topic}-{partition} has no leader now")

    def _any_broker(self) -> Broker:
        if not self.cluster.brokers:
            raise ValueError("no broker is running")
        return max(self.cluster.brokers, key=lambda each: each.image.version)

    def _partition_count(self, topic: str) -> int:
        known = self._any_broker().image.topics
        if topic not in known:
            raise ValueError(f"there is no topic {topic!r}, only {', '.join(sorted(known)) or 'none'}")
        return len(known[topic].partitions)


def _has_leaders(image: ClusterImage, name: str) -> bool:
    topic = image.topics.get(name)
    return topic is not None and all(state.leader != NO_LEADER for state in topic.partitions)


def _shown(broker: Broker, operation: ParkedOperation, now_ms: int) -> Parked:
    return Parked(
        broker.broker_id,
        operation.id,
        operation.purgatory,
        operation.client,
        tuple(map(str, operation.keys)),
        operation.missing,
        now_ms - operation.parked_ms,
        operation.deadline_ms - now_ms,
    )
