"""What a log takes from clients, and what it answers to the rest."""

from __future__ import annotations

import pytest
from fastcrc import crc32

from purgatorio.broker.log.config import LogConfig
from purgatorio.broker.log.errors import InvalidBatch
from purgatorio.broker.log.validator import MAX_RECORD_ERRORS, UNPACKED_PER_UNIT, Admission, RecordValidation
from purgatorio.protocol.compression import Compression, compress
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import HEADER_SIZE, build_batch, iter_records, read_header, validate_batch

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000


def admit(records: bytes, *, wall_ms: int = NOW_MS, from_client: bool = True, **configs) -> bytes:
    header, batch = Admission(LogConfig(**configs)).admit(records, wall_ms, from_client=from_client)
    assert header == read_header(batch)
    return bytes(batch)


def refusal(records: bytes, **options) -> ErrorCode:
    with pytest.raises(InvalidBatch) as caught:
        admit(records, **options)
    assert str(caught.value)
    return caught.value.error_code


@pytest.fixture
def batch(batch_of) -> bytes:
    return batch_of(b"one", b"two", at_ms=NOW_MS)


def test_a_good_batch_is_taken_as_it_is(batch: bytes) -> None:
    header, admitted = Admission(LogConfig()).admit(batch, NOW_MS)
    assert admitted is batch
    assert header.record_count == 2


@pytest.fixture
def garbage() -> bytes:
    """A batch with a good header and CRC, and without a readable record."""
    raw = bytearray(build_batch([Record(0, NOW_MS, None, b"x")]))
    raw[61:] = b"\xff" * (len(raw) - 61)
    raw[17:21] = _crc(raw)
    return bytes(raw)


def test_garbage_in_the_records_is_invalid(garbage: bytes) -> None:
    assert refusal(garbage) is ErrorCode.INVALID_RECORD


def test_records_are_checked_with_every_codec(batch_of) -> None:
    for compression in Compression:
        good = batch_of(b"one", b"two", at_ms=NOW_MS, compression=compression)
        assert admit(good) == good
        lying = bytearray(good)
        lying[23:27] = (2).to_bytes(4, "big")  # last offset delta
        lying[57:61] = (3).to_bytes(4, "big")  # record count
        lying[17:21] = _crc(lying)
        assert refusal(bytes(lying)) is ErrorCode.INVALID_RECORD


def test_with_header_validation_records_are_read_only_where_the_topic_needs_it(garbage: bytes) -> None:
    header_only = RecordValidation(full=False)
    _, admitted = Admission(LogConfig(), header_only).admit(garbage, NOW_MS)
    assert admitted == garbage
    with pytest.raises(InvalidBatch):
        Admission(LogConfig(cleanup_policy=("compact",)), header_only).admit(garbage, NOW_MS)


def lying(batch: bytes) -> bytes:
    """The batch with one record more in its header than it has."""
    raw = bytearray(batch)
    for start in (23, 57):  # last offset delta, record count
        raw[start : start + 4] = (int.from_bytes(raw[start : start + 4], "big") + 1).to_bytes(4, "big")
    raw[17:21] = _crc(raw)
    return bytes(raw)


def test_what_the_batches_of_one_request_unpack_to_is_bounded_and_the_rest_is_taken_by_its_header(batch_of) -> None:
    validation = RecordValidation(work=25_000 // UNPACKED_PER_UNIT)
    admission = Admission(LogConfig(), validation)
    packed = batch_of(bytes(10_000), at_ms=NOW_MS, compression=Compression.ZSTD)
    for _ in range(3):
        validation.begin_request()
        for records in (packed, packed):
            admission.admit(records, NOW_MS)
        for _ in range(2):
            assert admission.admit(lying(packed), NOW_MS)[1] == lying(packed)
    validation.begin_request()
    with pytest.raises(InvalidBatch):
        admission.admit(lying(packed), NOW_MS)


def test_the_records_of_one_request_are_checked_up_to_a_limit(batch_of, garbage: bytes) -> None:
    admission = Admission(LogConfig(), validation := RecordValidation(work=3))
    for values in ((b"1", b"22", b"333"), (b"1", b"22", b"333", b"4444")):
        validation.begin_request()
        admission.admit(batch_of(*values, at_ms=NOW_MS), NOW_MS)
        assert admission.admit(garbage, NOW_MS)[1] == garbage
    validation.begin_request()
    with pytest.raises(InvalidBatch):
        admission.admit(garbage, NOW_MS)


def test_timestamps_are_read_up_to_a_limit_and_then_that_of_the_header_counts(batch_of) -> None:
    admission = Admission(LogConfig(message_timestamp_before_max_ms=HOUR_MS), validation := RecordValidation(work=30))
    late = batch_of(b"v", b"w", at_ms=(NOW_MS, NOW_MS - HOUR_MS - 1))
    with pytest.raises(InvalidBatch):
        admission.admit(late, NOW_MS)
    validation.begin_request()
    admission.admit(batch_of(b"v", at_ms=NOW_MS), NOW_MS)
    assert admission.admit(late, NOW_MS)[1] == late
    with pytest.raises(InvalidBatch):
        admission.admit(batch_of(b"v", b"w", at_ms=NOW_MS - HOUR_MS - 1), NOW_MS)


def test_batches_are_compressed_anew_while_work_is_left(batch_of) -> None:
    admission = Admission(LogConfig(compression_type="gzip"), validation := RecordValidation(work=150))
    produced = batch_of(bytes(17 * 90), at_ms=NOW_MS)
    for _ in range(2):
        validation.begin_request()
        codecs = [admission.admit(produced, NOW_MS)[0].compression for _ in range(3)]
        assert codecs == [Compression.GZIP, Compression.GZIP, Compression.NONE]


def test_a_batch_that_would_take_too_long_to_compress_keeps_the_codec_of_its_producer(batch_of) -> None:
    """11 MiB of JSON that zstd had packed took gzip half a second."""
    admission = Admission(LogConfig(compression_type="gzip"), validation := RecordValidation())
    sizes = {1_000_000: Compression.GZIP, 11_000_000: Compression.ZSTD}
    for size_bytes, codec in sizes.items():
        validation.begin_request()
        produced = batch_of(bytes(size_bytes), at_ms=NOW_MS, compression=Compression.ZSTD)
        assert admission.admit(produced, NOW_MS)[0].compression is codec


def test_very_many_records_for_a_compacted_topic_are_checked_up_to_the_limit(batch_of) -> None:
    """50,000 in a batch took 300 ms, and those of each further batch as long."""
    values = [b"v" * (number % 5) for number in range(30_000)]
    batch = batch_of(*values, keys=(b"k",) * len(values), at_ms=NOW_MS)
    admission = Admission(LogConfig(cleanup_policy=("compact",)), validation := RecordValidation())
    assert [admission.admit(each, NOW_MS)[1] for each in (batch, lying(batch))] == [batch, lying(batch)]
    validation.begin_request()
    with pytest.raises(InvalidBatch):
        admission.admit(lying(batch_of(*values[:1000], keys=(b"k",) * 1000, at_ms=NOW_MS)), NOW_MS)


def test_kip_467_the_refusal_names_the_records_at_fault(batch_of) -> None:
    mixed = batch_of(b"v", b"w", b"x", keys=(None, b"a", None), at_ms=NOW_MS)
    with pytest.raises(InvalidBatch) as caught:
        admit(mixed, cleanup_policy=("compact",))
    assert caught.value.error_code is ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in caught.value.record_errors] == [0, 2]
    late = batch_of(b"v", b"w", at_ms=(NOW_MS, NOW_MS - HOUR_MS - 1))
    with pytest.raises(InvalidBatch) as caught:
        admit(late, message_timestamp_before_max_ms=HOUR_MS)
    assert caught.value.error_code is ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in caught.value.record_errors] == [1]
    many = batch_of(*[b"v"] * 500, at_ms=NOW_MS)
    with pytest.raises(InvalidBatch) as caught:
        admit(many, cleanup_policy=("compact",))
    assert len(caught.value.record_errors) == MAX_RECORD_ERRORS


def _crc(raw: bytearray) -> bytes:
    return crc32.iscsi(raw[21:]).to_bytes(4, "big")


def test_no_batch_or_part_of_one_is_invalid(batch: bytes) -> None:
    for length in (0, 5, 12, 61, len(batch) - 1):
        assert refusal(batch[:length]) is ErrorCode.INVALID_RECORD


def test_two_batches_are_invalid_but_half_of_a_second_is_dropped(batch: bytes) -> None:
    """As Kafka does since Produce v3."""
    assert refusal(batch + batch) is ErrorCode.INVALID_RECORD
    for length in (1, 11, 12, 40, len(batch) - 1):
        assert admit(batch + batch[:length]) == batch


def test_old_magic_is_invalid_and_unknown_magic_corrupt(batch: bytes) -> None:
    assert refusal(batch[:16] + b"\x01" + batch[17:]) is ErrorCode.INVALID_RECORD
    assert refusal(batch[:16] + b"\x03" + batch[17:]) is ErrorCode.CORRUPT_MESSAGE


def test_a_wrong_crc_is_corrupt(batch: bytes) -> None:
    assert refusal(batch[:-1] + b"?") is ErrorCode.CORRUPT_MESSAGE
    assert refusal(batch[:-1] + b"?", from_client=False) is ErrorCode.CORRUPT_MESSAGE


def test_a_base_offset_that_is_not_zero_is_invalid(batch: bytes) -> None:
    assert refusal(b"\x00" * 7 + b"\x05" + batch[8:]) is ErrorCode.INVALID_RECORD


def test_control_records_are_for_the_broker_alone(batch_of) -> None:
    control = batch_of(b"", at_ms=NOW_MS, control=True)
    assert refusal(control) is ErrorCode.INVALID_RECORD
    assert admit(control, from_client=False) == control
    assert admit(control, from_client=False, cleanup_policy=("compact",)) == control


def test_size_is_checked_before_all_else(batch: bytes) -> None:
    assert admit(batch, max_message_bytes=len(batch)) == batch
    assert refusal(batch[:-1] + b"?", max_message_bytes=len(batch) - 1) is ErrorCode.MESSAGE_TOO_LARGE


def test_a_batch_fits_a_segment(batch: bytes) -> None:
    assert admit(batch, segment_bytes=len(batch)) == batch
    assert refusal(batch, segment_bytes=len(batch) - 1) is ErrorCode.RECORD_LIST_TOO_LARGE


def test_timestamps_may_be_an_hour_ahead_and_not_more(batch_of) -> None:
    assert admit(batch_of(b"v", at_ms=NOW_MS + HOUR_MS))
    assert refusal(batch_of(b"v", at_ms=NOW_MS + HOUR_MS + 1)) is ErrorCode.INVALID_TIMESTAMP
    assert admit(batch_of(b"v", at_ms=NOW_MS + HOUR_MS + 1), message_timestamp_after_max_ms=2 * HOUR_MS)


def test_timestamps_may_be_as_old_as_the_topic_allows(batch_of) -> None:
    """The oldest record counts, wherever it is in the batch."""
    assert admit(batch_of(b"v", at_ms=0))
    limits = {"message_timestamp_before_max_ms": HOUR_MS}
    assert admit(batch_of(b"v", b"w", at_ms=(NOW_MS, NOW_MS - HOUR_MS)), **limits)
    assert refusal(batch_of(b"v", b"w", at_ms=(NOW_MS, NOW_MS - HOUR_MS - 1)), **limits) is ErrorCode.INVALID_TIMESTAMP


def test_a_record_without_a_timestamp_is_never_out_of_range(batch_of) -> None:
    assert admit(batch_of(b"v", at_ms=-1), message_timestamp_before_max_ms=0)


def test_with_append_times_the_producers_timestamps_do_not_matter(batch_of) -> None:
    late = batch_of(b"v", at_ms=NOW_MS + 2 * HOUR_MS)
    options = {"message_timestamp_type": "LogAppendTime", "message_timestamp_before_max_ms": 1}
    assert admit(late, **options) == late


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.ZSTD])
def test_a_producer_cannot_claim_append_times(batch_of, codec: Compression) -> None:
    """Apache Kafka takes the claim back where records keep their times, and refuses it where they get the broker's."""
    plain = batch_of(b"one", b"two", at_ms=NOW_MS, compression=codec)
    claimed = bytearray(plain)
    claimed[22] |= 0x08
    claimed[17:21] = _crc(claimed)
    assert admit(bytes(claimed)) == plain
    assert admit(bytes(claimed), compression_type="zstd") == admit(plain, compression_type="zstd")
    assert refusal(bytes(claimed), message_timestamp_type="LogAppendTime") is ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("compression", Compression)
def test_a_compacted_topic_needs_a_key_in_every_record(batch_of, compression: Compression) -> None:
    compact = {"cleanup_policy": ("compact",)}
    keyed = batch_of(b"v", None, keys=(b"a", b""), at_ms=NOW_MS, compression=compression)
    assert admit(keyed, **compact) == keyed
    mixed = batch_of(b"v", b"w", keys=(b"a", None), at_ms=NOW_MS, compression=compression)
    assert refusal(mixed, **compact) is ErrorCode.INVALID_RECORD
    assert admit(mixed) == mixed


@pytest.mark.parametrize("source", Compression)
@pytest.mark.parametrize("target", Compression)
def test_the_broker_compresses_anew_where_the_topic_says_so(batch_of, source: Compression, target: Compression) -> None:
    produced = batch_of(
        *[b"value" * n for n in range(50)],
        at_ms=tuple(range(NOW_MS, NOW_MS + 50)),
        producer=(7, 2, 30),
        compression=source,
        transactional=True,
    )
    name = "uncompressed" if target is Compression.NONE else target.name.lower()
    admitted = admit(produced, compression_type=name)
    header = read_header(admitted)
    validate_batch(header, admitted)
    assert header.compression is target
    assert list(iter_records(admitted)) == list(iter_records(produced))
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, 30)
    assert (admitted == produced) == (source is target)


def test_a_batch_that_gets_too_large_by_unpacking_is_refused(batch_of) -> None:
    packed = batch_of(bytes(5000), at_ms=NOW_MS, compression=Compression.GZIP)
    assert refusal(packed, compression_type="uncompressed", max_message_bytes=4000) is ErrorCode.MESSAGE_TOO_LARGE
    assert refusal(packed, compression_type="uncompressed", segment_bytes=4000) is ErrorCode.RECORD_LIST_TOO_LARGE


def test_a_bomb_is_refused_where_its_records_must_be_read(batch_of) -> None:
    bomb = batch_of(bytes(33 << 20), at_ms=NOW_MS, compression=Compression.ZSTD)
    assert len(bomb) < 100_000
    for configs in (
        {"compression_type": "gzip"},
        {"cleanup_policy": ("compact",)},
        {"message_timestamp_before_max_ms": HOUR_MS},
        {"max_decompressed_message_bytes": 1 << 20},
    ):
        assert refusal(bomb, **configs) is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("compression", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD])
def test_a_batch_that_unpacks_to_more_than_is_read_of_a_request_is_taken_by_its_header(
    batch_of, compression: Compression
) -> None:
    """Apache Kafka takes all sizes; none of what is checked here needs the records."""
    admission = Admission(LogConfig(compression_type="zstd"), RecordValidation(work=100))
    for each in (Admission(LogConfig(), RecordValidation(work=100)), admission):
        if each is admission and compression is not Compression.ZSTD:
            continue  # it would have to be compressed anew
        large = batch_of(bytes(100 * UNPACKED_PER_UNIT), at_ms=NOW_MS, compression=compression)
        assert each.admit(large, NOW_MS)[1] == large


def test_batches_that_unpack_to_nothing_take_the_work_of_a_request(batch_of) -> None:
    """Of gzip members without bytes a request of 100 MB had a thousand times 5,000, of 4 µs each."""
    plain = batch_of(b"", at_ms=NOW_MS)
    header, empty = read_header(plain)._replace(attributes=Compression.GZIP), compress(Compression.GZIP, b"")
    validation = RecordValidation()
    unpacked = [validation.unpack(header, plain[:HEADER_SIZE] + empty * 2_000) for _ in range(100)]
    assert unpacked.count(b"") == 2
    assert validation.left == 0


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.ZSTD])
def test_records_of_the_future_are_named(batch_of, compression: Compression) -> None:
    late_ms = NOW_MS + HOUR_MS + 1
    records = batch_of(b"a", b"b", b"c", at_ms=(late_ms, NOW_MS, late_ms), compression=compression)
    with pytest.raises(InvalidBatch) as caught:
        admit(records)
    assert caught.value.error_code is ErrorCode.INVALID_TIMESTAMP
    assert [each.batch_index for each in caught.value.record_errors] == [0, 2]


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_a_record_that_unpacks_to_more_than_the_topic_allows_is_invalid(policy: str) -> None:
    """The size is that of the record without the length in front of it; batches that are not compressed are free."""

    def refused(value_bytes: int, codec: Compression) -> ErrorCode | None:
        records = [Record(number, NOW_MS, b"k", b"v" * value_bytes, ()) for number in range(2)]
        try:
            admit(build_batch(records, compression=codec), cleanup_policy=(policy,), max_decompressed_message_bytes=100)
        except InvalidBatch as error:
            return error.error_code
        return None

    assert [refused(size, Compression.GZIP) for size in (92, 93)] == [None, ErrorCode.INVALID_RECORD]
    assert refused(200, Compression.NONE) is None
