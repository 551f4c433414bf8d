"""Transactions in the state of a log's producers, without a log."""

from __future__ import annotations

from purgatorio.broker.log.producer_state import ProducerStates
from purgatorio.protocol.end_marker import EndMarker, build_end_marker
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch, read_header


def begin(producers: ProducerStates, producer_id: int, offset: int, wall_ms: int) -> None:
    """Append the first record of a producer's transaction."""
    record = Record(0, wall_ms, None, b"value")
    batch = build_batch([record], producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)
    producers.appended(read_header(batch), batch, offset, wall_ms)


def end(producers: ProducerStates, producer_id: int, offset: int, wall_ms: int, *, committed: bool = True) -> None:
    """Append the marker that ends a producer's transaction."""
    marker = EndMarker(committed, 0)
    batch = build_end_marker(marker, producer_id=producer_id, producer_epoch=0, timestamp_ms=wall_ms)
    producers.appended(read_header(batch), batch, offset, wall_ms)
