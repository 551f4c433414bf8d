"""Why consumers under read_committed cannot read up to the high watermark: the transaction that holds them back."""

from __future__ import annotations

from purgatorio.broker.metrics.views import PartitionView
from purgatorio.broker.web import document


def read_holding(partition: PartitionView, wall_ms: int) -> document.Holding | None:
    """Return the transaction that holds the last stable offset; None if that is the high watermark.

    Args:
        partition: a replica.
        wall_ms: the wall time now.
    """
    oldest = partition.log.producers.oldest_unstable()
    if oldest is None or partition.last_stable_offset >= partition.high_watermark:
        return None
    producer_id, started_ms = oldest
    open_ms = None if started_ms < 0 else max(0, wall_ms - started_ms)
    return {
        "producer_id": producer_id,
        "transactional_id": "",
        "open_ms": open_ms,
        "timeout_left_ms": None,
        "says": _sentence(f"producer {producer_id}", open_ms),
    }


def _sentence(name: str, open_ms: int | None) -> str:
    if open_ms is None:
        return f"held by the transaction of {name}, whose end is not committed yet"
    return f"held by the transaction of {name}, open {open_ms / 1000:.1f} s"
