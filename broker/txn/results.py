"""EndTxn: a producer commits or aborts its transaction (KIP-98; with an epoch of its own for each: KIP-890)."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.txn.producers import NO_PRODUCER, Producer, ProducerDone
from purgatorio.broker.txn.requests import Request, TransactionRequests, check_idle, check_producer
from purgatorio.broker.txn.services import TransactionServices
from purgatorio.broker.txn.transaction import Transaction, TransactionShard
from purgatorio.broker.txn.transitions import Transitions
from purgatorio.broker.txn.values import LAST_EPOCH, NO_ID, TransactionValue
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.transaction_state import TransactionState


class TransactionResults:
    """Decides the results of transactions as their producers want them."""

    def __init__(self, services: TransactionServices, transitions: Transitions, requests: TransactionRequests) -> None:
        self._services = services
        self._transitions = transitions
        self._requests = requests

    def end(
        self,
        transactional_id: str,
        producer: Producer,
        commit: bool,
        done: ProducerDone,
        *,
        bumps: bool,
        client: str = "",
    ) -> None:
        """Commit or abort the open transaction.

        Args:
            done: called when the result is decided and replicated, with the identity for the next transaction. Markers
                are written afterwards.
            bumps: whether the producer goes on with the next epoch (transaction.version 2).
        """
        attempt = _Attempt(transactional_id, producer, commit, done, client)
        judge = partial(self._judge_with_bump, attempt) if bumps else partial(self._judge, attempt)
        self._requests.run(Request(transactional_id, judge, attempt.refuse, client=client))

    # --- transaction.version 1 ---

    def _judge(self, attempt: _Attempt) -> None:
        """Decide the result, or confirm the one that is decided.

        Raises:
            CoordinatorError: the request is refused.
        """
        shard, transaction = self._requests.find(attempt.transactional_id)
        value = transaction.value
        check_producer(transaction, *attempt.producer)
        check_idle(transaction)
        if value.state is TransactionState.ONGOING:
            self._decide(shard, transaction, value.ended(attempt.commit, self._services.clock.wall_ms()), attempt)
        elif value.state is TransactionState.EMPTY:
            raise _wrong_state(value)
        else:
            _confirm(value, attempt)

    # --- transaction.version 2 ---

    def _judge_with_bump(self, attempt: _Attempt, next_id: int = NO_ID) -> None:
        """As `_judge`, for a producer whose epoch is bumped by each end, and that may not know whether it was.

        Raises:
            CoordinatorError: the request is refused.
        """
        shard, transaction = self._requests.find(attempt.transactional_id)
        check_idle(transaction)
        value = transaction.value
        if _is_retry(value, attempt.producer):
            _confirm(value, attempt)
            return
        check_producer(transaction, *attempt.producer)
        if value.is_idle and attempt.commit:
            raise _wrong_state(value)
        if value.is_exhausted and next_id == NO_ID:
            self._services.producer_ids.next(partial(self._bump_with_id, attempt))
            return
        next_id = next_id if value.is_exhausted else NO_ID
        now_ms = self._services.clock.wall_ms()
        if value.is_idle:  # a producer may abort what the coordinator has not heard of
            value = value._replace(partitions={}, started_ms=now_ms)
        self._decide(shard, transaction, value.ended_with_bump(attempt.commit, now_ms, next_id), attempt)

    def _bump_with_id(self, attempt: _Attempt, next_id: int | None) -> None:
        """Judge a request again that needed a producer id for the next transaction."""
        if next_id is None:
            attempt.refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            return
        judge = partial(self._judge_with_bump, attempt, next_id)
        self._requests.run(Request(attempt.transactional_id, judge, attempt.refuse, client=attempt.client))

    def _decide(
        self, shard: TransactionShard, transaction: Transaction, value: TransactionValue, attempt: _Attempt
    ) -> None:
        def decided(error_code: ErrorCode) -> None:
            attempt.done(error_code, NO_PRODUCER if error_code else Producer(*value.next_identity))

        self._transitions.start(shard, transaction, value, decided, client=attempt.client)


class _Attempt(NamedTuple):
    """An EndTxn request."""

    transactional_id: str
    producer: Producer
    commit: bool
    done: ProducerDone
    client: str

    def refuse(self, error_code: ErrorCode) -> None:
        """Answer with an error."""
        self.done(error_code, NO_PRODUCER)


def _confirm(value: TransactionValue, attempt: _Attempt) -> None:
    """Answer a request whose transaction is complete.

    Raises:
        CoordinatorError: INVALID_TXN_STATE if it ended with the other result.
    """
    if value.is_commit != attempt.commit:
        raise _wrong_state(value)
    attempt.done(ErrorCode.NONE, Producer(*value.next_identity))


def _is_retry(value: TransactionValue, producer: Producer) -> bool:
    """Return whether a producer ends the transaction again that is complete, and that bumped its epoch.

    An epoch that no producer gets is not confirmed: the producer was fenced when epochs ran out.
    """
    if value.state in (TransactionState.EMPTY, TransactionState.ONGOING):
        return False
    if value.producer_epoch == 0:
        return producer == (value.previous_id, LAST_EPOCH)
    return producer == (value.producer_id, value.producer_epoch - 1) and value.producer_epoch <= LAST_EPOCH


def _wrong_state(value: TransactionValue) -> CoordinatorError:
    return CoordinatorError(ErrorCode.INVALID_TXN_STATE, f"the transaction is in state {value.state.state_name}")
