"""Every codec against itself, against other clients' codecs, and against decompression bombs and garbage."""

from __future__ import annotations

import contextlib
import random
import resource
import zlib

import cramjam
import pytest
from aiokafka import codec as aiokafka_codec
from hypothesis import example, given
from hypothesis import strategies as st

from purgatorio.protocol.compression import STEP_BYTES, Compression, compress, compress_steps, decompress
from purgatorio.protocol.errors import CorruptRecordError, ErrorCode, RecordTooLargeError

CODECS = [codec for codec in Compression if codec is not Compression.NONE]
SAMPLES = [b"", b"a", b"abc" * 1000, bytes(300_000), random.Random(1).randbytes(200_000)]

AIOKAFKA_ENCODERS = {
    Compression.GZIP: aiokafka_codec.gzip_encode,
    Compression.SNAPPY: aiokafka_codec.snappy_encode,
    Compression.LZ4: aiokafka_codec.lz4_encode,
    Compression.ZSTD: aiokafka_codec.zstd_encode,
}
AIOKAFKA_DECODERS = {
    Compression.GZIP: aiokafka_codec.gzip_decode,
    Compression.SNAPPY: aiokafka_codec.snappy_decode,
    Compression.LZ4: aiokafka_codec.lz4_decode,
    Compression.ZSTD: aiokafka_codec.zstd_decode,
}


def frames(codec: Compression, data: bytes) -> bytes:
    """Compress `data` with the codec's own library, without our code."""
    return bytes(
        {
            Compression.GZIP: cramjam.gzip.compress,
            Compression.SNAPPY: cramjam.snappy.compress_raw,
            Compression.LZ4: cramjam.lz4.compress,
            Compression.ZSTD: cramjam.zstd.compress,
        }[codec](data)
    )


@pytest.mark.parametrize("codec", Compression)
@pytest.mark.parametrize("data", SAMPLES, ids=len)
def test_compressed_data_is_decompressed_with_a_limit_of_exactly_its_size(codec: Compression, data: bytes) -> None:
    packed = compress(codec, data)
    assert decompress(codec, packed, max(1, len(data))) == data
    assert decompress(codec, memoryview(bytearray(packed))) == data


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("data", SAMPLES[1:], ids=len)
def test_other_clients_read_ours_and_we_read_theirs(codec: Compression, data: bytes) -> None:
    assert bytes(AIOKAFKA_DECODERS[codec](compress(codec, data))) == data
    assert decompress(codec, bytes(AIOKAFKA_ENCODERS[codec](data))) == data
    assert decompress(codec, frames(codec, data)) == data


def test_snappy_is_read_raw_as_librdkafka_writes_it_and_written_framed_as_java_does() -> None:
    data = b"some bytes " * 10_000
    raw = bytes(cramjam.snappy.compress_raw(data))
    framed = compress(Compression.SNAPPY, data)
    assert framed.startswith(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
    assert not raw.startswith(b"\x82SNAPPY")
    assert decompress(Compression.SNAPPY, raw) == decompress(Compression.SNAPPY, framed) == data


def test_lz4_blocks_are_independent_since_javas_reader_refuses_others() -> None:
    packed = compress(Compression.LZ4, b"x" * 200_000)
    assert packed[:4] == b"\x04\x22\x4d\x18"
    assert packed[4] & 0x20


def test_several_members_or_frames_are_decompressed_as_one_payload() -> None:
    for codec in (Compression.GZIP, Compression.LZ4, Compression.ZSTD):
        assert decompress(codec, compress(codec, b"one,") + compress(codec, b"two")) == b"one,two"


@pytest.mark.parametrize("codec", Compression)
def test_one_byte_more_than_allowed_is_too_large(codec: Compression) -> None:
    packed = compress(codec, b"x" * 100_001)
    with pytest.raises(RecordTooLargeError) as caught:
        decompress(codec, packed, 100_000)
    assert caught.value.error_code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.ZSTD, Compression.LZ4])
def test_a_bomb_is_refused_without_decompressing_it(codec: Compression) -> None:
    """A gigabyte of zeros in a few kilobytes takes no more memory than a few times the limit."""
    chunk = compress(codec, bytes(1 << 20))
    bomb = chunk * 1024
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(RecordTooLargeError):
        decompress(codec, bomb, 8 << 20)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < 32 * 1024


def test_a_gzip_bomb_of_a_single_member_is_refused() -> None:
    packer = zlib.compressobj(9, wbits=31)
    bomb = b"".join(packer.compress(bytes(1 << 20)) for _ in range(64)) + packer.flush()
    assert len(bomb) < 100_000
    with pytest.raises(RecordTooLargeError):
        decompress(Compression.GZIP, bomb, 1 << 20)


def test_a_snappy_block_that_announces_more_than_it_can_hold_is_refused() -> None:
    with pytest.raises(CorruptRecordError, match="promises more"):
        decompress(Compression.SNAPPY, b"\xff\xff\xff\xff\x0f" + b"abc")


@pytest.mark.parametrize(
    "data",
    [
        b"\x82SNAPPY\x00",
        compress(Compression.SNAPPY, b"")[:12],
        compress(Compression.SNAPPY, b"x" * 100)[:-1],
        compress(Compression.SNAPPY, b"") + b"\x00\x00\x00\x00",
        compress(Compression.SNAPPY, b"") + b"\xff\xff\xff\xff",
        compress(Compression.SNAPPY, b"") + b"\x00",
        b"",
    ],
)
def test_damaged_snappy_framing_is_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptRecordError):
        decompress(Compression.SNAPPY, data)


@pytest.mark.parametrize("codec", CODECS)
def test_payloads_that_are_cut_short_are_corrupt(codec: Compression) -> None:
    packed = compress(codec, random.Random(2).randbytes(1000))
    for length in range(0, len(packed), 7):
        if codec is Compression.SNAPPY and length == 16:
            continue  # a payload without blocks is empty, not damaged
        with pytest.raises(CorruptRecordError):
            decompress(codec, packed[:length])


@given(st.sampled_from(CODECS), st.binary(max_size=300), st.binary(max_size=300), st.randoms(use_true_random=False))
@example(Compression.ZSTD, b"", b"\x28\xb5\x2f\xfd\x00\xff", random.Random(0))
def test_garbage_is_refused_or_decompressed_within_the_limit(
    codec: Compression, data: bytes, garbage: bytes, rng: random.Random
) -> None:
    """Random bytes and damaged payloads raise only errors of records, and never decompress to more than the limit."""
    damaged = bytearray(compress(codec, data))
    for _ in range(3):
        damaged[rng.randrange(len(damaged))] = rng.randrange(256)
    for payload in (garbage, bytes(damaged)):
        with contextlib.suppress(CorruptRecordError):
            assert len(decompress(codec, payload, 5000)) <= 5000


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("size_bytes", [0, 10, STEP_BYTES, STEP_BYTES + 1, 3 * STEP_BYTES + 7])
def test_compression_in_steps_has_a_result_that_unpacks(codec: Compression, size_bytes: int) -> None:
    data = random.Random(size_bytes).randbytes(size_bytes // 2) + bytes(size_bytes - size_bytes // 2)
    steps = compress_steps(codec, data)
    count = 0
    with pytest.raises(StopIteration) as stopped:  # noqa: PT012 -- the result comes with it
        while True:
            next(steps)
            count += 1
    assert decompress(codec, stopped.value.value) == data
    large = size_bytes > STEP_BYTES and codec is not Compression.NONE
    assert count == (-(-size_bytes // STEP_BYTES) if large else 0)
