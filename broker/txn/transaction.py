"""A transactional id in the memory of its coordinator, the partition that it belongs to, and its deadline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from purgatorio.broker.causes.cause import TransactionNotEnded
from purgatorio.broker.causes.words import shortened
from purgatorio.broker.coordinator.shard import Shard
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.txn.values import TransactionValue, read_value
from purgatorio.late import dataclass
from purgatorio.protocol.end_marker import EndMarker
from purgatorio.protocol.records import BatchHeader
from purgatorio.protocol.transaction_state import TransactionState, decode_key, decode_value
from purgatorio.purgatory import DelayedOperation, TimerEntry

RECORD_WORK: Final = 5
"""As how many records a record counts when it is replayed, beside its partitions."""
PARTITIONS_PER_WORK: Final = 5
"""The partitions of a record that count as 1."""


@dataclass(frozen=True, slots=True)
class TransactionKey:
    """The watch key of a transactional id."""

    transactional_id: str

    def __str__(self) -> str:
        return shortened(self.transactional_id)


class Transaction:
    """A transactional id, with the transaction that it has or had last.

    Attributes:
        value: the committed state.
        pending: the state of the record that is appended and not committed yet, or whose outcome is unknown; None if
            there is none. Nothing else may be decided meanwhile: memory and log would differ.
        unmarked: the partitions that lack their marker; None before markers are sent.
        timeout: aborts the open transaction at its deadline; None if none is open.
        busy_since_ms: when the transition under way began, by the purgatory's clock; 0 if this coordinator did not see
            that. A transition lasts from an open transaction's decision until it is complete.
        retry: repeats an append that the log refused; None if there is none to repeat.
    """

    __slots__ = ("busy_since_ms", "pending", "retry", "timeout", "transactional_id", "unmarked", "value")

    def __init__(self, transactional_id: str, value: TransactionValue) -> None:
        self.transactional_id = transactional_id
        self.value = value
        self.pending: TransactionState | None = None
        self.busy_since_ms = 0
        self.unmarked: dict[TopicPartition, None] | None = None
        self.timeout: DelayedTimeout | None = None
        self.retry: TimerEntry | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a transition is under way, so that requests get CONCURRENT_TRANSACTIONS, or wait."""
        return self.pending is not None or self.value.is_decided

    @property
    def is_overdue(self) -> bool:
        """Whether the open transaction has had its time, and could not be aborted yet."""
        return self.timeout is not None and self.timeout.completed


class TransactionShard(Shard):
    """The transactional ids of one partition; the last record of each counts.

    The state is that of committed records: other coordinators' markers and clients must never see a result that could
    be lost.
    """

    __slots__ = ("transactions",)

    def __init__(self, tp: TopicPartition, leader_epoch: int) -> None:
        super().__init__(tp, leader_epoch)
        self.transactions: dict[str, Transaction] = {}

    def replay(self, batch: BatchHeader, key: bytes | None, value: bytes | None) -> int:
        transactional_id = None if key is None else decode_key(key)
        if transactional_id is None:
            return 1
        logged = decode_value(value)
        if logged is None:
            self.transactions.pop(transactional_id, None)
            return 1
        read = read_value(logged)
        self.transactions[transactional_id] = Transaction(transactional_id, read)
        return RECORD_WORK + len(read.partitions) // PARTITIONS_PER_WORK

    def replay_end(self, batch: BatchHeader, marker: EndMarker) -> None:
        """Skip a marker: no client writes to this topic in a transaction."""


class DelayedTimeout(DelayedOperation):
    """An open transaction, until it ends or its time is over.

    Args:
        transaction: the transaction, whose `timeout` is this operation while it is open.
    """

    __slots__ = ("_expired", "_transaction")

    def __init__(self, delay_ms: int, transaction: Transaction, expired: Callable[[], None]) -> None:
        super().__init__(delay_ms)
        self._transaction = transaction
        self._expired = expired

    def try_complete(self) -> bool:
        """Complete when the transaction has ended."""
        return self._transaction.timeout is not self and self.force_complete()

    def on_complete(self) -> None:
        """Answer no request: a timeout has none."""

    def on_shutdown(self) -> None:
        """Leave the transaction open: the next coordinator goes on with it."""
        self._transaction.timeout = None

    def on_expiration(self) -> None:
        """Abort the transaction."""
        self._expired()

    def causes(self) -> tuple[TransactionNotEnded]:
        """Return the transaction that is open."""
        transaction = self._transaction
        return (TransactionNotEnded(transaction.transactional_id, len(transaction.value.partitions)),)
