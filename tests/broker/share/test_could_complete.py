"""A parked share fetch tells by a look at every partition whether it should be complete, whatever was marked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from purgatorio.broker.share.delayed_share_fetch import DelayedShareFetch
from tests.broker.replica.harness import batch
from tests.broker.share.fetching import ShareHarness

SIZE_BYTES = len(batch(b"a"))


@pytest.fixture
def house() -> ShareHarness:
    return ShareHarness(partitions=2)


def parked(house: ShareHarness) -> Any:
    """The fetch that is parked."""
    (operation,) = house.share_fetch_purgatory._parked.values()
    return operation


def unheard(house: ShareHarness, change: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let something happen of which no share fetch hears."""
    with monkeypatch.context() as deaf:
        deaf.setattr(DelayedShareFetch, "try_complete", lambda operation: False)
        change()


def test_a_fetch_that_missed_records_could_be_complete(house: ShareHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = house.member().fetch(house.key(0), house.key(1), min_bytes=SIZE_BYTES + 1)
    operation = parked(house)
    assert not operation.could_complete()
    unheard(house, lambda: house.produce(records=batch(b"a"), acks=1), monkeypatch)
    assert not operation.could_complete(), "too few bytes"
    unheard(house, lambda: house.produce(records=batch(b"b"), acks=1), monkeypatch)
    assert operation.could_complete()
    assert not asked.answered, "the question changes nothing"


def test_a_fetch_that_missed_a_release_could_be_complete(house: ShareHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    house.produce(records=batch(b"a"), acks=1)
    ada, bob = house.member("ada"), house.member("bob")
    assert ada.fetch(house.key()).acquired == [(0, 0, 1)]
    bob.fetch(house.key())
    operation = parked(house)
    assert not operation.could_complete()
    unheard(house, lambda: ada.acknowledge(house.key(), 0, kind=2), monkeypatch)
    assert operation.could_complete()


def test_a_fetch_whose_broker_leads_no_more_could_be_complete(
    house: ShareHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.member().fetch(house.key())
    operation = parked(house)
    lead = house.partition().check_leader

    def refuse(leader_epoch: int) -> None:
        lead(leader_epoch + 100)

    monkeypatch.setattr(type(house.partition()), "check_leader", lambda partition, epoch: refuse(epoch))
    assert operation.could_complete()


def test_a_share_partition_of_an_earlier_epoch_has_nothing_to_acquire(house: ShareHarness) -> None:
    house.member().fetch(house.key())
    house.produce(records=batch(b"a"), acks=1)
    assert house.share_fetch_purgatory.num_delayed == 0
    house.member("bob").fetch(house.key(1))
    operation = parked(house)
    operation._session.add(house.key(0), house.partition().tp)
    house.shares.partitions.known(house.key(0)).leader_epoch -= 1  # type: ignore[union-attr]
    assert not operation.could_complete(), "a look would load it anew"


def test_a_fetch_that_is_to_be_checked_anyway_misses_nothing(house: ShareHarness) -> None:
    house.member().fetch(house.key())
    operation = parked(house)
    operation._session.is_open = False
    assert operation.could_complete(), "its session has ended"
    operation.is_deferred = True
    assert not operation.could_complete()
