"""Floods: loads that fill the memory of brokers, each in another way. `memory.py` measures what the brokers take.

Most go through librdkafka, as an application would. What no client library does is done over plain sockets: fetches
whose answers are never read, and records in sizes that step through the classes of an allocator.
"""

from __future__ import annotations

import itertools
import os
import random
import socket
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import Any

from purgatorio.client.client import Partition
from purgatorio.client.fetch import EARLIEST, fetch_request, list_offset
from purgatorio.client.link import Address
from purgatorio.client.produce import batch_of, produce_request_of
from purgatorio.client.wire import TIMEOUT_SECONDS, Wire, decoded, frame, now
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from wire import RETRY_SECONDS, BlockingClient

PARTITIONS = 6
REPLICAS = 3
MAX_MESSAGE_BYTES = 16 * 1024 * 1024
QUEUED_MESSAGES = 10_000
"""What librdkafka holds of small records. Of large ones it holds a gigabyte, which is its default."""
VALUES = 8
"""Values that a flood sends by turns."""
TOPICS_PER_REQUEST = 500
READERS = 20
UNREAD_FETCHES = 5
UNREAD_BYTES = 50 * 1024 * 1024
"""What a reader asks for that never reads: all that a partition has."""
SMALL_PARTITIONS, LARGE_PARTITIONS = 150, 30
DEPTH = 4
"""Requests under way on a connection."""
LEAST_BYTES, MOST_BYTES = 64, 64 * 1024
"""The first and the last of the sizes to step through."""


@dataclass(frozen=True)
class Target:
    """The brokers that are flooded.

    Attributes:
        addresses: the brokers'.
        log_bytes: what one of them may hold of records: a flood sends as much, or a little more.
        seconds: when a flood ends that has not sent all by then.
        times: how often a flood sends as much as a broker may hold.
    """

    addresses: Sequence[Address]
    log_bytes: int
    seconds: float
    times: float

    @property
    def bootstrap(self) -> str:
        """The addresses for librdkafka's bootstrap.servers."""
        return ",".join(f"{host}:{port}" for host, port in self.addresses)


def create_topics(target: Target, names: Sequence[str], partitions: int = PARTITIONS) -> dict[Partition, Address]:
    """Create topics with three replicas that take large records; return the address of each partition's leader."""
    client = BlockingClient(target.addresses[0])
    configs = [CreatableTopicConfig(name="max.message.bytes", value=str(MAX_MESSAGE_BYTES))]
    leaders: dict[Partition, Address] = {}
    for first in range(0, len(names), TOPICS_PER_REQUEST):
        chunk = names[first : first + TOPICS_PER_REQUEST]
        topics = [
            CreatableTopic(name=name, num_partitions=partitions, replication_factor=REPLICAS, configs=configs)
            for name in chunk
        ]
        now(client.ask_any(CreateTopicsRequest(topics=topics, timeout_ms=TIMEOUT_SECONDS * 1_000)))
        leaders |= _leaders(client, chunk)
    return leaders


def _leaders(client: BlockingClient, names: Sequence[str]) -> dict[Partition, Address]:
    deadline = time.perf_counter() + TIMEOUT_SECONDS
    while True:
        found = now(client.describe(names)).topics
        partitions = {
            (topic.name, each.partition_index): each.leader_id for topic in found for each in topic.partitions
        }
        if not any(topic.error_code for topic in found) and all(
            each in client.addresses for each in partitions.values()
        ):
            return {partition: client.addresses[leader] for partition, leader in partitions.items()}
        assert time.perf_counter() < deadline, found
        time.sleep(RETRY_SECONDS)


def flood(
    target: Target,
    topic: str,
    size_bytes: int | tuple[int, int],
    *,
    one_by_one: bool = False,
    codec: str = "none",
    clients: int = 1,
    times: float | None = None,
) -> int:
    """Send records through librdkafka, as fast as the brokers take them; return the bytes of those that they took.

    Args:
        size_bytes: of a record; or the smallest and the largest.
        one_by_one: a request for each record, many of which are under way.
        codec: how librdkafka compresses batches. The records can be made half as large.
        clients: how many send, by turns.
        times: how often to send as much as a broker may hold, if not as often as usual.
    """
    from confluent_kafka import Producer

    create_topics(target, [topic])
    producers = [Producer(_settings(target, one_by_one=one_by_one, codec=codec)) for _ in range(clients)]
    most_bytes = (target.times if times is None else times) * target.log_bytes
    sent_bytes = taken_bytes = 0

    def delivered(error: object, message: Any) -> None:
        nonlocal taken_bytes
        if error is None:
            taken_bytes += len(message)

    deadline = time.perf_counter() + target.seconds
    for value, producer in zip(_values(size_bytes, compressible=codec != "none"), itertools.cycle(producers)):
        try:
            producer.produce(topic, value, on_delivery=delivered)
            sent_bytes += len(value)
            producer.poll(0)
        except BufferError:
            producer.poll(0.01)
        if time.perf_counter() > deadline or sent_bytes > most_bytes:
            break
    for producer in producers:
        producer.flush(max(0.5, deadline - time.perf_counter()))
        producer.purge()
    return taken_bytes


def _settings(target: Target, *, one_by_one: bool, codec: str) -> dict[str, object]:
    settings: dict[str, object] = {
        "bootstrap.servers": target.bootstrap,
        "acks": "all",
        "linger.ms": 5,
        "compression.type": codec,
        "message.max.bytes": MAX_MESSAGE_BYTES,
        "queue.buffering.max.messages": QUEUED_MESSAGES,
        "log_level": 0,
    }
    return settings | {"linger.ms": 0, "batch.num.messages": 1} if one_by_one else settings


def _values(size_bytes: int | tuple[int, int], *, compressible: bool) -> Iterator[bytes]:
    least, most = (size_bytes, size_bytes) if isinstance(size_bytes, int) else size_bytes
    rng = random.Random(least)
    sizes = [rng.randint(least, most) for _ in range(VALUES)]
    return itertools.cycle(
        [os.urandom(size).hex().encode()[:size] if compressible else os.urandom(size) for size in sizes]
    )


@contextmanager
def readers_that_never_read(target: Target, topic: str) -> Iterator[None]:
    """Keep consumers of each partition that have asked for all that it has, and take nothing of the answers."""
    with ExitStack() as stack:
        client = stack.enter_context(closing(BlockingClient(target.addresses[0])))
        now(client.partitions(topic))
        for partition, leader in client.leaders.items():
            address = client.addresses[leader.broker_id]
            offset = now(list_offset(client, leader.broker_id, partition, EARLIEST))
            request = frame(fetch_request(partition, offset, max_wait_ms=0, max_bytes=UNREAD_BYTES))
            for _ in range(READERS):
                reader = stack.enter_context(closing(socket.socket()))
                reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                reader.connect(address)
                reader.sendall(request * UNREAD_FETCHES)
        yield


class Senders:
    """A connection to each leader, over which a request has a batch for each of many partitions of it."""

    def __init__(self, leaders: Mapping[Partition, Address]) -> None:
        self._of: dict[Address, list[Partition]] = defaultdict(list)
        for partition, address in leaders.items():
            self._of[address].append(partition)
        self._wires = {address: Wire(address) for address in self._of}

    def close(self) -> None:
        """Close the connections."""
        for wire in self._wires.values():
            wire.close()

    def frames(self, batch: bytes, partitions: Collection[Partition] = ()) -> dict[Address, bytes]:
        """A request for each leader, with the batch for those of its partitions that are named, or for all."""
        named = set(partitions) or {each for of_leader in self._of.values() for each in of_leader}
        wanted = {address: [each for each in of_leader if each in named] for address, of_leader in self._of.items()}
        return {
            address: frame(produce_request_of(dict.fromkeys(each, batch))) for address, each in wanted.items() if each
        }

    def exchange(self, frames: Mapping[Address, bytes], depth: int = 1) -> None:
        """Send each of them `depth` times, and wait for all answers."""
        for address, request in frames.items():
            self._wires[address].socket.sendall(request * depth)
        for address in frames:
            for _ in range(depth):
                self._wires[address].receive()

    def send_until_taken(self, frames: Mapping[Address, bytes]) -> None:
        """The same, again and again until there is no error: a new leader may not know yet that it is one."""
        deadline = time.perf_counter() + TIMEOUT_SECONDS
        for address, request in frames.items():
            while any(
                each.error_code
                for topic in decoded(ApiKey.PRODUCE, self._wires[address].exchange(request)).responses
                for each in topic.partition_responses
            ):
                assert time.perf_counter() < deadline, "a leader does not take records"
                time.sleep(RETRY_SECONDS)


def tiny_topics(target: Target, count: int) -> int:
    """Create topics of one partition, and send one record to each; return the bytes of the records."""
    names = [f"tiny-{number}" for number in range(count)]
    leaders = create_topics(target, names, partitions=1)
    batch = batch_of([os.urandom(100)], time.time_ns() // 1_000_000)
    with closing(Senders(leaders)) as senders:
        for first in range(0, count, TOPICS_PER_REQUEST):
            chunk = [(name, 0) for name in names[first : first + TOPICS_PER_REQUEST]]
            senders.send_until_taken(senders.frames(batch, chunk))
    return count * len(batch)


def small_batches(target: Target, topic: str, size_bytes: int) -> int:
    """Send batches of one record, many in a request, until the logs are full; return the bytes of the records."""
    batch = batch_of([os.urandom(size_bytes)], time.time_ns() // 1_000_000)
    with closing(Senders(create_topics(target, [topic], LARGE_PARTITIONS))) as senders:
        frames = senders.frames(batch)
        senders.send_until_taken(frames)
        return sum(
            DEPTH * LARGE_PARTITIONS * size_bytes for _ in _rounds(target, senders, frames, batch, target.seconds)
        )


def _rounds(
    target: Target, senders: Senders, frames: Mapping[Address, bytes], batch: bytes, seconds: float
) -> Iterator[float]:
    """Send requests again and again until they fill the logs, or the time is over; yield how full the logs are."""
    count = max(1, target.log_bytes // (len(batch) * LARGE_PARTITIONS * DEPTH))
    deadline = time.perf_counter() + seconds
    for number in range(count):
        senders.exchange(frames, DEPTH)
        yield (number + 1) / count
        if time.perf_counter() > deadline:
            break


def steps(target: Target, count: int) -> int:
    """Step through sizes of records, while small partitions get a few of each; return the bytes of the records.

    The small partitions' records stay when those between them are deleted: the brokers delete records of large
    partitions first. An allocator that cuts pages for each size of its own has a few records left on each page then.
    """
    small = create_topics(target, ["steps-small"], SMALL_PARTITIONS)
    large = create_topics(target, ["steps-large"], LARGE_PARTITIONS)
    sizes = [int(LEAST_BYTES * (MOST_BYTES / LEAST_BYTES) ** (step / (count - 1))) for step in range(count)]
    largest_bytes = target.log_bytes // 256 // 8  # a partition with eight of them counts as small
    sent_bytes = 0
    with closing(Senders(large)) as to_large, closing(Senders(small)) as to_small:
        batch = batch_of([os.urandom(LEAST_BYTES)], time.time_ns() // 1_000_000)
        to_large.send_until_taken(to_large.frames(batch))
        to_small.send_until_taken(to_small.frames(batch))
        for size_bytes in sizes:
            batch = batch_of([os.urandom(size_bytes)], time.time_ns() // 1_000_000)
            ones = [to_small.frames(batch, [each]) for each in small] if size_bytes <= largest_bytes else []
            done = 0
            for full in _rounds(target, to_large, to_large.frames(batch), batch, target.seconds / count * 2):
                due = int(full * len(ones))
                for frames in ones[done:due]:
                    to_small.exchange(frames)
                done = due
                sent_bytes += DEPTH * LARGE_PARTITIONS * size_bytes
    return sent_bytes
