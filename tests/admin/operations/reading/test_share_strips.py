"""The share partitions of the page: runs of equal state, at a bounded cost."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from purgatorio.admin.operations.reading import share_strips
from purgatorio.admin.operations.reading.share_strips import merged_shares, read_shares_for_page
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.share.acquiring import AcquireMode
from tests.broker.replica.harness import batch
from tests.broker.share.fetching import ShareHarness

ACCEPT, RELEASE, REJECT = 1, 2, 3


@pytest.fixture
def house() -> ShareHarness:
    return ShareHarness(partitions=3)


def produce(house: ShareHarness, partition: int, count: int) -> None:
    house.produce(TopicPartition("orders", partition), records=batch(*[b"a"] * count), acks=1)


def read(house: ShareHarness) -> list[dict[str, Any]]:
    broker: Any = SimpleNamespace(broker_id=1, led_shares=house.shares, replica=house.replicas.partitions.get)
    return read_shares_for_page([broker])


def runs(share: dict[str, Any]) -> list[tuple[int, int, str, str | None]]:
    return [(each["first"], each["last"], each["state"], each["member"]) for each in share["runs"]]


def test_each_run_has_one_state_and_who_has_it_how_long(house: ShareHarness) -> None:
    produce(house, 0, 10)
    ada, bob = house.member("ada"), house.member("bob")
    ada.fetch(house.key(), max_records=6, mode=AcquireMode.RECORD_LIMIT)
    house.advance_ms(1_000)
    bob.fetch(house.key(), max_records=2, mode=AcquireMode.RECORD_LIMIT)
    ada.acknowledge(house.key(), 1, 2, ACCEPT)
    ada.acknowledge(house.key(), 4, 4, REJECT)
    ada.acknowledge(house.key(), 5, 5, RELEASE)
    (share,) = read(house)
    assert runs(share) == [
        (0, 0, "acquired", "ada"),
        (1, 2, "acknowledged", None),
        (3, 3, "acquired", "ada"),
        (4, 4, "archived", None),
        (5, 5, "available", None),
        (6, 7, "acquired", "bob"),
    ]
    left_ms = [each["left_ms"] for each in share["runs"] if each["member"]]
    assert left_ms == [29_000, 29_000, 30_000]
    assert (share["start_offset"], share["end_offset"], share["lag"], share["new_count"]) == (0, 7, 7, 2)
    house.persister.held = True
    bob.acknowledge(house.key(), 6, 7, ACCEPT)
    assert read(house)[0]["runs"][-1]["becomes"] == "acknowledged"


def test_neighbours_under_several_locks_of_a_member_are_one_run(house: ShareHarness) -> None:
    for _ in range(3):
        produce(house, 0, 2)
    ada = house.member("ada")
    ada.fetch(house.key(), max_records=2, mode=AcquireMode.RECORD_LIMIT)
    house.advance_ms(500)
    ada.fetch(batch_size=1)
    (share,) = read(house)
    assert runs(share) == [(0, 5, "acquired", "ada")]
    assert share["runs"][0]["left_ms"] == 29_500, "the first that runs out"


def test_what_is_not_shown_is_counted(house: ShareHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_strips, "RUNS", 4)
    produce(house, 0, 20)
    ada = house.member("ada")
    ada.fetch(house.key())
    for offset in range(1, 20, 2):
        ada.acknowledge(house.key(), offset, offset, ACCEPT)
    (share,) = read(house)
    assert len(share["runs"]) == 4
    assert share["further_count"] == 16
    monkeypatch.setattr(share_strips, "BATCHES", 3)
    assert read(house)[0]["further_count"] == 17, "no more batches are looked at than so many"


def test_those_with_records_in_flight_come_first(house: ShareHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    produce(house, 2, 1)
    house.member().fetch(*(house.key(number) for number in range(3)))
    shares = read(house)
    assert [each["partition"] for each in shares] == [2, 0, 1]
    assert (shares[1]["runs"], shares[1]["further_count"], shares[1]["lag"]) == ([], 0, 0)
    assert [each["partition"] for each in merged_shares(reversed(shares))] == [2, 0, 1]
    monkeypatch.setattr(share_strips, "SHARES", 2)
    assert len(read(house)) == len(merged_shares(shares)) == 2
