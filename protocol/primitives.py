"""The primitives of all messages: varints, lengths, tagged fields, UUIDs.

The compiled codecs (see `message`) read fixed-size values and short lengths in line. They call the functions here for
the rare cases: a varint of more than one byte, an unknown tag, a wrong length. Other modules use them outside of
messages.

Readers take the data and a position and return the value and the position after it. Reading past the end raises
IndexError from the buffer itself; compiled decoders convert it to `BufferUnderflow`, and other callers have to as well.
"""

# compiled: docs/compiled.md

from __future__ import annotations

from typing import Final

from purgatorio.protocol.errors import (
    BufferUnderflow,
    DecodeError,
    EncodeError,
    InvalidLength,
    MalformedVarint,
    TooManyElements,
    UnexpectedNull,
)

Buffer = bytes | bytearray | memoryview

ZERO_UUID: Final = bytes(16)
"""The UUID that stands for "none"."""

MAX_STRING_BYTES: Final = 0x7FFF
"""The longest string, in bytes of UTF-8; compact strings have the same limit as the old ones with an int16 length."""

MAX_REQUEST_ELEMENTS: Final = 4_000
"""The most elements of a request: entries of its arrays at every depth, and unknown tagged fields, together.

An empty entry takes one to sixteen bytes on the wire, but up to 6 µs to decode, handle and answer: so this keeps the
worst request near 25 ms. An API may allow another number (`Api.max_elements`)."""

LONG_STRING_BYTES: Final = 1024
"""A string of a request counts as one element more for each time that it is so long. Topic names end at 249 bytes."""

UINT32_MAX: Final = 0xFFFFFFFF
UINT64_MAX: Final = 0xFFFFFFFFFFFFFFFF

ONE_BYTE_UVARINTS: Final = tuple(bytes((value,)) for value in range(0x80))
"""The unsigned varints of one byte, by value."""


def read_uvarint(data: Buffer, position: int) -> tuple[int, int]:
    """Read an unsigned varint of at most five bytes."""
    byte = data[position]
    if byte < 0x80:
        return byte, position + 1
    return read_uvarint_tail(data, position + 1, byte)


def read_uvarint_tail(data: Buffer, position: int, first: int) -> tuple[int, int]:
    """Read the rest of an unsigned varint of more than one byte.

    Raises:
        MalformedVarint: the varint does not end with its fifth byte, or does not fit into 32 bits.
    """
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > UINT32_MAX:
                raise MalformedVarint(f"the varint that ends at byte {position} does not fit into 32 bits")
            return value, position
    raise MalformedVarint(f"a varint is longer than five bytes, at byte {position}")


def encode_uvarint(value: int) -> bytes:
    """Encode an unsigned varint.

    Raises:
        EncodeError: the value is negative or does not fit into 64 bits.
    """
    if not 0 <= value <= UINT64_MAX:
        raise EncodeError(f"{value} is no unsigned varint")
    if value < 0x80:
        return ONE_BYTE_UVARINTS[value]
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def skip_tagged_fields(data: Buffer, position: int, size_bytes: int, first: int, allowed: int) -> tuple[int, int]:
    """Skip a section of unknown tagged fields.

    Args:
        data: the buffer that holds the section.
        position: the position after the first byte of the section's field count.
        size_bytes: the size of `data`.
        first: the first byte of the field count.
        allowed: how many tagged fields may be skipped.

    Returns:
        The position after the section, and how many may be skipped further on.

    Raises:
        InvalidLength: the section is longer than the data.
        TooManyElements: it has more fields than allowed.
    """
    count = first
    if count > 0x7F:
        count, position = read_uvarint_tail(data, position, first)
    check_count(count, 2, size_bytes - position, "tagged fields")
    if count > allowed:
        raise TooManyElements("tagged fields")
    for _ in range(count):
        _tag, position = read_uvarint(data, position)
        length, position = read_uvarint(data, position)
        position += length
        if position > size_bytes:
            raise BufferUnderflow("a tagged field is longer than the data")
    return position, allowed - count


def check_count(count: int, element_bytes: int, remaining_bytes: int, what: str) -> None:
    """Refuse a count of elements that the remaining bytes cannot hold, before memory is allocated for them.

    Args:
        count: the number of elements that the data announces.
        element_bytes: the size of the smallest possible element.
        remaining_bytes: the number of bytes left.
        what: the name of the counted field, for the error's message.

    Raises:
        UnexpectedNull: the count is -1, which means null.
        InvalidLength: the count is negative, or too large.
    """
    if 0 <= count * element_bytes <= remaining_bytes:
        return
    if count == -1:
        raise UnexpectedNull(f"{what}: null where an array must be")
    raise InvalidLength(f"{what}: a count of {count} in {remaining_bytes} bytes")


def bad_length(length: int, remaining_bytes: int, what: str) -> DecodeError:
    """Return the error for a wrong length of a string or of bytes."""
    if length == -1:
        return UnexpectedNull(f"{what}: null where a value must be")
    if length < 0:
        return InvalidLength(f"{what}: a length of {length} bytes")
    if length > remaining_bytes:
        return BufferUnderflow(f"{what}: a length of {length} bytes where {remaining_bytes} are left")
    return InvalidLength(f"{what}: a length of {length} bytes, more than {MAX_STRING_BYTES}")


def bad_tag_length(tag: int, excess_bytes: int, what: str) -> DecodeError:
    """Return the error for a known tagged field whose value is longer or shorter than its announced length."""
    relation = "longer" if excess_bytes > 0 else "shorter"
    return InvalidLength(f"{what}: tagged field {tag} is {abs(excess_bytes)} bytes {relation} than it says")


def allowed_after_string(length: int, position: int, size_bytes: int, allowed: int, what: str) -> int:
    """Return how many elements a request may still have after a string that is too long to be counted as nothing.

    Args:
        length: the string's announced length in bytes.
        position: the position of its first byte.
        size_bytes: the size of the data.
        allowed: how many elements the request may have before it.
        what: the name of the string's field, for the error's message.

    Raises:
        DecodeError: the length is impossible.
        TooManyElements: the request has too many long strings.
    """
    if not 0 <= length <= min(size_bytes - position, MAX_STRING_BYTES):
        raise bad_length(length, size_bytes - position, what)
    allowed -= length // LONG_STRING_BYTES
    if allowed < 0:
        raise TooManyElements(what)
    return allowed
