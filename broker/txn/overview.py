"""Transactional ids as observers see them: for the page, the JSON API and the commands."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from purgatorio.broker.causes.cause import MarkersMissing, StateNotCommitted
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.txn.marker_sender import MarkerSender
from purgatorio.broker.txn.partition_verifier import PartitionVerifier
from purgatorio.broker.txn.transaction import Transaction
from purgatorio.broker.txn.transactions import Transactions

LATE_MS: Final = 5 * 60_000
"""From the longest timeout of a transaction to when it counts as late; as in Kafka (KIP-664)."""


class TransactionOverview(NamedTuple):
    """One transactional id, with the transaction that it has or had last.

    Attributes:
        state: the state, as ListTransactions names it.
        producer_id, producer_epoch: those of its producer; while the transaction ends, those of its markers.
        open_ms: how long the transaction has been open; None if none is open or being ended.
        time_left_ms: the time until it is aborted; None if it is not open, or is being ended already.
        idle_ms: the time since the state changed last.
        partitions: those of the transaction.
        unmarked: those that lack their marker; None if no markers are being written.
        cause: what its transition waits for; None if there is none.
    """

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    open_ms: int | None
    time_left_ms: int | None
    idle_ms: int
    partitions: Mapping[TopicPartition, None]
    unmarked: Collection[TopicPartition] | None
    cause: StateNotCommitted | MarkersMissing | None


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
        expired=transactions.expiration_count,
        verifications=verifier.verification_count,
        failed_verifications=verifier.failure_count,
        late_before_ms=transactions.clock.wall_ms() - transactions.config.max_timeout_ms - LATE_MS,
    )


def overview(transactions: Transactions, transaction: Transaction) -> TransactionOverview:
    """Return a transactional id of this coordinator."""
    value = transaction.value
    now_ms = transactions.clock.wall_ms()
    return TransactionOverview(
        transaction.transactional_id,
        value.state.state_name,
        value.producer_id,
        value.producer_epoch,
        value.timeout_ms,
        None if value.is_idle else max(0, now_ms - value.started_ms),
        time_left_ms(transactions, transaction),
        max(0, now_ms - value.updated_ms),
        value.partitions,
        transaction.unmarked if value.is_decided else None,
        transactions.completion.cause(transaction) if transaction.is_busy else None,
    )


def time_left_ms(transactions: Transactions, transaction: Transaction) -> int | None:
    """Return the time until an open transaction is aborted; None if it is not open."""
    timeout = transaction.timeout
    return None if timeout is None else max(0, timeout.deadline_ms - transactions.timeout_purgatory.now_ms())
