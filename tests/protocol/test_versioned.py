"""Messages behind their version."""

from __future__ import annotations

import pytest

from purgatorio.protocol.errors import BufferUnderflow, DecodeError, EncodeError, TooManyElements
from purgatorio.protocol.message import INT8, Message, array, int8, int16, wire_struct
from purgatorio.protocol.versioned import VersionedCodec, version_of


@wire_struct
class Note(Message):
    pitch: int = int8()
    length: int = int16(7, since=1)
    overtones: list[int] = array(INT8, since=2)


EXACT = VersionedCodec(Note, range(1, 3))
LENIENT = VersionedCodec(Note, range(1, 3), newer_as_last=True)


def test_the_version_stands_in_front() -> None:
    assert EXACT.encode(Note(pitch=5, length=2), 1) == bytes.fromhex("0001 05 0002")
    assert EXACT.encode(Note(pitch=5, length=2), 2) == bytes.fromhex("0002 05 0002 00000000")
    assert version_of(EXACT.encode(Note(), 2)) == 2


@pytest.mark.parametrize("codec", [EXACT, LENIENT])
def test_every_version_is_read_as_it_was_written(codec: VersionedCodec[Note]) -> None:
    assert codec.decode(codec.encode(Note(pitch=5, length=2, overtones=[1]), 1)) == Note(pitch=5, length=2)
    assert codec.decode(codec.encode(Note(pitch=5, overtones=[1]), 2)) == Note(pitch=5, overtones=[1])


def test_a_flexible_version_has_tagged_fields() -> None:
    codec = VersionedCodec(Note, range(3), flexible_from=2)
    assert codec.encode(Note(pitch=5), 2) == bytes.fromhex("0002 05 0007 01 00")


@pytest.mark.parametrize("version", [-1, 0, 3])
def test_a_version_without_codec_is_an_error(version: int) -> None:
    with pytest.raises(EncodeError, match=f"version {version} of Note"):
        EXACT.encode(Note(), version)
    with pytest.raises(DecodeError, match=f"version {version} of Note"):
        EXACT.decode(version.to_bytes(2, signed=True) + bytes(9))


def test_a_newer_version_can_be_taken_for_the_last_one() -> None:
    """Bytes behind the known fields are those of the newer version."""
    data = bytes.fromhex("0009 05 0002 00000001 03") + b"more"
    for _ in range(2):
        assert LENIENT.decode(data) == Note(pitch=5, length=2, overtones=[3])
        assert version_of(LENIENT.encode(Note(), 9)) == 2
    with pytest.raises(DecodeError):
        LENIENT.decode(bytes(9))


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00\x01", b"\x00\x01\x05\x00"])
def test_data_that_is_cut_short_is_an_error(data: bytes) -> None:
    with pytest.raises(BufferUnderflow):
        EXACT.decode(data)


def test_elements_are_limited() -> None:
    codec = VersionedCodec(Note, range(3), max_elements=2)
    codec.decode(codec.encode(Note(overtones=[1, 2]), 2))
    with pytest.raises(TooManyElements):
        codec.decode(codec.encode(Note(overtones=[1, 2, 3]), 2))
