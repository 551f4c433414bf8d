"""Groups of very many topics: a heartbeat begins an epoch, and later turns of the loop make its target assignment."""

from __future__ import annotations

import pytest

from purgatorio.broker.group.modern.modern_groups import ASSIGNMENT_TRIES, TOPICS_AT_ONCE
from purgatorio.protocol.errors import ErrorCode
from tests.broker.group.consumer.harness import Consumer, ConsumerHarness, is_consistent
from tests.broker.time.by_hand import turns_of

TOPICS = [f"t{number}" for number in range(TOPICS_AT_ONCE + 1)]


@pytest.fixture
def broker() -> ConsumerHarness:
    broker = ConsumerHarness()
    broker.create(**dict.fromkeys(TOPICS, 1))
    return broker


def test_the_assignment_is_made_in_later_turns_and_then_the_member_is_answered(broker: ConsumerHarness) -> None:
    broker.takes_steps = False
    one = Consumer(broker, "one", TOPICS)
    answers = broker.heartbeat(**one.request())
    group = broker.group()
    assert (answers, group.epoch, group.target_epoch) == ([], 1, 0)
    (left,) = broker.left
    assert turns_of(left) == 2
    assert group.target_epoch == 1
    one.hear(answers[0])
    assert (one.epoch, len(one.partitions)) == (1, len(TOPICS))


def test_an_expression_of_another_group_that_matches_very_many_topics_is_assigned_in_later_turns(
    broker: ConsumerHarness,
) -> None:
    broker.takes_steps = False
    one = Consumer(broker, "one", (), subscribed_topic_regex="t.*")
    broker.heartbeat(**one.request(), group_id="other")
    broker.match()
    broker.left.clear()
    assert broker.heartbeat(**one.request()) == []
    assert (len(broker.left), broker.group().epoch, broker.group().target_epoch) == (1, 1, 0)


def test_members_share_very_many_topics(broker: ConsumerHarness) -> None:
    members = [Consumer(broker, name, TOPICS) for name in ("one", "two", "three")]
    broker.settle(*members)
    assert is_consistent(broker.group())
    assert sorted(len(each.partitions) for each in members) == [333, 334, 334]


def test_a_group_that_changes_meanwhile_is_assigned_as_it_is_then(broker: ConsumerHarness) -> None:
    broker.takes_steps = False
    one, two = Consumer(broker, "one", TOPICS), Consumer(broker, "two", TOPICS)
    first = broker.heartbeat(**one.request())
    next(broker.left[0])
    next(broker.left[0])  # an assignment for one member is ready
    second = broker.heartbeat(**two.request())
    broker.take_steps()
    for member, answers in ((one, first), (two, second)):
        member.hear(answers[0])
    broker.takes_steps = True
    broker.settle(one, two)
    assert sorted(len(each.partitions) for each in (one, two)) == [500, 501]


def test_a_group_that_changes_all_the_time_is_assigned_by_a_later_heartbeat(broker: ConsumerHarness) -> None:
    broker.takes_steps = False
    one = Consumer(broker, "one", TOPICS)
    answers = broker.heartbeat(**one.request())
    left = broker.left.pop()
    next(left)
    others = []
    for number in range(ASSIGNMENT_TRIES):
        next(left)
        others.append(Consumer(broker, f"other{number}", TOPICS))
        broker.heartbeat(**others[-1].request())
    list(left)
    assert broker.group().target_epoch == 0
    one.hear(answers[0])
    assert one.partitions == []
    broker.takes_steps = True
    broker.left.clear()  # their connections were lost
    broker.settle(one, *others)
    assert is_consistent(broker.group())


@pytest.mark.parametrize("leaves", [True, False])
def test_what_is_gone_meanwhile_is_told(broker: ConsumerHarness, leaves: bool) -> None:
    broker.takes_steps = False
    one = Consumer(broker, "one", TOPICS)
    answers = broker.heartbeat(**one.request())
    (left,) = broker.left
    next(left)
    if leaves:
        broker.heartbeat(member_id="one", member_epoch=-1)
    else:
        broker.groups.coordinator.shard_of("app").groups.pop("app")
    list(left)
    expected = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND)
    assert answers[0].error_code in expected
