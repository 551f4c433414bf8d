"""InitProducerId with a transactional id: a producer begins, and fences those before it (KIP-98, KIP-360)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.txn.completion import Completion
from purgatorio.broker.txn.requests import Request, TransactionRequests, check_idle
from purgatorio.broker.txn.services import TransactionServices
from purgatorio.broker.txn.transaction import Transaction, TransactionShard
from purgatorio.broker.txn.values import LAST_EPOCH, NO_EPOCH, NO_ID, TransactionValue
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.transaction_state import TransactionState

MAX_ID_BYTES: Final = 32_767
"""The longest transactional id in UTF-8: records of ``__transaction_state`` have no room for more."""


class Producer(NamedTuple):
    """A producer id and an epoch."""

    producer_id: int
    producer_epoch: int


NO_PRODUCER: Final = Producer(NO_ID, NO_EPOCH)
"""What a producer says that has no id yet, and is told with an error."""

ProducerDone = Callable[[ErrorCode, Producer], None]
"""Receives the producer's identity, or an error code and `NO_PRODUCER`; called once."""


class Producers:
    """Gives producers of transactional ids their producer id and epoch."""

    def __init__(self, services: TransactionServices, completion: Completion, requests: TransactionRequests) -> None:
        self._services = services
        self._completion = completion
        self._requests = requests

    def init(
        self, transactional_id: str, timeout_ms: int, known: Producer, done: ProducerDone, *, client: str = ""
    ) -> None:
        """Give a producer its id and epoch, once the transaction of the one before is aborted.

        Args:
            transactional_id: the id; unknown ones are created.
            known: the identity that the producer has, which must be the current one (KIP-360); NO_PRODUCER if none.
            done: called when the identity is committed, or with the error.
        """
        if (
            not transactional_id
            or len(transactional_id.encode()) > MAX_ID_BYTES
            or (known.producer_id == NO_ID) != (known.producer_epoch == NO_EPOCH)
        ):
            done(ErrorCode.INVALID_REQUEST, NO_PRODUCER)
        elif not 1 <= timeout_ms <= self._services.config.max_timeout_ms:
            done(ErrorCode.INVALID_TRANSACTION_TIMEOUT, NO_PRODUCER)
        else:
            self._run(_Attempt(transactional_id, timeout_ms, known, done, client))

    def _run(self, attempt: _Attempt, new_id: int = NO_ID) -> None:
        judge = partial(self._judge, attempt, new_id)
        self._requests.run(Request(attempt.transactional_id, judge, attempt.refuse, client=attempt.client))

    def _judge(self, attempt: _Attempt, new_id: int) -> None:
        """Give the producer an identity, or abort the transaction that is in its way.

        Raises:
            CoordinatorError: the request is refused.
        """
        shard = self._requests.shard_of(attempt.transactional_id)
        transaction = shard.transactions.get(attempt.transactional_id)
        value = TransactionValue()
        if transaction is None:
            if len(shard.transactions) >= self._services.config.max_ids:
                raise CoordinatorError(ErrorCode.POLICY_VIOLATION, f"{shard.tp} has the most ids that it may have")
        else:
            check_idle(transaction)
            value = transaction.value
            _check_known(value, attempt.known)
            if value.state is TransactionState.ONGOING:
                self._fence(shard, transaction, attempt)
                return
        self._give(shard, transaction, value, attempt, new_id)

    def _fence(self, shard: TransactionShard, transaction: Transaction, attempt: _Attempt) -> None:
        """Abort the open transaction, then judge the request again: it waits as those that find the abort under way."""

        def decided(error_code: ErrorCode) -> None:
            if error_code:
                attempt.refuse(error_code)
            else:
                self._run(attempt)

        keeps_last = attempt.known != NO_PRODUCER
        self._completion.fence(shard, transaction, decided, keeps_last=keeps_last, client=attempt.client)

    def _give(
        self,
        shard: TransactionShard,
        transaction: Transaction | None,
        value: TransactionValue,
        attempt: _Attempt,
        new_id: int,
    ) -> None:
        """Give the producer the next epoch, or a new producer id; once more the last ones, if the answer was lost."""
        known_epoch = attempt.known.producer_epoch
        now_ms = self._services.clock.wall_ms()
        is_repeated = (
            known_epoch not in (NO_EPOCH, value.producer_epoch)
            and known_epoch == value.last_epoch
            and value.producer_epoch <= LAST_EPOCH
        )
        if is_repeated:
            value = value.repeated(attempt.timeout_ms, now_ms)
        elif (value.is_new or value.is_exhausted) and new_id == NO_ID:
            self._services.producer_ids.next(partial(self._give_new_id, attempt))
            return
        else:
            new_id = new_id if value.is_new or value.is_exhausted else NO_ID
            keeps_last = known_epoch != NO_EPOCH
            value = value.initialised(attempt.timeout_ms, now_ms, new_id=new_id, keeps_last=keeps_last)
        if transaction is None:
            transaction = Transaction(attempt.transactional_id, TransactionValue())
            shard.transactions[attempt.transactional_id] = transaction

        def committed(error_code: ErrorCode) -> None:
            attempt.done(error_code, NO_PRODUCER if error_code else Producer(*value.next_identity))

        self._completion.transitions.start(shard, transaction, value, committed, client=attempt.client)

    def _give_new_id(self, attempt: _Attempt, producer_id: int | None) -> None:
        """Judge a request again that needed a producer id: much may have happened meanwhile."""
        if producer_id is None:
            attempt.refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        else:
            self._run(attempt, producer_id)


class _Attempt(NamedTuple):
    """An InitProducerId request."""

    transactional_id: str
    timeout_ms: int
    known: Producer
    done: ProducerDone
    client: str

    def refuse(self, error_code: ErrorCode) -> None:
        """Answer with an error."""
        self.done(error_code, NO_PRODUCER)


def _check_known(value: TransactionValue, known: Producer) -> None:
    """Check that the identity that a producer names is the current one, or the one just before.

    In an open transaction it must be the current one. Kafka aborts the transaction even for an older one.

    Raises:
        CoordinatorError: PRODUCER_FENCED.
    """
    if known == NO_PRODUCER or value.is_new:
        return
    if known == (value.producer_id, value.producer_epoch):
        return
    is_last = known.producer_epoch == value.last_epoch and value.state is not TransactionState.ONGOING
    is_same_id = known.producer_id == value.producer_id
    if is_last and (is_same_id or (known.producer_id == value.previous_id and known.producer_epoch >= LAST_EPOCH)):
        return
    raise CoordinatorError(ErrorCode.PRODUCER_FENCED, "the producer was fenced by another one")
