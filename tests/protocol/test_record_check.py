"""Records inside batches: the check agrees with the reader, for good records and for damaged ones."""

from __future__ import annotations

import random

import pytest

from purgatorio.protocol.errors import CorruptRecordError, InvalidRecordError
from purgatorio.protocol.record import Record
from purgatorio.protocol.record_check import (
    ALIKE_PER_COST,
    FIELD_BY_FIELD_COST,
    MAX_KEYLESS,
    SEARCH_COST,
    InvalidRecordAtError,
    check_records,
)
from purgatorio.protocol.records import HEADER_SIZE, build_batch, iter_records

START_MS = 1_700_000_000_000


def records_of(*records: Record) -> bytes:
    return build_batch(records)[HEADER_SIZE:]


def plain(count: int, value: bytes | None = b"value", key: bytes | None = None) -> list[Record]:
    return [Record(i, START_MS + i, key, value, ()) for i in range(count)]


def random_record(rng: random.Random, offset: int) -> Record:
    def sometimes(*lengths: int) -> bytes | None:
        length = rng.choice((-1, *lengths))
        return None if length < 0 else rng.randbytes(length)

    headers = tuple((f"h{i}", sometimes(0, 3, 70)) for i in range(rng.choice((0, 0, 0, 1, 3))))
    timestamp_ms = START_MS + rng.choice((-(2**40), -1, 0, 5, 100, 10_000, 2**21, 2**40))
    return Record(
        offset, timestamp_ms, sometimes(0, 1, 63, 64, 300), sometimes(0, 1, 63, 64, 8191, 8192, 20_000), headers
    )


def test_all_kinds_of_records_are_accepted() -> None:
    rng = random.Random(5)
    for count in (1, 2, 70, 300):
        check_records(records_of(*(random_record(rng, offset) for offset in range(count))), count)


def test_more_than_8192_records_cost_as_little_as_fewer() -> None:
    """Their offset deltas have three bytes. The first two of these begin anew at 16,384."""
    few, many = (10_000 - check_records(records_of(*plain(count, b"")), count, 10_000) for count in (8_192, 16_400))
    assert many < 2.2 * few


@pytest.mark.parametrize("index", [8_192, 8_300, 16_383, 16_384])
def test_a_damaged_offset_delta_of_three_bytes_is_found(index: int) -> None:
    good = records_of(*plain(16_400, b"v"))
    delta = bytes((0x80 | (2 * index & 127), 0x80 | (2 * index >> 7 & 127), 2 * index >> 14))
    at = good.index(delta + delta) + 3  # the timestamp's, then the offset's
    check_records(good, 16_400)
    for byte in range(3):
        damaged = bytearray(good)
        damaged[at + byte] ^= 2
        with pytest.raises(InvalidRecordAtError, match=rf"^record {index} of the batch has the offset delta"):
            check_records(bytes(damaged), 16_400)


def test_offset_deltas_of_three_bytes_of_which_two_would_do_are_read_as_the_reader_reads_them() -> None:
    record = b"\x12\x00\x00%b\x01\x02v\x00"
    count = 200
    data = b"".join(record % bytes((2 * index & 127 | 128, 2 * index >> 7 | 128, 0)) for index in range(count))
    check_records(data, count)
    with pytest.raises(InvalidRecordAtError, match=r"^record 150 "):
        check_records(data[: 150 * 10] + data[149 * 10 : -10], count)


def test_offset_deltas_of_more_bytes_than_they_need_are_read_as_the_reader_reads_them() -> None:
    record = b"\x10\x00\x00%b\x01\x02v\x00"
    data = b"".join(record % bytes((2 * index | 128, 0)) for index in range(60))
    check_records(data, 60)
    with pytest.raises(InvalidRecordAtError, match=r"^record 30 "):
        check_records(data[: 30 * 9] + data[29 * 9 : -9], 60)


def test_a_wrong_offset_delta_in_a_long_run_is_found() -> None:
    good = records_of(*plain(5000, b"value", b"k"))
    check_records(good, 5000)
    delta = bytes((0x80 | (2 * 4000 & 127), 2 * 4000 >> 7))
    at = good.index(delta + delta) + 2  # the timestamp's, then the offset's
    with pytest.raises(InvalidRecordAtError, match=r"^record \d+ of the batch has the offset delta"):
        check_records(good[:at] + bytes((0x81,)) + good[at + 1 :], 5000)


def test_a_budget_limits_the_work_and_records_of_one_size_cost_little() -> None:
    rng = random.Random(1)
    mixed = [Record(i, START_MS, None, b"v" * (i % 2), ()) for i in range(60)]
    data = records_of(*mixed)
    assert check_records(data, 60, 100) == 40
    assert check_records(data[:100] + b"garbage", 60, 5) == 0, "the rest is not checked"
    assert check_records(records_of(*plain(60)), 60, 5) == 5 - 1 - SEARCH_COST - 59 // ALIKE_PER_COST
    headers = [Record(i, START_MS, None, rng.randbytes(i), (("a", b"b"),)) for i in range(3)]
    assert check_records(records_of(*headers), 3, 100) == 100 - 3 * FIELD_BY_FIELD_COST


@pytest.mark.parametrize("size", [8_170, 8_192, 20_000, 2**20 - 20])
def test_large_records_cost_no_more_than_small_ones(size: int) -> None:
    assert check_records(records_of(*plain(3, bytes(size))), 3, 100) == 100 - 3
    assert check_records(records_of(*plain(30, bytes(size))), 30, 100) == 100 - 1 - SEARCH_COST - 29 // ALIKE_PER_COST


def test_a_record_of_more_than_a_mebibyte_is_checked_field_by_field() -> None:
    assert check_records(records_of(*plain(3, bytes(2**20))), 3, 100) == 100 - 3 * FIELD_BY_FIELD_COST


@pytest.mark.parametrize("count", [0, 2, 4])
def test_a_wrong_count_is_refused(count: int) -> None:
    with pytest.raises(InvalidRecordError):
        check_records(records_of(*plain(3)), count)


@pytest.mark.parametrize("headers", [(), (("h", b"v"),)])
@pytest.mark.parametrize("sizes", [1, 4])
def test_records_without_a_key_are_named(headers: tuple[tuple[str, bytes | None], ...], sizes: int) -> None:
    """In runs of records of one size (the lengths of keys are part of the size), between others, with headers."""
    keys = [None] * 30 + [b""] * 30 + [b"k", None] * 10 + [b"key"] * 30 + [None]
    records = [Record(i, 0, key, b"v" * (i % sizes), headers) for i, key in enumerate(keys)]
    keyless: list[int] = []
    check_records(records_of(*records), len(records), keyless=keyless)
    assert keyless == [index for index, key in enumerate(keys) if key is None]


def test_at_most_a_hundred_records_without_a_key_are_named() -> None:
    keyless: list[int] = []
    check_records(records_of(*plain(500, b"v", None)), 500, keyless=keyless)
    assert keyless == list(range(MAX_KEYLESS))


def test_the_error_says_which_record_is_malformed() -> None:
    good = records_of(*plain(3))
    size = len(good) // 3
    with pytest.raises(InvalidRecordAtError, match=r"^record 1 of the batch has the offset delta 0$") as caught:
        check_records(good[:size] + good[:size] + good[2 * size :], 3)
    assert (caught.value.index, caught.value.reason) == (1, "has the offset delta 0")


@pytest.mark.parametrize(
    "record",
    [
        b"\x0c\x00\x00\x00\x03\x00\x00",  # a key of -2 bytes
        b"\x0c\x00\x00\x00\x01\x14\x00",  # a value that is longer than its record
        b"\x0c\x00\x00\x00\x01\x00\x02",  # a header that is not there
        b"\x0e\x00\x00\x00\x01\x00\x02\x01",  # a header without a name
        b"\x0c\x00\x00\x00\x01\x02\x00",  # a value that takes the byte of the header count
        b"\x0d\x00\x00\x00\x01\x00\x00",  # a negative length
        b"\x20\x00\x00\x00\x01\x00\x00",  # a length past the batch
        b"\x8c\x80\x80\x80\x80\x00\x00\x00\x00\x01\x00\x00",  # a length of six bytes
        b"\xff\xff\xff\xff\xff",  # garbage
    ],
)
def test_a_malformed_record_is_refused(record: bytes) -> None:
    with pytest.raises(InvalidRecordAtError):
        check_records(record, 1)


@pytest.mark.parametrize("value", [b"", b"v" * 10, b"v" * 100, None])
@pytest.mark.parametrize("key", [None, b"", b"k" * 20, b"k" * 70])
def test_a_damaged_byte_in_a_run_of_records_of_one_size_is_found_as_the_reader_finds_it(
    key: bytes | None, value: bytes | None
) -> None:
    rng = random.Random(9)
    batch = bytearray(build_batch(plain(150, value, key)))
    check_records(bytes(batch[HEADER_SIZE:]), 150)
    for _ in range(400):
        position = rng.randrange(HEADER_SIZE, len(batch))
        before, batch[position] = batch[position], rng.randrange(256)
        try:
            check_records(bytes(batch[HEADER_SIZE:]), 150)
        except InvalidRecordError:
            pass
        else:
            assert _can_be_read(bytes(batch)), position
        batch[position] = before


@pytest.mark.parametrize("count", [3, 20])
def test_a_damaged_byte_of_large_records_is_found_as_the_reader_finds_it(count: int) -> None:
    rng = random.Random(13)
    batch = bytearray(build_batch(plain(count, b"v" * 8_200)))
    size = (len(batch) - HEADER_SIZE) // count
    for _ in range(1_500):
        position = HEADER_SIZE + size * rng.randrange(count) + rng.choice((*range(12), size - 1))
        before, batch[position] = batch[position], rng.randrange(256)
        try:
            check_records(bytes(batch[HEADER_SIZE:]), count)
        except InvalidRecordError:
            pass
        else:
            assert _can_be_read(bytes(batch)), position
        batch[position] = before


def test_a_damaged_batch_is_accepted_only_if_it_can_be_read() -> None:
    """Flip each bit of small batches, and many of large ones; whatever is accepted, the reader reads."""
    rng = random.Random(11)
    accepted = refused = 0
    for sample in range(40):
        count = rng.choice((1, 2, 3))
        batch = bytearray(build_batch([random_record(rng, offset) for offset in range(count)]))
        bits = range(HEADER_SIZE * 8, len(batch) * 8)
        for bit in bits if len(bits) < 2000 else rng.sample(bits, 300):
            batch[bit // 8] ^= 1 << bit % 8
            try:
                check_records(bytes(batch[HEADER_SIZE:]), count)
            except InvalidRecordError:
                refused += 1
            else:
                accepted += 1
                assert _can_be_read(bytes(batch)), (sample, bit)
            batch[bit // 8] ^= 1 << bit % 8
    assert accepted > 1000
    assert refused > 300


def _can_be_read(batch: bytes) -> bool:
    try:
        list(iter_records(batch))
    except CorruptRecordError as error:
        # Header names that are not UTF-8, and timestamps past 64 bits, are between the clients.
        return "UTF-8" in str(error) or "timestamp" in str(error)
    return True


def test_random_bytes_are_accepted_only_if_they_can_be_read() -> None:
    """Bytes that look like records: the check must not take a wrong turn that the reader does not take."""
    rng = random.Random(3)
    alphabet = bytes((*(0, 1, 2, 4, 6, 8) * 4, 3, 5, 10, 12, 14, 16, 127, 128, 129, 130, 140, 255))
    header = build_batch(plain(1))[:HEADER_SIZE]
    accepted = 0
    for _ in range(30_000):
        data = bytes(rng.choices(alphabet, k=rng.randrange(6, 12)))
        plausible = bytes((2 * (len(data) - 1), 0, 0, 0))
        kept = rng.randrange(5)
        data = plausible[:kept] + data[kept:]
        try:
            check_records(data, 1)
        except InvalidRecordError:
            continue
        accepted += 1
        length = (len(header) + len(data) - 12).to_bytes(4, "big")
        assert _can_be_read(header[:8] + length + header[12:] + data), data
    assert accepted > 50
