"""How a shard is loaded: its partition's records are replayed, from the log's start to its end, in steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from purgatorio.broker.group.offsets import CommittedOffset
from purgatorio.broker.group.shard import GroupShard
from purgatorio.broker.log.log import Log
from purgatorio.logger import get_logger
from purgatorio.protocol.consumer_offsets import NO_EXPIRY, decode_key, decode_value
from purgatorio.protocol.errors import CorruptRecordError, DecodeError
from purgatorio.protocol.offset_records import read_offset_key, read_offset_value
from purgatorio.protocol.record_decoding import read_key_and_value
from purgatorio.protocol.records import BatchHeader, iter_batches, unpack_records

logger = get_logger(__name__)

READ_BYTES: Final = 256 * 1024
"""The most bytes that are read at once, unless one batch is larger."""
WORK_PER_STEP: Final = 500
"""The most work of one step: 3 ms. A committed offset is 1."""
OTHER_RECORD_WORK: Final = 5
"""The work of another record, which takes the codecs."""
BATCH_WORK: Final = 1
"""The work of a batch beside its records."""

Replay = Callable[[GroupShard, Any, Any], None]
"""Applies one record to a shard: its key, and its value or None for a tombstone."""


def load_steps(shard: GroupShard, log: Log, replays: Mapping[type, Replay]) -> Iterator[None]:
    """Replay a log into a shard, in steps. Records of unknown types are skipped (KIP-915), malformed ones logged too.

    Args:
        replays: by type of key, what applies a record.
    """
    offset = log.log_start_offset
    work = 0
    while offset < log.log_end_offset:
        read = log.read(offset, max_bytes=READ_BYTES, end_offset=log.log_end_offset)
        if not read.parts:
            break
        for header, batch in iter_batches(b"".join(read.parts)):
            work += BATCH_WORK
            offset = header.last_offset + 1
            if header.is_control:
                continue
            for cost in _replay_batch(shard, header, batch, replays):
                work += cost
                if work >= WORK_PER_STEP:
                    work = 0
                    yield
        # The log may have been compacted meanwhile, which leaves a gap; or deleted up to a new start.
        offset = max(offset, log.log_start_offset)


def _replay_batch(
    shard: GroupShard, header: BatchHeader, batch: memoryview, replays: Mapping[type, Replay]
) -> Iterator[int]:
    """Replay the records of one batch; yields the work of each."""
    try:
        data = unpack_records(header, batch)
        position = 0
        for _ in range(header.record_count):
            key, value, position = read_key_and_value(data, position)
            yield _replay(shard, key, value, replays)
    except (CorruptRecordError, IndexError) as error:
        logger.error("a batch of groups was skipped", partition=str(shard.tp), why=str(error))


def _replay(shard: GroupShard, key: bytes | None, value: bytes | None, replays: Mapping[type, Replay]) -> int:
    """Replay one record; returns the work."""
    try:
        if key is None:
            return 1
        offset_key = read_offset_key(key)
        if offset_key is not None:
            if value is None:
                shard.offsets.remove(*offset_key)
                return 1
            committed = read_offset_value(value)
            if committed is not None:
                offset, leader_epoch, metadata, commit_ms, topic_id = committed
                shard.offsets.put(
                    *offset_key, CommittedOffset(offset, leader_epoch, metadata, commit_ms, NO_EXPIRY, topic_id)
                )
                return 1
        decoded = decode_key(key)
        replay = replays.get(type(decoded))
        if replay is not None and decoded is not None:
            replay(shard, decoded, decode_value(decoded, value))
    except DecodeError as error:
        logger.warning("a group's record was skipped", partition=str(shard.tp), why=str(error))
    return OTHER_RECORD_WORK
