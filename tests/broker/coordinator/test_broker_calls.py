"""Calls go to leaders, share requests, wait and follow; what users have of their own is tested with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from purgatorio.broker.causes.kinds import END_OFFSET
from purgatorio.broker.causes.words import in_words
from purgatorio.broker.coordinator import broker_calls
from purgatorio.broker.coordinator.broker_calls import Answer, BrokerCalls, Call, CallKind, Retries
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import NO_LEADER, BrokerIncarnation, ClusterImage, PartitionState, Topic
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.purgatory import ActionQueue, FinishedOperation, Purgatory, Timer
from purgatorio.purgatory.clock import ManualClock
from tests.broker.time.by_hand import HandWork, slices

HERE = 1
ORDERS_0 = TopicPartition("orders", 0)
ORDERS_1 = TopicPartition("orders", 1)
REFUSED = Answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)


class Echo(CallKind[Call]):
    """Calls whose answers the test gives."""

    row = END_OFFSET
    api_key = ApiKey.LIST_OFFSETS
    version = 0
    passing = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE})
    retries = Retries(100, 300, times=3, quick_ms=(10,))

    def __init__(self) -> None:
        self.here_calls: list[tuple[list[Call], Callable[[Call, Answer], None]]] = []
        self.told: list[tuple[Any, ErrorCode]] = []

    def here(self, calls: list[Call], answered: Callable[[Call, Answer], None]) -> None:
        self.here_calls.append((calls, answered))

    def request(self, calls: Mapping[Any, list[Call]]) -> Any:
        return [an_id for an_id, joined in calls.items() for _ in joined]

    def answers(self, response: Any, calls: Mapping[Any, list[Call]]) -> Any:
        return response

    def named(self, call: Call) -> str:
        return f"the echo of {call.id}"

    def ended(self, call: Call, answer: Answer) -> None:
        self.told.append((call.id, answer.error_code))


class Follower(Echo):
    follows = True
    by_partition = True


class World:
    """Broker 1 with calls of one kind; the test leads the partitions and answers."""

    def __init__(self, kind: Echo | None = None, *leaders: int) -> None:
        self.kind = kind or Echo()
        self.clock = ManualClock()
        self.timer = Timer(self.clock.now_ms)
        self.image = ClusterImage(1, "test")
        self.sent: list[tuple[int, list[Any], Callable[..., None]]] = []
        self.ended: list[FinishedOperation] = []
        self.purgatory: Purgatory[Any] = Purgatory(
            "EndOffset", self.timer, actions=ActionQueue(), on_finished=self.ended.append
        )
        self.calls = BrokerCalls(
            HERE,
            store=self,
            ask=self._ask,
            purgatories=SimpleNamespace(of=lambda row: self.purgatory),
            work=HandWork().own,
        )
        self.elect(*(leaders or (2, 2)))

    def _ask(self, broker_id: int, api_key: ApiKey, version: int, message: Any, done: Callable[..., None]) -> None:
        self.sent.append((broker_id, message, done))

    def elect(self, *leaders: int, isr: tuple[int, ...] = (1, 2, 3), is_applied: bool = True) -> None:
        in_sync = tuple(BrokerIncarnation(each, each) for each in isr)
        states = tuple(PartitionState(leader, 0, (1, 2, 3), in_sync) for leader in leaders)
        topics = [Topic("orders", b"\1" * 16, states)] if leaders else []
        image = self.image.with_topics(topics) if topics else self.image.without_topics(["orders"])
        self.image = image.with_version(self.image.version + 1)
        if is_applied:
            self.calls.image_changed(self.image)

    def make(self, *ids: Any, tp: TopicPartition = ORDERS_0) -> list[Call]:
        made = [Call(self.kind, tp, each) for each in ids]
        self.calls.make(made)
        return made

    def answer(self, answer: Answer = REFUSED) -> list[Any]:
        """Answer the oldest request; return the ids in it."""
        _, ids, done = self.sent.pop(0)
        done(dict.fromkeys(ids, answer), None)
        return ids

    def advance_ms(self, delta_ms: int) -> None:
        self.clock.advance_ms(delta_ms)
        self.timer.advance(self.clock.now_ms())


def test_calls_that_are_made_together_share_a_request() -> None:
    world = World()
    world.make("a", "b")
    world.make("c")
    assert [ids for _, ids, _ in world.sent] == [["a", "b"], ["c"]]
    world.answer(Answer())
    assert world.kind.told == [("a", 0), ("b", 0)]
    assert world.kind.call_count == 1


def test_a_call_waits_longer_and_longer_and_tells_why() -> None:
    world = World()
    world.make("a")
    for nth, wait_ms in enumerate((10, 100, 200, 300), start=1):
        world.answer()
        (parked,) = world.purgatory.operations()
        assert parked.deadline_ms - world.clock.now_ms() == wait_ms
        operation = world.purgatory.find(parked.id)
        assert operation is not None
        assert (parked.keys, operation.held_by()) == ((ORDERS_0,), (2,))
        assert nth < 3 or in_words(parked.causes) == (
            "orders-0: the echo of a waits for broker 2, which leads it: "
            f"{world.clock.now_ms() - world.ended[0].parked_ms} ms, {'third' if nth == 3 else 'fourth'} try, "
            "NOT_LEADER_OR_FOLLOWER"
        )
        world.advance_ms(wait_ms)
    world.answer()
    assert world.kind.told == [("a", ErrorCode.NOT_LEADER_OR_FOLLOWER)]
    assert world.timer.size == 0


def test_another_leader_ends_the_wait_and_gives_the_call_its_quick_retries() -> None:
    world = World()
    world.make("a")
    world.answer()
    world.advance_ms(10)
    world.answer()
    world.elect(NO_LEADER, 2)
    assert world.sent == []
    world.elect(3, 2)
    assert [broker_id for broker_id, _, _ in world.sent] == [3]
    world.answer()
    world.advance_ms(10)
    assert len(world.sent) == 1
    assert [each.cause for each in world.ended] == ["expired", "leader", "expired"]


@pytest.mark.parametrize("follows", [False, True])
def test_a_call_under_way_goes_to_a_new_leader_if_its_kind_does(follows: bool) -> None:
    world = World(Follower() if follows else Echo())
    world.make("a")
    world.elect(3, 2)
    assert [broker_id for broker_id, _, _ in world.sent] == ([2, 3] if follows else [2])
    world.answer()
    assert world.kind.told == []
    assert [broker_id for broker_id, _, _ in world.sent] == [3]


def test_a_former_leader_counts_only_with_success_and_only_once() -> None:
    world = World(Follower())
    world.make("a")
    world.elect(3, 2)
    world.answer(Answer(ErrorCode.UNKNOWN_SERVER_ERROR))
    assert world.kind.told == []
    world.elect(2, 2)
    assert [broker_id for broker_id, _, _ in world.sent] == [3, 2]
    world.answer(Answer())
    assert world.kind.told == [("a", 0)]
    world.answer(Answer())
    assert world.kind.told == [("a", 0)]


def test_calls_that_wait_for_a_partition_go_on_together() -> None:
    """When one succeeds, or the partition's state changes in any way."""
    world = World(Follower())
    world.make("a")
    world.make("b")
    world.make("c")
    world.answer()
    world.answer()
    assert len(world.purgatory.operations()) == 1
    world.answer(Answer())
    assert world.kind.told == [("c", 0)]
    assert [each.cause for each in world.ended] == ["a call has succeeded"]
    assert world.answer() == ["a", "b"]
    world.elect(2, 2, isr=(2,))
    assert [ids for _, ids, _ in world.sent] == [["a", "b"]]


def test_a_success_at_a_partition_lets_the_waits_there_begin_anew() -> None:
    world = World(Follower())
    world.make("a")
    for wait_ms in (10, 100, 200):
        world.answer()
        world.advance_ms(wait_ms)
    world.make("b")
    world.answer()
    world.answer(Answer())
    world.answer()
    world.advance_ms(10)
    world.answer()
    (parked,) = world.purgatory.operations()
    assert parked.deadline_ms - world.clock.now_ms() == 100


def test_a_leader_that_is_lost_ends_no_wait() -> None:
    world = World(Follower())
    world.make("a")
    world.answer()
    world.elect(NO_LEADER, 2)
    assert world.ended == []


def test_a_call_that_knows_of_a_new_leader_takes_those_along_that_wait() -> None:
    world = World(Follower())
    world.make("a")
    world.make("b")
    world.answer()
    world.elect(3, 2, is_applied=False)
    world.answer()
    assert [(broker_id, ids) for broker_id, ids, _ in world.sent] == [(3, ["a", "b"])]


def test_a_queued_call_goes_to_where_its_leader_is_by_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Echo, "max_requests", 1)
    world = World()
    world.make("a")
    world.make("b")
    world.image = world.image.with_topics([])
    world.elect(HERE, 2)
    world.answer(Answer())
    ((calls, answered),) = world.kind.here_calls
    answered(calls[0], Answer())
    assert world.kind.told == [("a", 0), ("b", 0)]


def test_a_dropped_call_leaves_nothing_behind() -> None:
    world = World()
    waiting, sent = world.make("a", "b")
    world.answer()
    world.calls.drop(waiting)
    assert len(world.purgatory.operations()) == 1
    world.advance_ms(10)
    world.calls.drop(sent)
    world.answer(Answer())
    assert (world.kind.told, world.timer.size, world.kind.call_count) == ([], 0, 0)
    assert [each.outcome for each in world.ended] == ["cancelled", "expired"]


def test_calls_of_this_broker_are_spread_over_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Echo, "max_here", 2)
    world = World(None, HERE, HERE)
    world.make(*"abcde")
    assert len(world.kind.here_calls) == 2
    assert [len(world.kind.here_calls) for _ in slices(world.calls.steps())] == [4, 5]
    world.calls.stop()
    world.make(*"fgh")
    assert len(world.kind.here_calls) == 8


def test_calls_beyond_the_limit_end_at_once_if_nothing_else_bounds_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_calls, "MAX_CALLS", 1)
    world = World()
    world.make("a", "b")
    assert world.kind.told == []
    monkeypatch.setattr(Echo, "is_bounded", True)
    world.make("c")
    assert world.kind.told == [("c", ErrorCode.NETWORK_EXCEPTION)]


def test_a_broker_that_stops_ends_what_waits_and_parks_nothing() -> None:
    world = World()
    world.make("a")
    world.make("b")
    world.answer()
    world.calls.stop()
    world.purgatory.shutdown()
    world.answer()
    assert world.kind.told == [("a", ErrorCode.NETWORK_EXCEPTION), ("b", ErrorCode.NETWORK_EXCEPTION)]
