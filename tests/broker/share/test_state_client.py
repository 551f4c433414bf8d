"""The client of states finds coordinators, asks them, and asks again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from purgatorio.broker.causes.words import in_words
from purgatorio.broker.coordinator import broker_calls
from purgatorio.broker.coordinator.broker_calls import LARGE, MAX_HERE
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.topic_name import SHARE_GROUP_STATE_TOPIC
from purgatorio.broker.share.persister import ShareState
from purgatorio.broker.share.state.coordinator import StateOutcome
from purgatorio.broker.share.state_client import QUICK_RETRIES_MS
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.share_state import SharePartitionKey, StateBatch
from tests.broker.share.state_client_world import BILLS_ID, KEY, ORDERS_ID, Told, World, batch, states
from tests.logs import capture_logs

QUICK_MS = sum(QUICK_RETRIES_MS)
CALLS: list[tuple[str, ApiKey, int, Callable[[World], Told]]] = [
    ("initialize", ApiKey.INITIALIZE_SHARE_GROUP_STATE, 0, World.initialize),
    ("read", ApiKey.READ_SHARE_GROUP_STATE, 0, World.read),
    ("write", ApiKey.WRITE_SHARE_GROUP_STATE, 1, World.write),
    ("delete", ApiKey.DELETE_SHARE_GROUP_STATE, 0, World.delete),
    ("summary", ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, 1, World.summary),
]
EACH = pytest.mark.parametrize(("name", "api_key", "version", "call"), CALLS, ids=[each[0] for each in CALLS])
PASSING = [
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
]


# --- where calls go ---


@EACH
def test_the_coordinator_of_this_broker_is_called(
    name: str, api_key: ApiKey, version: int, call: Callable[[World], Told]
) -> None:
    world = World(states(1))
    told = call(world)
    (here,) = world.coordinator.asked
    assert (here.name, here.key, world.sent, told.answers) == (name, KEY, [], [])
    here.done(StateOutcome())
    assert told.error == ErrorCode.NONE
    assert world.client.under_way == 0


@EACH
def test_the_coordinator_of_another_broker_is_asked(
    name: str, api_key: ApiKey, version: int, call: Callable[[World], Told]
) -> None:
    world = World(states(2))
    told = call(world)
    sent = world.only()
    assert (sent.broker_id, sent.api_key, sent.version, sent.keys) == (2, api_key, version, [KEY])
    sent.answer()
    assert told.error == ErrorCode.NONE


@pytest.mark.parametrize("leader", [1, 2])
def test_both_ways_tell_the_coordinator_the_same(leader: int) -> None:
    world = World(states(leader))
    world.read(leader_epoch=6)
    world.write(batch(3, 5), start_offset=3)
    world.initialize(start_offset=7, state_epoch=9)
    if leader == 1:
        told = [each.arguments for each in world.coordinator.asked]
        told[1]["state_batches"] = told[1].pop("batches")
    else:
        entries = [each.entries[0] for each in world.take()]
        told = [{name: getattr(each, name) for name in each.__slots__ if name != "partition"} for each in entries]
    assert told == [
        {"leader_epoch": 6},
        {
            "state_epoch": 1,
            "leader_epoch": 4,
            "start_offset": 3,
            "delivery_complete_count": 2,
            "state_batches": [batch(3, 5)],
        },
        {"state_epoch": 9, "start_offset": 7},
    ]


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.FENCED_STATE_EPOCH])
def test_a_state_is_read_after_all_writes_of_it_have_ended(error: ErrorCode) -> None:
    """They may be those of a share partition that was dropped: what it writes later would undo what follows."""
    world = World(states(1))
    first, second = world.write(), world.write()
    told, other = world.read(), world.read(KEY._replace(group_id="others"))
    assert [each.name for each in world.coordinator.asked] == ["write", "write", "read"]
    world.coordinator.asked[2].done(StateOutcome())
    world.coordinator.asked[0].done(StateOutcome())
    assert (first.error, other.error, told.answers) == (ErrorCode.NONE, ErrorCode.NONE, [])
    world.coordinator.asked[1].done(StateOutcome(error))
    assert second.error == error
    world.coordinator.asked[3].done(StateOutcome())
    assert (told.error, world.client.under_way) == (ErrorCode.NONE, 0)


def test_what_is_read_comes_from_the_answer() -> None:
    world = World(states(2))
    told = world.read(leader_epoch=6)
    world.only().answer(state_epoch=3, start_offset=10, state_batches=[batch(11, 12)])
    assert told.state == ShareState(3, 6, 10, -1, (batch(11, 12),))
    told = world.summary()
    world.only().answer(state_epoch=3, leader_epoch=6, start_offset=10, delivery_complete_count=2)
    assert told.state == ShareState(3, 6, 10, 2)


def test_the_topic_of_states_is_created_once_and_the_calls_go_on_when_it_has_a_leader() -> None:
    world = World()
    told = [world.initialize(), world.initialize(SharePartitionKey("other", ORDERS_ID, 1))]
    assert len(world.creating) == 1
    world.elect(states(-1))
    assert world.sent == []
    world.elect(states(2, epoch=1))
    for each in world.take():
        each.answer()
    assert [each.error for each in told] == [ErrorCode.NONE] * 2


def test_a_creation_that_failed_is_tried_again() -> None:
    world = World()
    world.initialize()
    world.creating[0]()
    world.advance_ms(QUICK_RETRIES_MS[0])
    assert len(world.creating) == 2


# --- errors ---


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.FENCED_STATE_EPOCH,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
@pytest.mark.parametrize("leader", [1, 2])
def test_an_error_that_stays_is_told_at_once(error: ErrorCode, leader: int) -> None:
    world = World(states(leader))
    world.coordinator.answers.append(StateOutcome(error))
    told = world.write()
    for each in world.take():
        each.answer(error)
    assert (told.error, told.state) == (error, None)


@pytest.mark.parametrize("error", PASSING)
@pytest.mark.parametrize("leader", [1, 2])
def test_an_error_that_passes_is_followed_by_quick_retries_then_by_slower_ones(error: ErrorCode, leader: int) -> None:
    world = World(states(leader), retries=3, backoff_ms=1_000, max_backoff_ms=2_000)
    told = world.read()

    def refuse() -> None:
        for each in world.take():
            each.answer(error)
        for here in world.coordinator.asked:
            here.done(StateOutcome(error))
        world.coordinator.asked.clear()

    def is_asked() -> bool:
        return bool(world.sent or world.coordinator.asked)

    for wait_ms in (*QUICK_RETRIES_MS, 1_000, 2_000, 2_000):
        refuse()
        world.advance_ms(wait_ms - 1)
        assert not is_asked()
        world.advance_ms(1)
        assert is_asked()
        assert told.answers == []
    refuse()
    assert told.error == error


def test_a_broker_that_cannot_be_reached_is_as_one_without_a_coordinator() -> None:
    world = World(states(2), retries=0)
    told = world.write()
    for _ in range(3):
        world.only().fail()
        world.advance_ms(max(QUICK_RETRIES_MS))
    assert told.error == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_an_answer_that_lacks_a_share_partition_is_none() -> None:
    world = World(states(2))
    told = world.read()
    sent = world.only()
    sent.request.topics = []
    sent.answer()
    assert told.answers == []
    world.advance_ms(QUICK_RETRIES_MS[0])
    world.only().answer()
    assert told.error == ErrorCode.NONE


def test_a_partition_that_this_broker_does_not_know_either_is_not_asked_for_again() -> None:
    world = World(states(2))
    told = world.delete()
    world.elect(deleted=["orders"])
    world.only().answer(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert told.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_failure_of_this_brokers_coordinator_is_logged_and_told() -> None:
    world = World(states(1))
    world.coordinator.raises = ZeroDivisionError("bug")
    with capture_logs() as logged:
        assert world.read().error == ErrorCode.UNKNOWN_SERVER_ERROR
    assert [each["event"] for each in logged] == ["a call of this broker failed"]


def test_a_caller_that_fails_does_not_keep_the_answers_from_others() -> None:
    world = World(states(2))

    def fail(error_code: ErrorCode) -> None:
        raise ZeroDivisionError

    world.client.delete(KEY, done=fail)
    told = world.delete(SharePartitionKey("billing", BILLS_ID, 0))
    with capture_logs() as logged:
        for each in world.take():
            each.answer()
    assert told.error == ErrorCode.NONE
    assert [each["event"] for each in logged] == ["the answer to a call could not be noted"]


def test_too_many_calls_at_once_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_calls, "MAX_CALLS", 2)
    world = World(states(2))
    told = [world.read(SharePartitionKey("billing", ORDERS_ID, each)) for each in range(3)]
    assert [each.answers for each in told[:2]] == [[], []]
    assert told[2].error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    for each in world.take():
        each.answer()
    assert [each.error for each in told[:2]] == [ErrorCode.NONE] * 2
    assert world.client.under_way == 0


# --- waits ---


def test_a_wait_is_a_delayed_operation_that_tells_its_cause() -> None:
    world = World(states(2), retries=5)
    world.write()
    world.only().answer(ErrorCode.NOT_COORDINATOR)
    operation = world.waiting
    assert KEY in operation.keys
    assert TopicPartition(SHARE_GROUP_STATE_TOPIC, 0) in operation.keys
    assert operation.held_by() == (2,)
    assert in_words(operation.causes()) == (
        "orders-0: the call to write the state of share group billing failed at broker 2 (NOT_COORDINATOR), "
        "with 5 retries left"
    )


def test_a_wait_for_any_coordinator_tells_that_there_is_none() -> None:
    world = World(states(-1))
    world.read()
    operation = world.waiting
    assert operation.held_by() == ()
    assert in_words(operation.causes()) == (
        "orders-0: the call to read the state of share group billing has no broker to go to"
    )


def test_a_wait_of_a_topic_that_is_gone_names_its_id() -> None:
    world = World(states(-1))
    world.read(SharePartitionKey("a:b", b"?" * 16, 7))
    operation = world.waiting
    (cause,) = operation.causes()
    assert cause.tp == TopicPartition("Pz8_Pz8_Pz8_Pz8_Pz8_Pw", 7)


def test_another_coordinator_ends_the_wait_at_once() -> None:
    world = World(states(2), retries=1)
    told = world.read()
    for _ in range(3):
        world.only().answer(ErrorCode.NOT_COORDINATOR)
        world.elect(states(-1, epoch=1))
        world.elect(states(2, epoch=1))
        assert world.sent == []
        world.elect(states(3, epoch=2))
        sent = world.only()
        assert sent.broker_id == 3
        sent.answer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        world.elect(states(2, epoch=3))
    world.only().answer()
    assert told.error == ErrorCode.NONE
    assert {each.outcome for each in world.finished} == {"completed"}
    assert {each.cause for each in world.finished} == {"share coordinator"}


def test_another_coordinator_is_asked_quickly_again() -> None:
    """It may still be loading."""
    world = World(states(2), retries=1)
    world.read()
    for wait_ms in QUICK_RETRIES_MS:
        world.only().answer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        world.advance_ms(wait_ms)
    world.only().answer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    world.elect(states(3, epoch=1))
    for wait_ms in QUICK_RETRIES_MS:
        world.only().answer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        world.advance_ms(wait_ms)
    assert [each.broker_id for each in world.take()] == [3]


def test_a_wait_does_not_end_by_changes_of_other_partitions() -> None:
    world = World(states(2, 2, 2, 2, 2))
    world.read()
    world.only().answer(ErrorCode.NOT_COORDINATOR)
    index = next(key.partition for key in world.waiting.keys if isinstance(key, TopicPartition))
    world.elect(states(*(2 if each == index else 3 for each in range(5)), epoch=1))
    assert world.sent == []


def test_a_broker_that_stops_ends_its_calls() -> None:
    world = World(states(2))
    told = world.read()
    waiting = world.only()
    other = world.write()
    later = world.only()
    waiting.answer(ErrorCode.NOT_COORDINATOR)
    world.calls.stop()
    world.purgatory.shutdown()
    assert told.error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    later.fail(ConnectionAbortedError("this broker stops"))
    assert other.error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.client.under_way == 0


def test_a_broker_that_stops_parks_no_call() -> None:
    """Its purgatory may be made by that very call, and nothing would end it."""
    world = World(states(2))
    told = world.read()
    world.calls.stop()
    world.only().answer(ErrorCode.NOT_COORDINATOR)
    assert told.error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.purgatory.num_delayed == 0


# --- many calls of this broker's coordinator ---


def keys(count: int) -> list[SharePartitionKey]:
    return [SharePartitionKey(f"group-{number}", ORDERS_ID, 0) for number in range(count)]


def test_calls_of_this_brokers_coordinator_are_spread_over_turns() -> None:
    """A group that begins with thousands of partitions must not hold the loop."""
    world = World(states(1))
    told = [world.initialize(each) for each in keys(3 * MAX_HERE + 1)]
    assert len(world.coordinator.asked) == MAX_HERE
    steps = world.calls.steps()
    for made in (2, 3):
        next(steps)
        assert len(world.coordinator.asked) == made * MAX_HERE
    world.initialize(KEY)
    assert world.turn() == 1
    assert [each.key for each in world.coordinator.asked] == [*keys(3 * MAX_HERE + 1), KEY]
    for here in world.coordinator.asked:
        here.done(StateOutcome())
    assert [each.error for each in told] == [ErrorCode.NONE] * len(told)


def test_each_turn_has_room_for_as_many_calls() -> None:
    world = World(states(1))
    for turn in range(1, 4):
        for each in keys(MAX_HERE):
            world.read(each)
        assert len(world.coordinator.asked) == turn * MAX_HERE
        assert world.turn() == 0


def test_a_large_write_has_a_turn_almost_for_itself() -> None:
    """A request that acknowledges every other record of a batch has taken half of what a turn may take already."""
    world = World(states(1))
    large = [StateBatch(first_offset=2 * nth, last_offset=2 * nth, delivery_state=2) for nth in range(LARGE)]
    for each in keys(2):
        world.write(*large, key=each)
    world.write(key=KEY)
    assert [each.key for each in world.coordinator.asked] == [KEY]
    steps = world.calls.steps()
    for made in (2, 3):
        next(steps)
        assert len(world.coordinator.asked) == made
    assert list(steps) == []


def test_calls_that_wait_for_a_turn_go_to_where_their_coordinator_is_by_then() -> None:
    world = World(states(1))
    for each in keys(MAX_HERE + 1):
        world.read(each)
    world.elect(states(2, epoch=1))
    world.turn()
    assert world.only().keys == keys(MAX_HERE + 1)[-1:]


def test_a_broker_that_stops_ends_calls_that_wait_for_a_turn() -> None:
    world = World(states(1))
    told = [world.read(each) for each in keys(MAX_HERE + 2)]
    world.calls.stop()
    assert [each.error for each in told[-2:]] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
    told = [world.read(each) for each in keys(2)]
    assert len(world.coordinator.asked) == MAX_HERE + 2
    assert world.turn() == 0
