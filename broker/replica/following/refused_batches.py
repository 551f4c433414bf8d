"""Refused batches that idempotent producers will retry: the leader refuses their later batches until then.

A producer has up to five requests in flight. If the leader refuses the first one for a moment (its lease may have
expired, or too few replicas are in sync) and accepts appends again before the second arrives, the second is out of
order. After that error librdkafka starts a new epoch and sends records again that were written: duplicates. So the
leader refuses the later batches with the error code of the first one, until the first one is retried. Kafka has no such
rule: its leaders lead until the leader epoch changes.
"""

# compiled: docs/compiled.md

from __future__ import annotations

from typing import Final, NamedTuple

from purgatorio.broker.log.producer_state import ProducerState, ProducerStates
from purgatorio.protocol.errors import CorruptRecordError, ErrorCode
from purgatorio.protocol.primitives import Buffer
from purgatorio.protocol.records import MAX_SEQUENCE, BatchHeader, read_header

MAX_PRODUCERS: Final = 1_000
"""The most producers of one partition whose refusals are remembered; beyond it the oldest is forgotten."""
REMEMBERED_MS: Final = 120_000
"""The time for which a refusal is remembered: the default delivery.timeout.ms, after which producers give up."""
_HALF: Final = (MAX_SEQUENCE + 1) // 2


class BatchRefusal(NamedTuple):
    """The first refused batch of a producer that was not retried yet."""

    epoch: int
    base_sequence: int
    error_code: ErrorCode
    until_ms: int


class RefusedBatches:
    """The refused batches of one partition.

    Attributes:
        first: of each producer, by its id, the first refused batch whose retry is expected. Every append looks whether
            there is one at all.
    """

    __slots__ = ("first",)

    def __init__(self) -> None:
        self.first: dict[int, BatchRefusal] = {}

    def note(self, records: Buffer, error_code: ErrorCode, now_ms: int) -> None:
        """Remember a refused batch if its producer is idempotent and the error is retriable."""
        header = _header(records)
        if header is None or not error_code.retriable:
            return
        known = self.first.get(header.producer_id)
        if known is not None:
            if header.producer_epoch < known.epoch:  # sent before the epoch was raised: the newer one is expected still
                return
            if header.producer_epoch == known.epoch and _is_after(header.base_sequence, known):
                return
        if known is None and len(self.first) >= MAX_PRODUCERS:
            del self.first[next(iter(self.first))]
        self.first[header.producer_id] = BatchRefusal(
            header.producer_epoch, header.base_sequence, error_code, now_ms + REMEMBERED_MS
        )

    def waits_for_another(self, records: Buffer, producers: ProducerStates, now_ms: int) -> ErrorCode | None:
        """Return the error code for a batch behind a refused one; None if the log may append it.

        Args:
            producers: the producer states of the log; another leader may have appended the refused batch meanwhile.
        """
        header = _header(records)
        known = None if header is None else self.first.get(header.producer_id)
        if header is None or known is None or header.producer_epoch < known.epoch:
            return None
        is_over = (
            header.producer_epoch > known.epoch
            or header.base_sequence == known.base_sequence
            or now_ms >= known.until_ms
            or _has_come(known, producers.get(header.producer_id))
        )
        if is_over:
            del self.first[header.producer_id]
            return None
        return known.error_code if _is_after(header.base_sequence, known) else None


def _has_come(refusal: BatchRefusal, state: ProducerState | None) -> bool:
    """Return whether the log has the refused batch, or a later epoch of its producer."""
    if state is None or state.epoch < refusal.epoch:
        return False
    return state.epoch > refusal.epoch or _is_after(state.next_sequence, refusal)


def _header(records: Buffer) -> BatchHeader | None:
    """Return the header of an idempotent producer's batch; None for any other bytes."""
    try:
        header = read_header(records)
    except CorruptRecordError:
        return None
    return header if header.producer_id >= 0 else None


def _is_after(sequence: int, refusal: BatchRefusal) -> bool:
    """Return whether a sequence number is after the refused batch's; sequence numbers wrap after 2³¹ − 1."""
    return 0 < (sequence - refusal.base_sequence) & MAX_SEQUENCE < _HALF
