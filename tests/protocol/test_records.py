"""Record batches: round trips, other implementations' builders and parsers, and damaged batches."""

from __future__ import annotations

import itertools
import random
import struct

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AioBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder
from aiokafka.record.util import calc_crc32c_py
from fastcrc import crc32
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

from purgatorio.protocol.compression import Compression
from purgatorio.protocol.errors import (
    CorruptRecordError,
    EncodeError,
    ErrorCode,
    InvalidRecordError,
    RecordTooLargeError,
    UnsupportedCompressionError,
)
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import (
    HEADER_SIZE,
    MAX_SEQUENCE,
    BatchHeader,
    TimestampType,
    build_batch,
    check_crc,
    end_of_batches,
    iter_batches,
    iter_places,
    iter_records,
    iter_unpacked,
    place_batch,
    producer_in,
    read_header,
    unpack_records,
    validate_batch,
)

HEADER = struct.Struct(">qiibIhiqqqhii")

nullable_bytes = st.none() | st.binary(max_size=40)
record_headers = st.lists(st.tuples(st.text(max_size=8), nullable_bytes), max_size=3).map(tuple)


@st.composite
def record_lists(draw: st.DrawFn, *, min_size: int = 1) -> list[Record]:
    """Records with ascending offsets from 0, with gaps between some of them."""
    deltas = draw(st.lists(st.integers(1, 3), min_size=min_size, max_size=12))
    offsets = [total - 1 for total in itertools.accumulate(deltas)]
    return [
        Record(
            offset,
            draw(st.integers(0, 2**42)),
            draw(nullable_bytes),
            draw(nullable_bytes),
            draw(record_headers),
        )
        for offset in offsets
    ]


def some_records(count: int) -> list[Record]:
    return [Record(n, 1000 + n, b"key %d" % n, b"value " * n, (("h", b"x"),)) for n in range(count)]


def patched(batch: bytes, **fields: int) -> bytes:
    """Return a batch with other values in its header, and the CRC that matches them."""
    header = read_header(batch)._replace(**fields)
    raw = bytearray(HEADER.pack(*header) + batch[HEADER_SIZE:])
    if "crc" not in fields:
        raw[17:21] = crc32.iscsi(raw[21:]).to_bytes(4, "big")
    return bytes(raw)


def with_body(body: bytes, count: int) -> bytes:
    """Return an uncompressed batch with these bytes as its records."""
    fields = (0, 49 + len(body), -1, 2, 0, 0, count - 1, 0, 0, -1, -1, -1, count)
    raw = bytearray(HEADER.pack(*fields) + body)
    raw[17:21] = crc32.iscsi(raw[21:]).to_bytes(4, "big")
    return bytes(raw)


# --- round trips ---


@given(record_lists(min_size=0), st.sampled_from(Compression), st.integers(0, 2**40))
def test_records_are_read_as_they_were_built(records: list[Record], compression: Compression, base_offset: int) -> None:
    records = [record._replace(offset=record.offset + base_offset) for record in records]
    batch = build_batch(records, base_offset=base_offset, compression=compression, leader_epoch=3)
    header = read_header(batch)
    check_crc(header, batch)
    assert list(iter_records(batch)) == records
    assert header.size_bytes == len(batch)
    assert header.record_count == len(records)
    assert header.partition_leader_epoch == 3
    assert header.max_timestamp == max((record.timestamp_ms for record in records), default=-1)
    if records:
        assert header.last_offset == records[-1].offset
        assert header.compression is compression


def test_a_header_has_every_field_that_it_was_built_with() -> None:
    batch = build_batch(
        some_records(3),
        compression=Compression.ZSTD,
        producer_id=2**40,
        producer_epoch=7,
        base_sequence=MAX_SEQUENCE - 1,
        transactional=True,
        control=True,
        log_append_time_ms=5000,
        delete_horizon_ms=900,
        last_offset_delta=9,
    )
    header = read_header(batch)
    assert header.has_producer_id
    assert (header.producer_id, header.producer_epoch) == (2**40, 7)
    assert (header.base_sequence, header.last_sequence) == (MAX_SEQUENCE - 1, 7)
    assert header.is_transactional
    assert header.is_control
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert header.max_timestamp == 5000
    assert header.delete_horizon_ms == 900
    assert header.last_offset == 9
    assert {record.timestamp_ms for record in iter_records(batch)} == {5000}


def test_a_plain_header_has_no_producer_and_no_delete_horizon() -> None:
    header = read_header(build_batch(some_records(1)))
    assert not header.has_producer_id
    assert header.last_sequence == -1
    assert header.delete_horizon_ms is None
    assert header.timestamp_type is TimestampType.CREATE_TIME


def test_timestamps_may_be_earlier_than_the_delete_horizon_that_is_their_base() -> None:
    records = some_records(3)
    assert list(iter_records(build_batch(records, delete_horizon_ms=10**12))) == records


# --- other implementations ---


def as_tuples(batch: object) -> list[tuple[object, ...]]:
    return [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in batch]  # type: ignore[attr-defined]


@given(record_lists(), st.sampled_from(Compression))
def test_aiokafka_reads_ours_and_we_read_its(records: list[Record], compression: Compression) -> None:
    ours = build_batch(records, compression=compression, producer_id=9, producer_epoch=1, base_sequence=4)
    theirs = AioBatch(ours)
    assert theirs.validate_crc()
    assert as_tuples(theirs) == [(*record[:4], list(record.headers)) for record in records]
    builder = AioBuilder(2, compression, 0, 9, 1, 4, 1 << 20)
    for number, record in enumerate(records):
        builder.append(number, record.timestamp_ms, record.key, record.value, list(record.headers))
    built = bytes(builder.build())
    header = read_header(built)
    validate_batch(header, built)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 1, 4)
    assert list(iter_records(built)) == [record._replace(offset=n) for n, record in enumerate(records)]


@given(record_lists(), st.sampled_from([Compression.NONE, Compression.GZIP]))
def test_kafka_python_reads_ours_and_we_read_its(records: list[Record], compression: Compression) -> None:
    theirs = KafkaPythonBatch(build_batch(records, compression=compression))
    assert theirs.validate_crc()
    assert as_tuples(theirs) == [(*record[:4], list(record.headers)) for record in records]
    builder = KafkaPythonBuilder(2, compression, 1, 9, 1, 4, 1 << 20)
    for number, record in enumerate(records):
        builder.append(number, record.timestamp_ms, record.key, record.value, list(record.headers))
    built = bytes(builder.build())
    header = read_header(built)
    validate_batch(header, built)
    assert header.is_transactional
    assert list(iter_records(built)) == [record._replace(offset=n) for n, record in enumerate(records)]


def test_without_compression_our_bytes_are_those_of_kafka_python() -> None:
    records = some_records(20)
    builder = KafkaPythonBuilder(2, 0, 0, 9, 1, 4, 1 << 20)
    for record in records:
        builder.append(record.offset, record.timestamp_ms, record.key, record.value, list(record.headers))
    ours = build_batch(records, producer_id=9, producer_epoch=1, base_sequence=4, leader_epoch=0)
    assert place_batch(bytes(builder.build()), 0, 0) == ours


# --- placing ---


@pytest.mark.parametrize("view", [bytes, bytearray, memoryview])
def test_placing_a_batch_changes_its_offset_and_epoch_but_not_its_crc(view: type) -> None:
    batch = build_batch(some_records(3), compression=Compression.LZ4)
    placed = place_batch(view(batch), 2**40, 12)
    assert type(placed) is bytes
    assert read_header(placed) == read_header(batch)._replace(base_offset=2**40, partition_leader_epoch=12)
    assert placed[16:] == batch[16:]
    check_crc(read_header(placed), placed)
    assert [record.offset for record in iter_records(placed)] == [2**40, 2**40 + 1, 2**40 + 2]


@pytest.mark.parametrize("view", [bytes, bytearray, memoryview])
def test_log_append_time_replaces_all_timestamps(view: type) -> None:
    batch = build_batch(some_records(3), compression=Compression.GZIP)
    placed = place_batch(view(batch), 5, 1, log_append_time_ms=77)
    header = read_header(placed)
    check_crc(header, placed)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert header.compression is Compression.GZIP
    assert {record.timestamp_ms for record in iter_records(placed)} == {77}


# --- the CRC ---


@pytest.mark.parametrize("size", [*range(61, 66), 100, 300, 1_000, 4_095, 16_384 + 21, 20_000])
def test_the_crc_of_a_view_is_that_of_another_implementation(size: int) -> None:
    """Libraries compute short, middling and long data, and its ends, in different ways, by what the processor has."""
    frame = memoryview(random.Random(size).randbytes(size + 7))
    for start in range(7):
        batch = frame[start : start + size]
        crc = calc_crc32c_py(batch[21:])
        header = BatchHeader(0, size - 12, 0, 2, crc, 0, 0, 0, 0, -1, -1, -1, 1)
        check_crc(header, batch)
        with pytest.raises(CorruptRecordError, match=f"computed is {crc}"):
            check_crc(header._replace(crc=crc ^ 1), batch)


# --- headers that are refused ---


@pytest.mark.parametrize("length", [0, 1, 11, 12, 16, 17, 60, 61])
def test_a_batch_that_is_cut_short_is_invalid(length: int) -> None:
    batch = build_batch(some_records(2))
    with pytest.raises(InvalidRecordError):
        read_header(batch[:length])
    assert read_header(b"x" * 5 + batch, 5) == read_header(batch)


@pytest.mark.parametrize(
    ("magic", "code"),
    [
        (0, ErrorCode.INVALID_RECORD),
        (1, ErrorCode.INVALID_RECORD),
        (3, ErrorCode.CORRUPT_MESSAGE),
        (127, ErrorCode.CORRUPT_MESSAGE),
        (-1, ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_only_magic_two_is_read(magic: int, code: ErrorCode) -> None:
    batch = patched(build_batch(some_records(2)), magic=magic)
    for data in (batch, batch[:40]):  # old messages can be shorter than our header
        with pytest.raises(CorruptRecordError) as caught:
            read_header(data)
        assert caught.value.error_code is code


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 48])
def test_a_length_less_than_a_header_is_corrupt(length: int) -> None:
    with pytest.raises(CorruptRecordError) as caught:
        read_header(patched(build_batch(some_records(2)), batch_length=length))
    assert caught.value.error_code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("length", [-1, 0, 13])
@pytest.mark.parametrize("available", [12, 16, 17])
def test_a_length_less_than_that_of_an_old_message_is_corrupt_before_the_magic_is_looked_at(
    available: int, length: int
) -> None:
    """As in Kafka; a length that ends before its last byte is none."""
    batch = patched(build_batch(some_records(2)), batch_length=length, magic=0)
    for end, code in ((available, ErrorCode.CORRUPT_MESSAGE), (11, ErrorCode.INVALID_RECORD)):
        with pytest.raises(CorruptRecordError) as caught:
            read_header(batch[:end])
        assert caught.value.error_code is code


@pytest.mark.parametrize("length", [2**31 - 1, 10_000])
def test_a_length_beyond_the_data_is_invalid(length: int) -> None:
    with pytest.raises(InvalidRecordError):
        read_header(patched(build_batch(some_records(2)), batch_length=length))


@pytest.mark.parametrize("position", [0, 1, 2, 10, 39, 40, 60])
def test_every_damaged_byte_after_the_crc_is_detected(position: int) -> None:
    batch = bytearray(build_batch(some_records(2)))
    batch[21 + position] ^= 0x40
    with pytest.raises(CorruptRecordError) as caught:
        validate_batch(read_header(batch), batch)
    assert caught.value.error_code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"base_offset": 1}, ErrorCode.INVALID_RECORD),
        ({"record_count": 0}, ErrorCode.INVALID_RECORD),
        ({"record_count": -1}, ErrorCode.INVALID_RECORD),
        ({"record_count": 3}, ErrorCode.INVALID_RECORD),
        ({"last_offset_delta": -1, "record_count": 0}, ErrorCode.INVALID_RECORD),
        ({"last_offset_delta": 2**31 - 1}, ErrorCode.INVALID_RECORD),
        ({"producer_id": 0, "base_sequence": -1}, ErrorCode.INVALID_RECORD),
        ({"attributes": 0x20}, ErrorCode.INVALID_RECORD),
        ({"attributes": 5}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"attributes": 7}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"crc": 0}, ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_a_header_that_a_producer_may_not_send_is_refused(fields: dict[str, int], code: ErrorCode) -> None:
    batch = patched(build_batch(some_records(2)), **fields)
    with pytest.raises(CorruptRecordError) as caught:
        validate_batch(read_header(batch), batch)
    assert caught.value.error_code is code


def test_a_batch_with_an_unknown_codec_is_refused() -> None:
    batch = patched(build_batch(some_records(2)), attributes=6)
    with pytest.raises(UnsupportedCompressionError):
        list(iter_records(batch))


# --- several batches ---


def test_batches_are_views_of_the_record_set() -> None:
    batches = [build_batch(some_records(n)) for n in (1, 2, 3)]
    data = b"".join(batches)
    found = list(iter_batches(data))
    assert [bytes(batch) for _, batch in found] == batches
    assert [header.record_count for header, _ in found] == [1, 2, 3]
    assert all(batch.obj is data for _, batch in found)


def test_an_incomplete_last_batch_is_left_out_only_if_allowed() -> None:
    whole, partial = build_batch(some_records(1)), build_batch(some_records(2))
    for length in range(len(partial)):
        data = whole + partial[:length]
        assert [bytes(batch) for _, batch in iter_batches(data, allow_partial=True)] == [whole]
        if length:
            with pytest.raises(InvalidRecordError):
                list(iter_batches(data))


def test_a_damaged_length_is_an_error_and_not_an_incomplete_batch() -> None:
    with pytest.raises(CorruptRecordError):
        list(iter_batches(patched(build_batch(some_records(1)), batch_length=-5), allow_partial=True))


# --- records that are refused ---


def varint(value: int) -> bytes:
    encoded, out = (value << 1) ^ (value >> 63), bytearray()
    while encoded >= 0x80:
        out.append(encoded & 0x7F | 0x80)
        encoded >>= 7
    return bytes([*out, encoded])


def record_bytes(*fields: bytes | int, length: int | None = None) -> bytes:
    """Attributes 0, then `fields`: numbers as varints."""
    body = b"\x00" + b"".join(varint(f) if isinstance(f, int) else f for f in fields)
    return varint(len(body) if length is None else length) + body


GOOD = record_bytes(0, 0, -1, -1, 0)


@pytest.mark.parametrize(
    "body",
    [
        record_bytes(0, 0, -2, -1, 0),
        record_bytes(0, 0, -1, -2, 0),
        record_bytes(0, 0, 5, b"abc", -1, 0),
        record_bytes(0, 0, 2**31 - 1, -1, 0),
        record_bytes(0, 0, -1, -1, -1),
        record_bytes(0, 0, -1, -1, 2**31 - 1),
        record_bytes(0, 0, -1, -1, 1, -1, -1),
        record_bytes(0, 0, -1, -1, 1, 1, b"\xff", -1),
        record_bytes(0, 0, -1, -1, 1, 1, b"a", 9),
        record_bytes(0, -1, -1, -1, 0),
        record_bytes(0, 1, -1, -1, 0),
        record_bytes(2**63 - 1, 0, -1, -1, 0) + b"\x00",
        record_bytes(0, 0, -1, -1, 0, length=3),
        record_bytes(0, 0, -1, -1, 0, length=-1),
        record_bytes(0, 0, -1, -1, 0, b"more"),
        b"",
        b"\x80" * 20,
        b"\xff\xff\xff\xff\x7f",
        b"\x0c\x00" + b"\xff" * 10 + b"\x01\x00\x01\x01\x00",
        varint(0),
        GOOD[:-1],
        GOOD + b"\x00",
        GOOD + GOOD,
    ],
)
def test_malformed_records_are_invalid(body: bytes) -> None:
    with pytest.raises(InvalidRecordError):
        list(iter_records(with_body(body, 1)))


def test_the_template_of_the_malformed_records_is_well_formed() -> None:
    assert list(iter_records(with_body(GOOD, 1))) == [Record(0, 0, None, None)]


def test_a_timestamp_out_of_range_is_invalid() -> None:
    batch = patched(with_body(record_bytes(1, 0, -1, -1, 0), 1), base_timestamp=2**63 - 1)
    with pytest.raises(InvalidRecordError, match="timestamp"):
        list(iter_records(batch))


def test_offsets_within_a_batch_ascend() -> None:
    with pytest.raises(InvalidRecordError, match="ascend"):
        list(iter_records(with_body(GOOD + GOOD, 2)))


def test_a_record_count_other_than_the_number_of_records_is_invalid() -> None:
    batch = build_batch(some_records(3))
    for count in (0, 2, 4, 2**31 - 1):
        with pytest.raises(InvalidRecordError):
            list(iter_records(patched(batch, record_count=count)))


def test_records_that_decompress_to_more_than_allowed_are_too_large() -> None:
    batch = build_batch([Record(0, 0, None, bytes(1 << 20))], compression=Compression.GZIP)
    assert len(batch) < 4096
    with pytest.raises(RecordTooLargeError):
        list(iter_records(batch, max_bytes=1 << 19))


# --- building ---


@pytest.mark.parametrize("offsets", [(0, 0), (1, 0), (-1,), (5, 4)])
def test_a_batch_whose_offsets_do_not_ascend_cannot_be_built(offsets: tuple[int, ...]) -> None:
    with pytest.raises(EncodeError):
        build_batch([Record(offset, 0, None, None) for offset in offsets])


def test_a_batch_with_a_field_out_of_range_cannot_be_built() -> None:
    with pytest.raises(EncodeError):
        build_batch(some_records(1), producer_epoch=2**15)
    with pytest.raises(EncodeError):
        build_batch([Record(0, 2**63, None, None)])


# --- fuzz ---


@given(
    record_lists(),
    st.sampled_from(Compression),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), min_size=1, max_size=6),
)
def test_a_damaged_batch_raises_only_errors_of_records(
    records: list[Record], compression: Compression, damage: list[tuple[int, int]]
) -> None:
    batch = bytearray(build_batch(records, compression=compression))
    for position, byte in damage:
        batch[position % len(batch)] = byte
    read_everything(bytes(batch))


@given(st.binary(max_size=200))
def test_garbage_raises_only_errors_of_records(data: bytes) -> None:
    read_everything(data)
    read_everything(with_body(data, random.Random(len(data)).randrange(1, 5)))


def read_everything(data: bytes) -> None:
    """Read all batches and records of `data`; only errors of records may be raised."""
    for partial in (False, True):
        try:
            for header, batch in iter_batches(data, allow_partial=partial):
                assert isinstance(header, BatchHeader)
                assert header.last_sequence >= -1 or header.base_sequence < 0
                for _ in iter_records(batch, max_bytes=100_000):
                    pass
                validate_batch(header, batch)
        except CorruptRecordError:
            pass


def test_the_producer_of_a_batch_is_read_alone() -> None:
    batch = build_batch([Record(0, 0, None, b"v")], producer_id=2**40 + 7, producer_epoch=32767, base_sequence=0)
    header = read_header(batch)
    assert producer_in(memoryview(batch)) == (header.producer_id, header.producer_epoch) == (2**40 + 7, 32767)
    assert producer_in(batch[:60]) is None
    assert producer_in(batch[:16] + bytes([1]) + batch[17:]) is None, "of the old format"


def test_the_end_of_the_first_batches_is_found_without_reading_them() -> None:
    batch = build_batch(some_records(1))
    data, size = 3 * batch, len(batch)
    assert [end_of_batches(memoryview(data), count) for count in (1, 2, 3, 4)] == [size, 2 * size, 3 * size, 3 * size]
    assert end_of_batches(data[: size + 5], 2) == size + 5, "the second is not complete"
    assert end_of_batches(data[: 2 * size - 1], 2) == 2 * size - 1
    assert end_of_batches(data[:8] + b"\xff" * 4 + data[12:], 1) == 3 * size, "a negative length"


@pytest.mark.parametrize("append_time_ms", [None, 77])
def test_offsets_and_timestamps_are_read_without_the_rest(append_time_ms: int | None) -> None:
    rng = random.Random(1)
    places = [(offset, rng.randrange(-5, 2**40)) for offset in (3, 4, 200, 70_000)]
    records = [Record(offset, at_ms, None, bytes(offset % 500), ()) for offset, at_ms in places]
    batch = build_batch(records, base_offset=3, log_append_time_ms=append_time_ms)
    header = read_header(batch)
    data = unpack_records(header, batch)
    read = [(each.offset, each.timestamp_ms) for each in iter_unpacked(header, data)]
    assert list(iter_places(header, data)) == read
    for end in range(len(data)):
        with pytest.raises(CorruptRecordError):
            list(iter_places(header, data[:end]))
