"""The state that a log keeps of idempotent and transactional producers (KIP-98, KIP-360)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from purgatorio.broker.log.errors import InvalidTransactionState, OutOfOrderSequence, StaleProducerEpoch
from purgatorio.protocol.end_marker import EndMarker
from purgatorio.protocol.records import MAX_SEQUENCE, BatchHeader

BATCHES_KEPT: Final = 5
"""Batches of a producer that are kept to recognise duplicates: as many as a client may have in flight."""
MAX_PRODUCERS: Final = 1000
"""Producers per log. Past it the log forgets the producer that was idle longest, and takes its next batch as from an
unknown producer."""
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
        transaction_start: the first offset of its open transaction, or −1.
    """

    __slots__ = ("appended_ms", "batches", "coordinator_epoch", "epoch", "transaction_start")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.coordinator_epoch = _NONE
        self.batches: deque[ProducerBatch] = deque(maxlen=BATCHES_KEPT)
        self.appended_ms = _NONE
        self.transaction_start = _NONE

    def copy(self) -> ProducerState:
        """A copy that does not change with this one."""
        other = ProducerState(self.epoch)
        other.coordinator_epoch = self.coordinator_epoch
        other.batches = self.batches.copy()
        other.appended_ms = self.appended_ms
        other.transaction_start = self.transaction_start
        return other

    @property
    def next_sequence(self) -> int:
        """The first sequence of the next batch of the same epoch."""
        return (self.batches[-1].last_sequence + 1) & MAX_SEQUENCE if self.batches else 0


class EndedTransaction(NamedTuple):
    """A transaction whose marker is in the log."""

    first_offset: int
    marker_offset: int


class ProducerSnapshot(NamedTuple):
    """The state of all producers at one offset of a log."""

    states: dict[int, ProducerState]
    ended: list[EndedTransaction]


class ProducerStates:
    """The producers of one log, in the order of their last appends.

    Args:
        max_producers: the number of producers kept; producers with an open transaction are kept in any case.
        expiration_ms: idle time after which a producer is forgotten.
    """

    def __init__(self, *, max_producers: int = MAX_PRODUCERS, expiration_ms: int = PRODUCER_EXPIRATION_MS) -> None:
        self.max_producers = max_producers
        self.expiration_ms = expiration_ms
        self._states: dict[int, ProducerState] = {}
        self._open: dict[int, int] = {}  # producer id → first offset of its open transaction, in the order of these
        self._ended: list[EndedTransaction] = []

    def __len__(self) -> int:
        return len(self._states)

    def __iter__(self) -> Iterator[tuple[int, ProducerState]]:
        """All (producer id, state)."""
        return iter(self._states.items())

    def get(self, producer_id: int) -> ProducerState | None:
        """The state of one producer."""
        return self._states.get(producer_id)

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
        """
        state = self._states.get(header.producer_id)
        if state is None:
            return None
        sequence = header.base_sequence
        if header.producer_epoch == state.epoch:
            expected = state.next_sequence
            if sequence != expected:
                return self._duplicate(state, header, expected)
        else:
            self.check_epoch(header)
            if sequence:
                raise OutOfOrderSequence(
                    f"producer {header.producer_id} starts a new epoch with sequence {sequence}, not with 0"
                )
        if state.transaction_start >= 0 and not header.is_transactional:
            raise InvalidTransactionState(f"producer {header.producer_id} has an open transaction")
        return None

    def check_epoch(self, header: BatchHeader) -> None:
        """Check that no newer producer has taken over the id; the only check of the broker's own batches.

        Raises:
            StaleProducerEpoch: a higher epoch of the producer was seen.
        """
        state = self._states.get(header.producer_id)
        if state is not None and header.producer_epoch < state.epoch:
            raise StaleProducerEpoch(
                f"producer {header.producer_id} has epoch {state.epoch} now, this is {header.producer_epoch}"
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

    def appended(self, header: BatchHeader, first_offset: int, wall_ms: int) -> None:
        """Note a batch of records that was appended."""
        state = self._touch(header, wall_ms)
        last_offset = first_offset + header.last_offset_delta
        state.batches.append(
            ProducerBatch(header.base_sequence, header.last_sequence, first_offset, last_offset, header.max_timestamp)
        )
        if state.transaction_start < 0 and header.is_transactional:
            state.transaction_start = self._open[header.producer_id] = first_offset

    def transaction_ended(self, header: BatchHeader, marker: EndMarker, offset: int, wall_ms: int) -> None:
        """Note a transaction marker that was appended at `offset`."""
        state = self._touch(header, wall_ms)
        state.coordinator_epoch = marker.coordinator_epoch
        if state.transaction_start >= 0:
            self._ended.append(EndedTransaction(state.transaction_start, offset))
            state.transaction_start = _NONE
            del self._open[header.producer_id]

    def _touch(self, header: BatchHeader, wall_ms: int) -> ProducerState:
        """The producer's state, moved to the end, in the epoch of `header`."""
        producer_id = header.producer_id
        state = self._states.pop(producer_id, None)
        if state is None:
            if len(self._states) >= self.max_producers:
                self._forget_idlest()
            state = ProducerState(header.producer_epoch)
        elif state.epoch != header.producer_epoch:
            state.epoch = header.producer_epoch
            state.batches.clear()
        state.appended_ms = wall_ms
        self._states[producer_id] = state
        return state

    def _forget_idlest(self) -> None:
        idlest = next((pid for pid, state in self._states.items() if state.transaction_start < 0), None)
        if idlest is not None:
            del self._states[idlest]

    def expire(self, wall_ms: int) -> None:
        """Forget producers without an open transaction that were idle for `expiration_ms`."""
        limit_ms = wall_ms - self.expiration_ms
        expired = [
            producer_id
            for producer_id, state in self._states.items()
            if state.appended_ms <= limit_ms and state.transaction_start < 0
        ]
        for producer_id in expired:
            del self._states[producer_id]

    def last_stable_offset(self, high_watermark: int) -> int:
        """The offset below which every transaction has ended and its marker is committed."""
        stable_offset = high_watermark
        if self._open:
            stable_offset = min(stable_offset, next(iter(self._open.values())))
        if self._ended:
            self.committed(high_watermark)
            stable_offset = min([stable_offset, *(ended.first_offset for ended in self._ended)])
        return stable_offset

    def committed(self, high_watermark: int) -> None:
        """Forget ended transactions whose markers are committed."""
        self._ended = [ended for ended in self._ended if ended.marker_offset >= high_watermark]

    def snapshot(self) -> ProducerSnapshot:
        """A copy of the state of all producers."""
        return ProducerSnapshot({pid: state.copy() for pid, state in self._states.items()}, self._ended.copy())

    def restore(self, snapshot: ProducerSnapshot) -> None:
        """Restore a snapshot; it can be used again."""
        self._states = {pid: state.copy() for pid, state in snapshot.states.items()}
        self._ended = snapshot.ended.copy()
        starts = [(state.transaction_start, pid) for pid, state in self._states.items() if state.transaction_start >= 0]
        self._open = {pid: start for start, pid in sorted(starts)}

    def clear(self) -> None:
        """Forget all producers."""
        self._states.clear()
        self._open.clear()
        self._ended.clear()
