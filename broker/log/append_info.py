"""The result of an append to a log."""

# compiled: docs/compiled.md

from __future__ import annotations

from typing import NamedTuple


class AppendInfo(NamedTuple):
    """The result of an append.

    Attributes:
        first_offset: the offset of the first record; for a duplicate, of its first append.
        last_offset: the offset of the last record, likewise.
        log_append_time_ms: the timestamp that the log gave the records, or −1 if they keep the producer's.
        log_start_offset: the log's start offset.
        duplicate: the log already has the batch, and nothing was appended.
    """

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    size_bytes: int
    record_count: int
    duplicate: bool = False
