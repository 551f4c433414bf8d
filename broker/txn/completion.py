"""How a transactional id gets its next value: a record is appended, and takes effect when it is committed; and what
follows: transactions end, at their deadline or as decided, and requests learn that a transition has ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from purgatorio.broker.causes.cause import MarkersMissing, StateNotCommitted
from purgatorio.broker.causes.words import shortened
from purgatorio.broker.coordinator.coordinator_log import RETRY_MS, Committed, Fate, NewRecord, ignore
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.txn.marker_sender import TransactionEnd
from purgatorio.broker.txn.services import TransactionServices
from purgatorio.broker.txn.transaction import DelayedTimeout, Transaction, TransactionKey, TransactionShard
from purgatorio.broker.txn.values import BUMPING_VERSION, TRANSITIONS, TransactionValue, encode_record
from purgatorio.logger import get_logger
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.transaction_state import TransactionState

logger = get_logger(__name__)
MAX_TIMED_OUT: Final = 20


class TimedOut(NamedTuple):
    """A transaction that was aborted as it ran out.

    Attributes:
        at_ms: when, on the broker's monotonic clock.
        open_ms: how long it was open.
        is_early: whether that was asked for, before its timeout.
    """

    transactional_id: str
    at_ms: int
    open_ms: int
    is_early: bool


class Completion:
    """Writes the values of one broker's transactional ids, and ends their transactions.

    Attributes:
        committed_count, aborted_count: the transactions that got all their markers since the broker started.
        timed_out_count: the transactions that were aborted at their deadline.
        timed_out: the last ones of them, oldest first.
    """

    def __init__(self, services: TransactionServices) -> None:
        self._services = services
        self.committed_count = 0
        self.aborted_count = 0
        self.timed_out_count = 0
        self.timed_out: deque[TimedOut] = deque(maxlen=MAX_TIMED_OUT)

    # --- transitions ---

    def start(
        self,
        shard: TransactionShard,
        transaction: Transaction,
        value: TransactionValue,
        done: Committed,
        *,
        client: str = "",
    ) -> None:
        """Give a transactional id its next value.

        If the replicas do not confirm the record in time, `done` gets the error, but the transition stays pending: the
        record may be committed yet. It ends when it is, or when this broker is the coordinator no more.

        Args:
            done: called once, when the value is committed and in effect, or with the error for the client; perhaps
                before this returns.
        """
        assert transaction.pending is None, f"{transaction.transactional_id}: {transaction.pending!r} is pending"
        old = transaction.value.state
        assert value.state in TRANSITIONS[old], f"{transaction.transactional_id}: from {old!r} to {value.state!r}"

        def apply() -> None:
            transaction.value = value

        record = encode_record(transaction.transactional_id, value)
        self._append(shard, {transaction.transactional_id: record}, value.state, apply, done, client)

    def remove(self, shard: TransactionShard, transactional_ids: Mapping[str, NewRecord], done: Committed) -> None:
        """Delete transactional ids that have no open transaction.

        Args:
            transactional_ids: each with its tombstone.
            done: as in `start`.
        """

        def apply() -> None:
            for each in transactional_ids:
                del shard.transactions[each]

        self._append(shard, transactional_ids, TransactionState.DEAD, apply, done, "")

    def _append(
        self,
        shard: TransactionShard,
        records: Mapping[str, NewRecord],
        state: TransactionState,
        apply: Callable[[], None],
        done: Committed,
        client: str,
    ) -> None:
        """Append the records of some ids, and apply them once they are committed."""
        transactions = [shard.transactions[each] for each in records]
        now_ms = self._services.purgatory.now_ms()
        for transaction in transactions:
            if not transaction.is_busy:
                transaction.busy_since_ms = now_ms
            transaction.pending = state

        def fated(fate: Fate, error_code: ErrorCode) -> None:
            if not shard.is_kept:
                done(ErrorCode.NOT_COORDINATOR)
            elif fate is Fate.UNKNOWN:
                done(error_code)  # no other result is allowed until this one's fate is known
            else:
                answer = ignore if fate is Fate.COMMITTED_LATE else done
                self._end(shard, transactions, apply, answer, error_code)

        self._services.log.write(shard, list(records.values()), fated, client=client)

    def _end(
        self,
        shard: TransactionShard,
        transactions: Sequence[Transaction],
        apply: Callable[[], None],
        done: Committed,
        error_code: ErrorCode,
    ) -> None:
        """End the transitions whose record is committed, or was refused."""
        for transaction in transactions:
            transaction.pending = None
        if not error_code:
            apply()
        done(error_code)
        for transaction in transactions:
            self._settled(shard, transaction)

    # --- what follows ---

    def _settled(self, shard: TransactionShard, transaction: Transaction) -> None:
        """Do what follows from a transactional id's value, and judge the requests that wait for it."""
        if shard.transactions.get(transaction.transactional_id) is transaction:
            if transaction.value.is_new:
                del shard.transactions[transaction.transactional_id]  # its first record was refused
            else:
                self.follow(shard, transaction)
        self._wake(transaction)

    def _wake(self, transaction: Transaction) -> None:
        key = TransactionKey(transaction.transactional_id)
        cause = transaction.value.state.state_name
        self._services.timeout_purgatory.check_and_complete(key, cause)
        self._services.purgatory.check_and_complete(key, cause)

    def follow(self, shard: TransactionShard, transaction: Transaction) -> None:
        """Time an open transaction, and complete a decided one: after each transition, and once after loading."""
        value = transaction.value
        if value.state is TransactionState.ONGOING:
            self._time(shard, transaction)
            return
        if transaction.is_overdue and value.state is TransactionState.PREPARE_ABORT:
            self._timed_out(transaction)
        transaction.timeout = None
        if not value.is_decided:
            if transaction.unmarked is not None:
                self._completed(transaction)
        elif transaction.unmarked is None:
            self._write_markers(shard, transaction)
        elif not transaction.unmarked:
            self._try_again(shard, transaction)

    def unload(self, shard: TransactionShard, transaction: Transaction) -> None:
        """Stop the timer of a transaction and its markers, and refuse its parked requests with NOT_COORDINATOR."""
        transaction.timeout = None
        if transaction.retry is not None:
            transaction.retry.cancel()
        if transaction.value.is_decided:
            self._services.ends.drop(transaction.transactional_id, shard.leader_epoch)
        self._wake(transaction)

    # --- deadlines ---

    def _time(self, shard: TransactionShard, transaction: Transaction) -> None:
        """Start the timer of an open transaction; it runs from the first partition, and is not renewed."""
        if transaction.timeout is not None:
            if transaction.is_overdue:
                self._try_again(shard, transaction)
            return
        value = transaction.value
        # The wall time outlives a coordinator; where it was set back, a transaction gets no more than its timeout.
        left_ms = min(value.timeout_ms, value.started_ms + value.timeout_ms - self._services.clock.wall_ms())
        operation = DelayedTimeout(left_ms, transaction, partial(self._abort_overdue, shard, transaction))
        transaction.timeout = operation
        key = TransactionKey(transaction.transactional_id)
        self._services.timeout_purgatory.try_complete_else_watch(operation, (key,))

    def _abort_overdue(self, shard: TransactionShard, transaction: Transaction) -> None:
        if transaction.pending is None:  # otherwise `_settled` comes again
            self.fence(shard, transaction, ignore)

    def _timed_out(self, transaction: Transaction) -> None:
        self.timed_out_count += 1
        services, value = self._services, transaction.value
        assert transaction.timeout is not None
        is_early = transaction.timeout.deadline_ms > services.timeout_purgatory.now_ms()
        open_ms = max(0, value.updated_ms - value.started_ms)
        self.timed_out.append(TimedOut(transaction.transactional_id, services.clock.now_ms(), open_ms, is_early))
        logger.info(
            "transaction timed out",
            transactional_id=shortened(transaction.transactional_id),
            timeout_ms=value.timeout_ms,
        )

    def fence(
        self,
        shard: TransactionShard,
        transaction: Transaction,
        done: Committed,
        *,
        keeps_last: bool = False,
        client: str = "",
    ) -> None:
        """Abort an open transaction that its producer has not ended, and fence the producer by the next epoch.

        Args:
            done: called when the abort is decided, or has failed.
            keeps_last: whether the producer itself has asked, and may go on with the next epoch; at transaction.version
                2 it may in any case (KIP-588).
        """
        keeps_last = keeps_last or self._services.config.version >= BUMPING_VERSION
        value = transaction.value.fenced(self._services.clock.wall_ms(), keeps_last=keeps_last)
        self.start(shard, transaction, value, done, client=client)

    # --- markers ---

    def _write_markers(self, shard: TransactionShard, transaction: Transaction) -> None:
        """Have the markers of a decided transaction written; the last one completes it."""
        value = transaction.value
        transaction.unmarked = unmarked = dict(value.partitions)
        if not unmarked:
            self._complete(shard, transaction)
            return

        def written(tp: TopicPartition) -> None:
            if unmarked.pop(tp, tp) is None and not unmarked:  # reported once
                self._complete(shard, transaction)

        self._services.ends.end(
            TransactionEnd(
                transaction.transactional_id,
                value.producer_id,
                value.producer_epoch,
                value.is_commit,
                shard.leader_epoch,
                tuple(unmarked),
                value.version,
            ),
            written=written,
            gave_up=partial(self._gave_up, transaction),
        )

    def _gave_up(self, transaction: Transaction, error_code: ErrorCode) -> None:
        """Leave a transaction as it is whose markers were refused: a newer coordinator or producer has taken over."""
        logger.warning(
            "markers of a transaction were refused",
            transactional_id=shortened(transaction.transactional_id),
            error=error_code.name,
            missing=len(transaction.unmarked or ()),
        )

    def _complete(self, shard: TransactionShard, transaction: Transaction) -> None:
        if not shard.is_kept:
            return
        value = transaction.value.completed(self._services.clock.wall_ms())
        self.start(shard, transaction, value, ignore)

    def _completed(self, transaction: Transaction) -> None:
        transaction.unmarked = None
        if transaction.value.is_commit:
            self.committed_count += 1
        else:
            self.aborted_count += 1

    # --- the log refuses ---

    def _try_again(self, shard: TransactionShard, transaction: Transaction) -> None:
        """Abort an overdue transaction, or complete one that has its markers, a little later."""
        if transaction.retry is None:
            transaction.retry = self._services.timer.call_later(RETRY_MS, self._retry, shard, transaction)

    def _retry(self, shard: TransactionShard, transaction: Transaction) -> None:
        transaction.retry = None
        if not shard.is_kept or transaction.pending is not None:
            return
        if transaction.value.is_decided:
            if transaction.unmarked is not None and not transaction.unmarked:
                self._complete(shard, transaction)
        elif transaction.is_overdue and transaction.value.state is TransactionState.ONGOING:
            self._abort_overdue(shard, transaction)

    # --- for pages ---

    def cause(self, transaction: Transaction) -> StateNotCommitted | MarkersMissing:
        """Return what a transition waits for."""
        if transaction.pending is not None:
            return StateNotCommitted(transaction.transactional_id, transaction.pending.state_name)
        return self._services.ends.waits_for(transaction.transactional_id)
