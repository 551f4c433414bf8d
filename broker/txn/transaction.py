"""A transactional id in the memory of its coordinator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.purgatory import TimerEntry
from purgatorio.broker.txn.values import TransactionValue
from purgatorio.protocol.transaction_state import TransactionState

if TYPE_CHECKING:
    from purgatorio.broker.txn.delayed_timeout import DelayedTimeout


class Transaction:
    """A transactional id, with the transaction that it has or had last.

    Attributes:
        transactional_id: the client's name for the producer.
        value: the committed state.
        pending: the state of the record that is appended and not committed yet, or whose fate is not known; None if
            there is none. Nothing else may be decided meanwhile: memory and log would tell different results.
        unmarked: the partitions that lack their marker; None before markers are sent.
        timeout: aborts the open transaction at its deadline; None if none is open.
        busy_since_ms: when the transition under way began, by the purgatory's clock; 0 if this coordinator did not see
            that. A transition lasts from an open transaction's decision until it is complete.
        retry: tries again what the log refused; None if there is nothing to try.
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
