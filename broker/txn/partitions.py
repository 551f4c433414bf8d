"""AddPartitionsToTxn and AddOffsetsToTxn: a transaction knows its partitions before records are written to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from purgatorio.broker.coordinator.coordinator_log import Committed
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.txn.completion import Completion
from purgatorio.broker.txn.producers import ProducerIdAndEpoch
from purgatorio.broker.txn.requests import (
    TransactionRequest,
    TransactionRequests,
    check_idle,
    check_producer,
    concurrent,
)
from purgatorio.broker.txn.services import TransactionServices
from purgatorio.broker.txn.values import BUMPING_VERSION
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.transaction_state import TransactionState

Verified = Callable[[Mapping[TopicPartition, ErrorCode]], None]
"""Receives an error code for each partition of a verification; called once."""


class TransactionPartitions:
    """Adds partitions to the transactions of one broker's shards, and verifies which ones are in."""

    def __init__(self, services: TransactionServices, completion: Completion, requests: TransactionRequests) -> None:
        self._services = services
        self._completion = completion
        self._requests = requests

    def add(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Sequence[TopicPartition],
        done: Committed,
        *,
        version: int,
        client: str = "",
        by_leader: bool = False,
    ) -> None:
        """Add partitions to the open transaction; the first ones open it.

        Args:
            partitions: where the producer will write.
            done: called when they are committed, or with the error for all of them.
            version: the transaction.version that the producer uses: 1 if it asks itself, 2 if a leader asks for it.
            by_leader: whether a leader asks, whose request waits only for a transition that has just begun.
        """

        def judge() -> None:
            shard, transaction = self._requests.find(transactional_id)
            check_idle(transaction)
            check_producer(transaction, *producer)
            value = transaction.value
            is_open = value.state is TransactionState.ONGOING
            if is_open and all(tp in value.partitions for tp in partitions):
                done(ErrorCode.NONE)
                return
            value = value.with_partitions(partitions, self._services.clock.wall_ms(), version)
            if len(value.partitions) > self._services.config.max_partitions:
                message = "the transaction has the most partitions that it may have"
                raise CoordinatorError(ErrorCode.POLICY_VIOLATION, message)
            self._completion.start(shard, transaction, value, done, client=client)

        self._requests.run(TransactionRequest(transactional_id, judge, done, client, by_leader))

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        verify_only: bool,
        done: Verified,
    ) -> None:
        """Verify or add partitions for a leader, as one transaction of AddPartitionsToTxn 4 and 5.

        A verification is answered at once; partitions are added when a transition ends that has just begun.

        Args:
            verify_only: check that the partitions are in the transaction; else add those that are not.
            done: called once, perhaps before this returns, with a code for each partition: NONE, TRANSACTION_ABORTABLE
                for one that is not in the transaction, or what is wrong with the transaction or the coordinator
                (NOT_COORDINATOR, CONCURRENT_TRANSACTIONS ...) for all of them.
        """
        producer = ProducerIdAndEpoch(producer_id, producer_epoch)

        def refuse(error_code: ErrorCode) -> None:
            done(dict.fromkeys(partitions, error_code))

        if not verify_only:
            self.add(transactional_id, producer, partitions, refuse, version=BUMPING_VERSION, by_leader=True)
            return
        try:
            verified = self.verify(transactional_id, producer, partitions)
        except CoordinatorError as error:
            refuse(error.error_code)
        else:
            done(verified)

    def verify(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Return for each partition whether it is in the open transaction (KIP-890): NONE or TRANSACTION_ABORTABLE.

        A transition that is not committed yet changes nothing (KAFKA-14904).

        Raises:
            CoordinatorError: the error code for all partitions.
        """
        _, transaction = self._requests.find(transactional_id)
        value = transaction.value
        if value.is_new:
            raise CoordinatorError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "the transactional id is unknown")
        check_producer(transaction, *producer)
        if value.is_decided:
            raise concurrent()
        known = value.partitions if value.state is TransactionState.ONGOING else {}
        return {tp: ErrorCode.NONE if tp in known else ErrorCode.TRANSACTION_ABORTABLE for tp in partitions}
