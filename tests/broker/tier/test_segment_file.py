"""Tests of the descriptions of copied segments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from fastcrc import crc32

from purgatorio.broker.log.producer_state import ProducerBatch, ProducerSnapshot, ProducerState
from purgatorio.broker.log.transactions import AbortedTxn, EndedTransaction
from purgatorio.broker.tier.names import SegmentName
from purgatorio.broker.tier.segment_file import (
    ENTRIES,
    STATES,
    DamagedObject,
    DescriptionMaker,
    DescriptionReader,
    Part,
    PartsMaker,
    RemoteSegment,
    epochs_up_to,
    from_bytes,
    to_bytes,
)
from tests.broker.tier.stores import TIERED, log_of

NAME = SegmentName(10, 3, 1, "0123456789abcdef" * 2)

KEPT = (
    *("appended_ms", "batches", "coordinator_epoch", "epoch", "marker_offset"),
    *("transaction_start", "transaction_start_ms", "transactional_id"),
)


def snapshot() -> ProducerSnapshot:
    state = ProducerState(4)
    state.coordinator_epoch, state.appended_ms, state.marker_offset = 5, 6, 7
    state.transaction_start, state.transaction_start_ms, state.transactional_id = 8, 9, "pay"
    state.batches.append(ProducerBatch(0, 1, 10, 11, 12))
    return ProducerSnapshot({77: state}, [EndedTransaction(1, 2, 3)], is_reduced=True)


SEGMENT = RemoteSegment(
    NAME,
    20,
    300,
    ((1, 0), (3, 15)),
    (Part(10, 0, 100, 1, 5), Part(13, 100, 200, 2, 7)),
    (AbortedTxn(77, 10, 12, 13),),
    snapshot(),
)


def test_a_description_says_all_that_was_written() -> None:
    found = from_bytes(to_bytes(SEGMENT), NAME, 300)
    assert found.producers is not None
    before, after = snapshot().states[77], found.producers.states[77]
    assert all(getattr(before, slot) == getattr(after, slot) for slot in KEPT)
    assert (found.producers.ended, found.producers.is_reduced) == (snapshot().ended, True)
    assert to_bytes(found) == to_bytes(SEGMENT)
    assert (found.start_offset, found.end_offset, found.max_timestamp_ms) == (10, 20, 7)
    assert (found.epochs, found.parts, found.aborted) == (SEGMENT.epochs, SEGMENT.parts, SEGMENT.aborted)


def test_a_part_is_found_by_offset_and_by_timestamp() -> None:
    assert [SEGMENT.part_of(offset) for offset in (10, 12, 13, 19)] == [0, 0, 1, 1]
    assert [SEGMENT.part_since(timestamp_ms) for timestamp_ms in (5, 6, 7, 8)] == [0, 1, 1, 2]
    assert [SEGMENT.end_of_part(number) for number in (0, 1)] == [13, 20]


def test_an_object_of_another_size_is_damaged() -> None:
    with pytest.raises(DamagedObject, match="has 150 bytes, but 300 were written"):
        from_bytes(to_bytes(SEGMENT), NAME, 150)


@pytest.mark.parametrize(
    "parts",
    [
        (),
        (Part(10, 0, 100, 1, 5),),
        (Part(10, 0, 100, 1, 5), Part(13, 100, 2**40, 2, 7)),
        (Part(10, 0, 100, 1, 5), Part(13, 90, 200, 2, 7)),
        (Part(10, 0, 100, 1, 5), Part(9, 100, 200, 2, 7)),
        (Part(10, 0, 400, 1, 5), Part(13, 400, -100, 2, 7)),
    ],
)
def test_parts_that_are_not_the_object_are_damaged_before_anything_is_read(parts: tuple[Part, ...]) -> None:
    wrong = RemoteSegment(NAME, 20, 300, SEGMENT.epochs, parts, (), None)
    with pytest.raises(DamagedObject):
        from_bytes(to_bytes(wrong), NAME, 300)


def test_a_description_with_a_changed_byte_is_damaged() -> None:
    data = to_bytes(SEGMENT)
    with pytest.raises(DamagedObject, match="another CRC"):
        from_bytes(data.replace(b'"end_offset":20', b'"end_offset":21'), NAME, 300)
    for end in range(len(data)):
        with pytest.raises(DamagedObject):
            from_bytes(data[:end], NAME, 300)


def test_a_newer_format_is_not_read() -> None:
    data = to_bytes(SEGMENT)
    with pytest.raises(DamagedObject, match="format 2; this release knows 1: upgrade the brokers"):
        from_bytes(data.replace(b'{"format":1', b'{"format":2'), NAME, 300)


def after_the_head(line: bytes) -> bytes:
    _, head, *_ = to_bytes(SEGMENT).split(b"\n")
    return with_crc(head + b"\n" + line + b"\n")


def with_crc(body: bytes) -> bytes:
    return b'{"format":1,"crc32c":%d}\n%s' % (crc32.iscsi(body), body)


@pytest.mark.parametrize("data", [b"", b"[]", b"1", b"{}", b'{"format":1}', b"[" * 100_000])
@pytest.mark.parametrize("wrapped", [bytes, with_crc, lambda data: with_crc(data + b"\n"), after_the_head])
def test_other_documents_are_damaged(data: bytes, wrapped: Callable[[bytes], bytes]) -> None:
    with pytest.raises(DamagedObject):
        from_bytes(wrapped(data), NAME, 300)


def test_a_large_description_is_written_and_read_in_short_steps() -> None:
    aborted = tuple(AbortedTxn(number, 10, 12, 13) for number in range(2 * ENTRIES + 1))
    producers = ProducerSnapshot({number: snapshot().states[77] for number in range(STATES + 1)}, [])
    maker = DescriptionMaker(replace(SEGMENT, aborted=aborted, producers=producers))
    assert list(maker.steps()) == [8, 8, 400, 400, 4, 500, 20]
    reader = DescriptionReader(maker.data, NAME, 300)
    assert list(reader.steps()) == [4, 8, 8, 400, 400, 4, 500, 20]
    assert reader.segment is not None
    assert to_bytes(reader.segment) == maker.data
    assert reader.segment.aborted == aborted


@pytest.mark.parametrize(("part_bytes", "count"), [(1, 2), (200, 1), (10_000, 1)])
def test_a_segment_is_cut_into_parts_of_whole_batches(part_bytes: int, count: int) -> None:
    log = log_of(3, config=TIERED)
    found = log.to_copy()
    assert found is not None
    source = found[0]
    maker = PartsMaker(source, part_bytes)
    assert len(list(maker.steps())) == len(maker.parts) == count
    data = b"".join(source.runs(0, source.batch_count))
    for part in maker.parts:
        part.check(data[part.position : part.position + part.size_bytes])
    assert sum(part.size_bytes for part in maker.parts) == source.size_bytes
    assert maker.parts[-1].max_timestamp_ms == source.max_timestamp_ms


def test_bytes_that_are_short_or_others_are_not_the_part() -> None:
    log = log_of(3)
    found = log.to_copy()
    assert found is not None
    maker = PartsMaker(found[0])
    list(maker.steps())
    data = b"".join(found[0].runs(0, 2))
    with pytest.raises(DamagedObject, match=f"{len(data) // 2} bytes came of {len(data)}"):
        maker.parts[0].check(data[: len(data) // 2])
    with pytest.raises(DamagedObject, match="another CRC"):
        maker.parts[0].check(bytes(len(data)))


def test_epochs_up_to_an_offset() -> None:
    assert epochs_up_to([(0, 0), (2, 10), (3, 20)], 20) == ((0, 0), (2, 10))
