"""How leaders ask coordinators whether partitions are in a transaction (KIP-890).

The coordinator of this broker is called. Verifications to the coordinator on another broker are transactions of one
AddPartitionsToTxn request. A transaction is in a request once, as an answer names it by its transactional id only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from purgatorio.broker.causes.kinds import VERIFICATION
from purgatorio.broker.causes.words import shortened
from purgatorio.broker.coordinator.broker_calls import Answer, BrokerCalls, Call, CallKind, Retries
from purgatorio.broker.log.topic_partition import TopicPartition, by_topic
from purgatorio.broker.metadata.topic_name import TRANSACTION_STATE_TOPIC
from purgatorio.broker.routing.passing_errors import VERIFICATIONS
from purgatorio.broker.txn.partitions import TransactionPartitions, Verified
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

RETRY_MS: Final = 20
"""From CONCURRENT_TRANSACTIONS, while markers of the transaction before are written, to the next try; as in Kafka."""

MAX_RETRIES: Final = 5
"""The most retries: then, after 100 ms, the client is to retry."""

MAX_TRANSACTIONS_PER_REQUEST: Final = 100
"""The most transactions of one request, some milliseconds of a coordinator's time."""

REQUEST_VERSION: Final = 5
"""The version of the requests: the first that may answer TRANSACTION_ABORTABLE."""


class _Verification(Call):
    """Whether partitions are in a transaction."""

    __slots__ = ("done", "partitions", "transaction")

    def __init__(
        self,
        kind: PartitionVerifier,
        transaction: AddPartitionsToTxnTransaction,
        partitions: Sequence[TopicPartition],
        done: Verified,
    ) -> None:
        super().__init__(kind, TopicPartition(TRANSACTION_STATE_TOPIC, 0), transaction.transactional_id)
        self.transaction = transaction
        self.partitions = partitions
        self.done = done


class PartitionVerifier(CallKind[_Verification]):
    """Asks coordinators for the leaders of this broker; implements `VerifyPartitions`.

    Attributes:
        verification_count: the verifications so far.
        failure_count: those with an error for some partition.
    """

    row = VERIFICATION
    api_key = ApiKey.ADD_PARTITIONS_TO_TXN
    version = REQUEST_VERSION
    passing = VERIFICATIONS
    retries = Retries(RETRY_MS, RETRY_MS, times=MAX_RETRIES)
    max_ids = MAX_TRANSACTIONS_PER_REQUEST
    is_bounded = True

    def __init__(self, calls: BrokerCalls, coordinator: TransactionPartitions) -> None:
        self._calls = calls
        self._coordinator = coordinator
        self.verification_count = 0
        self.failure_count = 0

    def __call__(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        add: bool,
        done: Verified,
    ) -> None:
        """Call `done` once, with an error code for each partition; see `VerifyPartitions`.

        CONCURRENT_TRANSACTIONS after `MAX_RETRIES` says that the transaction before has not ended yet.
        """
        self.verification_count += 1
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            verify_only=not add,
            topics=[AddPartitionsToTxnTopic(name=name, partitions=each) for name, each in by_topic(partitions).items()],
        )
        self._calls.make([_Verification(self, transaction, partitions, done)])

    def place(self, call: _Verification) -> TopicPartition:
        """Return the coordinator's partition."""
        return self._calls.coordinator(TRANSACTION_STATE_TOPIC, call.transaction.transactional_id)

    def here(self, calls: list[_Verification], answered: Callable[[_Verification, Answer], None]) -> None:
        """Ask the coordinator of this broker."""
        (call,) = calls
        transaction = call.transaction
        self._coordinator.add_partitions(
            transaction.transactional_id,
            transaction.producer_id,
            transaction.producer_epoch,
            call.partitions,
            verify_only=transaction.verify_only,
            done=lambda codes: answered(call, _answer(codes)),
        )

    def request(self, calls: Mapping[str, list[_Verification]]) -> AddPartitionsToTxnRequest:
        """Ask about some transactions."""
        return AddPartitionsToTxnRequest(transactions=[call.transaction for (call,) in calls.values()])

    def answers(
        self, response: AddPartitionsToTxnResponse, calls: Mapping[str, list[_Verification]]
    ) -> dict[str, Answer]:
        """Return the error codes by partition; none if the request failed as a whole."""
        if response.error_code:
            return {}
        return {
            result.transactional_id: _answer(
                {
                    TopicPartition(topic.name, each.partition_index): ErrorCode.known(each.partition_error_code)
                    for topic in result.topic_results
                    for each in topic.results_by_partition
                }
            )
            for result in response.results_by_transaction
        }

    def named(self, call: _Verification) -> str:
        """Return a verification in words."""
        return f"the verification of the transaction of {shortened(call.transaction.transactional_id)}"

    def ended(self, call: _Verification, answer: Answer) -> None:
        """Pass the answer on; a partition without a code could not be asked for."""
        codes: Mapping[TopicPartition, ErrorCode] = answer.value or {}
        answered = {tp: codes.get(tp, ErrorCode.NETWORK_EXCEPTION) for tp in call.partitions}
        self.failure_count += any(answered.values())
        call.done(answered)


def _answer(codes: Mapping[TopicPartition, ErrorCode]) -> Answer:
    """Return the codes, of which CONCURRENT_TRANSACTIONS is that of the whole."""
    is_early = ErrorCode.CONCURRENT_TRANSACTIONS in codes.values()
    return Answer(ErrorCode.CONCURRENT_TRANSACTIONS if is_early else ErrorCode.NONE, value=codes)
