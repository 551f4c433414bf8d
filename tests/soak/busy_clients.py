"""Clients that use a cluster in all usual ways at once, and gather each error that one of them is told of."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

ORDERS: Final = "orders"
SHIPPED: Final = "shipped"
WIDE: Final = "wide"
ORDERS_PARTITIONS: Final = 6
MEMBERS: Final = 3
"""Members of each group."""
CREATED_WITHIN_SECONDS: Final = 120.0
ENDED_WITHIN_SECONDS: Final = 120.0
RECORDS_PER_TRANSACTION: Final = 20


class BusyClients:
    """Producers, two groups and an exactly-once loop, each client in a thread of its own.

    Args:
        bootstrap: the cluster.
        partitions: of the topic to which a producer writes here and there, beside the busy topics.

    Attributes:
        done: what was done, by kind.
        errors: each error, in words, with its client.
    """

    def __init__(self, bootstrap: str, *, partitions: int) -> None:
        self.done: Counter[str] = Counter()
        self.errors: list[str] = []
        self._bootstrap = bootstrap
        self._partitions = partitions
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []

    def create_topics(self, replicas: int) -> None:
        """Create the topics; raises KafkaException if one is refused."""
        admin = AdminClient({"bootstrap.servers": self._bootstrap})
        topics = [
            NewTopic(ORDERS, ORDERS_PARTITIONS, replicas),
            NewTopic(SHIPPED, ORDERS_PARTITIONS, replicas),
            NewTopic(WIDE, self._partitions, replicas),
        ]
        timeouts = {"operation_timeout": CREATED_WITHIN_SECONDS, "request_timeout": CREATED_WITHIN_SECONDS}
        for created in admin.create_topics(topics, **timeouts).values():
            created.result()

    def start(self) -> None:
        """Start all clients."""
        self._run("producer", lambda: self._produce("producer", ORDERS, pause_seconds=0.002))
        self._run("wide producer", lambda: self._produce("wide producer", WIDE, pause_seconds=0.02))
        for nth in range(MEMBERS):
            for protocol in ("classic", "consumer"):
                self._run(f"{protocol} {nth}", self._consuming(f"{protocol} {nth}", protocol))
        self._run("exactly once", lambda: self._transform("exactly once"))

    def work(self, seconds: float) -> None:
        """Let the clients work for this time."""
        self._stopping.wait(seconds)

    def stop(self) -> None:
        """End all clients, and wait until they have ended."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(ENDED_WITHIN_SECONDS)
            if thread.is_alive():
                self.errors.append(f"{thread.name}: does not come to its end")

    def _run(self, name: str, work: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                work()
            except KafkaException as error:
                self.errors.append(f"{name}: raised {error}")

        thread = threading.Thread(target=guarded, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _config(self, name: str) -> dict[str, Any]:
        def failed(error: KafkaError) -> None:
            self.errors.append(f"{name}: {error}")

        return {"bootstrap.servers": self._bootstrap, "client.id": name, "error_cb": failed}

    def _delivered(self, name: str) -> Callable[[KafkaError | None, Message], None]:
        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self.done["records"] += 1
            else:
                self.errors.append(f"{name}: not delivered: {error}")

        return delivered

    def _produce(self, name: str, topic: str, *, pause_seconds: float) -> None:
        producer = Producer({**self._config(name), "enable.idempotence": True, "linger.ms": 5})
        delivered = self._delivered(name)
        while not self._stopping.is_set():
            try:
                producer.produce(topic, b"x" * 200, on_delivery=delivered)
            except BufferError:
                producer.poll(0.1)
            producer.poll(pause_seconds)
        if producer.flush(ENDED_WITHIN_SECONDS):
            self.errors.append(f"{name}: records are left")

    def _consumer(self, name: str, group: str, protocol: str, **config: Any) -> Consumer:
        settings = {"group.id": group, "group.protocol": protocol, "auto.offset.reset": "earliest"}
        return Consumer({**self._config(name), **settings, **config})

    def _consuming(self, name: str, protocol: str) -> Callable[[], None]:
        def consume() -> None:
            consumer = self._consumer(name, f"{protocol} group", protocol)
            consumer.subscribe([ORDERS], on_lost=lambda _, lost: self.errors.append(f"{name}: lost {len(lost)}"))
            while not self._stopping.is_set():
                for message in consumer.consume(200, 0.2):
                    self._look(name, message, protocol)
            consumer.close()

        return consume

    def _look(self, name: str, message: Message, kind: str) -> None:
        error = message.error()
        if error is None:
            self.done[kind] += 1
        else:
            self.errors.append(f"{name}: {error}")

    def _transform(self, name: str) -> None:
        """Read orders, and write them and the offsets in transactions."""
        producer = Producer({**self._config(name), "transactional.id": "shipping", "linger.ms": 5})
        producer.init_transactions()
        consumer = self._consumer(
            f"{name} reader",
            "shipping",
            "consumer",
            **{"enable.auto.commit": False, "isolation.level": "read_committed"},
        )
        consumer.subscribe([ORDERS])
        delivered = self._delivered(name)
        while not self._stopping.is_set():
            messages = consumer.consume(RECORDS_PER_TRANSACTION, 0.2)
            if not messages:
                continue
            producer.begin_transaction()
            for message in messages:
                self._look(f"{name} reader", message, "transformed")
                producer.produce(SHIPPED, message.value(), on_delivery=delivered)
            positions = consumer.position(consumer.assignment())
            producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata())
            producer.commit_transaction()
            self.done["transactions"] += 1
        consumer.close()
