"""The compression codecs of record batches, for batches whose records the broker has to read.

Formats that clients send and this module accepts:

* snappy: Java's is framed as the xerial library does (a magic, then length-prefixed blocks); librdkafka's is one raw
  block.
* lz4: the LZ4 frame format, one or more frames; written with independent blocks, as Java's reader refuses linked ones.
* gzip, zstd: one or more members or frames.

The size of the output is limited during decompression: a decompression bomb never allocates more than `max_bytes`,
and up to there at most four times the space that the output needs.
"""

from __future__ import annotations

import enum
import zlib
from collections.abc import Callable, Generator
from typing import Final

import cramjam

from purgatorio.protocol.errors import CorruptRecordError, RecordTooLargeError

Buffer = bytes | bytearray | memoryview

MAX_DECOMPRESSED_BYTES: Final = 100 * 1024 * 1024
"""The default limit of a decompressed batch: the largest uncompressed batch, by socket.request.max.bytes."""

STEP_BYTES: Final = 256 * 1024
"""The input of one step of `compress_steps`: 10 ms for gzip, 2 ms for zstd. A multiple of the codecs' blocks."""

_OUTPUT_FULL: Final = "failed to write whole buffer"
_FIRST_GUESS_BYTES: Final = 4096
_GROWTH: Final = 4

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"  # version, lowest compatible version
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_SNAPPY_MAX_RATIO: Final = 64  # a copy of three bytes makes at most 64

# Magic, flags (version 1, independent blocks, no checksums), 64 KiB blocks, and the header checksum of those two.
_LZ4_FRAME_HEADER: Final = b"\x04\x22\x4d\x18\x60\x40\x82"
_LZ4_BLOCK_BYTES: Final = 64 * 1024
_LZ4_UNCOMPRESSED: Final = 1 << 31
_LZ4_END_MARK: Final = b"\x00\x00\x00\x00"

_GZIP_LEVEL: Final = 6
_GZIP_WINDOW_BITS: Final = 31  # the largest window, and gzip's header
_ZSTD_LEVEL: Final = 3


class Compression(enum.IntEnum):
    """The codecs, by their numbers in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: Compression, data: Buffer) -> bytes:
    """Compress the records of a batch, in the format that all clients can read."""
    if codec is Compression.GZIP:
        return bytes(cramjam.gzip.compress(data, level=_GZIP_LEVEL))
    if codec is Compression.ZSTD:
        return bytes(cramjam.zstd.compress(data, level=_ZSTD_LEVEL))
    if codec is Compression.LZ4:
        return _compress_lz4(memoryview(data))
    if codec is Compression.SNAPPY:
        return _compress_snappy(memoryview(data))
    return bytes(data)


def compress_steps(codec: Compression, data: Buffer) -> Generator[None, None, bytes]:
    """Do what `compress` does, in steps of `STEP_BYTES`; the generator returns the result."""
    if len(data) <= STEP_BYTES:
        return compress(codec, data)
    view = memoryview(data)
    steps = (view[start : start + STEP_BYTES] for start in range(0, len(view), STEP_BYTES))
    parts: list[bytes] = []
    if codec is Compression.GZIP:
        gzip = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_WINDOW_BITS)
        for step in steps:
            parts.append(gzip.compress(step))
            yield
        parts.append(gzip.flush())
    elif codec is Compression.ZSTD:
        zstd = cramjam.zstd.Compressor(level=_ZSTD_LEVEL)
        for step in steps:
            zstd.compress(bytes(step))
            yield
        parts.append(bytes(zstd.finish()))
    elif codec is Compression.LZ4:
        parts.append(_LZ4_FRAME_HEADER)
        for step in steps:
            parts += _lz4_blocks(step)
            yield
        parts.append(_LZ4_END_MARK)
    elif codec is Compression.SNAPPY:
        parts.append(_XERIAL_HEADER)
        for step in steps:
            parts += _xerial_blocks(step)
            yield
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
        CorruptRecordError: the data is not in the codec's format, or is damaged or cut short.
        RecordTooLargeError: the output would be larger than `max_bytes`.
    """
    if codec is Compression.GZIP:
        return _decompress_growing(cramjam.gzip.decompress_into, data, max_bytes)
    if codec is Compression.ZSTD:
        return _decompress_growing(cramjam.zstd.decompress_into, data, max_bytes)
    if codec is Compression.LZ4:
        return _decompress_growing(cramjam.lz4.decompress_into, data, max_bytes)
    if codec is Compression.SNAPPY:
        return _decompress_snappy(data, max_bytes)
    if len(data) > max_bytes:
        raise _too_large(max_bytes)
    return bytes(data)


def _too_large(max_bytes: int) -> RecordTooLargeError:
    return RecordTooLargeError(f"the batch unpacks to more than {max_bytes} bytes")


def _corrupt(error: Exception) -> CorruptRecordError:
    return CorruptRecordError(f"the batch cannot be unpacked: {error}")


def _decompress_growing(into: Callable[[Buffer, bytearray], int], data: Buffer, max_bytes: int) -> bytes:
    """Decompress into a buffer that grows up to the limit, since no codec's header gives a reliable size.

    The decompressors stop at a full buffer, so a bomb costs one attempt per buffer size, up to the limit.
    """
    size_bytes = min(max_bytes, max(_FIRST_GUESS_BYTES, _GROWTH * len(data)))
    while True:
        output = bytearray(size_bytes)
        try:
            written = into(data, output)
        except cramjam.DecompressionError as error:
            if str(error) != _OUTPUT_FULL:
                raise _corrupt(error) from error
        else:
            return bytes(memoryview(output)[:written])
        if size_bytes >= max_bytes:
            raise _too_large(max_bytes)
        size_bytes = min(max_bytes, _GROWTH * size_bytes)


def _decompress_snappy(data: Buffer, max_bytes: int) -> bytes:
    view = memoryview(data)
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _decompress_snappy_block(view, max_bytes)
    blocks: list[bytes] = []
    left_bytes = max_bytes
    position = len(_XERIAL_HEADER)
    if len(view) < position:
        raise CorruptRecordError("the batch ends within the header of its snappy blocks")
    while position < len(view):
        start = position + 4
        end = start + int.from_bytes(view[position:start], "big")
        if end > len(view) or end <= start:
            raise CorruptRecordError("a snappy block is empty or ends after the batch")
        block = _decompress_snappy_block(view[start:end], left_bytes)
        left_bytes -= len(block)
        blocks.append(block)
        position = end
    return b"".join(blocks)


def _decompress_snappy_block(block: memoryview, max_bytes: int) -> bytes:
    try:
        size_bytes = cramjam.snappy.decompress_raw_len(block)
        if size_bytes > _SNAPPY_MAX_RATIO * len(block):
            raise CorruptRecordError("a snappy block promises more than it can hold")
        if size_bytes > max_bytes:
            raise _too_large(max_bytes)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise _corrupt(error) from error


def _compress_snappy(data: memoryview) -> bytes:
    return b"".join((_XERIAL_HEADER, *_xerial_blocks(data)))


def _xerial_blocks(data: memoryview) -> list[bytes]:
    parts: list[bytes] = []
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (len(block).to_bytes(4, "big"), block)
    return parts


def _compress_lz4(data: memoryview) -> bytes:
    return b"".join((_LZ4_FRAME_HEADER, *_lz4_blocks(data), _LZ4_END_MARK))


def _lz4_blocks(data: memoryview) -> list[bytes]:
    parts: list[bytes] = []
    for start in range(0, len(data), _LZ4_BLOCK_BYTES):
        plain = data[start : start + _LZ4_BLOCK_BYTES]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            parts += (len(block).to_bytes(4, "little"), block)
        else:
            parts += ((len(plain) | _LZ4_UNCOMPRESSED).to_bytes(4, "little"), bytes(plain))
    return parts
