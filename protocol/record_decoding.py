"""The decoding of one record of a batch: varints, key, value, headers. Source: KIP-98 (format)."""

from __future__ import annotations

from purgatorio.protocol.errors import InvalidRecordError

Fields = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int]


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
