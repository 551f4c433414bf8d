"""States of share partitions come to be: asked for, noted, asked for again after errors and changes of coordinator."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from purgatorio.broker.group.share import initialization
from purgatorio.broker.group.share.initialization import PAUSE_MS
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.group_records import ShareGroupStatePartitionMetadataValue
from tests.broker.group.harness import PARTITION
from tests.broker.group.share.harness import Member, ShareHarness, assigned, settle, topic_id

ORDERS = ["orders-0", "orders-1", "orders-2"]
RETRY_MS = 30_000


@pytest.fixture
def broker() -> ShareHarness:
    return ShareHarness()


def beat(broker: ShareHarness) -> Any:
    """Send a heartbeat of member a in its epoch."""
    return broker.ask(member_id="a", member_epoch=broker.group().members["a"].current.epoch)


def initialized(broker: ShareHarness) -> dict[str, list[int]]:
    return {name: sorted(numbers) for name, numbers in broker.group().states.initialized.values()}


def test_a_record_says_what_is_asked_for_then_what_there_is(broker: ShareHarness) -> None:
    broker.join("a")
    values = [value for _, value in broker.written() if isinstance(value, ShareGroupStatePartitionMetadataValue)]
    assert [
        (
            [each.partitions for each in value.initializing_topics],
            [each.partitions for each in value.initialized_topics],
        )
        for value in values
    ] == [([[0, 1, 2]], []), ([], [[0, 1, 2]])]
    assert [each.topic_name for each in values[1].initialized_topics] == ["orders"]


def test_states_begin_with_the_epoch_of_the_group(broker: ShareHarness) -> None:
    broker.join("a", "bills")
    broker.persister.take_calls()
    broker.join("b", "orders")
    assert broker.persister.take_calls() == [("initialize", each, 3, -1) for each in ORDERS]


def test_states_are_asked_for_once_while_nothing_is_answered(broker: ShareHarness) -> None:
    broker.persister.is_held = True
    broker.heartbeat(member_id="a", member_epoch=0, subscribed_topic_names=["orders"])
    for _ in range(3):
        beat(broker)
    assert len(broker.persister.take_calls()) == 3


def test_partitions_that_failed_are_asked_for_again_after_a_pause_in_a_new_epoch(broker: ShareHarness) -> None:
    broker.persister.errors["orders-1"] = ErrorCode.COORDINATOR_NOT_AVAILABLE
    answer = broker.join("a")
    assert assigned(answer) == ["orders-0", "orders-2"], "the others are assigned"
    assert initialized(broker) == {"orders": [0, 2]}
    assert not broker.group().states.initializing
    assert broker.parked == [
        "app waits for orders-1: the share coordinator could not initialize its state (COORDINATOR_NOT_AVAILABLE), "
        "and will be asked again"
    ]
    broker.persister.take_calls()
    broker.persister.errors.clear()
    broker.advance_ms(PAUSE_MS - 1)
    beat(broker)
    assert broker.persister.take_calls() == []
    broker.advance_ms(1)
    epoch = broker.group().epoch
    beat(broker)
    assert broker.persister.take_calls() == [("initialize", "orders-1", epoch + 1, 0)], "the topic is known by now"
    assert assigned(beat(broker)) == ORDERS
    assert broker.parked == []


def test_partitions_that_fail_for_ever_do_not_keep_the_group_busy(broker: ShareHarness) -> None:
    broker.persister.errors["orders-1"] = ErrorCode.UNKNOWN_SERVER_ERROR
    broker.join("a")
    end = broker.partition(PARTITION).log.log_end_offset
    for _ in range(5):
        beat(broker)
    assert broker.partition(PARTITION).log.log_end_offset <= end + 4, "one epoch is noted, and no more"


def test_an_attempt_that_is_not_answered_in_time_is_made_again_and_fences_the_first(broker: ShareHarness) -> None:
    broker.persister.is_held = True
    broker.heartbeat(member_id="a", member_epoch=0, subscribed_topic_names=["bills"])
    broker.advance_ms(RETRY_MS - 1)
    beat(broker)
    assert len(broker.persister.take_calls()) == 2
    broker.advance_ms(1)
    late = list(broker.persister.held)
    broker.persister.held.clear()
    beat(broker)
    assert broker.persister.take_calls() == [("initialize", "bills-0", 2, -1), ("initialize", "bills-1", 2, -1)]
    broker.persister.release()
    assert assigned(beat(broker)) == ["bills-0", "bills-1"]
    end = broker.partition(PARTITION).log.log_end_offset
    for each in late:
        each()
    assert broker.partition(PARTITION).log.log_end_offset == end, "late answers count no more"
    assert {state.state_epoch for state in broker.persister.states.values()} == {2}


def test_the_next_coordinator_asks_again_for_what_was_not_noted(broker: ShareHarness) -> None:
    broker.persister.is_held = True
    broker.heartbeat(member_id="a", member_epoch=0, subscribed_topic_names=["bills"])
    broker.persister.take_calls()
    broker.elect_again()
    late, broker.persister.held = broker.persister.held, []
    assert broker.group().states.initializing
    beat(broker)
    assert broker.persister.take_calls() == [("initialize", "bills-0", 2, -1), ("initialize", "bills-1", 2, -1)]
    for each in late:
        each()
    assert not initialized(broker), "answers to the coordinator before"
    broker.persister.release()
    assert assigned(beat(broker)) == ["bills-0", "bills-1"]


def test_the_next_coordinator_asks_for_nothing_that_is_noted(broker: ShareHarness) -> None:
    broker.join("a")
    broker.persister.take_calls()
    broker.elect_again()
    beat(broker)
    assert broker.persister.take_calls() == []


def test_an_attempt_whose_record_was_not_committed_in_time_asks_later() -> None:
    broker = ShareHarness(replicas=(1, 2))
    answers = broker.heartbeat(member_id="a", member_epoch=0, subscribed_topic_names=["bills"])
    broker.advance_ms(5_001)
    assert [answer.error_code for answer in answers] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert broker.persister.take_calls() == []
    again = broker.heartbeat(member_id="a", member_epoch=0, subscribed_topic_names=["bills"])
    for _ in range(4):
        broker.follow((2, broker.partition(PARTITION).log.log_end_offset), tp=PARTITION)
    assert [call[1:] for call in broker.persister.take_calls()] == [("bills-0", 2, -1), ("bills-1", 2, -1)]
    assert [assigned(answer) for answer in again] == [["bills-0", "bills-1"]]


def test_many_partitions_are_asked_for_in_several_attempts(
    broker: ShareHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(initialization, "MAX_PER_ATTEMPT", 4)
    broker.create(orders=10)
    member = Member(broker, "a")
    settle(member)
    calls = broker.persister.take_calls()
    assert {start_offset for _, _, _, start_offset in calls} == {-1}, "they are all there from the beginning"
    by_epoch = Counter(state_epoch for _, _, state_epoch, _ in calls)
    assert sorted(by_epoch.values()) == [2, 4, 4]
    assert len(member.partitions) == 10


# --- topics ---


def test_new_partitions_of_a_topic_get_a_state_and_are_assigned(broker: ShareHarness) -> None:
    broker.join("a")
    broker.persister.take_calls()
    broker.create(orders=5, bills=2)
    beat(broker)
    calls = broker.persister.take_calls()
    assert [(partition, start) for _, partition, _, start in calls] == [("orders-3", 0), ("orders-4", 0)]
    assert assigned(beat(broker)) == [*ORDERS, "orders-3", "orders-4"]


def test_new_partitions_of_a_topic_whose_first_ones_get_their_states_begin_with_their_first_records(
    broker: ShareHarness,
) -> None:
    broker.persister.is_held = True
    broker.heartbeat(member_id="a", member_epoch=0, subscribed_topic_names=["bills"])
    broker.create(orders=3, bills=3)
    beat(broker)
    starts = [(partition, start) for _, partition, _, start in broker.persister.take_calls()]
    assert starts == [("bills-0", -1), ("bills-1", -1), ("bills-2", 0)]


def test_partitions_beside_one_whose_start_offset_was_altered_begin_with_their_first_records(
    broker: ShareHarness,
) -> None:
    """KAFKA-20742: the topic is known to the group already."""
    broker.groups.share.offsets.alter("app", {"bills": {0: 7}}, lambda failures: None)
    broker.persister.take_calls()
    broker.join("a", "bills")
    assert [(partition, start) for _, partition, _, start in broker.persister.take_calls()] == [("bills-1", 0)]


def test_a_deleted_topic_is_taken_away_and_its_states_are_deleted(broker: ShareHarness) -> None:
    broker.join("a", "orders", "bills")
    broker.persister.take_calls()
    broker.create(orders=3)
    assert broker.forget() == 1
    assert broker.persister.take_calls() == [("delete", "bills-0"), ("delete", "bills-1")]
    assert broker.group().states.topic_ids == {topic_id("orders")}
    assert assigned(beat(broker)) == ORDERS
    values = [value for _, value in broker.written() if isinstance(value, ShareGroupStatePartitionMetadataValue)]
    assert [[each.topic_name for each in value.deleting_topics] for value in values[-2:]] == [["bills"], []]


def test_a_deleted_topic_is_forgotten_also_if_its_states_cannot_be_deleted(broker: ShareHarness) -> None:
    broker.join("a", "bills")
    broker.persister.errors["bills-0"] = ErrorCode.UNKNOWN_SERVER_ERROR
    broker.create(orders=3)
    broker.forget()
    assert not broker.group().states.topic_ids


def test_the_states_of_a_deleted_topic_which_the_share_coordinators_delete_themselves_are_no_failure(
    broker: ShareHarness, caplog: pytest.LogCaptureFixture
) -> None:
    broker.join("a", "bills")
    broker.persister.errors["bills-0"] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    broker.create(orders=3)
    broker.forget()
    assert (broker.group().states.topic_ids, caplog.text) == (frozenset(), "")


def test_a_topic_that_was_deleted_while_another_broker_coordinated_is_forgotten(broker: ShareHarness) -> None:
    broker.join("a", "bills")
    broker.elect(2, 1, (1,))
    broker.work()
    broker.elect(1, 2, (1,))
    broker.work()
    broker.advance_ms(1_000)
    broker.persister.take_calls()
    broker.forget()
    assert broker.persister.take_calls() == [("delete", "bills-0"), ("delete", "bills-1")]
    assert not broker.group().states.topic_ids


def test_other_topics_begin_no_epoch(broker: ShareHarness) -> None:
    broker.join("a")
    broker.create(orders=3, bills=5, letters=1)
    assert (beat(broker).assignment, broker.group().epoch) == (None, 2)
