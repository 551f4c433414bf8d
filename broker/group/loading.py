"""How the records of ``__consumer_offsets`` make the groups of a shard."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from purgatorio.broker.group.offsets import CommittedOffset
from purgatorio.broker.group.shard import GroupShard
from purgatorio.protocol.consumer_offsets import NO_EXPIRY, decode_key, decode_value
from purgatorio.protocol.end_marker import EndMarker
from purgatorio.protocol.offset_records import read_offset_key, read_offset_value
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
        if offset_key is not None:
            if value is None:
                self._shard.offsets.remove(*offset_key)
                return 1
            committed = read_offset_value(value)
            if committed is not None:
                offset, leader_epoch, metadata, commit_ms, topic_id = committed
                self._shard.offsets.put(
                    *offset_key, CommittedOffset(offset, leader_epoch, metadata, commit_ms, NO_EXPIRY, topic_id)
                )
                return 1
        decoded = decode_key(key)
        replay = self._replays.get(type(decoded))
        if replay is not None and decoded is not None:
            replay(self._shard, decoded, decode_value(decoded, value))
        return OTHER_RECORD_WORK

    def ended(self, batch: BatchHeader, marker: EndMarker) -> None:
        """Nothing: no transaction writes offsets yet."""
