"""Heartbeats of members of share groups: they join, get partitions, stay, and leave."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.group.modern.modern_groups import MEMBERS_ASSIGNED_AT_ONCE, TOPICS_AT_ONCE
from purgatorio.broker.group.share.share_group import ShareGroup
from purgatorio.broker.group.share.share_groups import MAX_MEMBER_ID, MAX_WAIT_MS
from purgatorio.protocol.errors import ErrorCode
from purgatorio.purgatory import Purgatory
from tests.broker.group.harness import PARTITION
from tests.broker.group.share.harness import Member, ShareHarness, assigned, settle

ORDERS = ["orders-0", "orders-1", "orders-2"]


@pytest.fixture
def broker() -> ShareHarness:
    return ShareHarness()


def join_fields(**changes: Any) -> dict[str, Any]:
    return {"member_id": "a", "member_epoch": 0, "subscribed_topic_names": ["orders"], **changes}


# --- joining ---


def test_the_first_member_gets_all_partitions_with_the_answer_to_its_join(broker: ShareHarness) -> None:
    """The states are there at once; the epoch in which nothing could be assigned is over by the answer."""
    answer = broker.join("a")
    assert (answer.member_id, answer.member_epoch, assigned(answer)) == ("a", 2, ORDERS)
    assert broker.group().state_name == "Stable"
    assert broker.persister.take_calls() == [("initialize", each, 1, -1) for each in ORDERS]


def test_members_share_partitions_and_none_gives_up_anything_first(broker: ShareHarness) -> None:
    first, second = Member(broker, "a"), Member(broker, "b")
    first.beat()
    assert second.beat()
    assert len(second.partitions) == 1
    assert first.partitions == ORDERS, "it learns its smaller share by its next heartbeat"
    assert first.beat()
    assert sorted(first.partitions + second.partitions) == ORDERS
    assert first.epoch == second.epoch == 3


def test_more_members_than_partitions_have_partitions_together(broker: ShareHarness) -> None:
    members = [Member(broker, each, ["bills"]) for each in "abcde"]
    settle(*members)
    assert sorted(each for member in members for each in member.partitions) == ["bills-0"] * 3 + ["bills-1"] * 3


def test_a_member_subscribes_to_a_topic_that_comes_later(broker: ShareHarness) -> None:
    answer = broker.join("a", "letters")
    assert (answer.member_epoch, assigned(answer)) == (1, [])
    broker.create(orders=3, bills=2, letters=1)
    member = Member(broker, "a", ["letters"])
    member.epoch = 1
    settle(member)
    assert member.partitions == ["letters-0"]


def test_a_member_that_joins_again_keeps_its_place(broker: ShareHarness) -> None:
    first = broker.join("a")
    again = broker.join("a")
    assert (again.member_epoch, assigned(again)) == (first.member_epoch, ORDERS)
    assert list(broker.group().members) == ["a"]


# --- refusals ---


@pytest.mark.parametrize(
    "changes",
    [
        {"member_id": ""},
        {"member_id": " "},
        {"group_id": ""},
        {"rack_id": ""},
        {"subscribed_topic_names": None},
        {"subscribed_topic_names": []},
        {"member_epoch": -2},
        {"member_id": "m" * (MAX_MEMBER_ID + 1)},
        {"member_id": "m" * (MAX_MEMBER_ID + 1), "member_epoch": 1},
        {"member_id": "", "member_epoch": -1},
    ],
)
def test_a_heartbeat_that_is_wrong_by_itself_is_refused(broker: ShareHarness, changes: dict[str, Any]) -> None:
    assert broker.refusal(**join_fields(**changes)) == ErrorCode.INVALID_REQUEST
    assert not broker.groups.coordinator.shard_of("app").groups


def test_the_longest_member_id_is_that_of_a_uuid(broker: ShareHarness) -> None:
    assert broker.join("m" * MAX_MEMBER_ID).error_code == ErrorCode.NONE


@pytest.mark.parametrize("epoch", [1, -1])
def test_an_unknown_group_is_not_found(broker: ShareHarness, epoch: int) -> None:
    assert broker.refusal(member_id="a", member_epoch=epoch) == ErrorCode.GROUP_ID_NOT_FOUND


def test_an_unknown_member_is_told_so(broker: ShareHarness) -> None:
    broker.join("a")
    assert broker.refusal(member_id="b", member_epoch=1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert broker.refusal(member_id="b", member_epoch=-1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_epoch_before_is_accepted_and_any_other_is_fenced(broker: ShareHarness) -> None:
    broker.join("a")
    broker.join("b")
    answer = broker.ask(member_id="a", member_epoch=2)
    assert (answer.member_epoch, len(assigned(answer) or [])) == (3, 2)
    again = broker.ask(member_id="a", member_epoch=2)
    assert (again.member_epoch, assigned(again)) == (3, assigned(answer)), "the answer was lost, and is told again"
    for epoch in (1, 4):
        assert broker.refusal(member_id="a", member_epoch=epoch) == ErrorCode.FENCED_MEMBER_EPOCH


def test_a_full_group_takes_no_more_members() -> None:
    broker = ShareHarness(share_max_size=2)
    broker.join("a")
    broker.join("b")
    assert broker.refusal(**join_fields(member_id="c")) == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert broker.join("a").error_code == ErrorCode.NONE, "a member that is there may join again"
    broker.ask(member_id="a", member_epoch=-1)
    assert broker.join("c").error_code == ErrorCode.NONE


def test_a_broker_with_the_most_groups_makes_no_more() -> None:
    broker = ShareHarness(max_groups=1)
    broker.join("a")
    assert broker.refusal(**join_fields(group_id="other")) == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_subscription_for_which_there_is_no_memory_is_refused() -> None:
    broker = ShareHarness(max_memory_bytes=20_000)
    names = [f"{number:03}" for number in range(40)]
    assert broker.refusal(**join_fields(subscribed_topic_names=names)) == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_names_that_no_record_can_hold_are_refused(broker: ShareHarness) -> None:
    names = [f"{number:05}" + "t" * 244 for number in range(6_000)]
    assert broker.refusal(**join_fields(subscribed_topic_names=names)) == ErrorCode.INVALID_REQUEST


# --- staying ---


def test_a_heartbeat_that_changes_nothing_writes_nothing_and_tells_no_assignment(broker: ShareHarness) -> None:
    broker.join("a")
    end = broker.partition(PARTITION).log.log_end_offset
    answer = broker.ask(member_id="a", member_epoch=2)
    assert (answer.member_epoch, answer.assignment) == (2, None)
    assert broker.partition(PARTITION).log.log_end_offset == end


def test_a_full_heartbeat_is_told_the_assignment(broker: ShareHarness) -> None:
    broker.join("a")
    answer = broker.ask(member_id="a", member_epoch=2, subscribed_topic_names=["orders"])
    assert (answer.member_epoch, assigned(answer)) == (2, ORDERS)


def test_a_member_changes_its_subscription(broker: ShareHarness) -> None:
    broker.join("a")
    answer = broker.ask(member_id="a", member_epoch=2, subscribed_topic_names=["bills"])
    assert assigned(answer) == ["bills-0", "bills-1"], "the states of the new topic were waited for"
    assert answer.member_epoch == 4


def test_a_topic_that_a_member_drops_is_taken_away_at_once_even_if_the_next_assignment_is_not_due(
    broker: ShareHarness,
) -> None:
    broker.join("a", "orders", "bills")
    broker.configure(share_assignment_interval_ms="1000")
    answer = broker.ask(member_id="a", member_epoch=2, subscribed_topic_names=["bills"])
    assert (answer.member_epoch, assigned(answer)) == (2, ["bills-0", "bills-1"])
    broker.advance_ms(1_000)
    assert broker.ask(member_id="a", member_epoch=2).member_epoch == 3


def test_members_that_wait_for_partitions_beat_fast_and_others_as_configured(broker: ShareHarness) -> None:
    broker.configure(share_heartbeat_interval_ms="200")
    assert broker.join("a").heartbeat_interval_ms == 200
    broker.configure(share_heartbeat_interval_ms="6000")
    assert broker.ask(member_id="a", member_epoch=2).heartbeat_interval_ms == 250
    broker.groups.share._services.beating.count = 4_000
    assert broker.ask(member_id="a", member_epoch=2).heartbeat_interval_ms == 6_000
    broker.persister.is_held = True
    broker.create(orders=4, bills=2)
    assert broker.ask(member_id="a", member_epoch=2).heartbeat_interval_ms == 4_000, "while something changes, faster"


def test_an_interval_between_assignments_is_kept() -> None:
    broker = ShareHarness()
    broker.configure(share_assignment_interval_ms="1000")
    answer = broker.join("a")
    assert (answer.member_epoch, assigned(answer), answer.heartbeat_interval_ms) == (1, [], 250)
    broker.advance_ms(999)
    assert broker.ask(member_id="a", member_epoch=1).member_epoch == 1
    broker.advance_ms(1)
    answer = broker.ask(member_id="a", member_epoch=1)
    assert (answer.member_epoch, assigned(answer)) == (2, ORDERS)


@pytest.mark.slow
def test_large_groups_are_not_assigned_anew_for_each_member() -> None:
    broker = ShareHarness(share_max_size=1_000)
    for number in range(MEMBERS_ASSIGNED_AT_ONCE + 2):
        answer = broker.join(f"m{number:03}")
    assert assigned(answer) == []
    broker.advance_ms(MEMBERS_ASSIGNED_AT_ONCE + 2)
    assert assigned(broker.ask(member_id=answer.member_id, member_epoch=answer.member_epoch)) != []


@pytest.mark.slow
def test_a_group_of_very_many_topics_is_assigned_in_steps(broker: ShareHarness) -> None:
    names = {f"t{number:04}": 1 for number in range(TOPICS_AT_ONCE + 1)}
    broker.create(**names)
    (answers,) = [broker.heartbeat(**join_fields(subscribed_topic_names=list(names)))]
    assert answers == []
    assert broker.take_steps() >= 1
    assert assigned(answers[0]) is not None
    for _ in range(3):
        answers = broker.heartbeat(member_id="a", member_epoch=broker.group().members["a"].current.epoch)
        broker.take_steps()
    assert len(broker.group().members["a"].current.assigned) == len(names)


# --- leaving ---


def test_partitions_of_a_member_that_left_go_to_the_others(broker: ShareHarness) -> None:
    first, second = Member(broker, "a"), Member(broker, "b")
    settle(first, second)
    answer = broker.ask(member_id="a", member_epoch=-1)
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (ErrorCode.NONE, "a", -1)
    settle(second)
    assert second.partitions == ORDERS


def test_the_last_member_leaves_an_empty_group(broker: ShareHarness) -> None:
    broker.join("a")
    broker.ask(member_id="a", member_epoch=-1)
    group = broker.group()
    assert (group.state_name, group.is_empty, group.epoch, group.target_epoch) == ("Empty", True, 3, 3)
    assert not broker.heartbeat_purgatory.num_delayed
    assert assigned(broker.join("b")) == ORDERS, "the states are there"
    assert broker.group().epoch == 4


def test_a_leaving_member_writes_its_tombstones_and_an_epoch(broker: ShareHarness) -> None:
    broker.join("a")
    before = broker.partition(PARTITION).log.log_end_offset
    broker.ask(member_id="a", member_epoch=-1)
    assert [type(key).__name__ for key, _ in broker.written(before)] == [
        "ShareGroupCurrentMemberAssignmentKey",
        "ShareGroupTargetAssignmentMemberKey",
        "ShareGroupMemberMetadataKey",
        "ShareGroupMetadataKey",
        "ShareGroupTargetAssignmentMetadataKey",
    ]


def test_a_member_that_is_silent_for_its_session_timeout_is_removed(broker: ShareHarness) -> None:
    broker.configure(share_session_timeout_ms="50000")
    broker.join("a")
    broker.advance_ms(49_999)
    broker.ask(member_id="a", member_epoch=2)
    broker.advance_ms(49_999)
    assert list(broker.group().members) == ["a"]
    broker.advance_ms(1)
    assert (list(broker.group().members), broker.group().epoch) == ([], 3)
    assert broker.refusal(member_id="a", member_epoch=2) == ErrorCode.UNKNOWN_MEMBER_ID


# --- waiting for states ---


def test_a_join_waits_for_the_states_and_says_so(broker: ShareHarness) -> None:
    broker.persister.is_held = True
    answers = broker.heartbeat(**join_fields())
    waits = "app waits for orders-0, orders-1, orders-2: the share coordinator has not initialized its state yet"
    assert (answers, broker.parked) == ([], [waits] * 2)
    broker.persister.release()
    assert [assigned(answer) for answer in answers] == [ORDERS]
    assert broker.parked == []


def test_a_join_waits_no_longer_than_it_may_and_partitions_come_later(broker: ShareHarness) -> None:
    broker.persister.is_held = True
    answers = broker.heartbeat(**join_fields())
    broker.advance_ms(MAX_WAIT_MS - 1)
    assert answers == []
    broker.advance_ms(1)
    (answer,) = answers
    assert (answer.member_epoch, assigned(answer), answer.heartbeat_interval_ms) == (1, [], 250)
    broker.persister.release()
    answer = broker.ask(member_id="a", member_epoch=1)
    assert (answer.member_epoch, assigned(answer)) == (2, ORDERS)


def test_members_that_join_together_share_at_once(broker: ShareHarness) -> None:
    broker.persister.is_held = True
    answers = [broker.heartbeat(**join_fields(member_id=each)) for each in "abc"]
    broker.persister.release()
    assert sorted(each for (answer,) in answers for each in assigned(answer) or []) == ORDERS
    assert len({answer.member_epoch for (answer,) in answers}) == 1
    assert len(broker.persister.take_calls()) == 3, "each state is asked for once"


def test_a_member_of_other_topics_does_not_wait(broker: ShareHarness) -> None:
    broker.join("a", "bills")
    broker.persister.is_held = True
    waiting = broker.heartbeat(**join_fields(member_id="b"))
    assert broker.join("c", "bills").error_code == ErrorCode.NONE
    assert waiting == []


def test_a_member_that_goes_while_its_heartbeat_waits_is_told_so(broker: ShareHarness) -> None:
    broker.persister.is_held = True
    answers = broker.heartbeat(**join_fields())
    broker.ask(member_id="a", member_epoch=-1)
    broker.persister.release()
    assert [answer.error_code for answer in answers] == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_heartbeats_that_wait_are_refused_when_another_broker_becomes_coordinator() -> None:
    broker = ShareHarness()
    broker.persister.is_held = True
    answers = broker.heartbeat(**join_fields())
    broker.elect(2, 1)
    broker.work()
    assert [answer.error_code for answer in answers] == [ErrorCode.NOT_COORDINATOR]
    broker.persister.release()
    assert (broker.parked, broker.heartbeat_purgatory.num_delayed) == ([], 0)


def test_heartbeats_that_wait_are_refused_when_the_broker_stops(broker: ShareHarness) -> None:
    broker.persister.is_held = True
    answers = broker.heartbeat(**join_fields())
    purgatory: Purgatory[Any] = broker.share_purgatory
    purgatory.shutdown()
    assert [answer.error_code for answer in answers] == [ErrorCode.NOT_COORDINATOR]


# --- replication, loading ---


def test_answers_wait_for_the_replicas() -> None:
    broker = ShareHarness(replicas=(1, 2))
    answers = broker.heartbeat(**join_fields())
    assert (answers, broker.persister.calls) == ([], []), "no state is asked for by records that may be lost"
    for _ in range(3):
        broker.follow((2, broker.partition(PARTITION).log.log_end_offset), tp=PARTITION)
    assert [assigned(answer) for answer in answers] == [ORDERS]


def test_a_join_that_cannot_be_written_changes_nothing(broker: ShareHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    shard = broker.groups.coordinator.shard_of("app")
    monkeypatch.setattr(broker.groups.coordinator, "shard_of", lambda group_id: shard)
    broker.may_lead = False
    assert broker.ask(**join_fields()).error_code == ErrorCode.NOT_COORDINATOR
    assert not shard.groups
    assert not broker.persister.calls


def told_by_records(group: ShareGroup) -> tuple[object, ...]:
    members = {member_id: (member.current, member.subscription) for member_id, member in group.members.items()}
    epochs = group.epoch, group.metadata_hash, group.target_epoch
    return epochs, group.target, members, group.states, group.memory.used_bytes


def test_a_coordinator_change_keeps_members_and_epochs() -> None:
    broker = ShareHarness(replicas=(1,))
    first, second = Member(broker, "a"), Member(broker, "b", ["orders", "bills"])
    settle(first, second)
    before = broker.group()
    broker.elect_again()
    after = broker.group()
    assert after is not before
    assert told_by_records(after) == told_by_records(before)
    end = broker.partition(PARTITION).log.log_end_offset
    assert not first.beat()
    assert not second.beat()
    assert broker.partition(PARTITION).log.log_end_offset == end, "nothing is written for a change of coordinator"
    assert (first.epoch, second.epoch) == (before.epoch, before.epoch)
    assert broker.heartbeat_purgatory.num_delayed == 2


def test_sessions_begin_anew_at_the_next_coordinator(broker: ShareHarness) -> None:
    broker.join("a")
    broker.advance_ms(44_000)
    broker.elect_again()
    broker.advance_ms(44_999)
    assert list(broker.group().members) == ["a"]
    broker.advance_ms(1)
    assert list(broker.group().members) == []
