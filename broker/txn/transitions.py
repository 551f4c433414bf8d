"""How a transactional id gets its next value: a record is appended, and takes effect when it is committed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from purgatorio.broker.coordinator.coordinator_log import Committed, Fate, NewRecord
from purgatorio.broker.txn.services import TransactionServices
from purgatorio.broker.txn.transaction import Transaction, TransactionShard
from purgatorio.broker.txn.values import TRANSITIONS, TransactionValue, encode_record
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.transaction_state import TransactionState, encode_key

Settled = Callable[[TransactionShard, Transaction], None]
"""Called when a transition of this transactional id has ended: it has a new value, or its old one for good."""


class Transitions:
    """Writes the values of transactional ids.

    Args:
        settled: called at the end of each transition, after its client was answered.
    """

    def __init__(self, services: TransactionServices, settled: Settled) -> None:
        self._services = services
        self._settled = settled

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
                answer = _ignore if fate is Fate.COMMITTED_LATE else done
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


def _ignore(error_code: ErrorCode) -> None:
    """Answer no client: it was answered when the replicas took too long."""


def tombstone(transactional_id: str) -> NewRecord:
    """Return the record that deletes a transactional id."""
    return NewRecord(encode_key(transactional_id), None)
