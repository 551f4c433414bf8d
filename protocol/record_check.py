"""Checks the records inside a batch without building them: lengths, offsets, keys and headers.

`check_records` accepts the records that `iter_records` can read and that Kafka accepts from producers. There are three
ways, fastest first:

1. Records of one size that differ in content only are checked column by column: slices with their size as the step.
2. A record without headers costs a few comparisons of bytes.
3. Every other record is checked field by field.
"""

# compiled: docs/compiled.md

from __future__ import annotations

from typing import Final

from purgatorio.protocol.errors import InvalidRecordError

NO_LIMIT: Final = 1 << 62
SEARCH_COST: Final = 3
ALIKE_PER_COST: Final = 16
FIELD_BY_FIELD_COST: Final = 8
"""The time that a record takes that is checked field by field, against one that is not."""

MAX_KEYLESS: Final = 100
"""Records without a key that a check names: enough to find the mistake, and a bound for the answer."""

_NULL: Final = 1
"""The length -1 as a varint."""
_FAR: Final = 1 << 40
"""A position behind all data: the next look-up fails, and the record is checked field by field."""
_WORTHWHILE_RUN: Final = 8
"""Records of one size from which on their columns are checked: a search costs as much as five or six records."""
_TRY_AGAIN_AFTER: Final = 64
_FIRST_WINDOW: Final = 64
_TWO_BYTES_FROM: Final = 64
_THREE_BYTES_FROM: Final = 8192
_ONE_BYTE_DELTAS: Final = bytes(range(0, 128, 2))
_FIRST_DELTA_BYTES: Final = bytes(2 * index & 127 | 128 for index in range(_THREE_BYTES_FROM))
_SECOND_DELTA_BYTES: Final = bytes(2 * index >> 7 for index in range(_THREE_BYTES_FROM))
_MIDDLE_DELTA_BYTES: Final = bytes(2 * index >> 7 | 128 for index in range(_THREE_BYTES_FROM))
"""The second of three: offset deltas from 8192 on have the same first two bytes every 8192 of them."""
_HIGH_BYTES: Final = bytes(range(128, 256))
_INT32_BYTES: Final = 5
_INT64_BYTES: Final = 10


class InvalidRecordAtError(InvalidRecordError):
    """A record of a batch is malformed.

    Attributes:
        index: the record's position in the batch.
        reason: the message without the position.
    """

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(f"record {index} of the batch {reason}")
        self.index = index
        self.reason = reason


def check_sizes(data: bytes, limit_bytes: int) -> None:
    """Check that no record is larger than `limit_bytes`, without the length in front of it.

    Args:
        data: the records, decompressed. Records that `check_records` has not reached may be malformed, which ends the
            check.

    Raises:
        InvalidRecordError: a record is larger.
    """
    position = index = 0
    try:
        while position < len(data):
            size_bytes, position = _varint(data, position, _INT32_BYTES)
            if size_bytes > limit_bytes:
                raise InvalidRecordError(f"record {index} of the batch has {size_bytes} bytes, more than {limit_bytes}")
            position += max(0, size_bytes)
            index += 1
    except (_Malformed, IndexError):
        return


def check_records(data: bytes, count: int, budget: int = NO_LIMIT, keyless: list[int] | None = None) -> int:
    """Check the records of a produced batch, as far as the budget goes.

    Args:
        data: the records, decompressed.
        count: their number according to the header; their offset deltas have to be 0, 1, 2 and so on.
        budget: the work to spend. A record that is checked by the second way costs 1, by the third way
            `FIELD_BY_FIELD_COST`; `ALIKE_PER_COST` records of one size cost 1, and
            the search for them `SEARCH_COST`.
        keyless: if given, receives the numbers of records without a key, which costs 1 more for each record that is not
            one of a size. After `MAX_KEYLESS` of them the check ends.

    Returns:
        The rest of the budget; at most 0 if the records that follow were not checked.

    Raises:
        InvalidRecordAtError: a record is malformed, or the data ends before the last record does.
        InvalidRecordError: bytes follow the last record.
    """
    position = index = 0
    # A batch that is too small for a run is not searched for one.
    next_try, window = 0 if count >= _WORTHWHILE_RUN else count, _FIRST_WINDOW
    while index < count:
        if budget <= 0:
            return budget
        budget -= 1
        first = index
        end = _end_of_plain_record(data, position, index)
        if end < 0:
            end = _check_record(data, position, index)
            budget -= FIELD_BY_FIELD_COST - 1
        elif index >= next_try and data[position : position + 1] == data[end : end + 1]:
            # The search looks no further than four times what it found last, so that its work follows the records.
            alike = _count_alike(data, position, end - position, index, min(count, index + window))
            window = 4 * window if alike == window - 1 else _FIRST_WINDOW
            next_try = index + alike + (0 if alike else _TRY_AGAIN_AFTER)
            budget -= SEARCH_COST + alike // ALIKE_PER_COST
            index += alike
            end += alike * (end - position)
        if keyless is not None:
            budget -= 1
            if _has_no_key(data, position):
                keyless += range(first, min(index + 1, first + MAX_KEYLESS - len(keyless)))
                if len(keyless) == MAX_KEYLESS:
                    return budget
        position = end
        index += 1
    if position != len(data):
        raise InvalidRecordError(f"{len(data) - position} bytes follow the {count} records of a batch")
    return budget


# Complex, since all is inlined: a call per field would double its time, and it runs once per produced record.
def _end_of_plain_record(data: bytes, position: int, index: int) -> int:  # noqa: C901
    """Return where a record ends if it is a plain one, else -1.

    Plain is a record without headers, with a key below 8 KiB, a value below 1 MiB, a timestamp delta below 2^20 and the
    offset delta `index`, below 2^20. The positions only grow, so that all fields lie inside the record if the last one
    does.
    """
    try:
        size = data[position]
        position += 1
        if size > 127:
            high = data[position]
            position += 1
            size += (high << 7) - 128
            if high > 127:
                high = data[position]
                position = position + 1 if high < 128 else _FAR
                size += (high << 14) - 16384
        end = position + (size >> 1) if not size & 1 else _FAR
        position += 1  # past the attributes, which are not used
        if data[position] > 127:
            position += 1
            if data[position] > 127:
                position += 1
                if data[position] > 127:
                    return -1
        position += 1
        size = data[position]
        position += 1
        if size > 127:
            high = data[position]
            position += 1
            size += (high << 7) - 128
            if high > 127:
                high = data[position]
                position = position + 1 if high < 128 else _FAR
                size += (high << 14) - 16384
        if size != index + index:
            return -1
        size = data[position]
        position += 1
        if size != _NULL:
            if size > 127:
                high = data[position]
                position = position + 1 if high < 128 else _FAR
                size += (high << 7) - 128
            position = position + (size >> 1) if not size & 1 else _FAR
        size = data[position]
        position += 1
        if size != _NULL:
            if size > 127:
                high = data[position]
                position += 1
                size += (high << 7) - 128
                if high > 127:
                    high = data[position]
                    position = position + 1 if high < 128 else _FAR
                    size += (high << 14) - 16384
            position = position + (size >> 1) if not size & 1 else _FAR
        return end if data[position] == 0 and position + 1 == end else -1
    except IndexError:
        return -1


def _count_alike(data: bytes, start: int, size: int, index: int, count: int) -> int:
    """Return how many records that follow a plain one are as plain and have fields of the same lengths.

    Args:
        start: the position of the plain record.
        size: its size in bytes.
        index: its number, which is its offset delta.
        count: the number of records of the batch, or of those that are looked at.
    """
    delta_bytes = 1 if index < _TWO_BYTES_FROM else 2 if index < _THREE_BYTES_FROM else 3
    last = _TWO_BYTES_FROM if delta_bytes == 1 else index - index % _THREE_BYTES_FROM + _THREE_BYTES_FROM
    rows = min(min(count, last) - index, (len(data) - start) // size)
    if rows < _WORTHWHILE_RUN:
        return 0
    stop = start + rows * size
    position = start
    lengths = [position]  # the positions of bytes that have to be the same in each row
    while data[position] > 127:
        position += 1
        lengths.append(position)
    position += 2
    # The timestamp delta has the same number of bytes in each row: all but the last are high, the last is not.
    times = [position]
    while data[position] > 127:
        position += 1
        times.append(position)
    deltas = position + 1
    position = deltas + delta_bytes
    if data[position - 1] > 127:
        return 0  # more bytes than it needs
    if delta_bytes == 3:
        lengths.append(position - 1)  # the third byte is the same up to `last`
    for _ in ("key", "value"):
        position = _past_alike(data, position, lengths)
    lengths.append(position)  # the number of headers
    rows = _equal_rows(data, start, size, rows, lengths)
    stop = start + rows * size
    if rows < _WORTHWHILE_RUN or not data[times[-1] : stop : size].isascii():
        return 0
    for each in times[:-1]:
        if data[each:stop:size].translate(None, _HIGH_BYTES):
            return 0
    first, second = data[deltas:stop:size], data[deltas + 1 : stop : size]
    return rows - 1 if _deltas_ascend(first, second, index) else 0


def _past_alike(data: bytes, position: int, lengths: list[int]) -> int:
    """Return the position after a key or value; add the positions of its length's bytes to `lengths`."""
    lengths.append(position)
    length, shift = data[position], 0
    while data[position] > 127:
        position += 1
        shift += 7
        lengths.append(position)
        length += (data[position] << shift) - (1 << shift)
    return position + 1 + (length >> 1 if length != _NULL else 0)


def _equal_rows(data: bytes, start: int, size: int, rows: int, columns: list[int]) -> int:
    """Return how many of the rows, from the first one on, have the same byte in each of these columns."""
    for each in columns:
        column = data[each : start + rows * size : size]
        if column.count(column[0]) < rows:
            rows -= len(column.lstrip(column[:1]))
    return rows


def _deltas_ascend(first: bytes, second: bytes, index: int) -> bool:
    """Return whether offset deltas ascend by one from `index`; given are the first and the second byte of each."""
    if index < _TWO_BYTES_FROM:
        return first == _ONE_BYTE_DELTAS[index : index + len(first)]
    seconds = _SECOND_DELTA_BYTES if index < _THREE_BYTES_FROM else _MIDDLE_DELTA_BYTES
    index %= _THREE_BYTES_FROM
    end = index + len(first)
    return first == _FIRST_DELTA_BYTES[index:end] and second == seconds[index:end]


def _check_record(data: bytes, position: int, index: int) -> int:
    """Check one record field by field, and return where it ends.

    Raises:
        InvalidRecordAtError: it is malformed.
    """
    try:
        length, position = _varint(data, position, _INT32_BYTES)
        end = position + length
        if length < 0 or end > len(data):
            raise _Malformed(f"has a length of {length} bytes, which does not fit its batch")
        _, position = _varint(data, position + 1, _INT64_BYTES)
        delta, position = _varint(data, position, _INT32_BYTES)
        if delta != index:
            raise _Malformed(f"has the offset delta {delta}")
        position = _past_bytes(data, position, end)
        position = _past_bytes(data, position, end)
        count, position = _varint(data, position, _INT32_BYTES)
        if not 0 <= count <= end - position:
            raise _Malformed(f"has {count} headers, which do not fit it")
        for _ in range(count):
            if _varint(data, position, _INT32_BYTES)[0] < 0:
                raise _Malformed("has a header without a name")
            position = _past_bytes(data, position, end)
            position = _past_bytes(data, position, end)
        if position != end:
            raise _Malformed(f"is {position - end:+d} bytes longer than it says")
    except IndexError:
        raise InvalidRecordAtError(index, "ends after its batch") from None
    except _Malformed as error:
        raise InvalidRecordAtError(index, str(error)) from None
    return end


def _has_no_key(data: bytes, position: int) -> bool:
    """Return whether a record that was checked has no key."""
    while data[position] > 127:
        position += 1
    position += 2  # past the last byte of the length, and the attributes
    for _ in ("timestamp delta", "offset delta"):
        while data[position] > 127:
            position += 1
        position += 1
    return data[position] == _NULL


class _Malformed(Exception):
    """A field of a record is malformed."""


def _past_bytes(data: bytes, position: int, end: int) -> int:
    """Return the position after a key, a value, or a header's name or value."""
    length, position = _varint(data, position, _INT32_BYTES)
    if length < -1 or position + length > end:
        raise _Malformed(f"has a field of {length} bytes, which does not fit it")
    return position + max(0, length)


def _varint(data: bytes, position: int, max_bytes: int) -> tuple[int, int]:
    """Read a zigzag varint; return it and its end position."""
    result = shift = 0
    for _ in range(max_bytes):
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 128:
            if result >> (32 if max_bytes == _INT32_BYTES else 64):
                raise _Malformed("has a varint that is out of range")
            return (result >> 1) ^ -(result & 1), position
        shift += 7
    raise _Malformed(f"has a varint of more than {max_bytes} bytes")
