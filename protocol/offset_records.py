"""The records of committed offsets, read and written straight, without the objects of `consumer_offsets`.

They are nearly all of `__consumer_offsets`, and a broker that becomes a coordinator reads all of them before it
answers: this takes a third of the time of the codecs. Records of an unusual form are left to these codecs.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import Final

from purgatorio.protocol.errors import BufferUnderflow, DecodeError, EncodeError
from purgatorio.protocol.primitives import MAX_STRING_BYTES, ZERO_UUID, encode_uvarint

OffsetKey = tuple[str, str, int]
"""Group, topic, partition."""
OffsetValue = tuple[int, int, str, int, bytes]
"""Offset, leader epoch, metadata, time of the commit in milliseconds since 1970, topic id."""

_KEY_TYPE: Final = 1
_KEY_HEAD: Final = Struct(">hh")
_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_VALUE_HEAD: Final = Struct(">hqi")  # version, offset, leader epoch
_VALUE_WITH_ID: Final = Struct(">qBBB16s")  # time, number of tagged fields, tag, its size, topic id
_VALUE_WITHOUT_ID: Final = Struct(">qB")
_INT64: Final = Struct(">q")
_ONE_BYTE: Final = 0x80


def encode_offset_key(group_id: str, topic: str, partition: int) -> bytes:
    """Encode the key of a committed offset.

    Raises:
        EncodeError: the group's id is too long.
    """
    group, name = group_id.encode(), topic.encode()
    if len(group) > MAX_STRING_BYTES or len(name) > MAX_STRING_BYTES:
        raise EncodeError(f"a group id of {len(group)} bytes, or a topic of {len(name)}, is too long for a record")
    return b"".join(
        (_KEY_HEAD.pack(_KEY_TYPE, len(group)), group, _INT16.pack(len(name)), name, _INT32.pack(partition))
    )


def encode_offset_value(
    offset: int, leader_epoch: int, metadata: str, commit_ms: int, topic_id: bytes = ZERO_UUID
) -> bytes:
    """Encode the value of a committed offset in version 4.

    Raises:
        EncodeError: a number is out of range.
    """
    note = metadata.encode()
    length = len(note) + 1
    prefix = encode_uvarint(length)
    try:
        head = _VALUE_HEAD.pack(4, offset, leader_epoch)
        if topic_id == ZERO_UUID:
            return b"".join((head, prefix, note, _VALUE_WITHOUT_ID.pack(commit_ms, 0)))
        return b"".join((head, prefix, note, _VALUE_WITH_ID.pack(commit_ms, 1, 0, 16, topic_id)))
    except StructError as error:
        raise EncodeError(f"a committed offset is out of range: {error}") from None


def read_offset_key(key: bytes) -> OffsetKey | None:
    """Read the key of a committed offset; None if it is that of another record.

    Raises:
        DecodeError: it is malformed.
    """
    if key[:2] not in (b"\x00\x01", b"\x00\x00"):
        return None
    try:
        group_end = 4 + _INT16.unpack_from(key, 2)[0]
        topic_start = group_end + 2
        topic_end = topic_start + _INT16.unpack_from(key, group_end)[0]
        (partition,) = _INT32.unpack_from(key, topic_end)
        if not 4 <= group_end <= topic_start <= topic_end:
            raise DecodeError("a negative length in the key of a committed offset")
        return key[4:group_end].decode(), key[topic_start:topic_end].decode(), partition
    except StructError:
        raise BufferUnderflow("the key of a committed offset ends early") from None
    except UnicodeDecodeError:
        raise DecodeError("the key of a committed offset is not UTF-8") from None


def read_offset_value(value: bytes) -> OffsetValue | None:
    """Read the value of a committed offset; None if it takes the codec.

    Read are values of version 4 whose metadata has at most 126 bytes, with the topic's id or no tagged field, and
    values of version 3: those that brokers write now.
    """
    try:
        version, offset, leader_epoch = _VALUE_HEAD.unpack_from(value)
        if version == 4:
            length = value[14]
            end = 14 + length  # of the metadata
            if 0 < length < _ONE_BYTE:
                note = value[15:end].decode() if length > 1 else ""
                if len(value) == end + _VALUE_WITH_ID.size:
                    commit_ms, fields, tag, size, topic_id = _VALUE_WITH_ID.unpack_from(value, end)
                    if (fields, tag, size) == (1, 0, 16):
                        return offset, leader_epoch, note, commit_ms, topic_id
                elif len(value) == end + _VALUE_WITHOUT_ID.size:
                    commit_ms, fields = _VALUE_WITHOUT_ID.unpack_from(value, end)
                    if not fields:
                        return offset, leader_epoch, note, commit_ms, ZERO_UUID
        elif version == 3:
            end = 16 + _INT16.unpack_from(value, 14)[0]
            if 16 <= end <= len(value) - _INT64.size:
                return offset, leader_epoch, value[16:end].decode(), _INT64.unpack_from(value, end)[0], ZERO_UUID
    except (StructError, IndexError, UnicodeDecodeError):
        pass  # the codec says what is wrong
    return None
