"""The control records that end transactions."""

from __future__ import annotations

import pytest
from kafka.record import MemoryRecords

from purgatorio.protocol.end_marker import EndMarker, build_end_marker, read_end_marker
from purgatorio.protocol.errors import InvalidRecordError
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch, check_crc, read_header


@pytest.mark.parametrize("committed", [True, False])
def test_a_marker_is_read_as_it_was_built(committed: bool) -> None:
    marker = EndMarker(committed, 7)
    batch = build_end_marker(marker, producer_id=5, producer_epoch=2, timestamp_ms=1000, base_offset=9)
    header = read_header(batch)
    check_crc(header, batch)
    assert read_end_marker(batch) == marker
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 2, -1)


def test_kafka_python_sees_a_control_record() -> None:
    batch = build_end_marker(EndMarker(False, 0), producer_id=5, producer_epoch=2, timestamp_ms=1000)
    parsed = MemoryRecords(batch).next_batch()
    assert parsed.is_control_batch
    assert next(iter(parsed)).abort


@pytest.mark.parametrize(
    ("key", "value"),
    [(None, b"123456"), (b"\x00", b"123456"), (b"\x00\x00\x00\x01", None), (b"\x00\x00\x00\x01", b"\x00\x00\x00")],
)
def test_a_marker_that_is_too_short_is_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(InvalidRecordError):
        read_end_marker(build_batch([Record(0, 0, key, value)], control=True))


def test_other_control_records_and_emptied_batches_end_no_transaction() -> None:
    assert read_end_marker(build_batch([Record(0, 0, b"\x00\x00\x00\x02", b"")], control=True)) is None
    assert read_end_marker(build_batch([], control=True, last_offset_delta=0)) is None


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        (b"\x00\x00\x00\x02", b"\x00\x00\x00\x00\x00\x07", None),
        (b"\x00\x05\x00\x01", b"\x00\x05\x00\x00\x00\x07", EndMarker(True, 7)),
        (b"\x00\x00\x00\x00", b"\x00\x00\xff\xff\xff\xff", EndMarker(False, -1)),
        (b"\x00\x00\x00\x01", b"\x00\x00\x00\x00\x00\x07more", EndMarker(True, 7)),
        (b"\x00\x00\x00\x01\x00", b"\x00\x00\x00\x00\x00", None),
    ],
)
def test_a_marker_is_read_alike_by_the_short_way_and_the_long_one(
    key: bytes, value: bytes, expected: EndMarker | None
) -> None:
    """The long way is for markers with a header, and those that are compressed or of another length."""
    plain = Record(0, 1_000, key, value)
    with_header = Record(0, 1_000, key, value, (("name", b"value"),))
    for record in (plain, with_header):
        batch = build_batch([record], control=True)
        if len(value) < 6:
            with pytest.raises(InvalidRecordError):
                read_end_marker(batch)
        else:
            assert read_end_marker(batch) == expected
            assert read_end_marker(memoryview(batch)) == expected
