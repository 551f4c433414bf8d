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

from purgatorio.protocol.compression import (
    STEP_BYTES,
    Compression,
    compress,
    compress_steps,
    decompress,
    decompress_within,
)
from purgatorio.protocol.errors import CorruptRecordError, DamagedPayloadError, ErrorCode, RecordTooLargeError

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


def _id(value: Compression | bytes | int) -> str:
    if isinstance(value, Compression):
        return value.name
    return f"{len(value)} bytes" if isinstance(value, bytes) else str(value)


def _lz4(data: bytes, **options: bool) -> bytes:
    packer = cramjam.lz4.Compressor(**{"content_checksum": False, "block_linked": False, **options})
    packer.compress(data)
    return bytes(packer.finish())


def frames(codec: Compression, data: bytes) -> bytes:
    """Compress `data` with the codec's own library, without our code."""
    return bytes(
        {
            Compression.GZIP: cramjam.gzip.compress,
            Compression.SNAPPY: cramjam.snappy.compress_raw,
            Compression.LZ4: _lz4,
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


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.SNAPPY, Compression.ZSTD])
def test_several_members_streams_or_frames_are_decompressed_as_one_payload(codec: Compression) -> None:
    assert decompress(codec, compress(codec, b"one,") + compress(codec, b"two")) == b"one,two"


DATA = b"some bytes " * 9_000
GZIP, SNAPPY, LZ4, ZSTD = (compress(codec, DATA) for codec in CODECS)
XERIAL_HEADER = SNAPPY[:16]
SKIPPABLE = b"\x50\x2a\x4d\x18\x04\0\0\0abcd"


@pytest.mark.parametrize(
    ("codec", "payload"),
    [
        (Compression.GZIP, GZIP + bytes(10)),
        (Compression.GZIP, GZIP + b"\0"),
        (Compression.GZIP, GZIP + b"garbage" * 100),
        (Compression.GZIP, GZIP + GZIP[:10]),
        (Compression.GZIP, GZIP + b"\x1f\x8b\x07" + bytes(40)),
        (Compression.GZIP, compress(Compression.GZIP, b"") + GZIP + b"garbage"),
        (Compression.LZ4, LZ4 + b"garbage"),
        (Compression.LZ4, LZ4 + LZ4),
        (Compression.LZ4, LZ4 + SKIPPABLE),
        (Compression.LZ4, _lz4(DATA, content_checksum=True) + b"\0"),
        (Compression.SNAPPY, SNAPPY + b"x"),
        (Compression.SNAPPY, SNAPPY + b"xyz"),
        (Compression.SNAPPY, SNAPPY + XERIAL_HEADER),
        (Compression.SNAPPY, SNAPPY[:8] + b"\0\0\0\x09" * 2 + SNAPPY[16:]),
        (Compression.SNAPPY, SNAPPY + b"\0\0\0\1\0"),
        (Compression.ZSTD, SKIPPABLE + ZSTD + SKIPPABLE),
    ],
    ids=_id,
)
def test_odd_ends_that_kafka_takes_are_taken(codec: Compression, payload: bytes) -> None:
    """Each was sent to Apache Kafka 4.4.0, which takes it, and reads nothing of two lz4 frames but the first."""
    assert decompress(codec, payload, len(DATA)) == DATA


@pytest.mark.parametrize(
    ("codec", "payload"),
    [
        (Compression.LZ4, bytes(cramjam.lz4.compress(DATA))),  # its blocks are linked
        (Compression.LZ4, SKIPPABLE + LZ4),
        (Compression.LZ4, LZ4[:-4]),
        (Compression.LZ4, _lz4(DATA, content_checksum=True)[:-4]),
        (Compression.LZ4, LZ4[:6] + b"\0" + LZ4[7:]),
        (Compression.LZ4, bytes(cramjam.lz4.compress_block(DATA, store_size=False))),
        (Compression.LZ4, b""),
        (Compression.SNAPPY, bytes(cramjam.snappy.compress_raw(DATA)) + b"garbage"),
        (Compression.SNAPPY, bytes(cramjam.snappy.compress(DATA))),
        (Compression.SNAPPY, SNAPPY + bytes(4)),
        (Compression.SNAPPY, SNAPPY + b"garbage"),
        (Compression.SNAPPY, SNAPPY + XERIAL_HEADER[:8]),
        (Compression.GZIP, GZIP[:-4] + b"\1\1\1\1"),
        (Compression.GZIP, GZIP + GZIP[:60]),
        (Compression.GZIP, zlib.compress(DATA)),
        (Compression.GZIP, b""),
        (Compression.ZSTD, ZSTD + b"garbage"),
        (Compression.ZSTD, ZSTD + b"\0"),
        (Compression.ZSTD, ZSTD[4:]),
    ],
    ids=_id,
)
def test_damaged_payloads_have_kafkas_error_code_after_which_producers_give_up(
    codec: Compression, payload: bytes
) -> None:
    """Each was sent to Apache Kafka 4.4.0; clients would send the batch again after CORRUPT_MESSAGE."""
    with pytest.raises(DamagedPayloadError) as caught:
        decompress(codec, payload)
    assert caught.value.error_code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_bytes_behind_gzip_members_are_looked_for_within_a_bound() -> None:
    """All is unpacked a second time to tell them from damage."""
    payload = compress(Compression.GZIP, bytes(1024 * 1024)) + b"x"
    assert len(decompress(Compression.GZIP, payload)) == 1024 * 1024
    with pytest.raises(DamagedPayloadError):
        decompress(Compression.GZIP, compress(Compression.GZIP, bytes(1024 * 1024 + 1)) + b"x")


@given(
    st.sampled_from([Compression.GZIP, Compression.SNAPPY, Compression.LZ4]),
    st.lists(st.binary(max_size=200), min_size=1, max_size=4),
    st.binary(max_size=40),
)
def test_what_follows_a_payload_changes_nothing_of_it(codec: Compression, parts: list[bytes], tail: bytes) -> None:
    if codec is Compression.LZ4:
        payload, data = compress(codec, parts[0]), parts[0]
    else:
        payload, data = b"".join(compress(codec, part) for part in parts), b"".join(parts)
    if codec is Compression.SNAPPY:
        tail = tail[:3]
    elif tail.startswith(b"\x1f\x8b\x08"):
        tail = b"x" + tail
    assert decompress(codec, payload + tail) == data


@given(st.binary(max_size=300), st.booleans(), st.booleans())
def test_the_end_of_an_lz4_frame_is_found(data: bytes, with_size: bool, with_checksum: bool) -> None:
    options = {"content_checksum": with_checksum}
    payload = _lz4(data, **options) if not with_size else bytes(aiokafka_codec.lz4_encode(data))
    assert decompress(Compression.LZ4, payload + b"garbage") == data
    with pytest.raises(DamagedPayloadError):
        decompress(Compression.LZ4, payload[:-1])


@pytest.mark.parametrize(
    ("codec", "piece"),
    [
        (Compression.GZIP, compress(Compression.GZIP, b"")),
        (Compression.ZSTD, compress(Compression.ZSTD, b"")),
        (Compression.ZSTD, SKIPPABLE[:4] + bytes(4)),
        (Compression.SNAPPY, XERIAL_HEADER),
        (Compression.SNAPPY, XERIAL_HEADER + b"\0\0\0\1\0"),
        (Compression.LZ4, LZ4[:7] + b"\1\0\0\x80x" * 5_001),
    ],
    ids=_id,
)
def test_a_payload_has_a_bounded_number_of_pieces(codec: Compression, piece: bytes) -> None:
    """A megabyte of empty blocks would hold the event loop for a tenth of a second and more."""
    with pytest.raises(DamagedPayloadError, match="more than 5000"):
        decompress(codec, piece * 5_001 if codec is not Compression.LZ4 else piece)


@pytest.mark.parametrize(
    ("codec", "payload", "pieces_bytes"),
    [
        (Compression.GZIP, compress(Compression.GZIP, b"") * 1_000, 3_000_000),
        (Compression.ZSTD, compress(Compression.ZSTD, b"") * 1_000, 500_000),
        (Compression.ZSTD, (SKIPPABLE[:4] + bytes(4)) * 1_000, 500_000),
        (Compression.SNAPPY, XERIAL_HEADER * 1_000, 500_000),
        (Compression.LZ4, LZ4[:7] + b"\1\0\0\x80x" * 1_000 + bytes(4), 501_000),
        (Compression.NONE, bytes(1_000), 1_000),
    ],
    ids=_id,
)
def test_parts_that_hold_nothing_cost_something(codec: Compression, payload: bytes, pieces_bytes: int) -> None:
    """A request of a thousand such batches was unpacked whole, for ten seconds: it unpacked to nothing."""
    assert decompress_within(codec, payload, 4_000_000)[1] == pieces_bytes
    if codec in (Compression.GZIP, Compression.ZSTD):
        with pytest.raises(RecordTooLargeError, match="the batch consists of 1000 parts"):
            decompress_within(codec, payload, pieces_bytes - 1)


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_of_one_part_costs_hardly_more_than_its_bytes(codec: Compression) -> None:
    data, cost_bytes = decompress_within(codec, compress(codec, DATA), len(DATA))
    assert data == DATA
    assert len(DATA) < cost_bytes <= len(DATA) + 3_000


@pytest.mark.parametrize("codec", Compression)
def test_one_byte_more_than_allowed_is_too_large(codec: Compression) -> None:
    packed = compress(codec, b"x" * 100_001)
    with pytest.raises(RecordTooLargeError) as caught:
        decompress(codec, packed, 100_000)
    assert caught.value.error_code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.ZSTD, Compression.LZ4])
def test_a_bomb_is_refused_without_decompressing_it(codec: Compression) -> None:
    """Three hundred megabytes of zeros and more in few bytes takes no more memory than a few times the limit."""
    chunk = compress(codec, bytes(1 << 20))
    bomb = chunk[:7] + chunk[7:-4] * 300 + chunk[-4:] if codec is Compression.LZ4 else chunk * 1024
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
