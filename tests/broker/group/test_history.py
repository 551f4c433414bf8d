"""The last rebalances of groups, for people."""

from __future__ import annotations

from purgatorio.broker.group.history import (
    MAX_ASSIGNMENT,
    MAX_DEPARTED,
    MAX_DETAIL,
    MAX_GROUPS,
    MAX_REBALANCES,
    Departed,
    Rebalance,
    RebalanceHistory,
    named,
)
from purgatorio.broker.group.overview import owned_by
from purgatorio.protocol.consumer_protocol import ASSIGNMENT, ConsumerProtocolAssignment, TopicPartitions
from tests.broker.group.classic.harness import GROUP, Clients
from tests.broker.group.consumer.harness import Consumer, ConsumerHarness
from tests.broker.group.share.harness import Member, ShareHarness, settle


def test_the_last_rebalances_of_each_group_are_kept() -> None:
    history = RebalanceHistory()
    for at_ms in range(MAX_REBALANCES + 2):
        history.note("g", Rebalance(at_ms, 1, 2, "join", "x" * 1_000))
    assert [each.at_ms for each in history.of("g")] == list(range(2, MAX_REBALANCES + 2))
    assert len(history.of("g")[0].detail) == MAX_DETAIL
    assert history.of("other") == ()


def test_groups_that_have_not_rebalanced_for_long_are_forgotten_first() -> None:
    history = RebalanceHistory()
    for name in ("old", "busy", *map(str, range(MAX_GROUPS - 2)), "busy", "new"):
        history.note(name, Rebalance(1, 1, 2, "join", ""))
    assert not history.of("old")
    assert len(history.of("busy")) == 2


def test_of_many_members_the_first_is_named() -> None:
    assert (named([]), named(["a"]), named(["a", "b", "c"])) == ("", "member a", "member a and 2 more")


def test_a_classic_group_says_which_join_and_which_leave_began_a_rebalance() -> None:
    clients = Clients()
    joined = clients.join()
    clients.assign(joined)
    clients.leave(joined.member_id)
    began = clients.groups.history.of(GROUP)
    assert [(each.cause, each.member_count) for each in began] == [("join", 1), ("leave", 0)]
    assert joined.member_id in began[0].detail


def test_a_group_of_the_consumer_protocol_says_why_an_epoch_begins() -> None:
    broker = ConsumerHarness()
    broker.create(orders=2)
    one, two = Consumer(broker, "one"), Consumer(broker, "two")
    broker.settle(one)
    broker.settle(one, two)
    two.leave()
    broker.create(orders=4)
    broker.settle(one)
    assert [each.cause for each in broker.groups.history.of("app")] == ["join", "join", "leave", "topics changed"]


def test_a_share_group_says_it_too() -> None:
    broker = ShareHarness()
    broker.create(orders=2)
    member = Member(broker, "a")
    settle(member)
    member.leave()
    assert [each.cause for each in broker.groups.history.of("app")] == ["join", "leave"]


def test_the_members_of_a_group_that_all_leave_are_kept_with_what_they_owned() -> None:
    history = RebalanceHistory()
    history.note_departed("g", Departed(5, (("m-1", "one", b"a"),) * (MAX_DEPARTED + 1)))
    departed = history.departed("g")
    assert departed is not None
    assert (departed.at_ms, len(departed.members)) == (5, MAX_DEPARTED)
    for number in range(MAX_GROUPS):
        history.note_departed(str(number), Departed(6, ()))
    assert history.departed("g") is None


def test_what_is_kept_of_departed_members_is_small_and_a_long_assignment_is_unknown() -> None:
    history = RebalanceHistory()
    partitions = list(range(MAX_ASSIGNMENT))
    assigned = [TopicPartitions(topic="orders", partitions=partitions)]
    assignment = ASSIGNMENT.encode(ConsumerProtocolAssignment(assigned_partitions=assigned), 3)
    history.note_departed("g", Departed(5, (("m" * 1_000, "c" * 1_000, assignment),)))
    departed = history.departed("g")
    assert departed is not None
    ((member_id, client_id, kept),) = departed.members
    assert (len(member_id), len(client_id), len(kept)) == (MAX_DETAIL, MAX_DETAIL, MAX_ASSIGNMENT)
    assert (owned_by(assignment), owned_by(kept)) == ({"orders": tuple(partitions)}, None)


def test_the_history_of_a_classic_group_goes_with_it() -> None:
    clients = Clients()
    clients.leave(*clients.stable(2))
    history = clients.groups.history
    assert history.of(GROUP)
    assert history.departed(GROUP)
    clients.groups.cleaner.delete_group(GROUP, lambda code: None)
    assert (history.of(GROUP), history.departed(GROUP)) == ((), None)


def test_the_history_of_a_consumer_group_goes_with_it() -> None:
    broker = ConsumerHarness()
    broker.create(orders=2)
    one = Consumer(broker, "one")
    broker.settle(one)
    one.leave()
    assert broker.groups.history.of("app")
    broker.groups.cleaner.delete_group("app", lambda code: None)
    assert broker.groups.history.of("app") == ()


def test_a_broker_that_coordinates_a_group_no_more_keeps_no_history_of_it() -> None:
    clients = Clients()
    clients.leave(*clients.stable(2))
    clients.elect(2, 5)
    clients.work()
    assert (clients.groups.history.of(GROUP), clients.groups.history.departed(GROUP)) == ((), None)
