"""What the tests of compaction share: logs that are always worth compacting, and what is in them."""

from __future__ import annotations

from purgatorio.broker.log.config import LogConfig
from purgatorio.broker.log.log import Log
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import iter_records
from tests.batches import batches_of

DAY_MS = 24 * 60 * 60 * 1000
NOW_MS = 5000
DELETE_RETENTION_MS = 1000


def compacted(**configs) -> Log:
    """A log that is always worth compacting, with segments of about two small batches."""
    settings = {"cleanup_policy": ("compact",), "segment_bytes": 170, "min_cleanable_dirty_ratio": 0.0, **configs}
    return Log(LogConfig(**settings))


def batches(log: Log) -> list[bytes]:
    return batches_of(log.read(log.log_start_offset, max_bytes=10**9, end_offset=log.log_end_offset).parts)


def records(log: Log) -> list[Record]:
    return [record for batch in batches(log) for record in iter_records(batch)]


def content(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in records(log)]


def compact(log: Log, high_watermark: int, wall_ms: int, *, forced: bool = False) -> int:
    """Take all steps of a pass; returns the number of bytes freed."""
    before_bytes = log.size_bytes
    for _ in log.compaction_steps(high_watermark, wall_ms, forced=forced):
        pass
    return before_bytes - log.size_bytes


def compact_all(log: Log, wall_ms: int = NOW_MS) -> int:
    return compact(log, log.log_end_offset, wall_ms)
