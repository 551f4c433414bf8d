"""One record of a batch: its fields, and how it is read and written. Source: KIP-98 (format).

Records are written one after another, so that a large batch can be encoded in steps.
"""

# compiled: docs/compiled.md

from __future__ import annotations

from typing import Final, NamedTuple

from purgatorio.protocol.errors import EncodeError, InvalidRecordError

_MAX_UINT64: Final = 0xFFFFFFFFFFFFFFFF
_NO_TIMESTAMP: Final = -1

Fields = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int]


class Record(NamedTuple):
    """One record, read from a batch or to be written into one."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def read_record(data: bytes, position: int) -> Fields:
    """Read the record at `position`; return offset delta, timestamp delta, key, value, headers and end position."""
    length, position = _read_varint(data, position)
    end = position + length
    if length < 0 or end > len(data):
        raise InvalidRecordError(f"a record of {length} bytes does not fit its batch")
    timestamp_delta, position = _read_varint(data, position + 1, 70)  # past the attributes, which are not used
    offset_delta, position = _read_varint(data, position)
    key, position = _read_bytes(data, position, end)
    value, position = _read_bytes(data, position, end)
    count, position = _read_varint(data, position)
    headers: tuple[tuple[str, bytes | None], ...] = ()
    if count:
        headers, position = _read_headers(data, position, end, count)
    if position != end:
        raise InvalidRecordError(f"a record is {position - end:+d} bytes longer than it says")
    return offset_delta, timestamp_delta, key, value, headers, end


def read_place(data: bytes, position: int) -> tuple[int, int, int]:
    """Read the record at `position` but for its content; return offset delta, timestamp delta and end position."""
    length, position = _read_varint(data, position)
    end = position + length
    if length < 0 or end > len(data):
        raise InvalidRecordError(f"a record of {length} bytes does not fit its batch")
    timestamp_delta, position = _read_varint(data, position + 1, 70)  # past the attributes, which are not used
    offset_delta, position = _read_varint(data, position)
    if position > end:
        raise InvalidRecordError(f"a record is {position - end:+d} bytes longer than it says")
    return offset_delta, timestamp_delta, end


def read_key_and_value(data: bytes, position: int) -> tuple[bytes | None, bytes | None, int]:
    """Read the record at `position`, which was checked before; return key, value and end position."""
    length = data[position]
    if length < 0x80:
        position += 1
        length >>= 1
    else:
        length, position = _read_varint(data, position)
    end = position + length
    if end > len(data):
        raise InvalidRecordError(f"a record of {length} bytes does not fit its batch")
    position += 1  # past the attributes
    while data[position] >= 0x80:  # the time
        position += 1
    position += 1
    while data[position] >= 0x80:  # the offset
        position += 1
    position += 1
    key_length = data[position]
    if key_length < 0x80 and not key_length & 1:
        stop = position + 1 + (key_length >> 1)
        key: bytes | None = data[position + 1 : stop]
    else:
        key, stop = _read_bytes(data, position, end)
    value_length = data[stop]
    if value_length < 0x80 and not value_length & 1:
        value: bytes | None = data[stop + 1 : stop + 1 + (value_length >> 1)]
    else:
        value, _ = _read_bytes(data, stop, end)
    return key, value, end


def _read_headers(data: bytes, position: int, end: int, count: int) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    if not 0 <= count <= end - position:
        raise InvalidRecordError(f"{count} record headers do not fit their record")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, position = _read_bytes(data, position, end)
        if name is None:
            raise InvalidRecordError("the key of a record header is null")
        value, position = _read_bytes(data, position, end)
        try:
            headers.append((name.decode(), value))
        except UnicodeDecodeError:
            raise InvalidRecordError("the key of a record header is not UTF-8") from None
    return tuple(headers), position


def _read_bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = _read_varint(data, position)
    if length < 0:
        if length != -1:
            raise InvalidRecordError(f"a length of {length} within a record")
        return None, position
    stop = position + length
    if stop > end:
        raise InvalidRecordError(f"{length} bytes do not fit their record")
    return data[position:stop], stop


def _read_varint(data: bytes, position: int, max_shift: int = 35) -> tuple[int, int]:
    """Read a zigzag varint of at most five bytes (ten with a `max_shift` of 70); return it and its end position."""
    byte = data[position]
    position += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position
    result = byte & 0x7F
    shift = 7
    while True:
        if shift == max_shift:
            raise InvalidRecordError(f"a varint within a record is longer than {max_shift // 7} bytes")
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    if result >> (32 if max_shift == 35 else 64):
        raise InvalidRecordError("a varint within a record is out of range")
    return (result >> 1) ^ -(result & 1), position


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
