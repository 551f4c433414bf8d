"""Back-pressure of one connection: bounds of requests in flight, of memory for requests, of unsent answers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from purgatorio.broker.routing.request import ANONYMOUS, BROKER, Principal, Reply
from purgatorio.broker.server.limits import Refusal
from purgatorio.broker.server.request_queue import MAX_AHEAD
from purgatorio.broker.server.turns import MAX_TURN_SECONDS
from tests.broker.server.pipelining import answer, requests_of

if TYPE_CHECKING:
    from .conftest import Bench

MakeBench = Callable[..., "Bench"]
RequestOf = Callable[..., bytes]


def test_reading_pauses_at_the_bound_of_requests_in_flight_and_goes_on_below_it(
    make_bench: MakeBench, request_of: RequestOf
) -> None:
    """Requests that were read already wait in their order."""
    bench = make_bench(max_in_flight_requests=3)
    connection, transport = bench.connect()
    connection.data_received(requests_of(request_of, 5))
    assert len(bench.handler.parked) == 3
    assert not transport.reading
    snapshot = connection.snapshot(bench.clock.now_ms())
    assert (snapshot.in_flight, snapshot.waiting, snapshot.reading_paused) == (3, 2, True)
    answer(bench)
    bench.run()
    assert len(bench.handler.contexts) == 4
    assert not transport.reading, "one still waits"
    answer(bench)
    answer(bench)
    bench.run()
    assert len(bench.handler.contexts) == 5
    assert transport.reading


def test_nothing_is_started_from_within_an_answer(make_bench: MakeBench, request_of: RequestOf) -> None:
    """An answer is given in the middle of the change of state that completes the operation."""
    bench = make_bench(max_in_flight_requests=1)
    connection, _ = bench.connect()
    connection.data_received(requests_of(request_of, 2))
    answer(bench)
    assert len(bench.handler.contexts) == 1
    bench.run()
    assert len(bench.handler.contexts) == 2


def test_the_bound_counts_only_what_is_unanswered(make_bench: MakeBench, request_of: RequestOf) -> None:
    """Requests that are answered at once never fill it."""
    bench = make_bench(max_in_flight_requests=2)
    bench.handler.decide = bench.handler.answer
    connection, transport = bench.connect()
    connection.data_received(requests_of(request_of, 9))
    assert transport.correlation_ids() == list(range(1, 10))
    assert transport.reading


def test_a_flood_of_requests_is_worked_on_in_turns(make_bench: MakeBench, request_of: RequestOf) -> None:
    """Other connections get theirs, and nothing more is read meanwhile: not until the last of them was started."""
    bench = make_bench(max_requests_per_turn=60)
    bench.handler.decide = bench.handler.answer
    connection, transport = bench.connect()
    connection.data_received(requests_of(request_of, 60 + MAX_AHEAD))
    started = [len(bench.handler.contexts)]
    for _ in range(3):
        assert not transport.reading
        bench.run_once()
        started.append(len(bench.handler.contexts))
    assert started == [60, 120, 180, 60 + MAX_AHEAD]
    assert transport.reading
    assert transport.correlation_ids() == list(range(1, 61 + MAX_AHEAD))


def test_while_few_requests_wait_for_their_turn_more_are_read_and_come_after_them(
    make_bench: MakeBench, request_of: RequestOf
) -> None:
    bench = make_bench(max_requests_per_turn=10)
    bench.handler.decide = bench.handler.answer
    connection, transport = bench.connect()
    connection.data_received(requests_of(request_of, 15))
    assert transport.reading
    connection.data_received(request_of(16))
    assert len(bench.handler.contexts) == 10
    bench.run_once()
    assert transport.correlation_ids() == list(range(1, 17))


def test_a_client_that_does_not_take_its_answers_is_not_worked_for(
    make_bench: MakeBench, request_of: RequestOf
) -> None:
    """The answers held for it stay near the high water mark; when it reads again, it goes on."""
    bench = make_bench(write_high_water_bytes=10_000, write_low_water_bytes=1_000)
    bench.handler.decide = bench.handler.answer_large
    connection, transport = bench.connect()
    transport.takes_all = False
    connection.data_received(requests_of(request_of, 50))
    bench.run()
    assert len(transport.buffered) < 10_000 + 2 * 6_100
    assert not transport.reading
    for _ in range(60):
        transport.take(6_100)
        bench.run()
    assert transport.correlation_ids() == list(range(1, 51))
    assert transport.reading


def test_answers_held_back_by_a_parked_request_are_bounded(make_bench: MakeBench, request_of: RequestOf) -> None:
    """A client cannot make the broker keep large answers by parking one request in front of them."""
    bench = make_bench(write_high_water_bytes=10_000, write_low_water_bytes=1_000)
    connection, transport = bench.connect()
    connection.data_received(request_of(1))
    bench.handler.decide = bench.handler.answer_large
    connection.data_received(requests_of(request_of, 50, first=2))
    bench.run()
    assert connection.snapshot(0).unsent_bytes < 10_000 + 6_100
    assert not transport.reading
    answer(bench)
    bench.run()
    assert transport.correlation_ids() == list(range(1, 52))
    assert transport.reading


def test_requests_that_take_long_are_not_all_started_in_one_turn(make_bench: MakeBench, request_of: RequestOf) -> None:
    """Pipelined, 128 of 25 ms each would make all other connections wait for three seconds."""
    bench = make_bench(max_turn_ms=10)
    connection, transport = bench.connect()

    def slow(reply: Reply) -> None:
        bench.clock.advance_ms(8)
        bench.handler.answer(reply)

    bench.handler.decide = slow
    connection.data_received(requests_of(request_of, 7))
    assert transport.correlation_ids() == [1, 2]
    bench.run_once()
    assert transport.correlation_ids() == [1, 2, 3, 4]
    bench.run()
    assert transport.correlation_ids() == list(range(1, 8))
    assert transport.reading


def test_reading_pauses_while_the_memory_for_requests_is_spent(make_bench: MakeBench, request_of: RequestOf) -> None:
    """The connection that notices stops, even if others hold the memory, and goes on when one of theirs is answered."""
    size = len(request_of(1))
    bench = make_bench(request_memory_bytes=3 * size)
    (first, first_transport), (second, second_transport) = bench.connect(), bench.connect()
    first.data_received(requests_of(request_of, 2))
    assert first_transport.reading
    second.data_received(request_of(1))
    assert not second_transport.reading
    assert bench.memory.used_bytes == 3 * size
    answer(bench)
    bench.run()
    assert second_transport.reading


@pytest.mark.parametrize("is_broker", [False, True])
def test_other_brokers_are_read_while_the_memory_for_requests_is_spent(
    make_bench: MakeBench, request_of: RequestOf, is_broker: bool
) -> None:
    """Clients' requests with acks=all fill it until followers have fetched: each would wait for the other."""
    size = len(request_of(1))
    bench = make_bench(request_memory_bytes=2 * size)
    (client, client_transport), (peer, peer_transport) = bench.connect(), bench.connect()
    peer.session.is_broker = is_broker
    client.data_received(requests_of(request_of, 2))
    assert not client_transport.reading
    peer.data_received(request_of(1))
    peer.data_received(request_of(2)[:5])
    assert peer_transport.reading == is_broker
    assert bench.memory.used_bytes == 3 * size + 5
    assert not client_transport.reading


@pytest.mark.parametrize("principal", [ANONYMOUS, Principal(BROKER, "2")])
def test_a_login_as_a_broker_shows_that_a_connection_is_a_brokers(make_bench: MakeBench, principal: Principal) -> None:
    for goes_first in (False, True):
        connection, _ = make_bench(goes_first=goes_first).connect()
        connection.session.principal = principal
        connection.authenticated(keeps_gate=False)
        assert connection.session.is_broker == (goes_first and principal.is_broker)


def test_a_client_that_sends_half_a_request_is_closed_when_others_wait_for_the_memory(
    make_bench: MakeBench, request_of: RequestOf
) -> None:
    """Two seconds later, not thirty; without others that wait it has the usual time."""
    bench = make_bench(request_memory_bytes=100)
    (half, half_transport), (other, other_transport) = bench.connect(), bench.connect()
    half.data_received(b"\0\0\x10\0" + bytes(96))
    bench.clock.advance_ms(5_000)
    half.enforce_deadlines(bench.clock.now_ms())
    other.data_received(request_of(1)[:-1])
    assert not other_transport.reading
    for _ in range(3):
        half.enforce_deadlines(bench.clock.now_ms())
        assert not half_transport.aborted
        bench.clock.advance_ms(700)
    half.enforce_deadlines(bench.clock.now_ms())
    assert half_transport.aborted
    half.connection_lost(None)
    bench.run()
    assert other_transport.reading


def test_a_slow_reader_is_closed_sooner_while_unsent_answers_are_above_their_bound(
    make_bench: MakeBench, request_of: RequestOf
) -> None:
    bench = make_bench()
    bench.handler.decide = bench.handler.answer_large
    (patient, patient_transport), (short, short_transport) = bench.connect(), bench.connect()
    for connection, transport in ((patient, patient_transport), (short, short_transport)):
        transport.takes_all = False
        connection.data_received(request_of(1))
    patient.enforce_deadlines(bench.clock.now_ms())
    short.enforce_deadlines(bench.clock.now_ms(), answers_short=True)
    assert not short_transport.aborted
    bench.clock.advance_ms(2_001)
    patient.enforce_deadlines(bench.clock.now_ms())
    short.enforce_deadlines(bench.clock.now_ms(), answers_short=True)
    assert (patient_transport.aborted, short_transport.aborted) == (False, True)
    assert bench.probe.refusals == [Refusal.SLOW_READER]


def test_the_memory_of_a_lost_connection_is_free(make_bench: MakeBench, request_of: RequestOf) -> None:
    """Its parked, waiting and incomplete requests alike."""
    bench = make_bench(max_in_flight_requests=2, request_memory_bytes=100)
    (first, _), (second, second_transport) = bench.connect(), bench.connect()
    first.data_received(requests_of(request_of, 4) + request_of(9)[:-1])
    second.data_received(request_of(1))
    assert not second_transport.reading
    first.connection_lost(None)
    bench.run()
    assert second_transport.reading
    assert bench.memory.used_bytes == len(request_of(1))


# Muted channels.


def test_a_muted_connection_starts_no_request_and_then_all_in_their_order(
    make_bench: MakeBench, request_of: RequestOf
) -> None:
    bench = make_bench()
    connection, transport = bench.connect()
    connection.data_received(request_of(1))
    connection.mute()
    connection.mute()
    connection.data_received(requests_of(request_of, 3, first=2))
    connection.unmute()
    bench.run()
    assert len(bench.handler.contexts) == 1
    assert transport.reading, "it learns when its client goes"
    connection.unmute()
    assert len(bench.handler.contexts) == 1, "nothing is started from within"
    bench.run()
    assert len(bench.handler.contexts) == 4
    for _ in range(4):
        answer(bench)
    bench.run()
    assert transport.correlation_ids() == [1, 2, 3, 4]


def test_requests_that_were_read_together_with_the_one_that_mutes_wait_too(
    make_bench: MakeBench, request_of: RequestOf
) -> None:
    bench = make_bench()
    connection, _ = bench.connect()

    def mute(reply: Reply) -> None:
        bench.handler.parked.append(reply)
        connection.mute()

    bench.handler.decide = mute
    connection.data_received(requests_of(request_of, 3))
    assert len(bench.handler.contexts) == 1
    connection.unmute()
    bench.run()
    assert len(bench.handler.contexts) == 2


def test_a_muted_connection_reads_ahead_up_to_the_bound_of_requests_in_flight(
    make_bench: MakeBench, request_of: RequestOf
) -> None:
    bench = make_bench(max_in_flight_requests=3)
    connection, transport = bench.connect()
    connection.mute()
    connection.data_received(requests_of(request_of, 2))
    assert transport.reading
    connection.data_received(request_of(3))
    assert not transport.reading
    connection.unmute()
    bench.run()
    assert len(bench.handler.contexts) == 3


def test_a_connection_that_is_gone_may_be_unmuted(make_bench: MakeBench, request_of: RequestOf) -> None:
    bench = make_bench()
    connection, _ = bench.connect()
    session, channel = connection.session, connection.session.channel
    channel.mute()
    connection.data_received(request_of(1))
    connection.connection_lost(None)
    channel.unmute()
    bench.run()
    assert bench.handler.contexts == []
    assert session.channel is not connection, "a parked request that keeps its session keeps no connection"


# Quotas.


def test_a_throttled_connection_reads_nothing_and_starts_nothing_until_its_time_is_over(
    make_bench: MakeBench, request_of: RequestOf
) -> None:
    """What was started before goes on, and is answered."""
    bench = make_bench()
    connection, transport = bench.connect()
    connection.data_received(request_of(1))
    connection.throttle()
    assert not transport.reading
    connection.data_received(requests_of(request_of, 2, first=2))
    answer(bench)
    bench.run()
    assert transport.correlation_ids() == [1]
    assert not transport.reading
    assert len(bench.handler.contexts) == 1
    connection.unthrottle()
    bench.run()
    assert len(bench.handler.contexts) == 3
    assert transport.reading


def test_the_answer_of_the_request_that_throttles_is_sent_before(make_bench: MakeBench, request_of: RequestOf) -> None:
    bench = make_bench()
    connection, transport = bench.connect()

    def answer_and_throttle(reply: Reply) -> None:
        bench.handler.answer(reply)
        connection.throttle()

    bench.handler.decide = answer_and_throttle
    connection.data_received(requests_of(request_of, 2))
    assert transport.correlation_ids() == [1]
    assert not transport.reading


def test_a_request_that_waits_for_the_end_of_a_throttle_is_started_before_later_ones(
    make_bench: MakeBench, request_of: RequestOf
) -> None:
    bench = make_bench()
    connection, transport = bench.connect()
    started: list[int] = []
    bench.handler.decide = lambda reply: (started.append(2), bench.handler.answer(reply))[1]
    connection.throttle()
    connection.data_received(request_of(2))
    connection.unthrottle(lambda: started.append(1))
    assert started == [], "in a later turn of the loop"
    bench.run()
    assert started == [1, 2]
    assert transport.reading


def test_a_request_that_waits_is_not_started_when_the_connection_is_gone(make_bench: MakeBench) -> None:
    bench = make_bench()
    connection, _ = bench.connect()
    started: list[int] = []
    connection.throttle()
    connection.unthrottle(lambda: started.append(1))
    connection.connection_lost(None)
    bench.run()
    assert started == []


def test_of_connections_that_send_in_one_turn_of_the_loop_some_wait_for_the_next(
    make_bench: MakeBench, request_of: RequestOf
) -> None:
    """9,990 clients that all sent at once held the loop for half a second."""
    bench = make_bench()

    def answer_slowly(reply: Reply) -> None:
        bench.clock.advance_ms(1)
        bench.handler.answer(reply)

    bench.handler.decide = answer_slowly
    crowd = [bench.connect() for _ in range(30)]
    for connection, _ in crowd:
        connection.data_received(request_of(1))
    turns = [len(bench.handler.contexts)]
    while turns[-1] < len(crowd):
        bench.run_once()
        turns.append(len(bench.handler.contexts))
    steps = [after - before for before, after in pairwise([0, *turns])]
    assert max(steps) <= 7, "a turn takes five milliseconds, and what it began"
    assert all(transport.correlation_ids() == [1] for _, transport in crowd)
    bench.run()
    assert all(transport.reading for _, transport in crowd)


@pytest.mark.parametrize("principal", [ANONYMOUS, Principal(BROKER, "2")])
def test_a_crowd_goes_first_where_brokers_connect_only_if_it_is_brokers(
    make_bench: MakeBench, request_of: RequestOf, principal: Principal
) -> None:
    """Half of a login each, of thousands that are none, took as much of a turn as they came."""
    bench = make_bench(goes_first=True)

    def answer_slowly(reply: Reply) -> None:
        bench.clock.advance_ms(1)
        bench.handler.answer(reply)

    bench.handler.decide = answer_slowly
    for _ in range(30):
        connection, _ = bench.connect()
        connection.session.principal = principal
        connection.data_received(request_of(1))
    in_a_turn = 1 + round(MAX_TURN_SECONDS * 1000)
    assert len(bench.handler.contexts) == (30 if principal.is_broker else in_a_turn)
    bench.run()
    assert len(bench.handler.contexts) == 30


def test_what_throttles_a_connection_hears_that_it_is_gone(make_bench: MakeBench) -> None:
    bench = make_bench()
    connection, _ = bench.connect()
    lost: list[str] = []
    connection.session.throttled_by = SimpleNamespace(channel_lost=lambda: lost.append("lost"))
    connection.connection_lost(None)
    assert lost == ["lost"]


def test_a_throttled_connection_holds_no_memory_for_which_others_wait(
    make_bench: MakeBench, request_of: RequestOf
) -> None:
    """Its client is closed while memory is short, and sends again."""
    bench = make_bench(request_memory_bytes=2 * len(request_of(1)), shortage_ms=100)
    connection, transport = bench.connect()
    other, other_transport = bench.connect()
    connection.throttle()
    connection.data_received(requests_of(request_of, 2))
    other.data_received(request_of(3))
    assert not other_transport.reading
    connection.enforce_deadlines(bench.clock.now_ms())
    bench.clock.advance_ms(101)
    connection.enforce_deadlines(bench.clock.now_ms())
    assert transport.aborted


# Deadlines of many.


def test_a_connection_is_quiet_while_nothing_is_under_way_and_it_has_its_time(
    make_bench: MakeBench, request_of: RequestOf
) -> None:
    """A sweep passes it over then; it is muted or not."""
    bench = make_bench(idle_ms=1_000)
    connection, _ = bench.connect()
    now_ms = bench.clock.now_ms()
    assert not connection.is_quiet(now_ms), "it has the deadline of its first request"
    connection.data_received(request_of(1))
    assert not connection.is_quiet(now_ms)
    answer(bench)
    bench.run()
    assert connection.is_quiet(now_ms)
    connection.throttle()
    assert connection.is_quiet(now_ms + 1_000)
    assert not connection.is_quiet(now_ms + 1_001)
    connection.data_received(request_of(2)[:-1])
    assert not connection.is_quiet(now_ms)
