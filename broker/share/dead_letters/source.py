"""Reads the records that are given up from the log of their leader, and from its tier, in steps."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Generator, Sequence
from typing import Final

from purgatorio.broker.replica.partition import Partition
from purgatorio.protocol.errors import CorruptRecordError
from purgatorio.protocol.primitives import Buffer
from purgatorio.protocol.records import BatchHeader, iter_batches, iter_unpacked, unpack_records

READ_BYTES: Final = 1_048_576
"""The most bytes of the log that are read in one step, unless a record batch is larger."""
MIN_UNPACKED_BYTES: Final = 1_048_576
"""A record batch may unpack to so many bytes, or to as many as a batch of the dead-letter topic may have; as in Kafka,
of a larger one there are only the headers."""
RECORD_COST: Final = 3
"""The cost of reading a record (see `LongWork`)."""

Content = tuple[bytes | None, bytes | None]
"""Key and value."""
NotCopied = Callable[[BatchHeader, str], object]
"""Called with a batch whose dead letters have only headers, and the reason."""
NO_CONTENT: Final[Content] = (None, None)
FromTier = Callable[[int], Buffer | None]
"""Returns the batches of a part that only the tier has, from the one that has an offset on; an empty buffer: the tier
does not give them any more; None: they are still to be read."""


def read_records(
    replica: Partition,
    offsets: Sequence[int],
    *,
    copies: bool,
    max_bytes: int,
    not_copied: NotCopied,
    from_tier: FromTier,
) -> Generator[int, None, tuple[dict[int, Content], int]]:
    """Find the records of a partition that this broker leads; yields between steps.

    Args:
        offsets: ascending.
        copies: whether key and value are wanted.
        max_bytes: the largest record batch that the dead-letter topic takes.
        not_copied: called for each batch that cannot be read.

    Returns:
        By offset, what is known of the record. An offset without a record, as of an end marker or of what compaction
        has removed, is not among them; a record that retention has deleted meanwhile is, without key and value, and so
        is one that the tier does not give any more. And the number of offsets that this is about: the others are still
        to be read from the tier.
    """
    found: dict[int, Content] = {}
    position = 0
    while position < len(offsets):
        offset = offsets[position]
        if offset >= replica.high_watermark:
            break
        parts = _parts_at(replica, offset, from_tier)
        if parts is None:
            return found, position
        batches = [each for part in parts for each in iter_batches(part)]
        if not batches:
            found[offset] = NO_CONTENT
            position += 1
            continue
        for header, batch in batches:
            end = bisect_right(offsets, header.last_offset, position)
            wanted = [each for each in offsets[position:end] if each >= header.base_offset]
            position = end
            if wanted and not header.is_control:
                try:
                    yield from _read_batch(found, header, batch, wanted, copies, max(max_bytes, MIN_UNPACKED_BYTES))
                except CorruptRecordError as error:
                    found.update({each: NO_CONTENT for each in wanted if each not in found})
                    not_copied(header, str(error))
            if position == len(offsets):
                break
        yield 0
    return found, len(offsets)


def _parts_at(replica: Partition, offset: int, from_tier: FromTier) -> Sequence[Buffer] | None:
    """Return what the log has from an offset on, of memory or of the tier; None: that is still to be read there."""
    log = replica.log
    if offset < log.log_start_offset:
        return ()
    if offset >= log.local_start_offset:
        return log.read(offset, max_bytes=READ_BYTES, end_offset=replica.high_watermark).parts
    part = from_tier(offset)
    return None if part is None else (part,)


def _read_batch(
    found: dict[int, Content], header: BatchHeader, batch: Buffer, wanted: Sequence[int], copies: bool, max_bytes: int
) -> Generator[int, None, None]:
    is_dense = header.record_count == header.last_offset_delta + 1
    if is_dense and not copies:
        found.update(dict.fromkeys(wanted, NO_CONTENT))
        return
    missing = dict.fromkeys(wanted)
    data = unpack_records(header, batch, max_bytes)
    for record in iter_unpacked(header, data):
        if record.offset in missing:
            found[record.offset] = (record.key, record.value) if copies else NO_CONTENT
        if record.offset >= wanted[-1]:
            break
        yield RECORD_COST
