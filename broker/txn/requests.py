"""How a coordinator judges a request: when its transactional id has no transition under way; it is parked until then.

Kafka answers CONCURRENT_TRANSACTIONS, and clients ask again after 20 to 100 ms; kafkajs never asks again for EndTxn and
AddOffsetsToTxn. Here the request waits until the transition has ended, and is judged then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from purgatorio.broker.causes.cause import MarkersMissing, StateNotCommitted
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.txn.completion import Completion
from purgatorio.broker.txn.services import TransactionServices
from purgatorio.broker.txn.transaction import Transaction, TransactionKey, TransactionShard
from purgatorio.protocol.errors import ErrorCode
from purgatorio.purgatory import DelayedOperation

MAX_PARKED: Final = 10_000
"""The most requests of one broker that wait for transitions; further ones get CONCURRENT_TRANSACTIONS at once."""

PATIENCE_MS: Final = 5_000
"""The longest wait of a request. Clients give up after 30 s and more (Java, kafkajs: 30 s, aiokafka: 40 s)."""

LEADER_PATIENCE_MS: Final = 100
"""The time after the begin of a transition in which leaders' requests wait for it; so long Kafka's leaders ask again.

Requests of other producers wait behind them, as leaders send many in one. A transition that takes longer, because a
broker has died, holds them up once and not each time that its producer tries again.
"""


class DelayedTransition(DelayedOperation):
    """A request that is judged when its transactional id has no transition under way."""

    __slots__ = ("_cause", "_judge", "_refuse", "_shard", "_transaction", "_value")

    def __init__(
        self,
        delay_ms: int,
        shard: TransactionShard,
        transaction: Transaction,
        *,
        judge: Callable[[], None],
        refuse: Callable[[ErrorCode], None],
        cause: Callable[[Transaction], StateNotCommitted | MarkersMissing],
    ) -> None:
        super().__init__(delay_ms)
        self._shard = shard
        self._transaction = transaction
        self._value = transaction.value
        self._judge = judge
        self._refuse = refuse
        self._cause = cause

    @property
    def _waits(self) -> bool:
        transaction = self._transaction
        is_same = transaction.value is self._value
        return self._shard.is_active and (transaction.is_busy if is_same else transaction.pending is not None)

    def try_complete(self) -> bool:
        """Complete when the transition has ended, also if the next one follows: some requests can be refused then."""
        return not self._waits and self.force_complete()

    def on_complete(self) -> None:
        """Judge the request; refuse it if its time is over."""
        if self._waits:
            self._refuse(ErrorCode.CONCURRENT_TRANSACTIONS)
        else:
            self._judge()

    def on_shutdown(self) -> None:
        """Refuse with NOT_COORDINATOR: the client looks for another broker."""
        self._refuse(ErrorCode.NOT_COORDINATOR)

    def on_error(self, error: Exception) -> None:
        """Refuse with UNKNOWN_SERVER_ERROR."""
        self._refuse(ErrorCode.UNKNOWN_SERVER_ERROR)

    def causes(self) -> Sequence[StateNotCommitted | MarkersMissing]:
        """Return what the transition waits for."""
        return (self._cause(self._transaction),) if self._waits else ()


class TransactionRequest(NamedTuple):
    """A request for one transactional id.

    Attributes:
        judge: answers the request, or raises CoordinatorError; with CONCURRENT_TRANSACTIONS it is called again later.
        by_leader: whether a leader asks, whose request waits only for a transition that has just begun.
    """

    transactional_id: str
    judge: Callable[[], None]
    refuse: Callable[[ErrorCode], None]
    client: str = ""
    by_leader: bool = False


class TransactionRequests:
    """Judges the requests of one broker."""

    def __init__(
        self, services: TransactionServices, completion: Completion, shard_of: Callable[[str], TransactionShard]
    ) -> None:
        self._purgatory = services.purgatory
        self._completion = completion
        self.shard_of = shard_of

    def run(self, request: TransactionRequest) -> None:
        """Judge a request, now or later."""
        patience_ms = LEADER_PATIENCE_MS if request.by_leader else PATIENCE_MS
        self._judge(request, self._purgatory.now_ms() + patience_ms)

    def find(self, transactional_id: str) -> tuple[TransactionShard, Transaction]:
        """Return a transactional id with its shard.

        Raises:
            CoordinatorError: INVALID_PRODUCER_ID_MAPPING if it is unknown; or this broker does not coordinate it.
        """
        shard = self.shard_of(transactional_id)
        transaction = shard.transactions.get(transactional_id)
        if transaction is None:
            raise CoordinatorError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "the transactional id is unknown")
        return shard, transaction

    def _judge(self, request: TransactionRequest, deadline_ms: int) -> None:
        try:
            request.judge()
        except CoordinatorError as error:
            if error.error_code != ErrorCode.CONCURRENT_TRANSACTIONS or not self._park(request, deadline_ms):
                request.refuse(error.error_code)

    def _park(self, request: TransactionRequest, deadline_ms: int) -> bool:
        """Park a request until the transition of its transactional id ends; False if it must not wait."""
        shard, transaction = self.find(request.transactional_id)
        until_ms = deadline_ms
        if request.by_leader:
            until_ms = min(deadline_ms, transaction.busy_since_ms + LEADER_PATIENCE_MS)
        left_ms = until_ms - self._purgatory.now_ms()
        if left_ms <= 0 or self._purgatory.num_delayed >= MAX_PARKED:
            return False

        def judge() -> None:
            self._judge(request, deadline_ms)

        operation = DelayedTransition(
            left_ms,
            shard,
            transaction,
            judge=judge,
            refuse=request.refuse,
            cause=self._completion.cause,
        )
        operation.client = request.client
        self._purgatory.try_complete_else_watch(operation, (TransactionKey(request.transactional_id),))
        return True


def check_idle(transaction: Transaction) -> None:
    """Check that no transition of a transactional id is under way.

    Requests check it before they compare ids, as in Kafka: during the transition a producer may use the epoch or the
    producer id that the transition gives it, and must not be fenced by it (KAFKA-18464, KAFKA-18660). EndTxn of
    transaction.version 1, which gives no epochs, compares ids first.

    Raises:
        CoordinatorError: CONCURRENT_TRANSACTIONS.
    """
    if transaction.is_busy:
        raise concurrent()


def concurrent() -> CoordinatorError:
    """Return the refusal of a request that comes during a transition."""
    return CoordinatorError(ErrorCode.CONCURRENT_TRANSACTIONS, "a transition of the transactional id is under way")


def check_producer(transaction: Transaction, producer_id: int, producer_epoch: int) -> None:
    """Check that a request is from the current producer of a transactional id.

    Raises:
        CoordinatorError: INVALID_PRODUCER_ID_MAPPING or PRODUCER_FENCED; also for higher epochs (KAFKA-9600).
    """
    value = transaction.value
    if producer_id != value.producer_id:
        raise CoordinatorError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "the producer id is not the current one")
    if producer_epoch != value.producer_epoch:
        raise CoordinatorError(ErrorCode.PRODUCER_FENCED, "the producer epoch is not the current one")
