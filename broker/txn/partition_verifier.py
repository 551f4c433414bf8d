"""How leaders ask coordinators whether partitions are in a transaction (KIP-890).

The coordinator of this broker is called. Verifications to the coordinator on another broker are transactions of one
AddPartitionsToTxn request: the first ones go at once, and those that come while the broker has several requests to
answer share the next one. A transaction is in a request once, as an answer names it by its transactional id only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from purgatorio.broker.coordinator.ask_broker import AskBroker
from purgatorio.broker.log.topic_partition import TopicPartition, by_topic
from purgatorio.broker.metadata.image import NO_LEADER, ClusterImage
from purgatorio.broker.metadata.topic_name import TRANSACTION_STATE_TOPIC
from purgatorio.broker.txn.partitions import TransactionPartitions, Verified
from purgatorio.logger import get_logger
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.coordinator_partition import coordinator_partition
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from purgatorio.purgatory import Timer

logger = get_logger(__name__)

RETRY_MS: Final = 20
"""From CONCURRENT_TRANSACTIONS, while markers of the transaction before are written, to the next try; as in Kafka."""

MAX_RETRIES: Final = 5
"""The most retries: then, after 100 ms, the client is to retry."""

MAX_TRANSACTIONS_PER_REQUEST: Final = 100
"""The most transactions of one request, some milliseconds of a coordinator's time."""

MAX_REQUESTS: Final = 4
"""The most requests to one broker that wait for answers."""

MAX_WAITING: Final = 10_000
"""The most verifications that wait for answers; clients are to retry after further ones."""

REQUEST_VERSION: Final = 5
"""The version of the requests: the first that may answer TRANSACTION_ABORTABLE."""

_ON_THE_WAY: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,  # the coordinator's image is behind: this broker leads the partition
        ErrorCode.OPERATION_NOT_ATTEMPTED,  # because of another partition of the request
    }
)


class _Verification:
    """Whether partitions are in a transaction.

    Attributes:
        done: None once it was called.
        retries: how often it was asked again.
    """

    __slots__ = ("done", "partitions", "retries", "transaction")

    def __init__(
        self, transaction: AddPartitionsToTxnTransaction, partitions: Sequence[TopicPartition], done: Verified
    ) -> None:
        self.transaction = transaction
        self.partitions = partitions
        self.done: Verified | None = done
        self.retries = 0


class _Destination:
    """A coordinator's broker: verifications that it is to be asked.

    Attributes:
        requests: those that it has not answered.
        is_sending: whether requests are being sent; one that fails at once begins no other within it.
    """

    __slots__ = ("is_sending", "queue", "requests")

    def __init__(self) -> None:
        self.queue: deque[_Verification] = deque()
        self.requests = 0
        self.is_sending = False


class PartitionVerifier:
    """Asks coordinators for the leaders of this broker; implements `VerifyPartitions`.

    Args:
        broker_id: this broker, whose own coordinator is called.

    Attributes:
        verification_count: the verifications so far.
        failure_count: those with an error for some partition.
    """

    def __init__(
        self,
        broker_id: int,
        *,
        image: Callable[[], ClusterImage],
        coordinator: TransactionPartitions,
        ask: AskBroker,
        timer: Timer,
    ) -> None:
        self._broker_id = broker_id
        self._image = image
        self._coordinator = coordinator
        self._ask = ask
        self._timer = timer
        self._destinations: dict[int, _Destination] = {}
        self._waiting = 0
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
        if self._waiting >= MAX_WAITING:
            self.failure_count += 1
            done(dict.fromkeys(partitions, ErrorCode.NOT_ENOUGH_REPLICAS))
            return
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            verify_only=not add,
            topics=[AddPartitionsToTxnTopic(name=name, partitions=each) for name, each in by_topic(partitions).items()],
        )
        self._waiting += 1
        self._route(_Verification(transaction, partitions, done))

    # --- on the way ---

    def _route(self, verification: _Verification) -> None:
        """Ask the coordinator where the newest image has it."""
        broker_id = self._coordinator_of(verification.transaction.transactional_id)
        if broker_id == self._broker_id:
            self._ask_here(verification)
        elif broker_id == NO_LEADER:
            self._answered(verification, {})
        else:
            destination = self._destinations.setdefault(broker_id, _Destination())
            destination.queue.append(verification)
            self._send(broker_id, destination)

    def _ask_here(self, verification: _Verification) -> None:
        transaction = verification.transaction
        try:
            self._coordinator.add_partitions(
                transaction.transactional_id,
                transaction.producer_id,
                transaction.producer_epoch,
                verification.partitions,
                verify_only=transaction.verify_only,
                done=partial(self._answered, verification),
            )
        except Exception:  # a bug; without an answer the producer could never write to these partitions again
            logger.exception("a transaction could not be verified", transactional_id=transaction.transactional_id)
            self._answered(verification, {})

    def _coordinator_of(self, transactional_id: str) -> int:
        """Return the broker that coordinates the transactional id, or NO_LEADER."""
        topic = self._image().topics.get(TRANSACTION_STATE_TOPIC)
        if topic is None:
            return NO_LEADER
        return topic.partitions[coordinator_partition(transactional_id, len(topic.partitions))].leader

    def _send(self, broker_id: int, destination: _Destination) -> None:
        if destination.is_sending:
            return
        destination.is_sending = True
        try:
            while destination.queue and destination.requests < MAX_REQUESTS:
                asked = self._take(broker_id, destination.queue)
                if asked:
                    destination.requests += 1
                    transactions = [verification.transaction for verification in asked.values()]
                    request = AddPartitionsToTxnRequest(transactions=transactions)
                    done = partial(self._broker_answered, broker_id, destination, asked)
                    self._ask(broker_id, ApiKey.ADD_PARTITIONS_TO_TXN, REQUEST_VERSION, request, done)
        finally:
            destination.is_sending = False

    def _take(self, broker_id: int, queue: deque[_Verification]) -> dict[str, _Verification]:
        """Take the verifications of one request, by transactional id; if a coordinator has moved, its go there."""
        asked: dict[str, _Verification] = {}
        while queue and len(asked) < MAX_TRANSACTIONS_PER_REQUEST:
            transactional_id = queue[0].transaction.transactional_id
            if transactional_id in asked:
                break
            verification = queue.popleft()
            if self._coordinator_of(transactional_id) == broker_id:
                asked[transactional_id] = verification
            else:
                self._route(verification)
        return asked

    def _broker_answered(
        self,
        broker_id: int,
        destination: _Destination,
        asked: Mapping[str, _Verification],
        response: AddPartitionsToTxnResponse | None,
        error: Exception | None,
    ) -> None:
        destination.requests -= 1
        results = _results(response)
        for transactional_id, verification in asked.items():
            self._answered(verification, results.get(transactional_id, {}))
        self._send(broker_id, destination)

    # --- answers ---

    def _answered(self, verification: _Verification, codes: Mapping[TopicPartition, ErrorCode]) -> None:
        """Pass the answer on, or ask again; a partition without a code could not be asked for."""
        if verification.retries < MAX_RETRIES and ErrorCode.CONCURRENT_TRANSACTIONS in codes.values():
            verification.retries += 1
            self._timer.call_later(RETRY_MS, self._route, verification)
            return
        done, verification.done = verification.done, None
        if done is None:
            return
        self._waiting -= 1
        missing = ErrorCode.NETWORK_EXCEPTION
        told = {tp: _told(codes.get(tp, missing)) for tp in verification.partitions}
        self.failure_count += any(told.values())
        try:
            done(told)
        except Exception:  # a bug; it must not keep the answers from others
            logger.exception("a verification could not be noted")


def _told(code: ErrorCode) -> ErrorCode:
    """Return what a client is told, which knows no errors of coordinators in its request (KAFKA-16386)."""
    if code in _ON_THE_WAY:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return ErrorCode.INVALID_PRODUCER_EPOCH if code == ErrorCode.PRODUCER_FENCED else code


def _results(response: AddPartitionsToTxnResponse | None) -> dict[str, dict[TopicPartition, ErrorCode]]:
    """Return the error codes of a response by transactional id and partition; none if it failed as a whole."""
    if response is None or response.error_code:
        return {}
    return {
        result.transactional_id: {
            TopicPartition(topic.name, each.partition_index): ErrorCode.known(each.partition_error_code)
            for topic in result.topic_results
            for each in topic.results_by_partition
        }
        for result in response.results_by_transaction
    }
