"""How far a share fetch reads a log."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from purgatorio.broker.coordinator.share_settings import OffsetReset, ResetTo, ShareSettings
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.share.acquiring import AcquireMode
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.primitives import Buffer
from purgatorio.protocol.records import BatchHeader, iter_batches
from tests.broker.replica.harness import ORDERS, batch
from tests.broker.replica.transactions import coordinator_of, end, send
from tests.broker.share.fetching import ShareHarness

LATER = 100


@pytest.fixture
def house() -> ShareHarness:
    """A leader with a record of one member in flight, two that were given back, and many later ones; a batch each."""
    house = ShareHarness()
    for _ in range(3 + LATER):
        house.produce(ORDERS, records=batch(b"a"), acks=1)
    ada, bob = house.member("ada"), house.member("bob")
    assert bob.fetch(house.key(), max_records=1, mode=AcquireMode.RECORD_LIMIT).acquired == [(0, 0, 1)]
    assert ada.fetch(house.key(), max_records=2, mode=AcquireMode.RECORD_LIMIT).acquired == [(1, 2, 1)]
    ada.acknowledge(house.key(), 1, 2, kind=2)
    return house


def headers_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The base offsets of the batches whose headers a fetch has looked at."""
    found: list[int] = []

    def noted(part: Buffer) -> Iterator[tuple[BatchHeader, memoryview]]:
        for header, each in iter_batches(part):
            found.append(header.base_offset)
            yield header, each

    monkeypatch.setattr("purgatorio.broker.share.share_reader.iter_batches", noted)
    return found


@pytest.mark.parametrize("mode", AcquireMode)
def test_a_fetch_reads_no_further_than_to_the_records_that_it_may_acquire(
    house: ShareHarness, monkeypatch: pytest.MonkeyPatch, mode: AcquireMode
) -> None:
    found = headers_read(monkeypatch)
    assert house.member("carl").fetch(house.key(), max_records=5, mode=mode).acquired == [(1, 2, 2), (3, 5, 1)]
    assert found == [1, 2, 3, 4, 5]


def test_a_fetch_reads_on_past_records_that_no_member_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the members of a group would get empty answers while there are records."""
    reset = OffsetReset(ResetTo.EARLIEST)
    house = ShareHarness(settings=ShareSettings(auto_offset_reset=reset, reads_committed=True))
    coordinator_of(house, ErrorCode.NONE)
    for sequence in range(10):
        send(house, sequence)
    end(house, committed=False)
    for _ in range(LATER):
        house.produce(ORDERS, records=batch(b"a"), acks=1)
    found = headers_read(monkeypatch)
    asked = house.member("carl").fetch(house.key(), max_records=3, mode=AcquireMode.RECORD_LIMIT)
    assert asked.acquired == [(10, 11, 1)]  # the end marker, which clients pass over, and a record
    assert found == list(range(12))


def test_a_fetch_acquires_from_so_many_partitions_and_the_next_one_from_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a member of thousands of partitions would hold the event loop."""
    monkeypatch.setattr("purgatorio.broker.share.share_reader.ACQUIRED_PER_TURN", 2)
    house = ShareHarness(partitions=3)
    for partition in range(3):
        house.produce(TopicPartition("orders", partition), records=batch(b"a"), acks=1)
    carl = house.member("carl")
    got = [carl.fetch(*map(house.key, range(3))), carl.fetch()]
    assert [asked.acquired for asked in got] == [[(0, 0, 1), (0, 0, 1)], [(0, 0, 1)]]


def test_what_a_producer_commits_after_an_abort_is_delivered_also_if_both_are_read_together() -> None:
    house = ShareHarness(settings=ShareSettings(auto_offset_reset=OffsetReset(ResetTo.EARLIEST), reads_committed=True))
    coordinator_of(house, ErrorCode.NONE)
    send(house, 0)
    end(house, committed=False)
    send(house, 1)
    end(house)
    asked = house.member("carl").fetch(house.key())
    assert asked.acquired == [(1, 3, 1)]  # from the end marker of the first one on


def test_what_one_partition_gives_is_not_asked_of_the_next_one() -> None:
    house = ShareHarness(partitions=2)
    for partition in range(2):
        house.produce(TopicPartition("orders", partition), records=batch(b"a", b"b", b"c"), acks=1)
    asked = house.member("carl").fetch(house.key(0), house.key(1), max_records=4, mode=AcquireMode.RECORD_LIMIT)
    assert asked.acquired == [(0, 2, 1), (0, 0, 1)]


def test_only_the_first_partition_with_records_gives_more_than_its_share_of_bytes() -> None:
    house = ShareHarness(partitions=2)
    for partition in range(2):
        house.produce(TopicPartition("orders", partition), records=batch(b"a" * 1_000), acks=1)
    assert house.member("carl").fetch(house.key(0), house.key(1), max_bytes=300).acquired == [(0, 0, 1)]
