"""Puts the load of a small shop on a cluster, with slow and stuck followers, so that requests wait.

.venv/bin/python scripts/sample_load.py --seconds 60

Several clients write to several topics; some partitions are busier than others. Consumers wait for records. Now and
then a follower is slow for some seconds, or sends no fetches at all, and requests with acks=all expire.
`purgatorio cluster --record-delays` and `purgatorio-delays` show it afterwards. Needs purgatorio[spark], for its Kafka
client.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from purgatorio.admin.cli.admin_client import AdminClient as BrokerAdmin
from purgatorio.admin.cli.admin_client import AdminError, AdminUrlError
from purgatorio.admin.cli.command import ADMIN_VARIABLE, DEFAULT_ADMIN_URL

try:
    from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
    from confluent_kafka.admin import AdminClient, NewTopic
except ImportError:
    raise SystemExit("sample_load: confluent-kafka is missing: pip install -e '.[spark]'") from None

TICK_SECONDS = 0.05
TOPICS = {"orders": 6, "payments": 3, "clicks": 8, "audit": 1}
"""Numbers of partitions by topic; a topic that already exists keeps its own number."""
QUEUE_FULL_SECONDS = 0.1


@dataclass(frozen=True)
class Writer:
    """A client that writes.

    Attributes:
        acks: Kafka's setting.
        timeout_ms: time after which a broker answers a request with REQUEST_TIMED_OUT.
    """

    client_id: str
    topic: str
    records_per_second: int
    size_bytes: int
    acks: str
    timeout_ms: int


WRITERS = (
    Writer("shop-checkout", "orders", 60, 400, "all", 1_000),
    Writer("payments-api", "payments", 25, 250, "all", 400),
    Writer("web-tracker", "clicks", 300, 120, "1", 1_000),
    Writer("mobile-app", "clicks", 80, 150, "all", 800),
    Writer("auditor", "audit", 5, 1_000, "all", 2_000),
)


@dataclass(frozen=True)
class Reader:
    """A client that reads whole topics; its fetches wait for `min_bytes`, at most for `wait_ms`."""

    client_id: str
    topics: tuple[str, ...]
    min_bytes: int
    wait_ms: int


READERS = (
    Reader("warehouse", ("orders",), 1, 500),
    Reader("fraud-check", ("payments", "orders"), 1, 100),
    Reader("reporting", ("clicks", "audit"), 6_000, 400),
)


@dataclass
class Counts:
    """The number of records so far, by outcome."""

    sent: int = 0
    acknowledged: int = 0
    failed: int = 0
    read: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.sent:,} sent, {self.acknowledged:,} acknowledged, {self.failed:,} given up"


class Load:
    """Writers and readers of one cluster.

    Args:
        partitions: the number of partitions by topic.
        rate: a factor of the usual load.
    """

    def __init__(self, bootstrap: str, partitions: dict[str, int], rng: random.Random, rate: float) -> None:
        self.counts = Counts()
        self._bootstrap = bootstrap
        self._partitions = partitions
        self._rng = rng
        self._rate = rate
        self._stopping = threading.Event()
        self._due = dict.fromkeys(WRITERS, 0.0)
        self._producers = {writer: self._producer(writer) for writer in WRITERS}
        self._threads = [threading.Thread(target=self._read, args=(reader,), daemon=True) for reader in READERS]

    def _producer(self, writer: Writer) -> Producer:
        return Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "client.id": writer.client_id,
                "acks": writer.acks,
                "request.timeout.ms": writer.timeout_ms,
                "message.timeout.ms": 5 * writer.timeout_ms,
                "linger.ms": 0,
                "log_level": 0,
            }
        )

    def start(self) -> None:
        """Start the readers."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Wait until all sent records are acknowledged or given up, and end the readers."""
        for producer in self._producers.values():
            producer.flush(15)
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def write(self, seconds: float) -> None:
        """Write the records that are due after this time."""
        for writer, producer in self._producers.items():
            due = self._due[writer] + writer.records_per_second * self._rate * seconds * self._rng.uniform(0.5, 1.5)
            whole = int(due)
            self._due[writer] = due - whole
            for _ in range(whole):
                self._send(writer, producer)
            producer.poll(0)

    def _send(self, writer: Writer, producer: Producer) -> None:
        # The lower its number, the busier a partition is.
        partition = min(int(self._rng.expovariate(0.6)), self._partitions[writer.topic] - 1)
        try:
            value = f"record {self.counts.sent} of {writer.client_id} ".ljust(writer.size_bytes, ".")
            producer.produce(writer.topic, value, partition=partition, on_delivery=self._delivered)
            self.counts.sent += 1
        except BufferError:  # the brokers are too slow for this load: drop the record
            producer.poll(QUEUE_FULL_SECONDS)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.counts.acknowledged += 1
        else:
            self.counts.failed += 1

    def _read(self, reader: Reader) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "client.id": reader.client_id,
                "group.id": reader.client_id,
                "enable.auto.commit": False,
                "fetch.min.bytes": reader.min_bytes,
                "fetch.wait.max.ms": reader.wait_ms,
                "log_level": 0,
            }
        )
        consumer.assign([TopicPartition(t, p, OFFSET_END) for t in reader.topics for p in range(self._partitions[t])])
        read = 0
        while not self._stopping.is_set():
            read += sum(message.error() is None for message in consumer.consume(1_000, 0.2))
            self.counts.read[reader.client_id] = read
        consumer.unassign()


class Weather:
    """Makes followers slow or stuck, one at a time, for some seconds each.

    Args:
        admin: the cluster's admin HTTP.
        brokers: the ids of the brokers.
    """

    def __init__(self, admin: BrokerAdmin, brokers: list[int], rng: random.Random) -> None:
        self._admin = admin
        self._brokers = brokers
        self._rng = rng
        self._changes_at = 3.0
        self._afflicted: int | None = None
        self.now = "calm"

    def at(self, seconds: float) -> None:
        """Make the next change if it is due."""
        if seconds < self._changes_at:
            return
        if self._afflicted is not None:
            self.clear()
            self._changes_at = seconds + self._rng.uniform(2, 5)
            return
        broker = self._afflicted = self._rng.choice(self._brokers)
        if self._rng.random() < 0.35:
            self._set(broker, {"held": True})
            self.now = f"broker {broker} fetches nothing"
            self._changes_at = seconds + self._rng.uniform(0.8, 2.5)
        else:
            delay_ms = self._rng.choice((10, 25, 60, 120))
            self._set(broker, {"delay_ms": delay_ms})
            self.now = f"broker {broker} fetches {delay_ms} ms late"
            self._changes_at = seconds + self._rng.uniform(2, 5)

    def clear(self) -> None:
        """Let the follower fetch at its usual speed again."""
        if self._afflicted is not None:
            self._set(self._afflicted, {"held": False, "delay_ms": 0})
            self._afflicted = None
        self.now = "calm"

    def _set(self, broker: int, body: dict[str, object]) -> None:
        # A broker that was killed meanwhile cannot be slowed down.
        with contextlib.suppress(AdminError):
            self._admin.post(f"brokers/{broker}/follower", body)


def create_topics(bootstrap: str, brokers: int) -> dict[str, int]:
    """Create the missing topics; returns the number of partitions by topic.

    Raises:
        KafkaException: no broker answers, or a broker refuses.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    there = {name: len(topic.partitions) for name, topic in admin.list_topics(timeout=10).topics.items()}
    wanted = [NewTopic(name, count, min(3, brokers)) for name, count in TOPICS.items() if name not in there]
    for future in admin.create_topics(wanted).values() if wanted else ():
        future.result()
    return {name: there.get(name, count) for name, count in TOPICS.items()}


def ticks(seconds: float) -> Iterator[tuple[float, float]]:
    """For this many seconds: the time since the start, and the time since the last tick."""
    started = last = time.monotonic()
    while (now := time.monotonic()) < started + seconds:
        yield now - started, now - last
        last = now
        time.sleep(TICK_SECONDS)


def run(options: argparse.Namespace) -> int:
    """Run the load; returns the exit status."""
    rng = random.Random(options.seed)
    admin = BrokerAdmin(options.admin)
    brokers = [int(row["id"]) for row in admin.get("brokers")["brokers"]]
    partitions = create_topics(options.bootstrap, len(brokers))
    load, weather = Load(options.bootstrap, partitions, rng, options.rate), Weather(admin, brokers, rng)
    load.start()
    shown = 0.0
    try:
        for now, passed in ticks(options.seconds):
            weather.at(now)
            load.write(passed)
            if now >= shown:
                shown += 1
                print(f"{now:4.0f} s: {load.counts}; {weather.now}", flush=True)
    except KeyboardInterrupt:
        print("stopping")
    finally:
        weather.clear()
        load.stop()
    counts = load.counts
    read = ", ".join(f"{client} {number:,}" for client, number in sorted(counts.read.items()))
    print(f"{counts}; read by {read}")
    return 0


def main() -> int:
    """Parse the command line and run the load."""
    parser = argparse.ArgumentParser(description="Put a load on a cluster, with slow and stuck followers.")
    parser.add_argument("--bootstrap", default="localhost:9092", metavar="HOST:PORT", help="a broker (localhost:9092)")
    parser.add_argument(
        "--admin",
        default=os.environ.get(ADMIN_VARIABLE) or DEFAULT_ADMIN_URL,
        metavar="URL",
        help=f"the cluster's admin HTTP ({ADMIN_VARIABLE} in the environment, or {DEFAULT_ADMIN_URL})",
    )
    parser.add_argument("--seconds", type=float, default=60.0, metavar="S", help="duration (60)")
    parser.add_argument("--rate", type=float, default=1.0, metavar="X", help="factor of the usual load (1)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="seed of all random choices (1)")
    options = parser.parse_args()
    try:
        return run(options)
    except (AdminError, AdminUrlError) as error:
        print(f"sample_load: {error}", file=sys.stderr)
    except KafkaException as error:
        print(f"sample_load: {options.bootstrap}: {error.args[0].str()}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
