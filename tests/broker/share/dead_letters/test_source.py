"""Records that are given up are read from their leader's log."""

from __future__ import annotations

import pytest

from purgatorio.broker.share.dead_letters import source
from purgatorio.broker.share.dead_letters.source import NO_CONTENT, Content, FromTier, read_records
from purgatorio.broker.time import long_work
from purgatorio.broker.time.long_work import Steps
from purgatorio.protocol.compression import Compression
from purgatorio.protocol.end_marker import EndMarker, build_end_marker
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import BatchHeader, build_batch
from tests.broker.replica.harness import ORDERS, Harness, topic
from tests.broker.time.by_hand import turns_of


@pytest.fixture
def house() -> Harness:
    made = Harness()
    made.set_topics(topic(replicas=(1,)))
    return made


def append(
    house: Harness, *records: tuple[int, bytes | None, bytes], compression: Compression = Compression.NONE
) -> None:
    """Append a batch of records of an offset delta, a key and a value."""
    made = [Record(delta, 1_000, key, value, (("h", b"v"),)) for delta, key, value in records]
    house.produce(ORDERS, records=build_batch(made, compression=compression), acks=1)


def found(
    house: Harness,
    *offsets: int,
    copies: bool = True,
    max_bytes: int = 1_000,
    told: list[str] | None = None,
    from_tier: FromTier = lambda offset: None,
) -> tuple[dict[int, Content], int]:
    """Return what is found, and in how many steps; why a batch cannot be read is added to `told`."""

    def not_copied(header: BatchHeader, why: str) -> None:
        assert told is not None
        told.append(f"{header.base_offset}: {why}")

    steps = read_records(
        house.partition(), offsets, copies=copies, max_bytes=max_bytes, not_copied=not_copied, from_tier=from_tier
    )
    content: dict[int, Content] = {}

    def collected() -> Steps:
        known, count = yield from steps
        content.update(known)
        assert count == len(offsets), "only the tier ends a read early"

    return content, turns_of(collected())


def test_key_and_value_are_found_over_batches(house: Harness) -> None:
    append(house, (0, b"k", b"a"), (1, None, b"b"))
    append(house, (0, None, b"c"))
    append(house, (0, b"", b"d"), (1, b"e", b"e"), compression=Compression.GZIP)
    assert found(house, 1, 2, 4)[0] == {1: (None, b"b"), 2: (None, b"c"), 4: (b"e", b"e")}
    assert found(house, 1, 4, copies=False)[0] == {1: NO_CONTENT, 4: NO_CONTENT}
    assert found(house, 7)[0] == {}


def test_a_batch_is_read_in_steps(house: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    append(house, *((nth, None, b"%d" % nth) for nth in range(100)))
    monkeypatch.setattr(long_work, "SLICE", 10 * source.RECORD_COST)
    assert found(house, 5, 95) == ({5: (None, b"5"), 95: (None, b"95")}, 10)
    assert found(house, 5) == ({5: (None, b"5")}, 1)


def test_records_that_retention_has_deleted_are_known_by_their_offsets(house: Harness) -> None:
    append(house, (0, None, b"a"))
    append(house, (0, None, b"b"))
    house.partition().delete_records_before(1)
    assert found(house, 0, 1)[0] == {0: NO_CONTENT, 1: (None, b"b")}


def test_a_batch_that_unpacks_to_too_much_is_known_by_its_offsets(
    house: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "MIN_UNPACKED_BYTES", 2_000)
    append(house, (0, None, b"a" * 5_000), (1, None, b"b"), compression=Compression.GZIP)
    append(house, (0, None, b"c"))
    told: list[str] = []
    assert found(house, 0, 1, 2, told=told)[0] == {0: NO_CONTENT, 1: NO_CONTENT, 2: (None, b"c")}
    (line,) = told
    assert line.startswith("0: ")
    assert found(house, 0, 1, max_bytes=10_000)[0] == {0: (None, b"a" * 5_000), 1: (None, b"b")}


def test_offsets_without_a_record_are_not_found(house: Harness) -> None:
    append(house, (0, None, b"a"))
    marker = build_end_marker(EndMarker(True, 0), producer_id=7, producer_epoch=0, timestamp_ms=1_000)
    house.replicas.append([(ORDERS, marker)], acks=1, timeout_ms=0, done=lambda _: None, from_client=False)
    compacted = build_batch([Record(2, 0, None, b"c"), Record(4, 0, None, b"e")], base_offset=2, last_offset_delta=3)
    for records in (compacted, build_batch([Record(8, 0, None, b"i")], base_offset=8)):
        house.partition().log.append_as_follower(records)
    append(house, (0, None, b"j"))
    values = {0: b"a", 2: b"c", 4: b"e", 8: b"i", 9: b"j"}
    assert found(house, *range(10))[0] == {offset: (None, value) for offset, value in values.items()}
    assert found(house, *range(10), copies=False)[0] == dict.fromkeys(values, NO_CONTENT)
