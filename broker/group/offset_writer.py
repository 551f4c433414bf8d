"""Writes changes of committed offsets to the log, and lets them take effect when they are committed."""

from __future__ import annotations

from collections.abc import Sequence

from purgatorio.broker.coordinator.coordinator_log import Committed, CoordinatorLog, Fate, NewRecord, Producer
from purgatorio.broker.group.offsets import OffsetChange
from purgatorio.broker.group.shard import GroupShard
from purgatorio.protocol.consumer_offsets import NO_EXPIRY, OffsetCommitValue, encode_value
from purgatorio.protocol.end_marker import EndMarker
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.offset_records import encode_offset_key, encode_offset_value
from purgatorio.protocol.records import NO_PRODUCER_ID


class OffsetWriter:
    """Writes changes of offsets; they take effect in the order of the log.

    Args:
        log: the partitions of ``__consumer_offsets``.
    """

    def __init__(self, log: CoordinatorLog) -> None:
        self._log = log

    def write(
        self,
        shard: GroupShard,
        changes: Sequence[OffsetChange],
        done: Committed,
        *,
        client: str = "",
        producer: Producer | None = None,
    ) -> bool:
        """Append changes of offsets in one batch; they take effect when they are committed.

        Args:
            done: called when the changes are committed and visible, or have failed; perhaps before this returns.
            client: the client id, shown while the request waits.
            producer: the producer whose transaction writes the changes: they become visible when a marker commits it.

        Returns:
            Whether the changes are in this broker's log.
        """
        number = 0

        def appended() -> None:
            nonlocal number
            number = shard.offsets.append(changes, NO_PRODUCER_ID if producer is None else producer.producer_id)

        def fated(fate: Fate, error_code: ErrorCode) -> None:
            if not error_code:
                shard.offsets.committed(number)
            if fate is not Fate.COMMITTED_LATE:
                done(error_code)

        records = [offset_record(change) for change in changes]
        return self._log.write(shard, records, fated, applied=appended, client=client, producer=producer)

    def end(self, shard: GroupShard, producer: Producer, marker: EndMarker, done: Committed) -> bool:
        """Append the marker that ends a producer's transaction; it takes effect when it is committed.

        Args:
            done: called when the marker is committed and has taken effect, or has failed; perhaps before this returns.

        Returns:
            Whether the marker is in this broker's log.
        """
        number = 0

        def appended() -> None:
            nonlocal number
            number = shard.offsets.append_end(producer.producer_id, commits=marker.committed)

        def fated(fate: Fate, error_code: ErrorCode) -> None:
            if not error_code:
                shard.offsets.committed(number)
            if fate is not Fate.COMMITTED_LATE:
                done(error_code)

        return self._log.write_end(shard, producer, marker, fated, applied=appended)


def offset_record(change: OffsetChange) -> NewRecord:
    """Return the record of a change."""
    group_id, topic, partition, committed = change
    key = encode_offset_key(group_id, topic, partition)
    if committed is None:
        return NewRecord(key, None)
    offset, leader_epoch, metadata, commit_ms, expire_ms, topic_id = committed
    if expire_ms == NO_EXPIRY:
        return NewRecord(key, encode_offset_value(offset, leader_epoch, metadata, commit_ms, topic_id))
    value = OffsetCommitValue(
        offset=offset, metadata=metadata, commit_timestamp_ms=commit_ms, expire_timestamp_ms=expire_ms
    )
    return NewRecord(key, encode_value(value))
