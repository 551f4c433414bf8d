"""The encoding of records within a batch, one record after another, so that a large batch can be encoded in steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from purgatorio.protocol.errors import EncodeError

if TYPE_CHECKING:
    from purgatorio.protocol.records import Record

_MAX_UINT64: Final = 0xFFFFFFFFFFFFFFFF
_NO_TIMESTAMP: Final = -1


class RecordsEncoder:
    """Encodes the records of one batch.

    Args:
        base_offset: the first offset of the batch.
        base_timestamp_ms: what the records' timestamps are relative to.

    Attributes:
        body: the encoded records, uncompressed.
        count: how many.
        last_delta: the offset of the last one, relative to `base_offset`; −1 before the first.
        max_timestamp_ms: the highest timestamp; −1 before the first.
    """

    __slots__ = ("_base_offset", "base_timestamp_ms", "body", "count", "last_delta", "max_timestamp_ms")

    def __init__(self, base_offset: int, base_timestamp_ms: int) -> None:
        self._base_offset = base_offset
        self.base_timestamp_ms = base_timestamp_ms
        self.body = bytearray()
        self.count = 0
        self.last_delta = -1
        self.max_timestamp_ms = _NO_TIMESTAMP

    def add(self, record: Record) -> None:
        """Encode the next record.

        Raises:
            EncodeError: its offset does not ascend.
        """
        delta = record.offset - self._base_offset
        if delta <= self.last_delta:
            raise EncodeError(f"offset {record.offset} does not ascend in a batch that starts at {self._base_offset}")
        if not self.count or record.timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = record.timestamp_ms
        self.last_delta = delta
        self.count += 1
        _write_record(self.body, record, delta, record.timestamp_ms - self.base_timestamp_ms)


def _write_varint(out: bytearray, value: int) -> None:
    encoded = ((value << 1) ^ (value >> 63)) & _MAX_UINT64
    while encoded >= 0x80:
        out.append(encoded & 0x7F | 0x80)
        encoded >>= 7
    out.append(encoded)


def _write_bytes(out: bytearray, value: bytes | None) -> None:
    if value is None:
        out.append(1)
    else:
        _write_varint(out, len(value))
        out += value


def _write_record(out: bytearray, record: Record, offset_delta: int, timestamp_delta: int) -> None:
    body = bytearray(1)
    _write_varint(body, timestamp_delta)
    _write_varint(body, offset_delta)
    _write_bytes(body, record.key)
    _write_bytes(body, record.value)
    _write_varint(body, len(record.headers))
    for name, value in record.headers:
        _write_bytes(body, name.encode())
        _write_bytes(body, value)
    _write_varint(out, len(body))
    out += body
