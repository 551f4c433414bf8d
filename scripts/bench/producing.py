"""A transactional producer over plain sockets, for measurements: the requests that clients of TV1 send (KIP-98)."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Any

from purgatorio.protocol.api import ApiKey
from purgatorio.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from purgatorio.protocol.messages.end_txn import EndTxnRequest
from purgatorio.protocol.messages.find_coordinator import FindCoordinatorRequest
from purgatorio.protocol.messages.init_producer_id import InitProducerIdRequest
from purgatorio.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch
from wire import TIMEOUT_SECONDS, Wire

FIND_VERSION, INIT_VERSION, ADD_VERSION, END_VERSION, PRODUCE_VERSION = 2, 4, 3, 3, 9
NOT_YET = (14, 15, 16, 51)
"""The coordinator is not ready, or still ends the transaction before: Java's producer asks again after 20 ms."""
RETRY_SECONDS = 0.02
TRANSACTION_TIMEOUT_MS = 900_000


class TransactionalProducer:
    """A producer of records of 100 B to partition 0 of one topic, one request at a time.

    Args:
        bootstrap: the address of a broker.
        transactional_id: names the producer.
        topic: where it writes to.
        leader: the address of the partition's leader.
    """

    def __init__(self, bootstrap: tuple[str, int], transactional_id: str, topic: str, leader: tuple[str, int]) -> None:
        self.transactional_id = transactional_id
        self._topic = topic
        self._sequence = 0
        self._coordinator = Wire(self._find(bootstrap))
        self._leader = Wire(leader)
        request = InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
        )
        made = self._ask(ApiKey.INIT_PRODUCER_ID, INIT_VERSION, request, lambda answer: answer.error_code)
        self._ids = {"producer_id": made.producer_id, "producer_epoch": made.producer_epoch}

    def _find(self, bootstrap: tuple[str, int]) -> tuple[str, int]:
        deadline = time.perf_counter() + TIMEOUT_SECONDS
        with closing(Wire(bootstrap)) as wire:
            request = FindCoordinatorRequest(key=self.transactional_id, key_type=1)
            while (found := wire.ask(ApiKey.FIND_COORDINATOR, FIND_VERSION, request)).error_code:
                assert time.perf_counter() < deadline, found
                time.sleep(RETRY_SECONDS)
        return found.host, found.port

    def _ask(self, api_key: ApiKey, version: int, request: Any, error_of: Any) -> Any:
        deadline = time.perf_counter() + TIMEOUT_SECONDS
        while error_of(answer := self._coordinator.ask(api_key, version, request)) in NOT_YET:
            assert time.perf_counter() < deadline, answer
            time.sleep(RETRY_SECONDS)
        assert not error_of(answer), answer
        return answer

    def close(self) -> None:
        """Close both connections; an open transaction stays open."""
        self._coordinator.close()
        self._leader.close()

    def add(self) -> None:
        """Add the partition to the transaction, which begins with it."""
        fields = {"transactional_id": self.transactional_id, **self._ids}
        request = AddPartitionsToTxnRequest(
            **{f"v3_and_below_{name}": value for name, value in fields.items()},
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=self._topic, partitions=[0])],
        )
        self._ask(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            ADD_VERSION,
            request,
            lambda answer: answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code,
        )

    def produce(self) -> None:
        """Produce a batch of one record, with acks=-1."""
        record = Record(0, time.time_ns() // 1_000_000, None, b"x" * 100, ())
        batch = build_batch([record], **self._ids, base_sequence=self._sequence, transactional=True)
        topics = [TopicProduceData(name=self._topic, partition_data=[PartitionProduceData(index=0, records=batch)])]
        request = ProduceRequest(transactional_id=self.transactional_id, acks=-1, timeout_ms=30_000, topic_data=topics)
        answer = self._leader.ask(ApiKey.PRODUCE, PRODUCE_VERSION, request)
        assert not answer.responses[0].partition_responses[0].error_code, answer
        self._sequence += 1

    def end(self, *, committed: bool) -> None:
        """End the transaction; on return its end is replicated, and the markers are under way."""
        request = EndTxnRequest(transactional_id=self.transactional_id, **self._ids, committed=committed)
        self._ask(ApiKey.END_TXN, END_VERSION, request, lambda answer: answer.error_code)
