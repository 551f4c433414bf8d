"""The control batches that end transactions (KIP-98)."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from purgatorio.protocol.compression import Buffer
from purgatorio.protocol.errors import InvalidRecordError
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import HEADER_SIZE, NO_LEADER_EPOCH, build_batch, iter_records

_KEY: Final = struct.Struct(">hh")  # version, type: 0 abort, 1 commit; other types do not end transactions
_VALUE: Final = struct.Struct(">hi")  # version, coordinator epoch
# The one record of a marker that is not compressed: length, attributes, timestamp and offset delta, length of the key;
# key; length of the value; value; number of headers.
_RECORD: Final = struct.Struct(">5shhBhiB")
_BEFORE_KEY: Final = bytes([2 * (_RECORD.size - 1), 0, 0, 0, 2 * _KEY.size])


class EndMarker(NamedTuple):
    """The record that ends a transaction on one partition."""

    committed: bool
    coordinator_epoch: int


def build_end_marker(
    marker: EndMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytes:
    """Build the control batch that commits or aborts a producer's transaction on one partition (KIP-98)."""
    key = _KEY.pack(0, 1 if marker.committed else 0)
    record = Record(base_offset, timestamp_ms, key, _VALUE.pack(0, marker.coordinator_epoch))
    return build_batch(
        [record],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        leader_epoch=leader_epoch,
        transactional=True,
        control=True,
    )


def read_end_marker(batch: Buffer) -> EndMarker | None:
    """Read the end marker in a control batch; None if the marker is of another type, or compaction has removed it.

    Raises:
        CorruptRecordError: the key or the value of the control record is too short, or the batch is malformed.
    """
    if len(batch) == HEADER_SIZE + _RECORD.size:  # as brokers make it: a tenth of the time
        before_key, _, kind, value_size, _, coordinator_epoch, headers = _RECORD.unpack_from(batch, HEADER_SIZE)
        if before_key == _BEFORE_KEY and value_size == 2 * _VALUE.size and headers == 0 and kind in (0, 1):
            return EndMarker(kind == 1, coordinator_epoch)
    record = next(iter_records(batch), None)
    if record is None:
        return None
    if record.key is None or len(record.key) < _KEY.size:
        raise InvalidRecordError("the key of a control record is shorter than its type")
    _, kind = _KEY.unpack_from(record.key)
    if kind not in (0, 1):
        return None
    if record.value is None or len(record.value) < _VALUE.size:
        raise InvalidRecordError("the marker that ends a transaction is too short")
    _, coordinator_epoch = _VALUE.unpack_from(record.value)
    return EndMarker(kind == 1, coordinator_epoch)
