"""The start offsets of share groups are described with their lag, altered, and deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from purgatorio.broker.coordinator.end_offsets import EndOffset
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.share.offsets import StartOffset, TopicStarts
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.time import long_work
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.primitives import ZERO_UUID
from purgatorio.protocol.share_state import SharePartitionKey
from tests.broker.group.fake_persister import FakeState
from tests.broker.group.harness import PARTITION
from tests.broker.group.share.harness import ShareHarness, assigned, topic_id

BILLS = [TopicPartition("bills", 0), TopicPartition("bills", 1)]


@pytest.fixture
def broker() -> ShareHarness:
    return ShareHarness()


@pytest.fixture
def empty(broker: ShareHarness) -> ShareHarness:
    """A group without members that has states of bills."""
    broker.join("a", "bills")
    broker.ask(member_id="a", member_epoch=-1)
    broker.persister.take_calls()
    return broker


def describe(broker: ShareHarness, topics: Any = None, group_id: str = "app") -> list[TopicStarts]:
    found: list[list[TopicStarts]] = []
    offsets = broker.groups.share.offsets
    offsets.describe(group_id, offsets.initialized(group_id) if topics is None else topics, found.append)
    return found[0]


def alter(broker: ShareHarness, group_id: str = "app", **starts: Mapping[int, int]) -> list[dict[str, str]]:
    """Alter offsets; returns the partitions that failed, with their errors, once that is answered."""
    answers: list[dict[str, str]] = []
    broker.groups.share.offsets.alter(
        group_id, starts, lambda failed: answers.append({str(tp): code.name for tp, code in failed.items()})
    )
    return answers


def delete(broker: ShareHarness, *topics: str, group_id: str = "app") -> list[dict[str, str]]:
    answers: list[dict[str, str]] = []
    broker.groups.share.offsets.delete(
        group_id, topics, lambda failed: answers.append({name: code.name for name, code in failed.items()})
    )
    return answers


def refused(action: Any, *arguments: Any, **named: Any) -> ErrorCode:
    with pytest.raises(CoordinatorError) as error:
        action(*arguments, **named)
    return error.value.error_code


# --- describe ---


def test_the_lag_is_what_is_not_done_with(broker: ShareHarness) -> None:
    broker.join("a", "bills")
    key = SharePartitionKey("app", topic_id("bills"), 1)
    broker.persister.states[key] = FakeState(1, 10, leader_epoch=4, delivery_complete_count=3)
    broker.ends[BILLS[1]] = EndOffset(ErrorCode.NONE, 20)
    assert describe(broker) == [
        TopicStarts("bills", topic_id("bills"), [StartOffset(0, -1, 0, -1), StartOffset(1, 10, 4, 7)])
    ]


def test_a_lag_that_cannot_be_known_is_minus_1(broker: ShareHarness) -> None:
    broker.join("a", "bills")
    broker.persister.states[SharePartitionKey("app", topic_id("bills"), 0)] = FakeState(1, 10, 4, -1)
    broker.persister.errors["bills-1"] = ErrorCode.COORDINATOR_NOT_AVAILABLE
    ((_, _, starts),) = describe(broker)
    assert starts == [StartOffset(0, 10, 4, -1), StartOffset(1)], "an error is an absence, as in OffsetFetch"


def test_the_error_of_a_log_end_is_that_of_its_partition(broker: ShareHarness) -> None:
    broker.join("a", "bills")
    broker.persister.states[SharePartitionKey("app", topic_id("bills"), 0)] = FakeState(1, 10)
    broker.ends[BILLS[0]] = EndOffset(ErrorCode.LEADER_NOT_AVAILABLE)
    ((_, _, starts),) = describe(broker)
    assert starts[0] == StartOffset(0, error_code=ErrorCode.LEADER_NOT_AVAILABLE)


def test_named_partitions_are_described_whatever_there_is(broker: ShareHarness) -> None:
    assert describe(broker, [("bills", [0, 9]), ("nothing", [1])]) == [
        TopicStarts("bills", topic_id("bills"), [StartOffset(0, -1, -1), StartOffset(9)]),
        TopicStarts("nothing", ZERO_UUID, [StartOffset(1)]),
    ]
    assert describe(broker, []) == describe(broker) == describe(broker, group_id="unknown") == []
    broker.join("a", "bills")
    assert [each.name for each in describe(broker)] == ["bills"]
    broker.create(orders=1)
    assert describe(broker) == [], "nor is a topic that was deleted"


def test_another_broker_is_asked_if_it_coordinates_the_group(broker: ShareHarness) -> None:
    broker.elect(2, 1)
    broker.work()
    for action in (describe, alter, delete):
        assert refused(action, broker) == ErrorCode.NOT_COORDINATOR


# --- alter ---


def test_new_states_begin_at_the_offsets_in_a_new_epoch(empty: ShareHarness) -> None:
    epoch = empty.group().epoch
    assert alter(empty, bills={0: 7, 1: 0}) == [{}]
    assert empty.persister.take_calls() == [
        ("initialize", "bills-0", epoch + 1, 7),
        ("initialize", "bills-1", epoch + 1, 0),
    ]
    assert (empty.group().epoch, empty.group().states.initialized[topic_id("bills")].numbers) == (epoch + 1, {0, 1})
    assert assigned(empty.join("b", "bills")) == ["bills-0", "bills-1"]
    assert empty.persister.take_calls() == []


def test_many_offsets_are_altered_in_turns_of_the_loop(broker: ShareHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_work, "SLICE", 12)
    broker.create(wide=10)
    answers = alter(broker, wide=dict.fromkeys(range(10), 7))
    assert (answers, len(broker.persister.take_calls())) == ([], 4)
    broker.group_work.turn()
    assert (answers, len(broker.persister.take_calls())) == ([], 4)
    broker.take_steps()
    assert (answers, len(broker.persister.take_calls())) == ([{}], 2)
    assert broker.group().states.initialized[topic_id("wide")].numbers == set(range(10))


def test_a_group_that_moves_on_the_way_asks_for_no_more(broker: ShareHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_work, "SLICE", 12)
    broker.create(wide=10)
    answers = alter(broker, wide=dict.fromkeys(range(10), 7))
    broker.elect(2, 1)
    broker.work()
    broker.persister.take_calls()
    broker.take_steps()
    assert broker.persister.take_calls() == []
    assert set(answers[0].values()) == {"NOT_COORDINATOR"}


def test_a_group_comes_to_be_by_its_offsets(broker: ShareHarness) -> None:
    assert alter(broker, bills={1: 3}) == [{}]
    assert (broker.group().state_name, broker.group().epoch) == ("Empty", 1)
    assert assigned(broker.join("a", "bills")) == ["bills-0", "bills-1"]
    assert broker.persister.states[SharePartitionKey("app", topic_id("bills"), 1)].start_offset == 3


def test_partitions_that_failed_are_told_and_their_old_states_stay(empty: ShareHarness) -> None:
    empty.persister.errors["bills-1"] = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert alter(empty, bills={0: 7, 1: 7}) == [{"bills-1": "COORDINATOR_NOT_AVAILABLE"}]
    assert empty.group().states.initialized[topic_id("bills")].numbers == {0, 1}
    assert not empty.group().states.initializing


def test_offsets_of_a_group_with_members_are_not_altered(broker: ShareHarness) -> None:
    broker.join("a", "bills")
    assert refused(alter, broker, bills={0: 7}) == ErrorCode.NON_EMPTY_GROUP


def test_wrong_groups_are_refused(broker: ShareHarness) -> None:
    assert refused(alter, broker, "") == refused(delete, broker, group_id="") == ErrorCode.INVALID_GROUP_ID
    assert refused(delete, broker, "bills") == ErrorCode.GROUP_ID_NOT_FOUND


def test_offsets_are_not_altered_while_states_are_being_initialized(broker: ShareHarness) -> None:
    broker.persister.is_held = True
    broker.heartbeat(member_id="a", member_epoch=0, subscribed_topic_names=["bills"])
    broker.ask(member_id="a", member_epoch=-1)
    assert refused(alter, broker, bills={0: 7}) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert refused(broker.groups.cleaner.delete_group, "app", print) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert alter(broker, orders={0: 1}) == [], "other topics may be"
    broker.persister.release()
    assert alter(broker, bills={0: 7}) == []
    broker.persister.release()
    assert broker.persister.states[SharePartitionKey("app", topic_id("bills"), 0)].start_offset == 7


def test_a_request_to_alter_is_answered_when_the_coordinator_changes(empty: ShareHarness) -> None:
    empty.persister.is_held = True
    answers = alter(empty, bills={0: 7})
    empty.elect(2, 1)
    empty.work()
    assert answers == [{"bills-0": "NOT_COORDINATOR"}]
    empty.persister.release()
    assert len(answers) == 1


def test_a_request_to_alter_is_answered_when_there_is_no_answer_in_time(empty: ShareHarness) -> None:
    empty.persister.is_held = True
    answers = alter(empty, bills={0: 7})
    empty.advance_ms(30_000)
    assert answers == [{"bills-0": "REQUEST_TIMED_OUT"}]


def test_offsets_that_cannot_be_written_are_not_altered(empty: ShareHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    shard = empty.groups.coordinator.shard_of("app")
    monkeypatch.setattr(empty.groups.coordinator, "shard_of", lambda group_id: shard)
    empty.may_lead = False
    assert alter(empty, bills={0: 7}) == [{"bills-0": "NOT_COORDINATOR"}]
    assert delete(empty, "bills") == [{"bills": "NOT_COORDINATOR"}]
    assert (empty.persister.calls, empty.group().deletions) == ([], {})


# --- delete ---


def test_states_of_whole_topics_are_deleted(empty: ShareHarness) -> None:
    assert delete(empty, "bills", "orders", "nothing", "bills") == [
        {"orders": "UNKNOWN_TOPIC_OR_PARTITION", "nothing": "UNKNOWN_TOPIC_OR_PARTITION"}
    ]
    assert empty.persister.take_calls() == [("delete", "bills-0"), ("delete", "bills-1")]
    assert not empty.group().states.topic_ids
    assert assigned(empty.join("b", "bills")) == ["bills-0", "bills-1"]
    assert [call[0] for call in empty.persister.take_calls()] == ["initialize"] * 2


def test_states_that_could_not_be_deleted_can_be_deleted_again(empty: ShareHarness) -> None:
    empty.persister.errors["bills-1"] = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert delete(empty, "bills") == [{"bills": "COORDINATOR_NOT_AVAILABLE"}]
    assert list(empty.group().states.deleting.values()) == ["bills"]
    empty.persister.errors.clear()
    empty.persister.take_calls()
    assert delete(empty, "bills") == [{}]
    assert empty.persister.take_calls() == [("delete", "bills-0"), ("delete", "bills-1")]
    assert not empty.group().states.topic_ids


def test_offsets_of_a_group_with_members_are_not_deleted(broker: ShareHarness) -> None:
    broker.join("a", "bills")
    assert refused(delete, broker, "bills") == ErrorCode.NON_EMPTY_GROUP


def test_a_member_that_joins_while_states_are_deleted_gets_new_ones_later(empty: ShareHarness) -> None:
    empty.persister.is_held = True
    answers = delete(empty, "bills")
    assert assigned(empty.join("b", "bills")) == []
    assert [call[0] for call in empty.persister.take_calls()] == ["delete", "delete"]
    empty.persister.is_held = False
    empty.persister.release()
    assert answers == [{}]
    empty.ask(member_id="b", member_epoch=empty.group().epoch)
    assert [call[0] for call in empty.persister.take_calls()] == ["initialize", "initialize"]
    assert assigned(empty.ask(member_id="b", member_epoch=empty.group().epoch)) == ["bills-0", "bills-1"]


# --- the whole group ---


def delete_group(broker: ShareHarness) -> list[ErrorCode]:
    errors: list[ErrorCode] = []
    broker.groups.cleaner.delete_group("app", errors.append)
    broker.clean()
    return errors


def test_a_group_is_deleted_with_its_states_first(empty: ShareHarness) -> None:
    empty.persister.is_held = True
    errors = delete_group(empty)
    assert (errors, "app" in empty.groups.coordinator.shard_of("app").groups) == ([], True)
    assert empty.refusal(member_id="b", member_epoch=0, subscribed_topic_names=["bills"]) == (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    )
    assert refused(delete_group, empty) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    empty.persister.release()
    empty.clean()
    assert (errors, empty.persister.states) == ([ErrorCode.NONE], {})
    assert not empty.groups.coordinator.shard_of("app").groups
    tombstones = [type(key).__name__ for key, value in empty.written() if value is None][-3:]
    assert tombstones == [
        "ShareGroupTargetAssignmentMetadataKey",
        "ShareGroupStatePartitionMetadataKey",
        "ShareGroupMetadataKey",
    ]
    empty.elect_again()
    assert not empty.groups.coordinator.shard_of("app").groups
    assert refused(delete_group, empty) == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_whose_states_cannot_be_deleted_stays_and_can_be_deleted_again(empty: ShareHarness) -> None:
    empty.persister.errors["bills-0"] = ErrorCode.UNKNOWN_SERVER_ERROR
    assert delete_group(empty) == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert empty.group().is_empty
    empty.persister.errors.clear()
    assert delete_group(empty) == [ErrorCode.NONE]
    assert empty.persister.states == {}


def test_a_group_with_members_is_not_deleted(broker: ShareHarness) -> None:
    broker.join("a")
    assert refused(delete_group, broker) == ErrorCode.NON_EMPTY_GROUP
    assert broker.ask(member_id="a", member_epoch=2).error_code == ErrorCode.NONE


def test_a_deletion_that_another_broker_would_end_is_refused(empty: ShareHarness) -> None:
    empty.persister.is_held = True
    errors = delete_group(empty)
    empty.elect(2, 1)
    empty.work()
    empty.persister.release()
    assert errors == [ErrorCode.NOT_COORDINATOR]


def test_what_groups_keep_is_counted(broker: ShareHarness) -> None:
    from tests.broker.group.counted import check_counts

    broker.join("a", "bills", "orders")
    broker.join("b")
    assert check_counts(broker.groups) > 0
    for member_id in "ab":
        broker.ask(member_id=member_id, member_epoch=-1)
    check_counts(broker.groups)
    delete_group(broker)
    assert check_counts(broker.groups) == 0
    assert broker.partition(PARTITION).log.log_end_offset > 0
