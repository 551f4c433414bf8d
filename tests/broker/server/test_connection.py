"""One connection over a fake transport: order, pipelining, deadlines; its back-pressure is tested apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from purgatorio.broker.routing.request import Reply
from purgatorio.broker.server.limits import Refusal
from purgatorio.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from tests.broker.server.pipelining import answer, requests_of
from tests.error_log import ErrorLog
from tests.logs import capture_logs

if TYPE_CHECKING:
    from .conftest import Bench

MakeBench = Callable[..., "Bench"]
RequestOf = Callable[..., bytes]


# Order.


def test_answers_made_while_a_chunk_is_processed_leave_in_one_write(
    make_bench: MakeBench, request_of: RequestOf
) -> None:
    """One system call for sixteen pipelined requests."""
    bench = make_bench()
    bench.handler.decide = bench.handler.answer
    connection, transport = bench.connect()
    connection.data_received(requests_of(request_of, 16))
    assert transport.correlation_ids() == list(range(1, 17))
    assert transport.writes == 1


def test_an_answer_waits_for_those_of_earlier_requests(make_bench: MakeBench, request_of: RequestOf) -> None:
    """Clients match answers to requests by their order."""
    bench = make_bench()
    connection, transport = bench.connect()
    connection.data_received(requests_of(request_of, 3))
    answer(bench, 2)
    answer(bench, 1)
    assert transport.correlation_ids() == []
    answer(bench)
    bench.run()
    assert transport.correlation_ids() == [1, 2, 3]
    assert transport.writes == 1


def test_a_late_answer_leaves_at_once_and_further_ones_of_the_same_turn_together(
    make_bench: MakeBench, request_of: RequestOf
) -> None:
    """Latency for one, one system call for many."""
    bench = make_bench()
    connection, transport = bench.connect()
    connection.data_received(requests_of(request_of, 5))
    for _ in range(5):
        answer(bench)
    assert transport.correlation_ids() == [1]
    bench.run_once()
    assert transport.correlation_ids() == [1, 2, 3, 4, 5]
    assert transport.writes == 2


def test_requests_are_worked_on_while_an_earlier_one_is_parked(make_bench: MakeBench, request_of: RequestOf) -> None:
    """Kafka mutes the connection instead."""
    bench = make_bench()
    connection, _ = bench.connect()
    for number in range(5):
        connection.data_received(request_of(number))
    assert len(bench.handler.parked) == 5


def test_no_answer_is_sent_where_none_is_wanted(make_bench: MakeBench, request_of: RequestOf) -> None:
    """acks=0: nothing leaves, and later answers are not held up."""
    bench = make_bench()
    connection, transport = bench.connect()
    connection.data_received(requests_of(request_of, 2))
    answer(bench, 1)
    bench.handler.parked.pop().nothing()
    assert transport.correlation_ids() == [2]


def test_requests_cut_anywhere_are_put_together(make_bench: MakeBench, request_of: RequestOf) -> None:
    """TCP keeps no boundaries."""
    bench = make_bench()
    bench.handler.decide = bench.handler.answer
    connection, transport = bench.connect()
    for byte in requests_of(request_of, 3):
        connection.data_received(bytes([byte]))
    assert transport.correlation_ids() == [1, 2, 3]
    assert bench.memory.used_bytes == 0


def test_a_handler_closes_after_the_answers_of_earlier_requests(make_bench: MakeBench, request_of: RequestOf) -> None:
    """A produce with acks=0 that failed closes the connection, but earlier requests are answered."""
    bench = make_bench()
    connection, transport = bench.connect()
    connection.data_received(requests_of(request_of, 4))
    with capture_logs() as logs:
        bench.handler.parked[1].close("acks=0 and an error")
    assert [(entry["reason"], entry["detail"], entry["peer"]) for entry in logs] == [
        ("closed_by_handler", "acks=0 and an error", "192.0.2.7:5000")
    ]
    assert not transport.closing
    bench.handler.answer(bench.handler.parked[2])
    bench.handler.answer(bench.handler.parked[0])
    assert transport.correlation_ids() == [1]
    assert transport.closing


def test_nothing_is_started_after_a_refused_request(make_bench: MakeBench, request_of: RequestOf) -> None:
    """The connection is as good as closed."""
    bench = make_bench()
    bench.handler.decide = lambda reply: reply.close("no more")
    connection, transport = bench.connect()
    connection.data_received(requests_of(request_of, 3))
    assert len(bench.handler.contexts) == 1
    assert transport.closing
    assert bench.memory.used_bytes == 0
    connection.connection_lost(None)
    assert bench.memory.used_bytes == 0, "nothing is given back twice"


def test_a_second_answer_is_logged_and_ignored(make_bench: MakeBench, request_of: RequestOf) -> None:
    """It is the handler's bug, which the client must not feel."""
    bench = make_bench()
    connection, transport = bench.connect()
    connection.data_received(request_of(1))
    reply = bench.handler.parked[0]
    bench.handler.answer(reply)
    with capture_logs() as logs:
        bench.handler.answer(reply)
        reply.nothing()
        reply.close("again")
    assert [entry["event"] for entry in logs] == ["request answered twice"] * 3
    assert transport.correlation_ids() == [1]
    assert not transport.closing


def test_answers_after_the_connection_is_gone_are_dropped(make_bench: MakeBench, request_of: RequestOf) -> None:
    """Parked requests are answered some time; nothing is sent."""
    bench = make_bench()
    connection, transport = bench.connect()
    connection.data_received(requests_of(request_of, 3))
    connection.connection_lost(None)
    with capture_logs() as logs:
        for answer in (bench.handler.answer, lambda reply: reply.nothing(), lambda reply: reply.close("late")):
            answer(bench.handler.parked.pop())
    assert logs == []
    assert transport.correlation_ids() == []
    assert bench.memory.used_bytes == 0
    assert bench.entered == []


def test_nothing_is_written_to_a_transport_that_has_failed(make_bench: MakeBench, request_of: RequestOf) -> None:
    """It tells only in the next turn, and CPython's writelines may not bear it (gh-136234)."""
    bench = make_bench()
    connection, transport = bench.connect()
    connection.data_received(request_of(1))
    transport.closing = True
    answer(bench)
    assert transport.writes == 0
    connection.connection_lost(ConnectionResetError())
    assert bench.memory.used_bytes == 0


def test_an_answer_that_cannot_be_encoded_closes_the_connection(make_bench: MakeBench, request_of: RequestOf) -> None:
    """The traceback goes to the log; the code that completed the operation does not see the exception."""
    bench = make_bench()
    connection, transport = bench.connect()
    connection.data_received(request_of(1))
    with capture_logs() as logs:
        bench.handler.parked[0](ApiVersionsResponse(error_code=1 << 40))
    assert [entry["log_level"] for entry in logs] == ["error", "warning"]
    assert bench.probe.refusals == [Refusal.INTERNAL_ERROR]
    assert transport.closing


def test_durations_run_from_the_last_byte_to_the_answer(make_bench: MakeBench, request_of: RequestOf) -> None:
    """Parking included."""
    bench = make_bench()
    connection, _ = bench.connect()
    data = request_of(1)
    connection.data_received(data[:5])
    bench.clock.advance_ms(100)
    connection.data_received(data[5:])
    assert bench.handler.contexts[0].received_ms == 1_100
    bench.clock.advance_ms(250)
    answer(bench)
    assert bench.probe.requests == [(18, 0, pytest.approx(0.25))]


@pytest.mark.parametrize(
    ("peername", "peer", "host"),
    [
        (("192.0.2.7", 5000), "192.0.2.7:5000", "192.0.2.7"),
        (("2001:db8::7", 5000, 0, 0), "[2001:db8::7]:5000", "2001:db8::7"),
        (None, "unknown", "unknown"),
    ],
)
def test_peers_are_named_by_address_and_port(make_bench: MakeBench, peername: object, peer: str, host: str) -> None:
    """Also those that were gone before we looked."""
    connection, _ = make_bench().connect(peername=peername)
    assert (connection.session.peer, connection.session.host) == (peer, host)


# Deadlines.


def test_a_silent_connection_is_closed(make_bench: MakeBench) -> None:
    """It never sends a request."""
    bench = make_bench(handshake_ms=1_000)
    connection, transport = bench.connect()
    bench.clock.advance_ms(1_000)
    connection.enforce_deadlines(bench.clock.now_ms())
    assert not transport.aborted
    bench.clock.advance_ms(1)
    connection.enforce_deadlines(bench.clock.now_ms())
    assert transport.aborted
    assert bench.probe.refusals == [Refusal.HANDSHAKE_TIMEOUT]


def test_a_trickled_request_is_closed_beyond_its_deadline(make_bench: MakeBench, request_of: RequestOf) -> None:
    """Each byte comes in time, but not the whole."""
    bench = make_bench(partial_frame_ms=1_000)
    connection, transport = bench.connect()
    bench.handler.decide = bench.handler.answer
    connection.data_received(request_of(1))
    for byte in request_of(2)[:11]:
        connection.enforce_deadlines(bench.clock.now_ms())
        assert not transport.aborted
        connection.data_received(bytes([byte]))
        bench.clock.advance_ms(100)
    connection.enforce_deadlines(bench.clock.now_ms())
    assert transport.aborted
    assert bench.probe.refusals == [Refusal.PARTIAL_FRAME_TIMEOUT]


def test_a_client_for_whose_request_the_system_has_no_memory_is_refused(make_bench: MakeBench) -> None:
    bench = make_bench()

    def gather(_: int) -> memoryview:
        raise MemoryError

    bench.memory.gather = gather
    connection, transport = bench.connect()
    connection.data_received((200_000).to_bytes(4) + bytes(100_000))
    assert transport.closing
    assert bench.probe.refusals == [Refusal.NO_MEMORY]
    assert bench.memory.used_bytes == 0


def test_the_deadline_of_a_request_does_not_run_while_we_do_not_read(
    make_bench: MakeBench, request_of: RequestOf
) -> None:
    """The client cannot help it."""
    bench = make_bench(partial_frame_ms=1_000, max_in_flight_requests=1)
    connection, transport = bench.connect()
    connection.data_received(request_of(1) + request_of(2)[:5])
    bench.clock.advance_ms(5_000)
    connection.enforce_deadlines(bench.clock.now_ms())
    answer(bench)
    bench.run()
    connection.enforce_deadlines(bench.clock.now_ms())
    assert not transport.aborted
    bench.clock.advance_ms(1_001)
    connection.enforce_deadlines(bench.clock.now_ms())
    assert transport.aborted


def test_an_idle_connection_is_closed_but_not_one_that_waits_for_an_answer(
    make_bench: MakeBench, request_of: RequestOf
) -> None:
    """A long poll is no idleness."""
    bench = make_bench(idle_ms=600_000)
    connection, transport = bench.connect()
    connection.data_received(request_of(1))
    bench.clock.advance_ms(700_000)
    connection.enforce_deadlines(bench.clock.now_ms())
    answer(bench)
    bench.clock.advance_ms(600_000)
    connection.enforce_deadlines(bench.clock.now_ms())
    assert not transport.aborted
    bench.clock.advance_ms(1)
    connection.enforce_deadlines(bench.clock.now_ms())
    assert transport.aborted
    assert bench.probe.refusals == [Refusal.IDLE]


def test_a_client_that_takes_nothing_is_closed_but_not_one_that_is_slow(
    make_bench: MakeBench, request_of: RequestOf
) -> None:
    """One byte in time is enough."""
    bench = make_bench(write_high_water_bytes=5_000, write_low_water_bytes=100, write_stall_ms=1_000)
    bench.handler.decide = bench.handler.answer_large
    connection, transport = bench.connect()
    transport.takes_all = False
    connection.data_received(request_of(1))
    for _ in range(5):
        bench.clock.advance_ms(900)
        transport.take(1)
        connection.enforce_deadlines(bench.clock.now_ms())
    assert not transport.aborted
    bench.clock.advance_ms(1_001)
    connection.enforce_deadlines(bench.clock.now_ms())
    assert transport.aborted
    assert bench.probe.refusals == [Refusal.SLOW_READER]


def test_a_closing_connection_does_not_linger(make_bench: MakeBench, request_of: RequestOf) -> None:
    """A client that is to be closed, but does not take its last answers, is aborted."""
    bench = make_bench(write_stall_ms=1_000)
    connection, transport = bench.connect()
    transport.takes_all = False
    bench.handler.decide = bench.handler.answer
    connection.data_received(request_of(1))
    connection.eof_received()
    assert transport.closing
    bench.clock.advance_ms(1_001)
    connection.enforce_deadlines(bench.clock.now_ms())
    assert transport.aborted
    assert bench.probe.refusals == [Refusal.LINGERING_CLOSE]


# The end of a client.


def test_what_a_client_sent_before_its_end_is_answered_parked_requests_too(
    make_bench: MakeBench, request_of: RequestOf
) -> None:
    """`printf … | nc`, which closes its sending end and reads."""
    bench = make_bench(max_requests_per_turn=4, max_in_flight_requests=6)
    connection, transport = bench.connect()
    connection.data_received(requests_of(request_of, 10))
    assert connection.eof_received(), "the transport stays open"
    while bench.handler.parked:
        assert not transport.closing
        answer(bench)
        bench.run()
    assert transport.correlation_ids() == list(range(1, 11))
    assert transport.closing
    assert not transport.reading
    assert bench.memory.used_bytes == 0


def test_a_client_that_ends_without_a_request_under_way_is_closed_at_once(
    make_bench: MakeBench, request_of: RequestOf
) -> None:
    bench = make_bench()
    bench.handler.decide = bench.handler.answer
    connection, transport = bench.connect()
    connection.data_received(request_of(1))
    connection.eof_received()
    assert transport.closing


def test_half_a_request_of_a_client_that_has_ended_holds_no_memory(
    make_bench: MakeBench, request_of: RequestOf
) -> None:
    bench = make_bench(partial_frame_ms=1_000)
    connection, transport = bench.connect()
    connection.data_received(request_of(1) + request_of(2)[:-1])
    connection.eof_received()
    assert bench.memory.partial_bytes == 0
    bench.clock.advance_ms(1_001)
    connection.enforce_deadlines(bench.clock.now_ms())
    assert not transport.aborted
    answer(bench)
    assert transport.closing
    assert transport.correlation_ids() == [1]


def test_requests_of_a_client_that_has_ended_wait_for_the_end_of_a_throttle(
    make_bench: MakeBench, request_of: RequestOf
) -> None:
    bench = make_bench()
    bench.handler.decide = bench.handler.answer
    connection, transport = bench.connect()
    connection.mute()
    connection.data_received(requests_of(request_of, 2))
    connection.eof_received()
    bench.run()
    assert not transport.closing
    connection.unmute()
    bench.run()
    assert transport.correlation_ids() == [1, 2]
    assert transport.closing


def test_a_client_that_has_ended_keeps_its_connection_no_longer_than_an_idle_one(
    make_bench: MakeBench, request_of: RequestOf
) -> None:
    bench = make_bench(idle_ms=10_000)
    connection, transport = bench.connect()
    connection.data_received(request_of(1))
    assert not connection.snapshot(bench.clock.now_ms()).has_ended
    connection.eof_received()
    assert connection.snapshot(bench.clock.now_ms()).has_ended
    bench.clock.advance_ms(10_000)
    connection.enforce_deadlines(bench.clock.now_ms())
    assert not transport.aborted
    bench.clock.advance_ms(1)
    connection.enforce_deadlines(bench.clock.now_ms())
    assert transport.aborted
    assert bench.probe.refusals == [Refusal.IDLE]


def test_with_tls_a_connection_ends_with_its_client(make_bench: MakeBench, request_of: RequestOf) -> None:
    """The transport would warn of an answer that it stays open."""
    bench = make_bench()
    connection, transport = bench.connect()
    transport._extra["ssl_object"] = object()  # type: ignore[attr-defined] # a transport's own, which has no setter
    connection.data_received(request_of(1))
    assert not connection.eof_received()
    assert transport.closing


# Long answers.


def answer_at_length(reply: Reply) -> None:
    """Answer with half a megabyte, which is encoded in steps."""
    reply(ApiVersionsResponse(api_keys=[ApiVersion(api_key=number % 100) for number in range(100_000)]))


def test_a_long_answer_is_encoded_in_steps_and_the_next_request_waits_for_it(
    make_bench: MakeBench, request_of: RequestOf
) -> None:
    """So a client has one long answer under way, however many requests it sends."""
    bench = make_bench()
    bench.handler.decide = answer_at_length
    connection, transport = bench.connect()
    connection.data_received(requests_of(request_of, 2))
    assert len(bench.handler.contexts) == 1
    assert not transport.taken
    bench.run_once()
    assert len(bench.handler.contexts) == 1
    bench.run()
    assert transport.correlation_ids() == [1, 2]
    assert len(bench.handler.contexts) == 2


def test_a_long_answer_holds_up_no_other_connection(make_bench: MakeBench, request_of: RequestOf) -> None:
    bench = make_bench()
    bench.handler.decide = answer_at_length
    connection, _ = bench.connect()
    connection.data_received(request_of(1))
    bench.handler.decide = bench.handler.answer
    other, other_transport = bench.connect()
    other.data_received(request_of(2))
    assert other_transport.correlation_ids() == [2]


def test_a_long_answer_to_a_client_that_is_gone_is_not_encoded_to_its_end(
    make_bench: MakeBench, request_of: RequestOf
) -> None:
    bench = make_bench()
    bench.handler.decide = answer_at_length
    connection, transport = bench.connect()
    connection.data_received(request_of(1))
    connection.connection_lost(None)
    bench.run_once()
    bench.run_once()
    assert not bench.is_busy
    assert not transport.taken


def test_a_second_answer_is_refused_while_the_first_is_encoded(
    make_bench: MakeBench, request_of: RequestOf, error_log: ErrorLog
) -> None:
    bench = make_bench()

    def twice(reply: Reply) -> None:
        answer_at_length(reply)
        bench.handler.answer(reply)

    bench.handler.decide = twice
    connection, transport = bench.connect()
    connection.data_received(request_of(1))
    bench.run()
    assert transport.correlation_ids() == [1]
    error_log.expect("request answered twice")
