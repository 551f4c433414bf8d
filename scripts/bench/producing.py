"""A transactional producer over plain sockets, for measurements: the requests that clients of TV1 send (KIP-98)."""

from __future__ import annotations

import time

from purgatorio.client.link import Address
from purgatorio.client.produce import batch_of, produce_request
from purgatorio.client.transaction import TransactionalId
from purgatorio.client.wire import Wire, now
from purgatorio.protocol.errors import ErrorCode
from wire import BlockingClient

TRANSACTION_TIMEOUT_MS = 900_000


class TransactionalProducer:
    """A producer of records of 100 B to partition 0 of one topic, one request at a time.

    Args:
        bootstrap: the address of a broker.
        transactional_id: names the producer.
        topic: where it writes to.
        leader: the address of the partition's leader.
    """

    def __init__(self, bootstrap: Address, transactional_id: str, topic: str, leader: Address) -> None:
        self._tp = topic, 0
        self._client = BlockingClient(bootstrap)
        self._id = TransactionalId(self._client, transactional_id, timeout_ms=TRANSACTION_TIMEOUT_MS)
        self._leader = Wire(leader)
        _check(now(self._id.initialize()))

    def close(self) -> None:
        """Close both connections; an open transaction stays open."""
        self._client.close()
        self._leader.close()

    def add(self) -> None:
        """Add the partition to the transaction, which begins with it."""
        _check(now(self._id.add([self._tp])))

    def produce(self) -> None:
        """Produce a batch of one record, with acks=-1."""
        batch = batch_of(
            [b"x" * 100],
            time.time_ns() // 1_000_000,
            producer=self._id.producer,
            sequence=self._id.next_sequence(self._tp, 1),
            transactional=True,
        )
        answer = self._leader.ask(produce_request(self._tp, batch, transactional_id=self._id.name))
        assert not answer.responses[0].partition_responses[0].error_code, answer

    def end(self, *, committed: bool) -> None:
        """End the transaction; on return its end is replicated, and the markers are under way."""
        code, _ = now(self._id.until_taken(self._id.end_request(committed=committed)))
        _check(code)


def _check(code: ErrorCode) -> None:
    assert not code, code.name
