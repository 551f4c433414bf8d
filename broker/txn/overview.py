"""Transactional ids as observers see them: for the page, the JSON API and the commands."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.txn.transaction import Transaction
from purgatorio.broker.txn.transactions import Transactions


class TransactionOverview(NamedTuple):
    """One transactional id, with the transaction that it has or had last.

    Attributes:
        transactional_id: its name.
        state: the state, as ListTransactions names it.
        producer_id, producer_epoch: those of its producer; while the transaction ends, those of its markers.
        timeout_ms: how long its transactions may be open.
        open_ms: how long the transaction has been open; None if none is open or being ended.
        time_left_ms: the time until it is aborted; None if it is not open, or is being ended already.
        idle_ms: the time since the state changed last.
        partitions: those of the transaction.
        unmarked: those that lack their marker; None if no markers are being written.
        waits_for: what its transition waits for, in a sentence; empty if there is none.
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
    waits_for: str


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
        transactions.completion.describe(transaction) if transaction.is_busy else "",
    )


def time_left_ms(transactions: Transactions, transaction: Transaction) -> int | None:
    """Return the time until an open transaction is aborted; None if it is not open."""
    timeout = transaction.timeout
    return None if timeout is None else max(0, timeout.deadline_ms - transactions.timeout_purgatory.now_ms())
