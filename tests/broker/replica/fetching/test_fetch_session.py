"""The cache of fetch sessions: its bounds, and what goes to make room."""

from __future__ import annotations

import random

import pytest

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.replica.fetching.fetch_context import FetchParams, PartitionFetch
from purgatorio.broker.replica.fetching.fetch_session import (
    MAX_EPOCH,
    MIN_EVICTION_MS,
    FetchSession,
    FetchSessionCache,
    next_epoch,
)
from purgatorio.protocol.messages.fetch import FetchPartition
from purgatorio.purgatory.clock import ManualClock


class House:
    """A cache of three slots on a clock that the test moves."""

    def __init__(self, *, slots: int = 3, max_consumer_partitions: int = 100) -> None:
        self.clock = ManualClock(1_000_000)
        self.closed: list[FetchSession] = []
        self.cache = FetchSessionCache(
            slots=slots,
            clock=self.clock,
            rng=random.Random(0),
            closed=self.closed.append,
            max_consumer_partitions=max_consumer_partitions,
        )

    def open(self, partitions: int = 1, *, replica: int = -1, owner: object = None) -> FetchSession | None:
        """Ask for a session, each time from another connection."""
        params = FetchParams(replica, 500, 1, 1_000, replica_epoch=replica)
        fetches = [PartitionFetch(TopicPartition("t", i), None, FetchPartition(partition=i)) for i in range(partitions)]
        return self.cache.open(params, fetches, by_topic_id=False, owner=owner if owner is not None else object())

    def opened(self, partitions: int = 1, *, replica: int = -1) -> FetchSession:
        session = self.open(partitions, replica=replica)
        assert session is not None
        return session

    def use(self, session: FetchSession) -> None:
        self.cache.accept(session, session.params, [], [])

    def pass_by(self) -> None:
        """Let the time pass after which sessions may be evicted."""
        self.clock.advance_ms(MIN_EVICTION_MS + 1)


@pytest.fixture
def house() -> House:
    return House()


def test_after_the_largest_epoch_comes_1_and_never_0() -> None:
    assert (next_epoch(0), next_epoch(1), next_epoch(MAX_EPOCH)) == (1, 2, 1)


def test_without_room_there_is_no_session(house: House) -> None:
    for _ in range(3):
        house.opened()
    assert house.open() is None
    assert house.closed == []
    assert House(slots=0).open() is None


def test_a_fetch_of_no_partitions_gets_no_session(house: House) -> None:
    assert house.open(0) is None


def test_ids_are_unique_and_positive() -> None:
    house = House(slots=1_000, max_consumer_partitions=1_000)
    ids = [house.opened().session_id for _ in range(1_000)]
    assert len(set(ids)) == 1_000
    assert min(ids) > 0


def test_the_session_that_was_idle_longest_goes_first(house: House) -> None:
    first, second = house.opened(5), house.opened(5)
    house.clock.advance_ms(1_000)
    house.opened(5)
    house.use(first)
    house.clock.advance_ms(MIN_EVICTION_MS)
    assert house.open(1) is not None
    assert house.closed == [second]
    assert house.cache.evictions == 1


def test_kafka_9137_a_session_in_use_is_not_idle_however_old_it_is(house: House) -> None:
    followers = [house.opened(5, replica=replica) for replica in (2, 3, 4)]
    house.pass_by()
    for each in followers:
        house.use(each)
    assert house.open(99) is None
    assert house.closed == []


def test_an_old_smaller_session_goes_for_a_larger_one(house: House) -> None:
    sessions = [house.opened(2), house.opened(1), house.opened(3)]
    house.pass_by()
    for each in sessions:
        house.use(each)
    assert house.open(1) is None, "equals need strictly more partitions"
    assert house.open(2) is not None
    assert house.closed == [sessions[1]]


def test_a_young_session_is_safe_from_its_own_kind_and_a_consumers_not_from_a_follower(house: House) -> None:
    sessions = [house.opened(1), house.opened(2), house.opened(9, replica=2)]
    assert house.open(50) is None
    assert house.open(1, replica=3) is not None
    assert house.closed == [sessions[0]]
    assert house.open(1, replica=4) is not None
    assert house.closed == sessions[:2]
    assert house.open(99, replica=5) is None, "the followers' are young"


def test_a_new_session_of_a_connection_and_of_a_follower_replaces_the_one_before(house: House) -> None:
    owner = object()
    first = house.open(owner=owner)
    second = house.open(owner=owner)
    follower = house.open(replica=2)
    house.open(replica=2)
    assert house.closed == [first, follower]
    assert second is not None
    assert house.cache.find(second.session_id) is second


def test_consumers_partitions_have_a_limit_of_their_own_and_followers_none() -> None:
    house = House(slots=100, max_consumer_partitions=10)
    house.opened(6)
    assert house.open(5) is None
    house.opened(4)
    house.opened(50, replica=2)
    assert house.cache.partition_count == 60
    house.pass_by()
    assert house.open(7) is not None
    assert [len(session.fetches) for session in house.closed] == [6, 4]


def test_a_session_that_grows_counts_and_one_that_ends_does_not() -> None:
    house = House(slots=100, max_consumer_partitions=10)
    session = house.opened(6)
    more = [PartitionFetch(TopicPartition("u", i), None, FetchPartition(partition=i)) for i in range(5)]
    house.cache.accept(session, session.params, more, [])
    assert house.cache.is_overfull
    house.cache.accept(session, session.params, [], [("u", 0)])
    assert not house.cache.is_overfull
    house.cache.close(session)
    house.cache.close(session)
    assert house.closed == [session], "once"
    assert house.open(10) is not None
