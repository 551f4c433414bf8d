"""The transactions of a history, indexed for the checks in one pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from purgatorio.simulation.history.event import Event
from purgatorio.simulation.history.history import (
    Acked,
    Assigned,
    Cleaned,
    GroupTransforms,
    History,
    Polled,
    TopicRecreated,
    TxnBegan,
    TxnCommitting,
    TxnDrained,
    TxnEnded,
    TxnInit,
    TxnMarker,
    TxnPolled,
    TxnWrote,
    UncleanElection,
)
from purgatorio.simulation.history.partition_history import ALL_REPLICAS

COMMITTED, ABORTED, UNKNOWN = "committed", "aborted", "unknown"
NEVER: Final = -1


class Write(NamedTuple):
    """A value of a transaction, at its place in the history."""

    value: int
    partition: str
    place: int


@dataclass(slots=True)
class TransactionSeen:
    """One transaction.

    Attributes:
        committing: the place in the history at which its client began to ask that it be committed, or `NEVER`.
        outcome: as in `TxnEnded`, or None.
        reads: by partition, the highest record that its client polled under read_committed while it was open, as offset
            and value.
    """

    event: TxnBegan
    began: int
    committing: int = NEVER
    ended: int = NEVER
    outcome: str | None = None
    writes: list[Write] = field(default_factory=list)
    reads: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def number(self) -> int:
        """Its number."""
        return self.event.txn

    @property
    def is_committed(self) -> bool:
        """Whether it was certainly committed."""
        return self.outcome == COMMITTED

    @property
    def may_be_committed(self) -> bool:
        """Whether its client requested the commit, and got no answer that it failed."""
        return self.committing != NEVER and self.outcome != ABORTED

    def __str__(self) -> str:
        event = self.event
        name = f"transaction {event.txn} of {event.transactional_id} by {event.client}"
        return f"{name}, producer {event.producer_id} epoch {event.epoch}, {self.outcome or 'without an end'}"


class CommittedPoll(NamedTuple):
    """A poll under read_committed; its reader asked for `position` or less, which is negative if it is not known."""

    poll: TxnPolled
    place: int
    position: int


class TransactionHistory:
    """The transactions of a history, and what was read.

    Attributes:
        sources: by value, the partition and offset of the record that it was made from.
        inits: by transactional id, the places and events that gave its epochs out.
        readings: all polls under read_committed.
        log: by partition, the final reader's values and markers without isolation.
        visible: by partition, the values of the final reader under read_committed, with their offsets.
        acked: the acknowledged values (acks=-1), by partition.
        seen: the values that readers without isolation polled.
        lossy: partitions whose logs may lose records.
        outputs: by group, the topic that it writes to.
    """

    def __init__(self, history: History) -> None:
        self.transactions: dict[int, TransactionSeen] = {}
        self.of_value: dict[int, TransactionSeen] = {}
        self.sources: dict[int, tuple[str, int]] = {}
        self.inits: dict[str, list[tuple[int, TxnInit]]] = {}
        self.readings: list[CommittedPoll] = []
        self.log: dict[str, list[tuple[int, int | TxnMarker]]] = {}
        self.visible: dict[str, dict[int, int]] = {}
        self.drained: dict[str, TxnDrained] = {}
        self.acked: dict[str, dict[int, None]] = {}
        self.seen: set[int] = set()
        self.lossy: set[str] = set()
        self.outputs: dict[str, str] = {}
        self._open: dict[str, TransactionSeen] = {}  # by client
        self._positions: dict[tuple[str, str], int] = {}  # by consumer and partition
        for place, event in enumerate(history):
            self._take(place, event)
        for entries in self.log.values():
            entries.sort(key=lambda entry: entry[0])

    def _take(self, place: int, event: Event) -> None:
        if isinstance(event, (TxnBegan, TxnWrote, TxnCommitting, TxnEnded)):
            self._take_own(place, event)
        elif isinstance(event, (Polled, TxnPolled, TxnMarker)):
            self._take_read(place, event)
        elif isinstance(event, Acked):
            if event.acks == ALL_REPLICAS:
                self.acked.setdefault(event.partition, {})[event.value] = None
        else:
            self._take_rare(place, event)

    def _take_rare(self, place: int, event: Event) -> None:
        if isinstance(event, TxnInit):
            self.inits.setdefault(event.transactional_id, []).append((place, event))
        elif isinstance(event, (Cleaned, TopicRecreated, UncleanElection)):
            self.lossy.add(event.partition)
        elif isinstance(event, Assigned):
            self._positions[event.consumer, event.partition] = event.offset
        elif isinstance(event, TxnDrained):
            self.drained[event.partition] = event
        elif isinstance(event, GroupTransforms):
            self.outputs[event.group] = event.output

    def _take_own(self, place: int, event: TxnBegan | TxnWrote | TxnCommitting | TxnEnded) -> None:
        if isinstance(event, TxnBegan):
            self.transactions[event.txn] = self._open[event.client] = TransactionSeen(event, place)
            return
        transaction = self.transactions[event.txn]
        if isinstance(event, TxnWrote):
            transaction.writes.append(Write(event.value, event.partition, place))
            self.of_value[event.value] = transaction
            if event.source:
                self.sources[event.value] = event.source, event.source_offset
        elif isinstance(event, TxnCommitting):
            transaction.committing = place
        else:
            transaction.ended, transaction.outcome = place, event.outcome
            self._open.pop(transaction.event.client, None)

    def _take_read(self, place: int, event: Polled | TxnPolled | TxnMarker) -> None:
        if isinstance(event, TxnMarker):
            if event.final:
                self.log.setdefault(event.partition, []).append((event.offset, event))
        elif isinstance(event, Polled):
            self.seen.update(value for _, value in event.records)
            if event.final:
                self.log.setdefault(event.partition, []).extend(event.records)
        else:
            name = event.consumer, event.partition
            self.readings.append(CommittedPoll(event, place, self._positions.get(name, -1)))
            if event.records:
                self._positions[name] = event.records[-1][0] + 1
            if event.final:
                self.visible.setdefault(event.partition, {}).update((value, offset) for offset, value in event.records)
            reader = self._open.get(event.consumer)
            if reader is not None and event.records:
                reader.reads[event.partition] = event.records[-1]

    def kept(self) -> Iterator[str]:
        """Iterate over the partitions that lose no records and were read to their ends under read_committed."""
        return (partition for partition in self.drained if partition not in self.lossy)
