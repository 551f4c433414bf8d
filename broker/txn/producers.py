"""Requests of transactional producers: InitProducerId, by which one begins and fences those before it (KIP-98,
KIP-360); and EndTxn, by which it commits or aborts (KIP-98; with an epoch of its own for each: KIP-890)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from purgatorio.broker.coordinator.coordinator_log import Committed
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.txn.completion import Completion
from purgatorio.broker.txn.requests import TransactionRequest, TransactionRequests, check_idle, check_producer
from purgatorio.broker.txn.services import TransactionServices
from purgatorio.broker.txn.transaction import Transaction, TransactionShard
from purgatorio.broker.txn.values import LAST_EPOCH, NO_EPOCH, NO_ID, TransactionValue
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.transaction_state import TransactionState

MAX_ID_BYTES: Final = 32_767
"""The longest transactional id in UTF-8: records of ``__transaction_state`` have no room for more."""


class ProducerIdAndEpoch(NamedTuple):
    """A producer id and an epoch."""

    producer_id: int
    producer_epoch: int


NO_PRODUCER: Final = ProducerIdAndEpoch(NO_ID, NO_EPOCH)
"""The producer id and epoch of a request without one, and of an answer with an error."""

ProducerDone = Callable[[ErrorCode, ProducerIdAndEpoch], None]
"""Receives the producer's identity, or an error code and `NO_PRODUCER`; called once."""


class _Attempt(NamedTuple):
    """An InitProducerId or EndTxn request."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    done: ProducerDone
    client: str

    def refuse(self, error_code: ErrorCode) -> None:
        """Answer with an error."""
        self.done(error_code, NO_PRODUCER)

    def when_committed(self, value: TransactionValue) -> Committed:
        """Return what answers with the identity of the next transaction, or with an error."""
        return lambda error_code: self.done(
            error_code, NO_PRODUCER if error_code else ProducerIdAndEpoch(*value.next_identity)
        )


class Producers:
    """Gives producers of transactional ids their producer id and epoch, and ends their transactions as they want."""

    def __init__(self, services: TransactionServices, completion: Completion, requests: TransactionRequests) -> None:
        self._services = services
        self._completion = completion
        self._requests = requests

    def _run(self, attempt: _Attempt, judge: Callable[[], None]) -> None:
        self._requests.run(TransactionRequest(attempt.transactional_id, judge, attempt.refuse, client=attempt.client))

    def _run_with_id(self, attempt: _Attempt, judge: Callable[[int], None]) -> None:
        """Judge a request again that needs a new producer id: much may have happened meanwhile."""

        def given(producer_id: int | None) -> None:
            if producer_id is None:
                attempt.refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            else:
                self._run(attempt, partial(judge, producer_id))

        self._services.producer_ids.next(given)

    # --- InitProducerId ---

    def init(
        self, transactional_id: str, timeout_ms: int, known: ProducerIdAndEpoch, done: ProducerDone, *, client: str = ""
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
            attempt = _Attempt(transactional_id, known, done, client)
            self._run(attempt, partial(self._judge_init, attempt, timeout_ms))

    def _judge_init(self, attempt: _Attempt, timeout_ms: int, new_id: int = NO_ID) -> None:
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
            _check_known(value, attempt.producer)
            if value.state is TransactionState.ONGOING:
                self._fence(shard, transaction, attempt, timeout_ms)
                return
        self._give(shard, transaction, value, attempt, timeout_ms, new_id)

    def _fence(self, shard: TransactionShard, transaction: Transaction, attempt: _Attempt, timeout_ms: int) -> None:
        """Abort the open transaction, then judge the request again: it waits as those that find the abort under way."""

        def decided(error_code: ErrorCode) -> None:
            if error_code:
                attempt.refuse(error_code)
            else:
                self._run(attempt, partial(self._judge_init, attempt, timeout_ms))

        keeps_last = attempt.producer != NO_PRODUCER
        self._completion.fence(shard, transaction, decided, keeps_last=keeps_last, client=attempt.client)

    def _give(
        self,
        shard: TransactionShard,
        transaction: Transaction | None,
        value: TransactionValue,
        attempt: _Attempt,
        timeout_ms: int,
        new_id: int,
    ) -> None:
        """Give the producer the next epoch, or a new producer id; once more the last ones, if the answer was lost."""
        known_epoch = attempt.producer.producer_epoch
        now_ms = self._services.clock.wall_ms()
        is_repeated = (
            known_epoch not in (NO_EPOCH, value.producer_epoch)
            and known_epoch == value.last_epoch
            and value.producer_epoch <= LAST_EPOCH
        )
        if is_repeated:
            value = value.repeated(timeout_ms, now_ms)
        elif (value.is_new or value.is_exhausted) and new_id == NO_ID:
            self._run_with_id(attempt, partial(self._judge_init, attempt, timeout_ms))
            return
        else:
            new_id = new_id if value.is_new or value.is_exhausted else NO_ID
            value = value.initialised(timeout_ms, now_ms, new_id=new_id, keeps_last=known_epoch != NO_EPOCH)
        if transaction is None:
            transaction = Transaction(attempt.transactional_id, TransactionValue())
            shard.transactions[attempt.transactional_id] = transaction
        self._start(shard, transaction, value, attempt)

    def _start(
        self, shard: TransactionShard, transaction: Transaction, value: TransactionValue, attempt: _Attempt
    ) -> None:
        self._completion.start(shard, transaction, value, attempt.when_committed(value), client=attempt.client)

    # --- EndTxn ---

    def end(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
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
        attempt = _Attempt(transactional_id, producer, done, client)
        self._run(attempt, partial(self._judge_bumping_end if bumps else self._judge_end, attempt, commit))

    def _judge_end(self, attempt: _Attempt, commit: bool) -> None:
        """Decide the result, or confirm the one that is decided.

        Raises:
            CoordinatorError: the request is refused.
        """
        shard, transaction = self._requests.find(attempt.transactional_id)
        value = transaction.value
        check_producer(transaction, *attempt.producer)
        check_idle(transaction)
        if value.state is TransactionState.ONGOING:
            self._start(shard, transaction, value.ended(commit, self._services.clock.wall_ms()), attempt)
        elif value.state is TransactionState.EMPTY:
            raise _wrong_state(value)
        else:
            _confirm(value, attempt, commit)

    def _judge_bumping_end(self, attempt: _Attempt, commit: bool, next_id: int = NO_ID) -> None:
        """As `_judge_end`, for a producer whose epoch is bumped by each end, and that may not know whether it was.

        Raises:
            CoordinatorError: the request is refused.
        """
        shard, transaction = self._requests.find(attempt.transactional_id)
        check_idle(transaction)
        value = transaction.value
        if _is_retry(value, attempt.producer):
            _confirm(value, attempt, commit)
            return
        check_producer(transaction, *attempt.producer)
        if value.is_idle and commit:
            raise _wrong_state(value)
        if value.is_exhausted and next_id == NO_ID:
            self._run_with_id(attempt, partial(self._judge_bumping_end, attempt, commit))
            return
        next_id = next_id if value.is_exhausted else NO_ID
        now_ms = self._services.clock.wall_ms()
        if value.is_idle:  # a producer may abort what the coordinator has not heard of
            value = value._replace(partitions={}, started_ms=now_ms)
        self._start(shard, transaction, value.ended_with_bump(commit, now_ms, next_id), attempt)


def _check_known(value: TransactionValue, known: ProducerIdAndEpoch) -> None:
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


def _confirm(value: TransactionValue, attempt: _Attempt, commit: bool) -> None:
    """Answer a request whose transaction is complete.

    Raises:
        CoordinatorError: INVALID_TXN_STATE if it ended with the other result.
    """
    if value.is_commit != commit:
        raise _wrong_state(value)
    attempt.when_committed(value)(ErrorCode.NONE)


def _is_retry(value: TransactionValue, producer: ProducerIdAndEpoch) -> bool:
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
