"""How the records of ``__consumer_offsets`` make the groups of a shard."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from purgatorio.broker.group.offsets import CommittedOffset
from purgatorio.broker.group.shard import GroupShard
from purgatorio.protocol.consumer_offsets import (
    NO_EXPIRY,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_key,
    decode_value,
)
from purgatorio.protocol.end_marker import EndMarker
from purgatorio.protocol.offset_records import OffsetKey, read_offset_key, read_offset_value
from purgatorio.protocol.records import BatchHeader

OTHER_RECORD_WORK: Final = 5
"""The work of a record that takes the codecs; that of a committed offset is 1."""

ReplayRecord = Callable[[GroupShard, Any, Any], None]
"""Applies one record to a shard: its key, and its value or None for a tombstone."""


class GroupReplay:
    """Applies records to one shard. Those of unknown types are skipped (KIP-915).

    Args:
        shard: the shard that is loaded.
        replays: by type of key, what applies a record.
    """

    def __init__(self, shard: GroupShard, replays: Mapping[type, ReplayRecord]) -> None:
        self._shard = shard
        self._replays = replays

    def record(self, batch: BatchHeader, key: bytes | None, value: bytes | None) -> int:
        """Apply one record; returns its work.

        Raises:
            DecodeError: the record is malformed.
        """
        if key is None:
            return 1
        offset_key = read_offset_key(key)
        if offset_key is None:
            decoded = decode_key(key)
            replay = self._replays.get(type(decoded))
            if replay is not None and decoded is not None:
                replay(self._shard, decoded, decode_value(decoded, value))
            return OTHER_RECORD_WORK
        if value is None:
            self._shard.offsets.remove(*offset_key)
            return 1
        read = read_offset_value(value)
        if read is None:
            self._put(batch, offset_key, _of_other_version(value))
            return OTHER_RECORD_WORK
        offset, leader_epoch, metadata, commit_ms, topic_id = read
        committed = CommittedOffset(offset, leader_epoch, metadata, commit_ms, NO_EXPIRY, topic_id)
        if batch.is_transactional or self._shard.offsets.transactional.count:
            self._put(batch, offset_key, committed)
        else:
            self._shard.offsets.put(*offset_key, committed)  # nearly always, so without a call of its own
        return 1

    def _put(self, batch: BatchHeader, key: OffsetKey, committed: CommittedOffset) -> None:
        offsets = self._shard.offsets
        if batch.is_transactional:
            offsets.transactional.put(batch.producer_id, *key, committed)
        else:
            offsets.transactional.superseded(*key)
            offsets.put(*key, committed)

    def ended(self, batch: BatchHeader, marker: EndMarker) -> None:
        """Make the offsets of the transaction visible, or drop them."""
        self._shard.offsets.end(batch.producer_id, commits=marker.committed)


def _of_other_version(value: bytes) -> CommittedOffset:
    """Read a committed offset with the codecs.

    Raises:
        DecodeError: the value is malformed, or of an unknown version.
    """
    read = decode_value(OffsetCommitKey(), value)
    assert isinstance(read, OffsetCommitValue)
    return CommittedOffset(
        read.offset,
        read.leader_epoch,
        read.metadata,
        read.commit_timestamp_ms,
        read.expire_timestamp_ms,
        read.topic_id,
    )
