"""Mutants of transactions: each switches off one of the rules that make them atomic, isolated and fenced."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from purgatorio.broker.coordinator.coordinator_log import Committed, NewRecord
from purgatorio.broker.group.offsets import OffsetChange
from purgatorio.broker.group.shard_offsets import ShardOffsets
from purgatorio.broker.log.log import Log
from purgatorio.broker.log.producer_state import ProducerStates
from purgatorio.broker.log.transactions import AbortedTransactions
from purgatorio.broker.replica.partition import Partition
from purgatorio.broker.replica.producing import transaction_guard
from purgatorio.broker.replica.producing.verification import ProducerTransaction
from purgatorio.broker.txn import partitions, results
from purgatorio.broker.txn.marker_sender import MarkerSender
from purgatorio.broker.txn.missing_marker import Try
from purgatorio.broker.txn.transaction import Transaction, TransactionShard
from purgatorio.broker.txn.transitions import Transitions
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.records import NO_PRODUCER_ID, BatchHeader
from purgatorio.protocol.transaction_state import TransactionState
from purgatorio.simulation.replacing import Patches, Rule, replaced


def _retried_markers() -> Patches:
    """21. A marker is sent until it is written. Without: an attempt is enough, whatever became of it."""
    answered = MarkerSender._answered

    def answered_well(sender: MarkerSender, each: Try, error_code: ErrorCode | None, why: str = "") -> None:
        answered(sender, each, ErrorCode.NONE, why)

    yield replaced(MarkerSender, "_answered", answered_well)


def _last_stable_offset() -> Patches:
    """22. Readers under read_committed stop at the first open transaction. Without: at the high watermark."""

    def high_watermark_of(log: Log, high_watermark: int) -> int:
        return high_watermark

    yield replaced(Log, "last_stable_offset", high_watermark_of)


def _producer_epochs() -> Patches:
    """23. A producer with an earlier epoch is refused. Without: coordinators and leaders take any epoch."""

    def check_id(transaction: Transaction, producer_id: int, producer_epoch: int) -> None:
        return

    def never(transaction: ProducerTransaction, partition: Partition) -> bool:
        return False

    def check_nothing(producers: ProducerStates, header: BatchHeader) -> None:
        return

    for module in (partitions, results):
        yield replaced(module, "check_producer", check_id)
    yield replaced(transaction_guard, "_is_stale", never)
    yield replaced(ProducerStates, "_check_epoch", check_nothing)


def _replicated_decisions() -> Patches:
    """24. A result takes effect once it is replicated. Without: as soon as it is in the coordinator's own log."""

    def append_and_apply(
        transitions: Transitions,
        shard: TransactionShard,
        records: Mapping[str, NewRecord],
        state: TransactionState,
        apply: Callable[[], None],
        done: Committed,
        client: str,
    ) -> None:
        transactions = [shard.transactions[each] for each in records]
        for transaction in transactions:
            transaction.pending = state
        refused: list[ErrorCode] = []
        is_appended = transitions._services.log.append(shard.tp, list(records.values()), refused.append, client=client)
        error_code = ErrorCode.NONE if is_appended else refused[0]
        transitions._end(shard, transactions, apply, done, error_code)

    yield replaced(Transitions, "_append", append_and_apply)


def _truncated_index() -> Patches:
    """25. A truncated log forgets the transactions that were aborted behind its end. Without: it hides what follows."""

    def truncate_nothing(aborted: AbortedTransactions, offset: int) -> None:
        return

    yield replaced(AbortedTransactions, "truncate", truncate_nothing)


def _offsets_with_their_transaction() -> Patches:
    """26. Offsets of a transaction take effect with its marker. Without: as soon as they are replicated."""
    append, apply = ShardOffsets.append, ShardOffsets.apply

    def append_plain(offsets: ShardOffsets, changes: Sequence[OffsetChange], producer_id: int = NO_PRODUCER_ID) -> int:
        return append(offsets, changes)

    def apply_plain(offsets: ShardOffsets, change: OffsetChange, producer_id: int = NO_PRODUCER_ID) -> None:
        apply(offsets, change)

    yield replaced(ShardOffsets, "append", append_plain)
    yield replaced(ShardOffsets, "apply", apply_plain)


_PARTLY: Final = frozenset({"aborted-read", "torn-transaction", "lost-transaction"})

TRANSACTION_RULES: Final[Mapping[str, Rule]] = {
    # The next transaction of the producer goes on where this one was left open, and ends both.
    "retried-markers": Rule(_retried_markers, _PARTLY | {"G0", "hanging-transaction"}),
    "last-stable-offset": Rule(_last_stable_offset, frozenset({"aborted-read", "unstable-read"})),
    "producer-epochs": Rule(_producer_epochs, _PARTLY | {"G0", "fenced-write"}),
    "replicated-decisions": Rule(_replicated_decisions, _PARTLY | {"G0"}),
    "truncated-index": Rule(_truncated_index, frozenset({"lost-transaction", "committed-skip", "unequal-replicas"})),
    "transactional-offsets": Rule(_offsets_with_their_transaction, frozenset({"phantom-commit", "unprocessed-input"})),
}
"""The rules of transactions, by their names on the command line."""
