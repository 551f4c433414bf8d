"""The state that a log keeps of idempotent and transactional producers (KIP-98, KIP-360)."""

# compiled: docs/compiled.md

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from purgatorio.broker.log.errors import (
    InvalidTransactionState,
    OutOfOrderSequence,
    StaleCoordinatorEpoch,
    StaleProducerEpoch,
    TooManyTransactions,
)
from purgatorio.broker.log.transactions import (
    AbortedTransactions,
    AbortedTxn,
    EndedTransaction,
    UnstableTransactions,
)
from purgatorio.protocol.compression import Buffer
from purgatorio.protocol.end_marker import EndMarker, read_end_marker
from purgatorio.protocol.errors import CorruptRecordError
from purgatorio.protocol.records import MAX_SEQUENCE, BatchHeader

BATCHES_KEPT: Final = 5
"""Batches of a producer that are kept to recognise duplicates: as many as a client may have in flight."""
MAX_PRODUCERS: Final = 1000
"""Producers per log. Past it the log forgets the producer that was idle longest, and takes its next batch as from an
unknown producer. It forgets none with an open transaction."""
MAX_OPEN_TRANSACTIONS: Final = 5000
"""Open transactions per log. Past it the leader refuses the first batch of another one, until one has ended. The states
of so many producers are copied in 10 ms, when a segment is full."""
PRODUCER_EXPIRATION_MS: Final = 24 * 60 * 60 * 1000
"""Idle time after which a log forgets a producer (producer.id.expiration.ms)."""

_NONE: Final = -1


class ProducerBatch(NamedTuple):
    """A batch in the log, by its producer's sequences."""

    base_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    max_timestamp_ms: int


class ProducerState:
    """The state of one producer.

    Attributes:
        epoch: its highest epoch.
        coordinator_epoch: the epoch in the last transaction marker, or −1.
        batches: the last batches of that epoch.
        appended_ms: wall time of its last append.
        marker_offset: the offset of its last transaction marker, or −1.
        transaction_start: the first offset of its open transaction, or −1.
        transaction_start_ms: wall time of the append of that offset, or −1.
        transactional_id: its transactional id; "" if it has none, or this broker does not know it.
    """

    __slots__ = (
        "appended_ms",
        "batches",
        "coordinator_epoch",
        "epoch",
        "marker_offset",
        "transaction_start",
        "transaction_start_ms",
        "transactional_id",
    )

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.coordinator_epoch = _NONE
        self.batches: deque[ProducerBatch] = deque(maxlen=BATCHES_KEPT)
        self.appended_ms = _NONE
        self.marker_offset = _NONE
        self.transaction_start = _NONE
        self.transaction_start_ms = _NONE
        self.transactional_id = ""

    def copy(self) -> ProducerState:
        """A copy that does not change with this one."""
        other = ProducerState(self.epoch)
        other.coordinator_epoch = self.coordinator_epoch
        other.batches = self.batches.copy()
        other.appended_ms = self.appended_ms
        other.marker_offset = self.marker_offset
        other.transaction_start = self.transaction_start
        other.transaction_start_ms = self.transaction_start_ms
        other.transactional_id = self.transactional_id
        return other

    def equals(self, other: ProducerState) -> bool:
        """Whether nothing was appended between this state and the other one."""
        return (
            self.epoch == other.epoch
            and self.marker_offset == other.marker_offset
            and self.transaction_start == other.transaction_start
            and self.batches == other.batches
        )

    @property
    def next_sequence(self) -> int:
        """The first sequence of the next batch of the same epoch."""
        return (self.batches[-1].last_sequence + 1) & MAX_SEQUENCE if self.batches else 0


class ProducerSnapshot(NamedTuple):
    """The state of all producers at one offset of a log; of those with open transactions only if `is_reduced`."""

    states: dict[int, ProducerState]
    ended: list[EndedTransaction]
    is_reduced: bool = False

    def reduced(self, before: ProducerSnapshot | None) -> ProducerSnapshot | None:
        """Return the open transactions, which are kept longer; None if there were none.

        Args:
            before: an earlier snapshot, whose states are used again where they have not changed. A transaction that
                hangs is in the snapshot of every segment, and the memory of snapshots is not counted.
        """
        states = {pid: state for pid, state in self.states.items() if state.transaction_start >= 0}
        for producer_id, earlier in () if before is None else before.states.items():
            state = states.get(producer_id)
            if state is not None and state.equals(earlier):
                states[producer_id] = earlier
        return ProducerSnapshot(states, [], is_reduced=True) if states else None


class ProducerStates:
    """The producers and transactions of one log.

    Args:
        max_producers: the number of producers kept; producers with an open transaction are kept in any case.
        max_open: the number of open transactions.
        expiration_ms: idle time after which a producer is forgotten.

    Attributes:
        aborted: the aborted transactions whose markers are in the log.
        unstable: the transactions that hold the last stable offset.
    """

    def __init__(
        self,
        *,
        max_producers: int = MAX_PRODUCERS,
        max_open: int = MAX_OPEN_TRANSACTIONS,
        expiration_ms: int = PRODUCER_EXPIRATION_MS,
    ) -> None:
        self.max_producers = max_producers
        self.max_open = max_open
        self.expiration_ms = expiration_ms
        self.aborted = AbortedTransactions()
        self.unstable = UnstableTransactions()
        # Both in the order of the last appends.
        self._idle: dict[int, ProducerState] = {}
        self._open: dict[int, ProducerState] = {}  # those with an open transaction

    def __len__(self) -> int:
        return len(self._idle) + len(self._open)

    def __iter__(self) -> Iterator[tuple[int, ProducerState]]:
        """All (producer id, state), those with an open transaction first."""
        yield from self._open.items()
        yield from self._idle.items()

    @property
    def open_count(self) -> int:
        """The number of open transactions."""
        return len(self._open)

    def get(self, producer_id: int) -> ProducerState | None:
        """The state of one producer."""
        return self._idle.get(producer_id) or self._open.get(producer_id)

    def is_open(self, producer_id: int, epoch: int) -> bool:
        """Whether a producer has an open transaction, in this epoch."""
        state = self._open.get(producer_id)
        return state is not None and state.epoch == epoch

    def name(self, producer_id: int, transactional_id: str) -> None:
        """Note the transactional id of a producer, for those who look at the log; batches do not have it."""
        state = self.get(producer_id)
        if state is not None:
            state.transactional_id = transactional_id

    def owner(self, producer_id: int) -> str:
        """The transactional id of a producer, in quotes; or its producer id, if this broker does not know the other."""
        state = self.get(producer_id)
        known = "" if state is None else state.transactional_id
        return f"`{known}`" if known else f"producer {producer_id}"

    def check(self, header: BatchHeader) -> ProducerBatch | None:
        """Check that a client's batch is the next one of its producer; changes nothing.

        An unknown producer may start with any sequence: its state may have been lost with deleted records (KAFKA-7190;
        clients treat an error here as fatal). The first batch of a new epoch has sequence 0.

        Returns:
            The earlier batch if this one is a duplicate of it, else None.

        Raises:
            StaleProducerEpoch: a higher epoch of the producer was seen.
            OutOfOrderSequence: a batch before this one is missing, or this one repeats a batch that is no longer kept.
            InvalidTransactionState: the batch is not transactional although a transaction is open.
            TooManyTransactions: the batch begins a transaction, and the log has no room for another one.
        """
        state = self._idle.get(header.producer_id) or self._open.get(header.producer_id)
        if state is None:
            if len(self._open) >= self.max_open:
                self._check_room(header)
            return None
        sequence = header.base_sequence
        if header.producer_epoch == state.epoch:
            expected = state.next_sequence
            if sequence != expected:
                return self._duplicate(state, header, expected)
        else:
            self._check_epoch(header)
            if sequence:
                raise OutOfOrderSequence(
                    f"producer {header.producer_id} starts a new epoch with sequence {sequence}, not with 0"
                )
        if state.transaction_start >= 0:
            if not header.is_transactional:
                raise InvalidTransactionState(f"producer {header.producer_id} has an open transaction")
        elif len(self._open) >= self.max_open:
            self._check_room(header)
        return None

    def check_own(self, header: BatchHeader, batch: Buffer) -> None:
        """Check a batch that the broker made, whose sequences do not count; changes nothing.

        Raises:
            StaleProducerEpoch: a higher epoch of the producer was seen.
            StaleCoordinatorEpoch: the batch is an end marker, and a newer coordinator has ended a transaction of the
                producer.
            TooManyTransactions: as `check`.
        """
        if not header.is_control:
            self._check_epoch(header)
            state = self.get(header.producer_id)
            if state is None or state.transaction_start < 0:
                self._check_room(header)
            return
        marker = end_marker_in(batch)
        if marker is None:
            self._check_epoch(header)
        else:
            self.check_marker(header.producer_id, header.producer_epoch, marker)

    def check_marker(
        self, producer_id: int, producer_epoch: int, marker: EndMarker, *, is_bumped: bool = False
    ) -> None:
        """Check that an end marker is not one of the past; changes nothing.

        Args:
            is_bumped: the coordinator raised the producer's epoch for this marker (transaction.version 2). If a
                transaction is open at that epoch, it is the one after, and the marker came late (KAFKA-19446). If none
                is open, the marker is sent again (KAFKA-19999).

        Raises:
            StaleProducerEpoch: a higher epoch of the producer was seen, or the next transaction.
            StaleCoordinatorEpoch: a newer coordinator has ended a transaction of the producer.
        """
        state = self.get(producer_id)
        if state is None:
            return
        is_late = is_bumped and producer_epoch == state.epoch and state.transaction_start >= 0
        if producer_epoch < state.epoch or is_late:
            raise StaleProducerEpoch(
                f"producer {producer_id} has epoch {state.epoch} now, this marker is of {producer_epoch}"
            )
        if marker.coordinator_epoch < state.coordinator_epoch:
            raise StaleCoordinatorEpoch(
                f"the coordinator of producer {producer_id} has epoch {state.coordinator_epoch} now, "
                f"this marker is of {marker.coordinator_epoch}"
            )

    def _check_epoch(self, header: BatchHeader) -> None:
        state = self.get(header.producer_id)
        if state is not None and header.producer_epoch < state.epoch:
            raise StaleProducerEpoch(
                f"producer {header.producer_id} has epoch {state.epoch} now, this is {header.producer_epoch}"
            )

    def _check_room(self, header: BatchHeader) -> None:
        if header.is_transactional and len(self._open) >= self.max_open:
            raise TooManyTransactions(
                f"{len(self._open)} transactions are open, producer {header.producer_id} must wait"
            )

    @staticmethod
    def _duplicate(state: ProducerState, header: BatchHeader, expected: int) -> ProducerBatch:
        sequences = header.base_sequence, header.last_sequence
        for batch in state.batches:
            if batch[:2] == sequences:
                return batch
        raise OutOfOrderSequence(
            f"producer {header.producer_id} sends sequence {header.base_sequence}, expected is {expected}"
        )

    def appended(self, header: BatchHeader, batch: Buffer, first_offset: int, wall_ms: int) -> None:
        """Note a producer's batch that was appended at `first_offset`.

        Control batches of other kinds than end markers change nothing, as one that cannot be read.
        """
        if not header.is_control:
            self._records_appended(header, first_offset, wall_ms)
            return
        marker = end_marker_in(batch)
        if marker is not None:
            self._transaction_ended(header, marker, first_offset, wall_ms)

    def _records_appended(self, header: BatchHeader, first_offset: int, wall_ms: int) -> None:
        state = self._take(header, wall_ms)
        last_offset = first_offset + header.last_offset_delta
        state.batches.append(
            ProducerBatch(header.base_sequence, header.last_sequence, first_offset, last_offset, header.max_timestamp)
        )
        if state.transaction_start < 0:
            if not header.is_transactional:
                self._idle[header.producer_id] = state
                return
            state.transaction_start, state.transaction_start_ms = first_offset, wall_ms
            self.unstable.begin(header.producer_id, first_offset)
        self._open[header.producer_id] = state

    def _transaction_ended(self, header: BatchHeader, marker: EndMarker, offset: int, wall_ms: int) -> None:
        state = self._take(header, wall_ms)
        state.coordinator_epoch = marker.coordinator_epoch
        state.marker_offset = offset
        start = state.transaction_start
        if start >= 0:
            state.transaction_start = state.transaction_start_ms = _NONE
            self.unstable.end(header.producer_id, start, offset)
            if not marker.committed:
                stable_offset = self.unstable.first_open(offset + 1)
                self.aborted.add(AbortedTxn(header.producer_id, start, offset, stable_offset))
        self._idle[header.producer_id] = state

    def _take(self, header: BatchHeader, wall_ms: int) -> ProducerState:
        """Take out the producer's state, in the epoch of `header`; the caller puts it back, at the end."""
        producer_id = header.producer_id
        state = self._idle.pop(producer_id, None)
        if state is None and self._open:
            state = self._open.pop(producer_id, None)
        if state is None:
            if self._idle and len(self) >= self.max_producers:
                del self._idle[next(iter(self._idle))]
            state = ProducerState(header.producer_epoch)
        elif state.epoch != header.producer_epoch:
            state.epoch = header.producer_epoch
            state.batches.clear()
        state.appended_ms = wall_ms
        return state

    def expire(self, wall_ms: int) -> None:
        """Forget producers without an open transaction that were idle for `expiration_ms`."""
        limit_ms = wall_ms - self.expiration_ms
        for producer_id in [pid for pid, state in self._idle.items() if state.appended_ms <= limit_ms]:
            del self._idle[producer_id]

    # --- transactions ---

    def last_stable_offset(self, high_watermark: int) -> int:
        """The offset below which every transaction has ended and its marker is committed."""
        self.unstable.committed(high_watermark)
        first = self.unstable.first
        return high_watermark if first is None or first[0] > high_watermark else first[0]

    def committed(self, high_watermark: int) -> None:
        """Forget ended transactions whose markers are committed."""
        self.unstable.committed(high_watermark)

    def oldest_unstable(self) -> tuple[int, int] | None:
        """The producer id of the transaction that holds the last stable offset, and wall time of its start.

        The time is −1 if the transaction has ended and waits for its marker to be committed. None if there is no such
        transaction.
        """
        first = self.unstable.first
        if first is None:
            return None
        state = self._open.get(first[1])
        return first[1], state.transaction_start_ms if state is not None and state.transaction_start == first[
            0
        ] else _NONE

    # --- snapshots ---

    def snapshot(self) -> ProducerSnapshot:
        """A copy of the state of all producers."""
        return ProducerSnapshot({pid: state.copy() for pid, state in self}, self.unstable.ended())

    def restore(self, snapshot: ProducerSnapshot, offset: int) -> None:
        """Return to a snapshot that was made when the log ended at `offset`; it can be used again."""
        states = [(pid, state.copy()) for pid, state in snapshot.states.items()]
        self._open = {pid: state for pid, state in states if state.transaction_start >= 0}
        self._idle = {pid: state for pid, state in states if state.transaction_start < 0}
        self.unstable.restore([(state.transaction_start, pid) for pid, state in self._open.items()], snapshot.ended)
        self.aborted.truncate(offset)

    def clear(self) -> None:
        """Forget all producers and transactions."""
        self._idle.clear()
        self._open.clear()
        self.unstable.clear()
        self.aborted = AbortedTransactions()


def end_marker_in(batch: Buffer) -> EndMarker | None:
    """Return the end marker in a control batch; None for another kind of marker, and for one that cannot be read."""
    try:
        return read_end_marker(batch)
    except CorruptRecordError:  # only a broker makes control batches; it is appended nevertheless
        return None
