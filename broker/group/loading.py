"""How a shard is loaded: its partition's records are replayed, from the log's start to its end, in steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from purgatorio.broker.group.shard import GroupShard
from purgatorio.broker.log.log import Log
from purgatorio.logger import get_logger
from purgatorio.protocol.consumer_offsets import decode_key, decode_value
from purgatorio.protocol.errors import CorruptRecordError, DecodeError
from purgatorio.protocol.records import Record, iter_batches, iter_records

logger = get_logger(__name__)

READ_BYTES: Final = 256 * 1024
"""The most bytes that one step reads, unless one batch is larger."""
RECORDS_PER_STEP: Final = 200
"""The most records that one step replays: some milliseconds."""

Replay = Callable[[GroupShard, Any, Any], None]
"""Applies one record to a shard: its key, and its value or None for a tombstone."""


def load_steps(shard: GroupShard, log: Log, replays: Mapping[type, Replay]) -> Iterator[None]:
    """Replay a log into a shard, in steps. Records of unknown types are skipped (KIP-915), malformed ones logged too.

    Args:
        replays: by type of key, what applies a record.
    """
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        read = log.read(offset, max_bytes=READ_BYTES, end_offset=log.log_end_offset)
        data = b"".join(read.parts)
        for header, batch in iter_batches(data):
            if not header.is_control:
                yield from _batch_steps(shard, batch, replays)
            offset = header.last_offset + 1
        yield
        # The log may have been compacted meanwhile, which leaves a gap; or deleted up to a new start.
        offset = max(offset, log.log_start_offset)


def _batch_steps(shard: GroupShard, batch: memoryview, replays: Mapping[type, Replay]) -> Iterator[None]:
    records = iter_records(batch)
    try:
        while chunk := list(islice(records, RECORDS_PER_STEP)):
            for record in chunk:
                _replay(shard, record, replays)
            yield
    except CorruptRecordError as error:
        logger.error("a batch of groups was skipped", partition=str(shard.tp), why=str(error))


def _replay(shard: GroupShard, record: Record, replays: Mapping[type, Replay]) -> None:
    try:
        key = None if record.key is None else decode_key(record.key)
        replay = replays.get(type(key))
        if replay is not None and key is not None:
            replay(shard, key, decode_value(key, record.value))
    except DecodeError as error:
        logger.warning("a group's record was skipped", partition=str(shard.tp), offset=record.offset, why=str(error))
