"""A worker with confluent-kafka; see `harness.py`."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.compat.transactions.workers.commands import Commands, say, stopping

TIMEOUT_SECONDS = 30
BATCH = 20


def producer_of(bootstrap: str, transactional_id: str) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 20_000,
            "linger.ms": 0,
            "log_level": 0,
        }
    )
    producer.init_transactions(TIMEOUT_SECONDS)
    return producer


class Worker(Commands):
    producer: Producer

    def init(self, transactional_id: str) -> None:
        self.producer = producer_of(self.bootstrap, transactional_id)

    def begin(self) -> None:
        self.producer.begin_transaction()

    def send(self, topic: str, value: str) -> None:
        errors: list[KafkaError] = []
        self.producer.produce(topic, value, on_delivery=lambda error, _: error and errors.append(error))
        assert self.producer.flush(TIMEOUT_SECONDS) == 0
        for error in errors:
            raise KafkaException(error)

    def commit(self) -> None:
        self.producer.commit_transaction(TIMEOUT_SECONDS)

    def abort(self) -> None:
        self.producer.abort_transaction(TIMEOUT_SECONDS)

    def read(self, topic: str, isolation: str, count: str) -> list[str]:
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": "unused", "isolation.level": f"read_{isolation}"}
        )
        consumer.assign([TopicPartition(topic, 0, 0)])
        values = [message.value().decode() for message in consumer.consume(int(count), TIMEOUT_SECONDS)]
        consumer.close()
        return values

    def fenced(self, error: Exception) -> bool:
        codes = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)
        return isinstance(error, KafkaException) and error.args[0].code() in codes

    def copy(self, source: str, target: str, group_id: str, transactional_id: str) -> None:
        while not stopping.is_set():
            try:
                self._copy(source, target, group_id, transactional_id)
            except KafkaException as error:
                say("restarted", error)
                time.sleep(0.1)

    def _copy(self, source: str, target: str, group_id: str, transactional_id: str) -> None:
        producer = producer_of(self.bootstrap, transactional_id)
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": group_id,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "session.timeout.ms": 6_000,
                "log_level": 0,
            }
        )
        consumer.subscribe([source])
        with contextlib.closing(consumer):
            while not stopping.is_set():
                values = [message.value() for message in consumer.consume(BATCH, 0.1) if message.error() is None]
                if not values:
                    continue
                try:
                    self._transaction(producer, consumer, target, values)
                except KafkaException as error:
                    if not error.args[0].txn_requires_abort():
                        raise
                    say("aborted", error)
                    _until_done(producer.abort_transaction)
                    rewind(consumer)
                else:
                    say("copied", len(values))

    def _transaction(self, producer: Producer, consumer: Consumer, target: str, values: list[bytes]) -> None:
        producer.begin_transaction()
        for value in values:
            producer.produce(target, value, key=value)
        positions = [each for each in consumer.position(consumer.assignment()) if each.offset >= 0]
        _until_done(producer.send_offsets_to_transaction, positions, consumer.consumer_group_metadata())
        _until_done(producer.commit_transaction)


def _until_done(call: Callable[..., object], *arguments: object) -> None:
    """Repeat a call that the producer lets the application repeat."""
    while True:
        try:
            call(*arguments, 2.0)
        except KafkaException as error:
            if not error.args[0].retriable() or stopping.is_set():
                raise
        else:
            return


def rewind(consumer: Consumer) -> None:
    """Go back to what is committed."""
    for each in consumer.committed(consumer.assignment(), TIMEOUT_SECONDS):
        consumer.seek(TopicPartition(each.topic, each.partition, max(each.offset, 0)))


Worker(sys.argv[1]).run()
