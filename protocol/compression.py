"""The compression codecs of record batches, for batches whose records the broker has to read.

Formats that clients send and this module accepts, as Apache Kafka's readers do:

* snappy: Java's is framed as the xerial library does (a magic, then length-prefixed blocks), one or more streams;
  librdkafka's is one raw block. Up to three bytes that follow the last block are ignored.
* lz4: one frame of the LZ4 frame format with independent blocks; what follows it is ignored.
* gzip: one or more members; what follows them is ignored, if they unpack to `_MAX_TRAILED_BYTES` at most.
* zstd: one or more frames.

The size of the output is limited during decompression: a decompression bomb never allocates more than `max_bytes`,
and up to there at most four times the space that the output needs.
"""

from __future__ import annotations

import enum
import zlib
from collections.abc import Callable, Generator
from typing import Any, Final

from purgatorio.protocol.errors import DamagedPayloadError, RecordTooLargeError

Buffer = bytes | bytearray | memoryview

MAX_DECOMPRESSED_BYTES: Final = 100 * 1024 * 1024
"""The default limit of a decompressed batch: the largest uncompressed batch, by socket.request.max.bytes."""

STEP_BYTES: Final = 64 * 1024
"""The input of one step of `compress_steps`: 2.5 ms for gzip, 0.5 ms for zstd. A multiple of the codecs' blocks."""

_MAX_PIECES: Final = 5_000
"""The most blocks or members of one payload: each costs up to 4 µs. Java's snappy makes 3,200 of 100 MiB."""
_PIECE_BYTES: Final = 500
"""The cost of unpacking a block or frame beside its bytes, in bytes that take as long: one may be empty."""
_GZIP_MEMBER_COST_BYTES: Final = 3_000
_OUTPUT_FULL: Final = "failed to write whole buffer"
_FIRST_GUESS_BYTES: Final = 4096
_GROWTH: Final = 4

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"  # version, lowest compatible version
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_SNAPPY_MAX_RATIO: Final = 64  # a copy of three bytes makes at most 64

# Magic, flags (version 1, independent blocks, no checksums), 64 KiB blocks, and the header checksum of those two.
_LZ4_FRAME_HEADER: Final = b"\x04\x22\x4d\x18\x60\x40\x82"
_LZ4_MAGIC: Final = _LZ4_FRAME_HEADER[:4]
_LZ4_INDEPENDENT: Final = 0x20
_LZ4_BLOCK_CHECKSUMS: Final = 0x10
_LZ4_CONTENT_SIZE: Final = 0x08
_LZ4_CONTENT_CHECKSUM: Final = 0x04
_LZ4_BLOCK_BYTES: Final = 64 * 1024
_LZ4_UNCOMPRESSED: Final = 1 << 31
_LZ4_END_MARK: Final = b"\x00\x00\x00\x00"

_GZIP_LEVEL: Final = 6
GZIP_IS_FAST_ABOVE_BYTES: Final = 64 * 1024
"""Larger records of a batch are compressed by gzip at a lower level: up to five times as fast, and hardly larger."""
_GZIP_FAST_LEVEL: Final = 2
_GZIP_LEVEL_OF_NOISE: Final = 1
"""The level of records that gzip does not make smaller: level 2 takes five times as long for them."""
_GZIP_SAMPLE_BYTES: Final = 4096
_GZIP_WINDOW_BITS: Final = 31  # the largest window, and gzip's header
_GZIP_MEMBER_START: Final = b"\x1f\x8b\x08"
_GZIP_MEMBER_BYTES: Final = 18  # the smallest: header and trailer
_GZIP_FIRST_STEP_BYTES: Final = 4096
_MAX_TRAILED_BYTES: Final = 1024 * 1024
"""The most that gzip members unpack to behind which other bytes are ignored: the members are unpacked a second time."""
_ZSTD_LEVEL: Final = 3
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_ZSTD_FRAME_BYTES: Final = 8  # the smallest
_ZSTD_SKIPPABLE: Final = b"\x2a\x4d\x18"
"""The last bytes of the magic of a frame that holds nothing."""


class Compression(enum.IntEnum):
    """The codecs, by their numbers in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def _cramjam() -> Any:
    """Return the library of all codecs."""
    import cramjam  # 2 MB and 2 ms, which a cluster need not have before the first batch to unpack or compress

    return cramjam


def compress(codec: Compression, data: Buffer) -> bytes:
    """Compress the records of a batch, in the format that all clients can read."""
    if codec is Compression.GZIP:
        return bytes(_cramjam().gzip.compress(data, level=_gzip_level(data)))
    if codec is Compression.ZSTD:
        return bytes(_cramjam().zstd.compress(data, level=_ZSTD_LEVEL))
    if codec is Compression.LZ4:
        return _compress_lz4(memoryview(data))
    if codec is Compression.SNAPPY:
        return _compress_snappy(memoryview(data))
    return bytes(data)


def _gzip_level(data: Buffer) -> int:
    if len(data) <= GZIP_IS_FAST_ABOVE_BYTES:
        return _GZIP_LEVEL
    sample = memoryview(data)[:_GZIP_SAMPLE_BYTES]
    is_noise = len(_cramjam().gzip.compress(sample, level=_GZIP_LEVEL_OF_NOISE)) > len(sample) * 15 // 16
    return _GZIP_LEVEL_OF_NOISE if is_noise else _GZIP_FAST_LEVEL


def compress_steps(codec: Compression, data: Buffer) -> Generator[int, None, bytes]:
    """Do what `compress` does, in steps of `STEP_BYTES`; yields the µs of each, and returns the result."""
    if len(data) <= STEP_BYTES:
        return compress(codec, data)
    view = memoryview(data)
    steps = (view[start : start + STEP_BYTES] for start in range(0, len(view), STEP_BYTES))
    parts: list[bytes] = []
    if codec is Compression.GZIP:
        gzip = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_WINDOW_BITS)
        for step in steps:
            parts.append(gzip.compress(step))
            yield len(step) // 26
        parts.append(gzip.flush())
    elif codec is Compression.ZSTD:
        zstd = _cramjam().zstd.Compressor(level=_ZSTD_LEVEL)
        for step in steps:
            zstd.compress(bytes(step))
            yield len(step) // 130
        parts.append(bytes(zstd.finish()))
    elif codec is Compression.LZ4:
        parts.append(_LZ4_FRAME_HEADER)
        for step in steps:
            parts += _lz4_blocks(step)
            yield len(step) // 200
        parts.append(_LZ4_END_MARK)
    elif codec is Compression.SNAPPY:
        parts.append(_XERIAL_HEADER)
        for step in steps:
            parts += _xerial_blocks(step)
            yield len(step) // 200
    else:
        parts.append(bytes(view))
    return b"".join(parts)


def decompress(codec: Compression, data: Buffer, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> bytes:
    """Decompress the records of a batch.

    Args:
        codec: the codec that they are compressed with.
        data: all bytes after the batch header.
        max_bytes: the largest allowed size of the output.

    Raises:
        DamagedPayloadError: the data is not in the codec's format, or is damaged or cut short.
        RecordTooLargeError: the output would be larger than `max_bytes`.
    """
    return _unpack(codec, data, max_bytes)[0]


def decompress_within(codec: Compression, data: Buffer, work_bytes: int) -> tuple[bytes, int]:
    """Decompress records of which nothing is known, within a budget for several batches.

    Returns:
        The output, and what it has cost: as many bytes, and more for its members, frames and blocks.

    Raises:
        DamagedPayloadError, RecordTooLargeError: as `decompress`; the latter also if it would cost more than that.
    """
    pieces = _count_members(codec, data)
    cost_bytes = pieces * (_GZIP_MEMBER_COST_BYTES if codec is Compression.GZIP else _PIECE_BYTES)
    if pieces > 1 and cost_bytes > work_bytes:
        raise RecordTooLargeError(f"the batch consists of {pieces} parts, which takes too long")
    output, blocks = _unpack(codec, data, work_bytes)
    return output, len(output) + cost_bytes + blocks * _PIECE_BYTES


def _count_members(codec: Compression, data: Buffer) -> int:
    """Return how often a gzip member or zstd frame may begin; what only looks so is rare.

    Raises:
        DamagedPayloadError: there are more than `_MAX_PIECES`.
    """
    if codec not in (Compression.GZIP, Compression.ZSTD):
        return 0
    packed = bytes(data)
    if codec is Compression.GZIP:
        count = packed.count(_GZIP_MEMBER_START)
    else:
        count = packed.count(_ZSTD_MAGIC) + packed.count(_ZSTD_SKIPPABLE)
    if count > _MAX_PIECES:
        raise _damaged(f"it has more than {_MAX_PIECES} {codec.name.lower()} members")
    return count


def _unpack(codec: Compression, data: Buffer, max_bytes: int) -> tuple[bytes, int]:
    """Return the output, and how many blocks were seen in the input."""
    if codec is Compression.GZIP:
        return _decompress_gzip(memoryview(data), max_bytes), 0
    if codec is Compression.ZSTD:
        if len(data) > _MAX_PIECES * _ZSTD_FRAME_BYTES:
            _count_members(codec, data)
        return _decompress_growing(_cramjam().zstd.decompress_into, data, max_bytes), 0
    if codec is Compression.LZ4:
        frame, blocks = _lz4_frame(memoryview(data))
        return _decompress_growing(_cramjam().lz4.decompress_into, frame, max_bytes), blocks
    if codec is Compression.SNAPPY:
        return _decompress_snappy(data, max_bytes)
    if len(data) > max_bytes:
        raise _too_large(max_bytes)
    return bytes(data), 0


def _too_large(max_bytes: int) -> RecordTooLargeError:
    return RecordTooLargeError(f"the batch unpacks to more than {max_bytes} bytes")


def _damaged(why: object) -> DamagedPayloadError:
    return DamagedPayloadError(f"the batch cannot be unpacked: {why}")


def _decompress_growing(into: Callable[[Buffer, bytearray], int], data: Buffer, max_bytes: int) -> bytes:
    """Decompress into a buffer that grows up to the limit, since no codec's header gives a reliable size.

    The decompressors stop at a full buffer, so a bomb costs one attempt per buffer size, up to the limit.
    """
    size_bytes = min(max_bytes, max(_FIRST_GUESS_BYTES, _GROWTH * len(data)))
    while True:
        output = bytearray(size_bytes)
        try:
            written = into(data, output)
        except _cramjam().DecompressionError as error:
            if str(error) != _OUTPUT_FULL:
                raise _damaged(error) from error
        else:
            return bytes(memoryview(output)[:written])
        if size_bytes >= max_bytes:
            raise _too_large(max_bytes)
        size_bytes = min(max_bytes, _GROWTH * size_bytes)


def _decompress_gzip(view: memoryview, max_bytes: int) -> bytes:
    if len(view) > _MAX_PIECES * _GZIP_MEMBER_BYTES:
        _count_members(Compression.GZIP, view)
    try:
        return _decompress_growing(_cramjam().gzip.decompress_into, view, max_bytes)
    except DamagedPayloadError:
        data = _gzip_members(view, min(max_bytes, _MAX_TRAILED_BYTES))
        if data is None:
            raise
        return data


def _gzip_members(view: memoryview, max_bytes: int) -> bytes | None:
    """Return what all members unpack to if only what follows them is none; None if they are damaged, or too large."""
    parts: list[bytes] = []
    position = 0
    while True:
        member = zlib.decompressobj(_GZIP_WINDOW_BITS)
        step_bytes = _GZIP_FIRST_STEP_BYTES
        while not member.eof:
            step = view[position : position + step_bytes]
            try:
                part = member.decompress(step, max_bytes + 1)
            except zlib.error:
                return None
            max_bytes -= len(part)
            if not step or max_bytes < 0:
                return None
            parts.append(part)
            # Each step may be copied into `unused_data`, so that steps grow only with their member.
            position += len(step) - len(member.unused_data)
            step_bytes *= 2
        is_member = bytes(view[position : position + len(_GZIP_MEMBER_START)]) == _GZIP_MEMBER_START
        if not is_member or len(view) - position <= _GZIP_MEMBER_BYTES:
            return b"".join(parts)


def _lz4_frame(view: memoryview) -> tuple[memoryview, int]:
    """Return the first frame of a payload, and its blocks; these and checksums are left to the decompressor."""
    if len(view) < len(_LZ4_FRAME_HEADER) or bytes(view[: len(_LZ4_MAGIC)]) != _LZ4_MAGIC:
        raise _damaged("it does not begin with the header of an lz4 frame")
    flags = view[len(_LZ4_MAGIC)]
    if not flags & _LZ4_INDEPENDENT:
        raise _damaged("its lz4 blocks are linked, which Java's clients cannot read")
    position = len(_LZ4_FRAME_HEADER) + (8 if flags & _LZ4_CONTENT_SIZE else 0)
    checksum_bytes = 4 if flags & _LZ4_BLOCK_CHECKSUMS else 0
    for blocks in range(_MAX_PIECES):
        size_bytes = int.from_bytes(view[position : position + 4], "little")
        position += 4
        if not size_bytes:
            position += 4 if flags & _LZ4_CONTENT_CHECKSUM else 0
            if position > len(view):
                raise _damaged("it ends within an lz4 frame")
            return view[:position], blocks
        position += (size_bytes & ~_LZ4_UNCOMPRESSED) + checksum_bytes
    raise _damaged(f"it has more than {_MAX_PIECES} lz4 blocks")


def _decompress_snappy(data: Buffer, max_bytes: int) -> tuple[bytes, int]:
    view = memoryview(data)
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _decompress_snappy_block(view, max_bytes), 1
    blocks: list[bytes] = []
    left_bytes, position = max_bytes, 0
    for pieces in range(_MAX_PIECES):
        if bytes(view[position : position + len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC:  # a stream begins
            position += len(_XERIAL_HEADER)
            if position > len(view):
                raise _damaged("it ends within the header of its snappy blocks")
            continue
        start = position + 4
        if start > len(view):
            return b"".join(blocks), pieces
        end = start + int.from_bytes(view[position:start], "big")
        if end > len(view) or end <= start:
            raise _damaged("a snappy block is empty or ends after the batch")
        block = _decompress_snappy_block(view[start:end], left_bytes)
        left_bytes -= len(block)
        blocks.append(block)
        position = end
    raise _damaged(f"it has more than {_MAX_PIECES} snappy blocks")


def _decompress_snappy_block(block: memoryview, max_bytes: int) -> bytes:
    try:
        size_bytes = _cramjam().snappy.decompress_raw_len(block)
        if size_bytes > _SNAPPY_MAX_RATIO * len(block):
            raise _damaged("a snappy block promises more than it can hold")
        if size_bytes > max_bytes:
            raise _too_large(max_bytes)
        return bytes(_cramjam().snappy.decompress_raw(block))
    except _cramjam().DecompressionError as error:
        raise _damaged(error) from error


def _compress_snappy(data: memoryview) -> bytes:
    return b"".join((_XERIAL_HEADER, *_xerial_blocks(data)))


def _xerial_blocks(data: memoryview) -> list[bytes]:
    parts: list[bytes] = []
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(_cramjam().snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (len(block).to_bytes(4, "big"), block)
    return parts


def _compress_lz4(data: memoryview) -> bytes:
    return b"".join((_LZ4_FRAME_HEADER, *_lz4_blocks(data), _LZ4_END_MARK))


def _lz4_blocks(data: memoryview) -> list[bytes]:
    parts: list[bytes] = []
    for start in range(0, len(data), _LZ4_BLOCK_BYTES):
        plain = data[start : start + _LZ4_BLOCK_BYTES]
        block = bytes(_cramjam().lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            parts += (len(block).to_bytes(4, "little"), block)
        else:
            parts += ((len(plain) | _LZ4_UNCOMPRESSED).to_bytes(4, "little"), bytes(plain))
    return parts
