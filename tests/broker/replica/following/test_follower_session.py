"""A follower's side of its fetch session: what its requests name, and when it begins again."""

from __future__ import annotations

import pytest

from purgatorio.broker.log.config import LogConfig
from purgatorio.broker.log.log import Log
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import BrokerIncarnation
from purgatorio.broker.replica.following.follower_session import FollowerSession
from purgatorio.broker.replica.partition import Partition
from purgatorio.protocol.messages.fetch import FetchRequest

SESSION_ID = 77


def partition(index: int) -> Partition:
    return Partition(TopicPartition("t", index), b"t" * 16, BrokerIncarnation(1, 1), Log(LogConfig()))


ZERO, ONE, TWO = (partition(index) for index in range(3))


def request(session: FollowerSession, *ready: Partition) -> tuple[tuple[int, int], list[int], list[int]]:
    """Return session id and epoch of the next request, and the partitions that it names and forgets."""
    message = FetchRequest()
    session.fill_in(message, ready)
    named = [each.partition for topic in message.topics for each in topic.partitions]
    forgotten = [index for topic in message.forgotten_topics_data for index in topic.partitions]
    return (message.session_id, message.session_epoch), named, forgotten


@pytest.fixture
def session() -> FollowerSession:
    """A session that was opened with partitions 0 and 1."""
    session = FollowerSession(1_000)
    assert request(session, ZERO, ONE) == ((0, 0), [0, 1], [])
    session.answered(SESSION_ID)
    return session


def test_the_first_request_names_all_and_the_next_ones_what_was_altered(session: FollowerSession) -> None:
    assert request(session, ZERO, ONE) == ((SESSION_ID, 1), [], [])
    session.answered(SESSION_ID)
    session.alter(ONE)
    session.alter(TWO)
    session.alter(ONE)
    assert request(session) == ((SESSION_ID, 2), [1, 2], [])
    session.answered(SESSION_ID)
    assert request(session) == ((SESSION_ID, 3), [], [])


def test_what_is_forgotten_is_told_once_and_may_come_back(session: FollowerSession) -> None:
    session.forget(ZERO)
    assert request(session) == ((SESSION_ID, 1), [], [0])
    session.answered(SESSION_ID)
    session.forget(ZERO)
    assert request(session) == ((SESSION_ID, 2), [], [])
    session.answered(SESSION_ID)
    session.alter(ZERO)
    assert request(session) == ((SESSION_ID, 3), [0], [])
    session.answered(SESSION_ID)
    session.forget(ZERO)
    session.alter(ZERO)
    assert request(session) == ((SESSION_ID, 4), [0], []), "the leader would forget it after it was named"


def test_what_is_altered_or_forgotten_while_a_full_request_is_under_way_is_told_next() -> None:
    session = FollowerSession(1_000)
    request(session, ZERO, ONE)
    session.alter(TWO)
    session.forget(ONE)
    session.answered(SESSION_ID)
    assert request(session) == ((SESSION_ID, 1), [2], [1])


def test_without_a_session_every_request_names_all(session: FollowerSession) -> None:
    session.answered(0)
    for _ in range(2):
        assert request(session, ZERO, ONE) == ((0, 0), [0, 1], [])
        session.answered(0)
    session.reset()
    assert not session.is_open
    assert not session.named


def test_a_session_knows_a_replica_in_the_leader_epoch_in_which_it_was_named(session: FollowerSession) -> None:
    zero = partition(0)
    assert session.is_current(ZERO)
    assert not session.is_current(zero), "another replica, of a topic that was created again"
    assert not session.is_current(TWO)
    ZERO.leader_epoch, before = 5, ZERO.leader_epoch
    assert not session.is_current(ZERO)
    ZERO.leader_epoch = before


def test_a_session_without_partitions_is_empty(session: FollowerSession) -> None:
    session.forget(ZERO)
    session.forget(ONE)
    assert session.is_empty
    session.alter(TWO)
    assert not session.is_empty
