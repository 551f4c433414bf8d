"""Share sessions: epochs, partitions, the limit, and what ends them."""

from __future__ import annotations

import pytest

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.replica.partition import PartitionError
from purgatorio.broker.routing.request import Session
from purgatorio.broker.share.share_session import LAST_EPOCH, ShareSession, ShareSessionCache
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.share_state import SharePartitionKey

ID = bytes(15) + b"\1"


def connection() -> Session:
    return Session(connection_id="1", listener="PLAINTEXT", host="127.0.0.1", peer="127.0.0.1:5")


def key(partition: int) -> SharePartitionKey:
    return SharePartitionKey("jobs", ID, partition)


def fill(session: ShareSession, count: int) -> None:
    for partition in range(count):
        session.add(key(partition), TopicPartition("orders", partition))


class Cache(ShareSessionCache):
    """Notes the sessions that ended."""

    def __init__(self, max_sessions: int) -> None:
        self.over: list[tuple[str, bool]] = []
        super().__init__(max_sessions, lambda session, is_last: self.over.append((session.member_id, is_last)))


def open_session(cache: ShareSessionCache, member_id: str, on: Session | None = None) -> ShareSession:
    on = on or connection()
    assert cache.refusal("jobs", member_id, on, 0) is None
    return cache.open("jobs", member_id, on)


def test_epochs_grow_by_one_and_begin_anew_at_one() -> None:
    session = open_session(Cache(1), "ada")
    assert session.epoch == 1
    session.advance()
    assert session.epoch == 2
    session.epoch = LAST_EPOCH
    session.advance()
    assert session.epoch == 1


def test_a_session_keeps_the_sum_of_what_can_be_acquired() -> None:
    session = open_session(Cache(1), "ada")
    fill(session, 3)
    first, second, third = session.partitions.values()
    session.looked_at(first, 10, None)
    session.looked_at(second, 20, None)
    session.looked_at(third, 0, PartitionError(ErrorCode.NOT_LEADER_OR_FOLLOWER, ""))
    assert (session.available_bytes, list(session.worth)) == (30, [first, second, third])
    session.looked_at(first, 0, None)
    session.remove(second.key)
    assert (session.available_bytes, list(session.worth)) == (0, [third])
    assert list(session.marked) == [first, third]


def test_each_request_begins_with_another_partition() -> None:
    session = open_session(Cache(1), "ada")
    fill(session, 3)
    firsts = []
    for _ in range(4):
        firsts.append(session.in_turn(session.partitions.values())[0].key.partition)
        session.advance()
    assert firsts == [1, 2, 0, 1]
    assert session.in_turn(()) == []


def test_a_full_cache_opens_no_session_but_in_place_of_the_members_own() -> None:
    cache = Cache(1)
    before = open_session(cache, "ada")
    assert cache.refusal("jobs", "bob", connection(), 0) == "the broker has 1 share sessions, the most that it may have"
    again = open_session(cache, "ada")
    assert (before.is_open, again.is_open, len(cache), cache.over) == (False, True, 1, [])


def test_a_closed_connection_ends_the_sessions_that_it_opened() -> None:
    cache, on = Cache(9), connection()
    open_session(cache, "ada", on)
    open_session(cache, "bob", on)
    open_session(cache, "cyd")
    on.lost()
    assert cache.over == [("ada", False), ("bob", False)]
    assert (len(cache), cache.ended_count) == (1, 2)


def test_a_session_that_moved_to_another_connection_outlives_the_first_one() -> None:
    cache, first, second = Cache(9), connection(), connection()
    open_session(cache, "ada", first)
    open_session(cache, "ada", second)
    first.lost()
    assert (len(cache), cache.over) == (1, [])
    second.lost()
    assert (len(cache), cache.over) == (0, [("ada", True)])


def test_the_last_session_of_a_group_is_told_from_the_others() -> None:
    cache = Cache(9)
    ada, bob = open_session(cache, "ada"), open_session(cache, "bob")
    cache.close(ada)
    cache.close(ada)
    cache.close(bob)
    assert cache.over == [("ada", False), ("bob", True)]
    assert cache.find("jobs", "bob") is None


def test_the_partitions_of_all_sessions_are_counted() -> None:
    cache = Cache(9)
    fill(open_session(cache, "ada"), 3)
    fill(open_session(cache, "bob"), 2)
    assert cache.partition_count == 5


@pytest.mark.parametrize("removed", [0, 1])
def test_a_partition_is_named_in_the_next_answer_once(removed: int) -> None:
    session = open_session(Cache(1), "ada")
    fill(session, 2)
    session.add(key(0), TopicPartition("orders", 0))
    session.remove(key(removed))
    assert [each.key.partition for each in session.unnamed] == [1 - removed]
