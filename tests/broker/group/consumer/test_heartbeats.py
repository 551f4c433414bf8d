"""A member's heartbeats: it joins, is given partitions, gives up partitions, and leaves."""

from __future__ import annotations

import pytest

from purgatorio.broker.group.modern.partitions import to_wire
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.consumer_group_heartbeat import TopicPartitions
from tests.batches import batches_of
from tests.broker.group.consumer.harness import Consumer, ConsumerHarness, is_consistent
from tests.broker.group.harness import PARTITION


@pytest.fixture
def broker() -> ConsumerHarness:
    return ConsumerHarness()


def test_the_first_member_gets_all_partitions_in_epoch_1(broker: ConsumerHarness) -> None:
    one = Consumer(broker, "one")
    one.beat()
    assert one.epoch == 1
    assert one.partitions == [f"orders-{number}" for number in range(6)]
    assert broker.group().state_name == "Stable"


def test_the_records_of_a_join_are_in_one_batch(broker: ConsumerHarness) -> None:
    log = broker.partition(PARTITION).log
    Consumer(broker, "one").beat()
    assert log.log_end_offset == 5
    assert len(batches_of(log.read(0, max_bytes=10_000, end_offset=5).parts)) == 1


def test_a_heartbeat_that_changes_nothing_writes_nothing_and_tells_no_assignment(broker: ConsumerHarness) -> None:
    one = Consumer(broker, "one")
    broker.settle(one)
    before = broker.partition(PARTITION).log.log_end_offset
    answer = broker.ask(member_id="one", member_epoch=1)
    assert (answer.member_epoch, answer.assignment) == (1, None)
    assert broker.partition(PARTITION).log.log_end_offset == before


def test_kafka_16367_a_full_heartbeat_is_told_the_assignment(broker: ConsumerHarness) -> None:
    one = Consumer(broker, "one")
    broker.settle(one)
    answer = broker.ask(member_id="one", member_epoch=1, topic_partitions=[], **one.subscription)
    assert answer.assignment is not None
    assert len(answer.assignment.topic_partitions[0].partitions) == 6


def test_a_member_that_lost_an_answer_within_its_epoch_is_told_the_assignment_again(broker: ConsumerHarness) -> None:
    one, two = Consumer(broker, "one"), Consumer(broker, "two")
    broker.settle(one)
    two.beat()
    one.beat()
    one.beat()
    two.beat(is_answered=False)
    two.beat()
    assert len(two.partitions) == 3


def test_a_second_member_gets_its_share_when_the_first_has_given_it_up(broker: ConsumerHarness) -> None:
    one, two = Consumer(broker, "one"), Consumer(broker, "two")
    broker.settle(one)
    two.beat()
    assert (two.epoch, two.partitions) == (2, [])
    assert broker.group().state_name == "Reconciling"
    one.beat()  # is told to give up three
    assert (one.epoch, len(one.partitions)) == (1, 3)
    two.beat()
    assert two.partitions == []
    one.beat()  # says that it has
    assert one.epoch == 2
    two.beat()
    assert len(two.partitions) == 3
    broker.settle(one, two)
    assert broker.group().state_name == "Stable"
    assert sorted(one.partitions + two.partitions) == [f"orders-{number}" for number in range(6)]


def test_partitions_of_a_member_that_left_go_to_the_others(broker: ConsumerHarness) -> None:
    one, two = Consumer(broker, "one"), Consumer(broker, "two")
    broker.settle(one, two)
    one.leave()
    assert broker.group().state_name == "Assigning"
    broker.settle(two)
    assert len(two.partitions) == 6


def test_the_last_member_leaves_an_empty_group(broker: ConsumerHarness) -> None:
    one = Consumer(broker, "one")
    broker.settle(one)
    one.leave()
    group = broker.group()
    assert (group.state_name, group.is_empty, group.epoch, group.target_epoch) == ("Empty", True, 2, 2)
    assert not [timer for timer in broker.all_timers() if timer.size]


def test_a_member_that_is_silent_for_its_session_timeout_is_removed(broker: ConsumerHarness) -> None:
    one, two = Consumer(broker, "one"), Consumer(broker, "two")
    broker.settle(one, two)
    broker.advance_ms(30_000)
    two.beat()
    broker.advance_ms(15_001)
    assert list(broker.group().members) == ["two"]
    broker.settle(two)
    assert len(two.partitions) == 6
    assert broker.refusal(member_id="one", member_epoch=one.epoch) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_gives_up_nothing_is_removed_after_its_rebalance_timeout(broker: ConsumerHarness) -> None:
    one, two = Consumer(broker, "one", rebalance_timeout_ms=10_000), Consumer(broker, "two")
    broker.settle(one)
    two.beat()
    one.beat()
    for _ in range(11):
        broker.advance_ms(1_000)
        if "one" in broker.group().members:
            broker.ask(member_id="one", member_epoch=1)
    broker.settle(two)
    assert list(broker.group().members) == ["two"]
    assert len(two.partitions) == 6


def test_a_member_that_gave_up_in_time_is_not_removed(broker: ConsumerHarness) -> None:
    one, two = Consumer(broker, "one", rebalance_timeout_ms=10_000), Consumer(broker, "two")
    broker.settle(one)
    two.beat()
    broker.settle(one, two)
    broker.advance_ms(20_000)
    assert sorted(broker.group().members) == ["one", "two"]


def test_a_member_whose_answer_was_lost_is_told_again(broker: ConsumerHarness) -> None:
    one, two = Consumer(broker, "one"), Consumer(broker, "two")
    broker.settle(one)
    two.beat(is_answered=False)
    broker.settle(one, two)
    one.leave()
    two.beat(is_answered=False)  # epoch 3, and all partitions
    assert two.epoch == 2
    broker.settle(two)
    assert (two.epoch, len(two.partitions)) == (3, 6)


@pytest.mark.parametrize("epoch", [1, 3])
def test_a_member_in_another_epoch_is_fenced(broker: ConsumerHarness, epoch: int) -> None:
    one, two = Consumer(broker, "one"), Consumer(broker, "two")
    broker.settle(one)
    broker.settle(one, two)
    assert one.epoch == 2
    assert broker.refusal(member_id="one", member_epoch=epoch) == ErrorCode.FENCED_MEMBER_EPOCH


def test_kafka_19233_a_fenced_member_joins_again_with_its_id(broker: ConsumerHarness) -> None:
    one, two = Consumer(broker, "one"), Consumer(broker, "two")
    broker.settle(one, two)
    one.epoch, one.owned, one.told_owned = 0, {}, None
    broker.settle(one, two)
    assert len(one.partitions) == len(two.partitions) == 3
    assert sorted(broker.group().members) == ["one", "two"]


@pytest.mark.parametrize(
    ("fields", "error_code"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"instance_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"topic_partitions": None}, ErrorCode.INVALID_REQUEST),
        ({"subscribed_topic_names": None}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -3, "instance_id": "i"}, ErrorCode.INVALID_REQUEST),
        ({"server_assignor": "best"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"group_id": "g" * 40_000}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": 1}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"member_epoch": -1}, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_a_wrong_join_is_refused(broker: ConsumerHarness, fields: dict[str, object], error_code: ErrorCode) -> None:
    join = {"member_id": "one", "topic_partitions": [], **Consumer(broker, "one").subscription}
    assert broker.refusal(**{**join, **fields}) == error_code
    assert not broker.groups.coordinator.shard_of("app").groups


@pytest.mark.parametrize("epoch", [1, -1])
def test_an_unknown_member_is_told_so(broker: ConsumerHarness, epoch: int) -> None:
    Consumer(broker, "one").beat()
    assert broker.refusal(member_id="two", member_epoch=epoch) == ErrorCode.UNKNOWN_MEMBER_ID


def test_in_version_0_the_coordinator_makes_the_member_id(broker: ConsumerHarness) -> None:
    join = {"topic_partitions": [], **Consumer(broker, "").subscription}
    first, second = (broker.ask(version=0, **join).member_id for _ in range(2))
    assert first != second
    assert set(broker.group().members) == {first, second}


def test_a_full_group_takes_no_more_members() -> None:
    broker = ConsumerHarness(consumer_max_size=1)
    one = Consumer(broker, "one")
    broker.settle(one)
    assert broker.refusal(**Consumer(broker, "two").request()) == ErrorCode.GROUP_MAX_SIZE_REACHED
    one.leave()
    Consumer(broker, "two").beat()


def test_a_broker_with_the_most_groups_makes_no_more() -> None:
    broker = ConsumerHarness(max_groups=1)
    Consumer(broker, "one").beat()
    refused = {**Consumer(broker, "two").request(), "group_id": "other"}
    assert broker.refusal(**refused) == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_new_partitions_of_a_subscribed_topic_are_assigned(broker: ConsumerHarness) -> None:
    one, other = Consumer(broker, "one"), Consumer(broker, "two", ["bills"], group_id="other")
    broker.settle(one)
    broker.heartbeat(**other.request(), **{})
    broker.create(orders=8, bills=2)
    broker.settle(one)
    assert (one.epoch, len(one.partitions)) == (2, 8)


def test_a_topic_that_is_created_later_is_assigned_then(broker: ConsumerHarness) -> None:
    one = Consumer(broker, "one", ["late"])
    broker.settle(one)
    assert one.partitions == []
    broker.create(orders=6, late=1)
    broker.settle(one)
    assert one.partitions == ["late-0"]


def test_a_deleted_topic_is_taken_away(broker: ConsumerHarness) -> None:
    one = Consumer(broker, "one", ["orders", "bills"])
    broker.settle(one)
    broker.create(orders=6)
    broker.settle(one)
    assert len(one.partitions) == 6


def test_other_topics_begin_no_epoch(broker: ConsumerHarness) -> None:
    one = Consumer(broker, "one")
    broker.settle(one)
    broker.create(orders=6, bills=3)
    broker.settle(one)
    assert one.epoch == 1


def test_a_member_changes_its_subscription(broker: ConsumerHarness) -> None:
    one, two = Consumer(broker, "one"), Consumer(broker, "two")
    broker.settle(one, two)
    one.hear(broker.ask(member_id="one", member_epoch=one.epoch, subscribed_topic_names=["bills"]))
    broker.settle(one, two)
    assert (one.partitions, len(two.partitions)) == (["bills-0", "bills-1"], 6)


def test_the_assignor_that_most_members_name_is_taken(broker: ConsumerHarness) -> None:
    first, second = (Consumer(broker, name, ["orders", "bills"], server_assignor="range") for name in "ab")
    broker.settle(first, second)
    assert first.partitions == ["bills-0", "orders-0", "orders-1", "orders-2"]


def test_answers_wait_for_the_replicas() -> None:
    broker = ConsumerHarness(replicas=(1, 2))
    one = Consumer(broker, "one")
    joined = broker.heartbeat(**one.request())
    again = broker.heartbeat(**one.request())
    assert joined == again == []
    broker.follow((2, 5), tp=PARTITION)
    assert [answer.member_epoch for answer in (*joined, *again)] == [1, 1]
    assert broker.ask(member_id="one", member_epoch=1).error_code == ErrorCode.NONE


def test_what_was_never_replicated_is_not_answered_from() -> None:
    broker = ConsumerHarness(replicas=(1, 2))
    one = Consumer(broker, "one")
    joined = broker.heartbeat(**one.request())
    broker.advance_ms(5_001)
    assert [answer.error_code for answer in joined] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    again = broker.heartbeat(**one.request())
    assert again == []
    broker.follow((2, 5), tp=PARTITION)
    assert [answer.member_epoch for answer in again] == [1]


def test_a_join_that_cannot_be_written_changes_nothing(
    broker: ConsumerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    shard = broker.groups.coordinator.shard_of("app")
    monkeypatch.setattr(broker.groups.coordinator, "shard_of", lambda group_id: shard)
    broker.may_lead = False
    assert broker.ask(**Consumer(broker, "one").request()).error_code == ErrorCode.NOT_COORDINATOR
    assert not shard.groups


def test_members_beat_fast_in_small_groups_and_as_configured_in_large_ones(broker: ConsumerHarness) -> None:
    one = Consumer(broker, "one")
    broker.settle(one)
    assert one.interval_ms == 250
    crowd = [Consumer(broker, f"m{nth:04}", []) for nth in range(1_000)]
    for consumer in crowd:
        consumer.beat()
    broker.settle(one)
    assert 1_000 <= one.interval_ms <= 2_600
    large = ConsumerHarness(consumer_heartbeat_interval_ms=100)
    two = Consumer(large, "two")
    large.settle(two)
    assert two.interval_ms == 100


def test_a_groups_own_session_timeout_holds_from_the_next_heartbeat_on(broker: ConsumerHarness) -> None:
    one = Consumer(broker, "one")
    broker.settle(one)
    broker.image = broker.image.with_group_configs(broker.group().group_id, {"consumer.session.timeout.ms": "60000"})
    one.beat()
    broker.advance_ms(45_001)
    assert list(broker.group().members) == ["one"]
    one.beat()
    broker.image = broker.image.with_group_configs(broker.group().group_id, {})
    one.beat()
    broker.advance_ms(45_001)
    assert not broker.group().members


def test_a_groups_own_heartbeat_interval_is_the_longest_that_its_members_are_asked_for(broker: ConsumerHarness) -> None:
    one, other = Consumer(broker, "one"), Consumer(broker, "two", group_id="other")
    broker.settle(one)
    broker.image = broker.image.with_group_configs(broker.group().group_id, {"consumer.heartbeat.interval.ms": "100"})
    broker.settle(one)
    assert one.interval_ms == 100
    other.beat()
    assert other.interval_ms == 250


def test_a_group_that_is_loaded_goes_on_where_it_was(broker: ConsumerHarness) -> None:
    one, two = Consumer(broker, "one"), Consumer(broker, "two")
    broker.settle(one, two)
    before = broker.group()
    broker.elect_again()
    after = broker.group()
    assert after is not before
    assert (after.epoch, after.target_epoch, after.target) == (before.epoch, before.target_epoch, before.target)
    assert {key: each.current for key, each in after.members.items()} == {
        key: each.current for key, each in before.members.items()
    }
    epochs = one.epoch, two.epoch
    broker.settle(one, two)
    assert (one.epoch, two.epoch) == epochs
    broker.advance_ms(45_001)
    assert not after.members
    assert is_consistent(after)


def test_a_member_that_sends_the_epoch_before_must_not_own_more_than_it_may(broker: ConsumerHarness) -> None:
    one, two = Consumer(broker, "one"), Consumer(broker, "two")
    broker.settle(one)
    everything = to_wire(one.owned, TopicPartitions)
    broker.settle(one, two)
    before = {"member_id": "one", "member_epoch": 1}
    assert broker.refusal(**before, topic_partitions=everything) == ErrorCode.FENCED_MEMBER_EPOCH
    assert broker.refusal(**before) == ErrorCode.FENCED_MEMBER_EPOCH
    answer = broker.ask(**before, topic_partitions=to_wire(one.owned, TopicPartitions))
    assert answer.member_epoch == 2
    assert answer.assignment is not None
