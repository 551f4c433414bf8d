"""Loads of one client on any brokers that speak Kafka's protocol, so that two brokers are measured by the same code.

Raw loads send ready frames over plain sockets: the client's own work is a few microseconds a request. The others go
through librdkafka (the confluent-kafka package).
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass

from purgatorio.client.wire import TIMEOUT_SECONDS, Wire, decoded
from purgatorio.protocol.api_key import ApiKey
from rows import percentile
from wire import fetch_frame

READ_BYTES = 256 * 1024
SETTLE_SECONDS = 1
# A consumer of one assigned partition that never rests because it has enough: librdkafka would rest for a second.
CONSUMER = {
    "group.id": "bench",
    "enable.auto.commit": False,
    "queued.min.messages": 1_000_000,
    "queued.max.messages.kbytes": 1_000_000,
    "log_level": 0,
}
QUEUE_LIMITS = {"queue.buffering.max.messages": 1_000_000, "queue.buffering.max.kbytes": 1_000_000}


@dataclass(frozen=True)
class Pipelined:
    """What `pipelined` measured."""

    per_second: float
    latencies_seconds: list[float]

    def at(self, share: float) -> float:
        """The latency below which a share of the requests lies, in milliseconds."""
        return percentile(self.latencies_seconds, share) * 1000


def pipelined(
    address: tuple[str, int], request: bytes, *, depth: int, count: int, connections: int = 1, warm_up: int = 0
) -> Pipelined:
    """Keep `depth` requests under way on each of some connections, until `count` are answered."""
    return pipelined_at([(address, request)] * connections, depth=depth, count=count, warm_up=warm_up)


def pipelined_at(
    targets: Sequence[tuple[tuple[str, int], bytes]], *, depth: int, count: int, warm_up: int = 0
) -> Pipelined:
    """Keep `depth` requests under way on a connection to each address, until `count` are answered.

    All answers must have the size of the first: those of a produce request of one partition do, unless they are errors.
    """
    with ExitStack() as stack:
        wires = [stack.enter_context(closing(Wire(address))) for address, _ in targets]
        requests = [request for _, request in targets]
        answer_bytes = 4 + max(len(accepted(wire, request)) for wire, request in zip(wires, requests, strict=True))
        if warm_up:
            _keep_under_way(wires, requests, answer_bytes, depth, warm_up)
        started = time.perf_counter()
        latencies = _keep_under_way(wires, requests, answer_bytes, depth, count)
        return Pipelined(len(latencies) / (time.perf_counter() - started), latencies)


def accepted(wire: Wire, request: bytes) -> bytes:
    """The first answer to a produce request that is no error: a new partition's leader may not know it yet."""
    deadline = time.perf_counter() + TIMEOUT_SECONDS
    while True:
        answer = wire.exchange(request)
        response = decoded(ApiKey.PRODUCE, answer)
        if not response.responses[0].partition_responses[0].error_code:
            return answer
        assert time.perf_counter() < deadline, response
        time.sleep(0.02)


def _keep_under_way(wires: list[Wire], requests: list[bytes], answer_bytes: int, depth: int, count: int) -> list[float]:
    latencies: list[float] = []
    left = count
    poll = select.epoll()
    sent: dict[int, deque[float]] = {}
    part: dict[int, int] = {}
    for wire, request in zip(wires, requests, strict=True):
        first = min(depth, left)
        if not first:
            break
        fd = wire.socket.fileno()
        left -= first
        part[fd] = 0
        sent[fd] = deque([time.perf_counter()] * first)
        poll.register(fd, select.EPOLLIN)
        wire.socket.sendall(request * first)
    ends = {wire.socket.fileno(): (wire.socket, request) for wire, request in zip(wires, requests, strict=True)}
    with closing(poll):
        while len(latencies) < count:
            ready = poll.poll(TIMEOUT_SECONDS)
            if not ready:
                raise TimeoutError("a broker did not answer")
            for fd, _ in ready:
                got = os.read(fd, READ_BYTES)
                if not got:
                    raise ConnectionError("a broker closed its connection")
                answers, part[fd] = divmod(part[fd] + len(got), answer_bytes)
                now, times = time.perf_counter(), sent[fd]
                latencies += [now - times.popleft() for _ in range(answers)]
                more = min(answers, left)
                if more:
                    left -= more
                    times.extend([now] * more)
                    sock, request = ends[fd]
                    sock.sendall(request * more)
    return latencies


def lone_requests(address: tuple[str, int], request: bytes, count: int) -> list[float]:
    """Seconds that each request took, one after another over one connection, after a quarter as many to warm up."""
    return pipelined(address, request, depth=1, count=count, warm_up=count // 4).latencies_seconds


def woken_polls(address: tuple[str, int], topic: str, produce: bytes, count: int) -> list[float]:
    """Seconds from sending a produce request to the answer of a consumer's parked fetch, one at a time."""
    with closing(Wire(address)) as producer, closing(Wire(address)) as consumer:
        answered: list[float] = []

        def poll() -> None:
            for offset in range(count):
                while len(consumer.exchange(fetch_frame(topic, offset))) < len(produce) // 2:
                    pass  # an answer without records: the wait was over, or a new partition is not known yet
                answered.append(time.perf_counter())

        polling = threading.Thread(target=poll)
        polling.start()
        waits = []
        for number in range(count):
            time.sleep(0.002)  # by then the poll is parked and the broker is idle
            sent = time.perf_counter()
            producer.exchange(produce)
            while len(answered) <= number:
                time.sleep(0)
            waits.append(answered[number] - sent)
        polling.join()
    return waits


def delivery_times(configuration: dict[str, object], topic: str, count: int) -> list[float]:
    """Seconds from produce to delivery report in librdkafka, one record at a time."""
    from confluent_kafka import Producer

    producer = Producer({"linger.ms": 0, "acks": 1, "log_level": 0, **configuration})
    seconds: list[float] = []
    for number in range(count + count // 4):
        delivered: list[float] = []
        started = time.perf_counter()
        producer.produce(
            topic, b"x" * 100, partition=0, on_delivery=lambda *_, d=delivered: d.append(time.perf_counter())
        )
        while not delivered:
            producer.poll(1)
        if number >= count // 4:
            seconds.append(delivered[0] - started)
    return seconds


def records_per_second(configuration: dict[str, object], topic: str, count: int) -> float:
    """Records of 100 B that librdkafka batches and delivers."""
    from confluent_kafka import Producer

    producer = Producer({"linger.ms": 5, "acks": 1, "log_level": 0, **QUEUE_LIMITS, **configuration})
    producer.produce(topic, b"x" * 100, partition=0)
    producer.flush()
    started = time.perf_counter()
    for number in range(count):
        producer.produce(topic, b"x" * 100, partition=0)
        if number % 1000 == 0:
            producer.poll(0)
    producer.flush()
    return count / (time.perf_counter() - started)


def consumed_per_second(bootstrap: str, topic: str, count: int) -> float:
    """Records that librdkafka's consumer takes from the beginning of partition 0, which has at least `count`."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, **CONSUMER})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    taken = len(consumer.consume(1, timeout=TIMEOUT_SECONDS))
    started = time.perf_counter()
    while taken < count:
        batch = consumer.consume(min(10_000, count - taken), timeout=TIMEOUT_SECONDS)
        assert batch, "no records came"
        taken += len(batch)
    seconds = time.perf_counter() - started
    consumer.close()
    return count / seconds


def end_to_end(bootstrap: str, topic: str, count: int, *, per_second: int, value_bytes: int) -> list[float]:
    """Seconds from a record's produce call to its arrival at a consumer, librdkafka on both sides, at a steady rate."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": 1, "log_level": 0})
    producer.produce(topic, b"the first", partition=0)
    producer.flush()
    consumer = Consumer({"bootstrap.servers": bootstrap, **CONSUMER})
    consumer.assign([TopicPartition(topic, 0, 1)])
    consumer.poll(SETTLE_SECONDS)  # nothing comes; by then it has asked for the next record
    times: list[float] = []

    def take(wanted: int) -> None:
        while len(times) < wanted:
            message = consumer.poll(TIMEOUT_SECONDS)
            assert message is not None, "no record came"
            if message.error() is None and (value := message.value()) is not None:
                times.append(time.perf_counter() - float(value[:24]))

    def send(number: int) -> None:
        for sent in range(number):
            due = started + sent / per_second
            while (now := time.perf_counter()) < due:
                time.sleep(max(0.0, due - now))
            producer.produce(topic, f"{time.perf_counter():24.12f}".encode().ljust(value_bytes, b"x"), partition=0)
            producer.poll(0)
        producer.flush()

    taking = threading.Thread(target=take, args=(count,))
    taking.start()
    started = time.perf_counter()
    send(count)
    taking.join()
    consumer.close()
    return times
