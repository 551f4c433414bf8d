"""Requests that change the cluster: every condition that ends the wait, and the deadline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from purgatorio.broker.causes.cause import NoLeader
from purgatorio.broker.causes.words import in_words
from purgatorio.broker.metadata.cluster_change import ClusterChange
from purgatorio.broker.metadata.delayed_decision import DelayedDecision, leaderless
from purgatorio.broker.metadata.image import ClusterImage, PartitionState, Topic
from purgatorio.protocol.errors import ErrorCode
from purgatorio.purgatory import ActionQueue, Purgatory, Timer
from purgatorio.purgatory.clock import ManualClock

BLANK = ClusterImage(0, "test")
LED = Topic("orders", b"1" * 16, (PartitionState(1, 0, (1,), ()), PartitionState(2, 0, (2,), ())))
HALF_LED = replace(LED, partitions=(LED.partitions[0], replace(LED.partitions[1], leader=-1)))


class Creation(ClusterChange[str]):
    """Creates `orders`; the second result is of a topic that was refused."""

    def __init__(self, delay_ms: int) -> None:
        super().__init__(["orders"], delay_ms)

    def decide(self, image: ClusterImage) -> tuple[ClusterImage, Sequence[str]]:
        raise AssertionError("the test decides")

    def respond(self, results: Sequence[str]) -> object:
        return tuple(results)

    def refuse(self, error_code: ErrorCode) -> object:
        return error_code

    def unseen(self, image: ClusterImage, result: str) -> NoLeader | None:
        return leaderless(image, LED) if result == "created" else None

    def timed_out(self, result: str, message: str) -> str:
        return f"timed out: {message}"


class Waiting:
    """A request that created `orders`, and another topic that was refused."""

    def __init__(self, delay_ms: int = 1000) -> None:
        self.clock = ManualClock()
        self.timer = Timer(self.clock.now_ms)
        self.purgatory: Purgatory[DelayedDecision[Any]] = Purgatory("topic", self.timer, actions=ActionQueue())
        self.image = BLANK
        self.answers: list[object] = []
        self.operation = DelayedDecision(Creation(delay_ms), self, self.answers.append)
        self.purgatory.try_complete_else_watch(self.operation, ["orders"])

    def check(self) -> None:
        self.purgatory.check_and_complete("orders")

    def sees(self, *topics: Topic) -> None:
        self.image = BLANK.with_topics(topics)
        self.check()

    def pass_ms(self, delta_ms: int) -> None:
        self.clock.advance_ms(delta_ms)
        self.timer.advance(self.clock.now_ms())

    @property
    def missing(self) -> str:
        (parked,) = self.purgatory.operations()
        return in_words(parked.causes)


def test_it_waits_for_the_decision_and_then_for_the_leaders() -> None:
    waiting = Waiting()
    waiting.sees(LED)
    assert waiting.missing == "the metadata store has not decided yet"
    waiting.sees(HALF_LED)
    waiting.operation.decided(("created", "refused"))
    waiting.check()
    assert waiting.missing == "orders-1: no leader yet"
    assert waiting.answers == []
    waiting.sees(LED)
    assert waiting.answers == [("created", "refused")]


@pytest.mark.parametrize("seen", [(), (replace(HALF_LED, topic_id=b"2" * 16),)], ids=["gone", "another of its name"])
def test_it_does_not_wait_for_a_topic_that_was_deleted_again(seen: tuple[Topic, ...]) -> None:
    waiting = Waiting()
    waiting.operation.decided(("created",))
    waiting.sees(*seen)
    assert waiting.answers == [("created",)]


def test_a_refusal_of_the_store_is_answered_with_its_error_code() -> None:
    waiting = Waiting()
    waiting.operation.refused(ErrorCode.NOT_CONTROLLER)
    waiting.check()
    assert waiting.answers == [ErrorCode.NOT_CONTROLLER]


def test_a_request_times_out_while_the_store_does_not_decide() -> None:
    waiting = Waiting(500)
    waiting.pass_ms(499)
    assert waiting.answers == []
    waiting.pass_ms(2)
    assert waiting.answers == [ErrorCode.REQUEST_TIMED_OUT]


def test_a_request_without_wait_is_answered_at_once() -> None:
    assert Waiting(0).answers == [ErrorCode.REQUEST_TIMED_OUT]


def test_at_the_deadline_only_the_result_that_the_image_lacks_times_out() -> None:
    waiting = Waiting()
    waiting.operation.decided(("created", "refused"))
    waiting.image = BLANK.with_topics([HALF_LED])
    waiting.check()
    waiting.pass_ms(1001)
    assert waiting.answers == [("timed out: orders-1: no leader yet", "refused")]


def test_a_decision_after_the_deadline_is_not_answered_again() -> None:
    waiting = Waiting()
    waiting.pass_ms(1001)
    waiting.operation.decided(("created",))
    waiting.sees(LED)
    assert waiting.answers == [ErrorCode.REQUEST_TIMED_OUT]


def test_shutdown_sends_the_client_to_another_broker() -> None:
    waiting = Waiting()
    waiting.purgatory.shutdown()
    assert waiting.answers == [ErrorCode.NOT_CONTROLLER]
    assert ErrorCode.NOT_CONTROLLER.retriable


def test_an_unexpected_error_is_answered_with_unknown_server_error() -> None:
    waiting = Waiting()
    waiting.operation.on_error(ValueError("broken"))
    assert waiting.answers == [ErrorCode.UNKNOWN_SERVER_ERROR]


def test_a_change_that_overrides_unseen_must_override_timed_out() -> None:
    class Forgetful(Creation):
        timed_out = ClusterChange.timed_out

    with pytest.raises(NotImplementedError, match="Forgetful"):
        Forgetful(1).timed_out("created", "no leader yet")
