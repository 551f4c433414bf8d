"""A worker with kafka-python; see `harness.py`.

kafka-python 3.0.12 forgets a request of a transaction for good if the coordinator refuses the connection at the moment
when it is to be sent (`Sender._maybe_send_pending_request`), and waits for its answer without a limit: the loop has a
limit of its own.
"""

from __future__ import annotations

import sys
import threading
import time
from itertools import islice
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import InvalidProducerEpochError, KafkaError, KafkaTimeoutError, ProducerFencedError
from kafka.structs import OffsetAndMetadata

from tests.compat.transactions.workers.commands import Commands, say, stopping

TIMEOUT_SECONDS = 30
TRANSACTION_TIMEOUT_SECONDS = 5
BATCH = 20


def producer_of(bootstrap: str, transactional_id: str) -> KafkaProducer:
    producer = KafkaProducer(
        bootstrap_servers=bootstrap.split(","), transactional_id=transactional_id, transaction_timeout_ms=20_000
    )
    producer.init_transactions()
    return producer


class Worker(Commands):
    producer: KafkaProducer

    def init(self, transactional_id: str) -> None:
        self.producer = producer_of(self.bootstrap, transactional_id)

    def begin(self) -> None:
        self.producer.begin_transaction()

    def send(self, topic: str, value: str) -> None:
        self.producer.send(topic, value.encode()).get(TIMEOUT_SECONDS)

    def commit(self) -> None:
        self.producer.commit_transaction()

    def abort(self) -> None:
        self.producer.abort_transaction()

    def read(self, topic: str, isolation: str, count: str) -> list[str]:
        consumer = KafkaConsumer(
            bootstrap_servers=self.bootstrap.split(","),
            isolation_level=f"read_{isolation}",
            consumer_timeout_ms=TIMEOUT_SECONDS * 1000,
        )
        where = TopicPartition(topic, 0)
        consumer.assign([where])
        consumer.seek(where, 0)
        values = [message.value.decode() for message in islice(consumer, int(count))]
        consumer.close()
        return values

    def fenced(self, error: Exception) -> bool:
        cause = error.__cause__
        return isinstance(error, (ProducerFencedError, InvalidProducerEpochError)) or (
            isinstance(cause, Exception) and self.fenced(cause)
        )

    def copy(self, source: str, target: str, group_id: str, transactional_id: str) -> None:
        while not stopping.is_set():
            try:
                self._copy(source, target, group_id, transactional_id)
            except KafkaError as error:
                say("restarted", repr(error))
                time.sleep(0.1)

    def _copy(self, source: str, target: str, group_id: str, transactional_id: str) -> None:
        producer = producer_of(self.bootstrap, transactional_id)
        consumer = KafkaConsumer(
            source,
            bootstrap_servers=self.bootstrap.split(","),
            group_id=group_id,
            session_timeout_ms=6_000,
            heartbeat_interval_ms=1_000,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
            max_poll_records=BATCH,
        )
        try:
            while not stopping.is_set():
                # kafka-python 3.0.12 forgets its assignment if a poll ends while it joins: let none end there.
                batches = consumer.poll(timeout_ms=1_000)
                if batches:
                    self._transaction(producer, consumer, target, batches)
                    say("copied", sum(map(len, batches.values())))
        finally:
            consumer.close()
            producer.close(timeout=1)

    def _transaction(
        self, producer: KafkaProducer, consumer: KafkaConsumer, target: str, batches: dict[TopicPartition, list[Any]]
    ) -> None:
        offsets = {where: OffsetAndMetadata(messages[-1].offset + 1, "", -1) for where, messages in batches.items()}
        values = [message.value for messages in batches.values() for message in messages]
        errors: list[Exception] = []

        def transaction() -> None:
            try:
                producer.begin_transaction()
                for value in values:
                    producer.send(target, value, key=value)
                producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
                producer.commit_transaction()
            except Exception as error:
                errors.append(error)

        thread = threading.Thread(target=transaction, daemon=True)
        thread.start()
        thread.join(TRANSACTION_TIMEOUT_SECONDS)
        if thread.is_alive():
            raise KafkaTimeoutError("the transaction does not end")
        for error in errors:
            raise error


Worker(sys.argv[1]).run()
