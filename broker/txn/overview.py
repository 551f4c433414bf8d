"""Transactional ids as observers see them: for the page, the JSON API and the commands."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, NamedTuple

from purgatorio.broker.causes.words import as_document, in_words
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.txn.marker_sender import MarkerSender
from purgatorio.broker.txn.partition_verifier import PartitionVerifier
from purgatorio.broker.txn.transaction import Transaction
from purgatorio.broker.txn.transactions import Transactions

LATE_MS: Final = 5 * 60_000
"""From the longest timeout of a transaction to when it counts as late; as in Kafka (KIP-664)."""
TEXT_CHARS: Final = 500
"""The length to which texts of causes are cut."""


class TransactionNumbers(NamedTuple):
    """How many transactions one broker coordinates, and what it does for those of others.

    Attributes:
        ids: the transactional ids.
        open: the open transactions, without those that are being ended.
        missing_markers: the end markers that are still to be written.
        committed, aborted: the transactions that got all their markers since the broker started.
        timed_out: the transactions that were aborted at their deadline.
        expired: the transactional ids that expired.
        verifications: the questions of this broker's partitions to coordinators (KIP-890).
        failed_verifications: those with an error for some partition.
        late_before_ms: wall time; a transaction in a log that began before has outlived any timeout: it hangs.
    """

    ids: int = 0
    open: int = 0
    missing_markers: int = 0
    committed: int = 0
    aborted: int = 0
    timed_out: int = 0
    expired: int = 0
    verifications: int = 0
    failed_verifications: int = 0
    late_before_ms: int = 0


def numbers(transactions: Transactions, sender: MarkerSender, verifier: PartitionVerifier) -> TransactionNumbers:
    """Return the numbers of one broker."""
    completion = transactions.completion
    return TransactionNumbers(
        ids=transactions.id_count,
        open=transactions.open_count,
        missing_markers=sender.missing_count,
        committed=completion.committed_count,
        aborted=completion.aborted_count,
        timed_out=completion.timed_out_count,
        expired=transactions.coordinator.expiration_count,
        verifications=verifier.verification_count,
        failed_verifications=verifier.failure_count,
        late_before_ms=transactions.clock.wall_ms() - transactions.config.max_timeout_ms - LATE_MS,
    )


def overview(transactions: Transactions, transaction: Transaction) -> dict[str, Any]:
    """Return a transactional id of this coordinator, with the transaction that it has or had last, as JSON has it.

    `state`: as ListTransactions names it. `producer_id`, `producer_epoch`: those of its producer; while the transaction
    ends, those of its markers. `open_ms` is None if no transaction is open or being ended, `timeout_left_ms` if its end
    is decided too. `idle_ms`: the time since the state changed last. `missing_markers`: the partitions that lack their
    end marker. `waits_for`: what its transition waits for, in a sentence; `causes`: the same as data.
    """
    value = transaction.value
    now_ms = transactions.clock.wall_ms()
    causes = [transactions.completion.cause(transaction)] if transaction.is_busy else []
    return {
        "id": transaction.transactional_id,
        "state": value.state.state_name,
        "producer_id": value.producer_id,
        "producer_epoch": value.producer_epoch,
        "open_ms": None if value.is_idle else max(0, now_ms - value.started_ms),
        "timeout_ms": value.timeout_ms,
        "timeout_left_ms": time_left_ms(transactions, transaction),
        "idle_ms": max(0, now_ms - value.updated_ms),
        "partition_count": len(value.partitions),
        "missing_markers": len(unmarked(transaction)),
        "waits_for": in_words(causes),
        "causes": [as_document(cause, TEXT_CHARS) for cause in causes],
    }


def unmarked(transaction: Transaction) -> Collection[TopicPartition]:
    """Return the partitions that lack their end marker; none before markers are written."""
    return (transaction.unmarked or ()) if transaction.value.is_decided else ()


def time_left_ms(transactions: Transactions, transaction: Transaction) -> int | None:
    """Return the time until an open transaction is aborted; None if it is not open."""
    timeout = transaction.timeout
    return None if timeout is None else max(0, timeout.deadline_ms - transactions.timeout_purgatory.now_ms())
