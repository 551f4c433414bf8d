"""The order in which answers leave, and when: no event loop, no connection, no bytes on a wire."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from purgatorio.broker.server.exchange import Exchange, ReplyQueue
from purgatorio.broker.server.limits import ConnectionLimits
from purgatorio.purgatory.clock import ManualClock
from tests.histories import seeds

if TYPE_CHECKING:
    from .conftest import Probe

REQUEST_BYTES = 30


def _queue(probe: Probe, **limits: int) -> ReplyQueue:
    return ReplyQueue(ConnectionLimits(**limits), probe, lambda: 6.0)


def _begin(queue: ReplyQueue, count: int = 1) -> list[Exchange]:
    """Requests that are started, received at second 5."""
    connection: Any = None  # no answer is given through it here
    begun = [Exchange(connection, REQUEST_BYTES, 5.0) for _ in range(count)]
    queue.in_flight += begun
    return begun


def _answer(queue: ReplyQueue, exchange: Exchange, answer: bytes = b"answer") -> bool:
    """Give a request its answer; whether it leaves at once."""
    exchange.parts = (answer,) if answer else ()
    exchange.answer_bytes = len(answer)
    return queue.answered(exchange)


def test_an_answer_waits_for_those_of_earlier_requests(probe: Probe) -> None:
    """All that are ready in their order leave together."""
    queue = _queue(probe)
    first, second, third, fourth = _begin(queue, 4)
    assert not _answer(queue, third, b"3")
    assert not _answer(queue, second, b"2")
    assert queue.take() is None
    assert _answer(queue, first, b"1")
    assert queue.take() == ([b"1", b"2", b"3"], 3, 3 * REQUEST_BYTES)
    assert list(queue.in_flight) == [fourth]


def test_the_first_answer_of_a_turn_leaves_at_once_and_further_ones_with_the_next(probe: Probe) -> None:
    """The connection schedules a turn when it sends."""
    queue = _queue(probe)
    first, second, third = _begin(queue, 3)
    assert _answer(queue, first)
    queue.take()
    queue.turn_scheduled = True
    assert not _answer(queue, second)
    queue.turn_scheduled = False
    queue.take()
    assert _answer(queue, third)


def test_answers_given_while_requests_are_started_leave_when_that_is_done(probe: Probe) -> None:
    """The connection takes them itself at the end of its turn."""
    queue = _queue(probe)
    queue.in_turn = True
    (first,) = _begin(queue)
    assert not _answer(queue, first)


def test_a_request_that_needs_no_answer_holds_none_up(probe: Probe) -> None:
    """acks=0: its memory is given back, and no byte is sent for it."""
    queue = _queue(probe)
    first, second = _begin(queue, 2)
    _answer(queue, second, b"2")
    assert _answer(queue, first, b"")
    assert queue.take() == ([b"2"], 1, 2 * REQUEST_BYTES)


def test_a_refused_request_ends_the_connection_after_the_answers_before_it(probe: Probe) -> None:
    """Answers behind it never leave."""
    queue = _queue(probe)
    first, refused, behind = _begin(queue, 3)
    refused.is_refused = True
    _answer(queue, refused, b"")
    _answer(queue, behind, b"3")
    assert queue.take() is None
    assert not queue.ended
    _answer(queue, first, b"1")
    assert queue.take() == ([b"1"], 1, 2 * REQUEST_BYTES)
    assert queue.ended


def test_a_draining_connection_ends_with_its_last_answer(probe: Probe) -> None:
    """At once if none is missing."""
    idle, busy = _queue(probe), _queue(probe)
    (only,) = _begin(busy)
    for queue in (idle, busy):
        queue.end_when_empty()
        queue.take()
    assert (idle.ended, busy.ended) == (True, False)
    _answer(busy, only)
    busy.take()
    assert busy.ended


def test_an_empty_queue_does_not_end_a_connection_that_stays(probe: Probe) -> None:
    """Between two requests nothing is in flight."""
    queue = _queue(probe)
    queue.take()
    assert not queue.ended


def test_requests_in_flight_are_bounded(probe: Probe) -> None:
    """A request is in flight until its answer was taken."""
    queue = _queue(probe, max_in_flight_requests=2)
    first, _ = _begin(queue, 2)
    assert not queue.may_start()
    _answer(queue, first)
    assert not queue.may_start()
    queue.take()
    assert queue.may_start()


def test_unsent_answers_are_bounded(probe: Probe) -> None:
    """Also those that only wait for an earlier one."""
    queue = _queue(probe, write_low_water_bytes=1, write_high_water_bytes=10)
    first, second, third = _begin(queue, 3)
    _answer(queue, second, b"x" * 9)
    assert queue.may_start()
    _answer(queue, third, b"x")
    assert (queue.unsent_bytes, queue.may_start()) == (10, False)
    _answer(queue, first, b"")
    queue.take()
    assert (queue.unsent_bytes, queue.may_start()) == (0, True)


@pytest.mark.parametrize(("attribute", "value"), [("accepting", False), ("writing_paused", True)])
def test_no_request_is_started_while_the_connection_says_so(probe: Probe, attribute: str, value: bool) -> None:
    """It stops, or its client does not take its answers."""
    queue = _queue(probe)
    assert queue.may_start()
    setattr(queue, attribute, value)
    assert not queue.may_start()


def test_the_observer_is_told_how_long_each_request_took(probe: Probe) -> None:
    """From its last byte to the moment in which its answer leaves, waiting for earlier answers included."""
    clock = ManualClock(5_500)
    queue = ReplyQueue(ConnectionLimits(), probe, clock.now_seconds)
    first, second = _begin(queue, 2)
    first.api_key, first.api_version = 1, 12
    second.api_key, second.api_version = 18, 3
    _answer(queue, second)
    queue.take()
    assert probe.requests == []
    _answer(queue, first)
    clock.advance_ms(1_750)
    queue.take()
    assert probe.requests == [(1, 12, 2.25), (18, 3, 2.25)]


def test_a_queue_that_was_cleared_holds_nothing(probe: Probe) -> None:
    """The connection is gone."""
    queue = _queue(probe)
    _, second = _begin(queue, 2)
    _answer(queue, second)
    queue.clear()
    assert (len(queue.in_flight), queue.unsent_bytes) == (0, 0)


@pytest.mark.parametrize("seed", seeds(20, quick=3))
def test_in_any_order_of_completion_answers_leave_once_and_in_order(probe: Probe, seed: int) -> None:
    """Sizes add up at every step."""
    rng = random.Random(seed)
    queue = _queue(probe)
    begun = _begin(queue, 40)
    number_of = {id(exchange): number for number, exchange in enumerate(begun)}
    left: list[bytes] = []
    for exchange in rng.sample(begun, len(begun)):
        _answer(queue, exchange, b"%03d" % number_of[id(exchange)])
        if rng.random() < 0.4:
            parts, answer_bytes, request_bytes = queue.take() or ([], 0, 0)
            left += parts
            assert (answer_bytes, request_bytes) == (3 * len(parts), REQUEST_BYTES * len(parts))
        assert queue.unsent_bytes == 3 * sum(waiting.parts is not None for waiting in queue.in_flight)
    left += (queue.take() or ([],))[0]
    assert left == [b"%03d" % number for number in range(40)]
