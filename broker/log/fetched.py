"""The checks of batches that a follower fetched, before it appends them."""

from __future__ import annotations

from purgatorio.broker.log.errors import InvalidBatch, UnexpectedOffset
from purgatorio.protocol.compression import Buffer
from purgatorio.protocol.errors import CorruptRecordError
from purgatorio.protocol.records import BatchHeader, check_crc, iter_batches


def check_fetched(
    records: Buffer, end_offset: int, *, leader_epoch: int | None, is_empty: bool
) -> list[tuple[BatchHeader, memoryview]]:
    """Return the batches with their headers.

    Args:
        records: batches; a last one that is incomplete is left out.
        end_offset: the log's end offset, at which the batches have to continue.
        leader_epoch: if given, the batches from the first one of a higher epoch on are left out.
        is_empty: whether the log has no batch. It may then begin within the first one, as after DeleteRecords up to an
            offset inside it.

    Raises:
        InvalidBatch: a batch is damaged.
        UnexpectedOffset: the offsets do not ascend from `end_offset`.
    """
    batches: list[tuple[BatchHeader, memoryview]] = []
    next_offset = end_offset
    try:
        for header, batch in iter_batches(records, allow_partial=True):
            if leader_epoch is not None and header.partition_leader_epoch > leader_epoch:
                break
            check_crc(header, batch)
            begins_within = is_empty and not batches and header.base_offset <= end_offset <= header.last_offset
            if not (header.base_offset >= next_offset or begins_within) or header.last_offset_delta < 0:
                raise UnexpectedOffset(
                    f"a batch from {header.base_offset} to {header.last_offset} does not continue at {next_offset}"
                )
            next_offset = header.last_offset + 1
            batches.append((header, batch))
    except CorruptRecordError as error:
        raise InvalidBatch(error.error_code, str(error)) from error
    return batches
