"""A connection whose network is bad: bytes that come late, in pieces or not at all, and ends that are not its own."""

from __future__ import annotations

import asyncio
import gc
import random
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from purgatorio.broker.layers.faults import LiveToxic, Toxic, Toxics, parse_fault
from purgatorio.broker.server.toxic_link import MAX_UPSTREAM_BYTES, client_id_in
from tests.broker.server.conftest import FakeTransport
from tests.broker.server.pipelining import answer, requests_of
from tests.histories import seeds

if TYPE_CHECKING:
    from .conftest import Bench

MakeBench = Callable[..., "Bench"]
RequestOf = Callable[..., bytes]


class Wire(FakeTransport):
    """A transport whose protocol can be replaced, as that of a socket."""

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.Protocol)
        self.protocol = protocol

    def is_reading(self) -> bool:
        return self.reading

    def arrives(self, data: bytes) -> None:
        """The client has sent bytes."""
        assert self.reading
        assert self.protocol is not None
        self.protocol.data_received(data)


class Net:
    """One connection, and the toxics of its broker."""

    def __init__(self, bench: Bench, *toxics: dict[str, Any]) -> None:
        self.bench = bench
        self.noted: list[dict[str, Any]] = []
        self.rules: list[LiveToxic] = []
        self.connection, transport = bench.connect()
        self.wire = Wire()
        self.connection._transport = self.wire
        transport.protocol = None
        self.wire.protocol = self.connection
        self.wire.set_write_buffer_limits(65_536, 16_384)
        for each in toxics:
            self.add(**each)

    def add(self, **data: Any) -> LiveToxic:
        toxic = parse_fault(data)
        assert isinstance(toxic, Toxic)
        live = LiveToxic(len(self.rules) + 1, toxic, lambda _: None, seed=1)
        self.rules.append(live)
        self.apply()
        return live

    def remove(self, live: LiveToxic) -> None:
        self.rules.remove(live)
        self.apply()

    def apply(self) -> None:
        noted = self.noted

        def note(**told: Any) -> None:
            noted.append(told)

        self.connection.pass_toxics(Toxics(1, self.rules, note))

    @property
    def requests(self) -> int:
        """How many requests the handler has got."""
        return len(self.bench.handler.contexts)

    @property
    def is_plain(self) -> bool:
        """Whether nothing stands between the connection and its transport."""
        return self.wire.protocol is self.connection and self.connection._transport is self.wire

    def passes(self, ms: int) -> None:
        """Let time pass."""
        self.bench.clock.advance_ms(ms)
        self.bench.run()


LATE = {"toxic": "latency", "latency_ms": 100}


@pytest.fixture
def bench(make_bench: MakeBench) -> Bench:
    return make_bench()


def test_answers_arrive_late_downstream(bench: Bench, request_of: RequestOf) -> None:
    net = Net(bench, LATE)
    net.wire.arrives(request_of(1))
    answer(bench)
    net.passes(98)
    assert net.wire.correlation_ids() == []
    net.passes(2)
    assert net.wire.correlation_ids() == [1]


def test_requests_arrive_late_upstream_and_answers_at_once(bench: Bench, request_of: RequestOf) -> None:
    net = Net(bench, LATE | {"stream": "upstream"})
    net.wire.arrives(requests_of(request_of, 2))
    net.passes(98)
    assert net.requests == 0
    net.passes(2)
    assert net.requests == 2
    answer(bench)
    assert net.wire.correlation_ids() == [1]


def test_requests_of_a_new_connection_under_uvloop_arrive(bench: Bench, request_of: RequestOf) -> None:
    """Its transport begins to read after `connection_made`: the link took it for a connection that wants no bytes."""
    net = Net(bench)
    net.wire.reading = False
    net.add(**LATE, stream="upstream")
    net.wire.reading = True
    net.wire.arrives(request_of(1))
    net.passes(100)
    assert net.requests == 1


def test_a_connection_without_toxics_has_no_link(bench: Bench, request_of: RequestOf) -> None:
    net = Net(bench)
    net.wire.arrives(request_of(1))
    net.apply()
    assert net.is_plain
    net.add(**LATE, client="another")
    assert net.is_plain, "it has told its client id before"
    live = net.add(**LATE, client="tester")
    assert not net.is_plain
    assert (live.matched, live.fired) == (1, 1)
    net.remove(live)
    assert net.is_plain


def test_the_client_id_of_the_first_request_tells_which_toxics_act(bench: Bench, request_of: RequestOf) -> None:
    net = Net(bench, LATE | {"client": "tester", "stream": "upstream"}, {"toxic": "timeout", "client": "another"})
    assert not net.noted
    first = request_of(1)
    for nth in range(len(first)):  # it comes in bytes
        net.wire.arrives(first[nth : nth + 1])
    assert net.requests == 0
    net.passes(100)
    assert net.requests == 1
    assert [each["action"] for each in net.noted] == ["latency upstream"]
    assert [each.matched for each in net.rules] == [1, 0]


def test_what_a_toxic_holds_arrives_at_once_when_it_is_removed(bench: Bench, request_of: RequestOf) -> None:
    net = Net(bench, LATE, LATE | {"stream": "upstream"})
    net.wire.arrives(request_of(1))
    net.remove(net.rules[1])
    assert net.requests == 1
    answer(bench)
    net.remove(net.rules[0])
    assert net.wire.correlation_ids() == [1]
    assert net.is_plain
    bench.run()  # until the next turn
    net.wire.arrives(request_of(2))
    answer(bench)
    bench.run()
    assert net.wire.correlation_ids() == [1, 2]


def test_silence_loses_bytes_and_its_end_closes_the_connection(bench: Bench, request_of: RequestOf) -> None:
    net = Net(bench, {"toxic": "timeout", "stream": "upstream"})
    net.wire.arrives(request_of(1))
    net.passes(1_000_000)
    assert net.requests == 0
    assert not net.wire.aborted
    net.remove(net.rules[0])
    assert net.wire.aborted


def test_a_timeout_closes_the_connection_when_its_time_is_over(bench: Bench, request_of: RequestOf) -> None:
    net = Net(bench, {"toxic": "timeout", "timeout_ms": 50})
    net.wire.arrives(request_of(1))
    answer(bench)
    net.passes(49)
    assert not net.wire.aborted
    net.passes(1)
    assert net.wire.aborted
    assert net.wire.correlation_ids() == []


@pytest.mark.parametrize("timeout_ms", [0, 20])
def test_a_reset_ends_the_connection(bench: Bench, request_of: RequestOf, timeout_ms: int) -> None:
    net = Net(bench, {"toxic": "reset_peer", "timeout_ms": timeout_ms})
    net.wire.arrives(request_of(1))
    assert net.wire.aborted == (timeout_ms == 0)
    assert net.requests == (0 if timeout_ms == 0 else 1)
    net.passes(timeout_ms)
    assert net.wire.aborted


def test_a_reset_that_is_removed_in_time_does_not_come(bench: Bench, request_of: RequestOf) -> None:
    net = Net(bench, {"toxic": "reset_peer", "timeout_ms": 20})
    net.wire.arrives(request_of(1))
    net.passes(10)
    net.remove(net.rules[0])
    net.passes(20)
    assert not net.wire.aborted


def test_limited_data_closes_behind_the_last_byte(bench: Bench, request_of: RequestOf) -> None:
    net = Net(bench, {"toxic": "limit_data", "limit_bytes": 3})
    net.wire.arrives(request_of(1))
    answer(bench)
    assert bytes(net.wire.taken) == b"\0\0\0"
    assert net.wire.closing


def test_a_slow_close_comes_later_whoever_closes(bench: Bench, request_of: RequestOf) -> None:
    for closes_first in ("client", "broker"):
        net = Net(bench, {"toxic": "slow_close", "delay_ms": 500})
        net.wire.arrives(request_of(1))
        answer(bench)
        if closes_first == "client":
            assert net.wire.protocol is not None
            assert net.wire.protocol.eof_received(), "the transport would close by itself"
        else:
            net.connection.close_when_answered()
        net.passes(498)
        assert not net.wire.closing
        net.passes(2)
        assert net.wire.closing


def test_the_end_of_a_client_comes_behind_its_requests(bench: Bench, request_of: RequestOf) -> None:
    net = Net(bench, LATE | {"stream": "upstream"})
    net.wire.arrives(request_of(1))
    assert net.wire.protocol is not None
    assert net.wire.protocol.eof_received()
    assert not net.wire.closing
    net.passes(100)
    assert net.requests == 1
    assert not net.wire.closing, "it may still read the answer"
    answer(bench)
    assert net.wire.closing


def test_with_tls_a_connection_ends_with_its_client(bench: Bench, request_of: RequestOf) -> None:
    """The transport would warn of an answer that it stays open."""
    net = Net(bench, {"toxic": "slow_close", "delay_ms": 500})
    net.wire._extra["ssl_object"] = object()  # type: ignore[attr-defined] # a transport's own, which has no setter
    net.wire.arrives(request_of(1))
    assert net.wire.protocol is not None
    assert not net.wire.protocol.eof_received()


def test_it_reads_no_more_than_it_may_hold(bench: Bench) -> None:
    net = Net(bench, {"toxic": "bandwidth", "rate_kb": 1_000, "stream": "upstream"})
    net.wire.arrives(bytes(14) + bytes(MAX_UPSTREAM_BYTES))
    assert not net.wire.reading
    net.connection.abort()


def test_a_connection_waits_while_its_answers_are_under_way(make_bench: MakeBench, request_of: RequestOf) -> None:
    bench = make_bench(write_high_water_bytes=10_000, write_low_water_bytes=1_000)
    net = Net(bench, {"toxic": "bandwidth", "rate_kb": 1})
    bench.handler.decide = bench.handler.answer_large
    net.wire.arrives(requests_of(request_of, 4))
    assert net.requests == 2, "the third one waits"
    for _ in range(30):
        net.passes(1_000)
    assert net.wire.correlation_ids() == [1, 2, 3, 4]
    assert net.connection.unsent_bytes == 0


@pytest.mark.parametrize("toxic_comes", ["before", "meanwhile"])
def test_a_client_that_does_not_take_its_answers_holds_up_its_requests(
    make_bench: MakeBench, request_of: RequestOf, toxic_comes: str
) -> None:
    bench = make_bench(write_high_water_bytes=10_000, write_low_water_bytes=1_000)
    net = Net(bench, *([LATE] if toxic_comes == "before" else []))
    net.wire.set_write_buffer_limits(10_000, 1_000)
    net.wire.takes_all = False
    bench.handler.decide = bench.handler.answer_large
    net.wire.arrives(requests_of(request_of, 4))
    net.passes(100)
    if toxic_comes == "meanwhile":
        net.add(**LATE)
    assert net.requests == 2, "the third one waits for the client"
    for _ in range(3):
        net.wire.take(100_000)
        net.passes(100)
    assert net.wire.correlation_ids() == [1, 2, 3, 4]


def test_it_composes_with_a_connection_that_stands_still(bench: Bench, request_of: RequestOf) -> None:
    net = Net(bench)
    net.connection.hold()
    live = net.add(**LATE, stream="upstream")
    assert not net.wire.reading
    net.connection.release()
    net.wire.arrives(request_of(1))
    net.connection.hold()
    net.passes(200)
    assert net.requests == 0, "a paused broker reads nothing"
    net.connection.release()
    net.passes(1)
    assert net.requests == 1
    net.connection.hold()
    net.remove(live)
    net.connection.release()
    assert net.is_plain


def test_nothing_is_left_of_a_connection_that_is_lost(bench: Bench, request_of: RequestOf) -> None:
    net = Net(bench, LATE, LATE | {"stream": "upstream"}, {"toxic": "timeout", "timeout_ms": 70})
    net.wire.arrives(request_of(1))
    assert net.wire.protocol is not None
    net.wire.protocol.connection_lost(None)
    assert net.connection.closed
    net.passes(1_000)
    assert net.requests == 0
    assert not net.wire.aborted


def test_a_connection_that_is_lost_is_freed_without_the_garbage_collector(bench: Bench, request_of: RequestOf) -> None:
    net = Net(bench, LATE)
    net.wire.arrives(request_of(1))
    freed = weakref.ref(net.connection._transport)
    assert net.wire.protocol is not None
    net.wire.protocol.connection_lost(None)
    net.wire.protocol = None  # as a socket's transport does
    gc.disable()
    try:
        bench.handler.parked.clear()
        bench.handler.contexts.clear()
        del net
        assert freed() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("seed", seeds(20, quick=3))
def test_all_bytes_arrive_in_their_order_whatever_toxics_come_and_go(
    make_bench: MakeBench, request_of: RequestOf, seed: int
) -> None:
    """Random toxics that lose nothing, added and removed at random times, while a client pipelines."""
    rng = random.Random(seed)
    bench = make_bench()
    bench.handler.decide = bench.handler.answer
    net = Net(bench)
    kinds: list[dict[str, Any]] = [
        {"toxic": "latency", "latency_ms": 30, "jitter_ms": 30},
        {"toxic": "bandwidth", "rate_kb": 2},
        {"toxic": "slicer", "average_size_bytes": 7, "size_variation_bytes": 6, "delay_ms": 1},
    ]
    sent = 0
    for _ in range(60):
        match rng.randrange(4):
            case 0:
                net.add(**rng.choice(kinds), stream=rng.choice(["upstream", "downstream"]))
            case 1 if net.rules:
                net.remove(rng.choice(net.rules))
            case 2 if net.wire.reading:
                count = rng.randint(1, 4)
                net.wire.arrives(requests_of(request_of, count, first=sent + 1))
                sent += count
        net.passes(rng.randrange(20))
    net.passes(60_000)
    assert net.wire.correlation_ids() == list(range(1, sent + 1))
    while net.rules:
        net.remove(net.rules[0])
    assert net.is_plain


@pytest.mark.parametrize(
    ("data", "client"),
    [
        (b"", None),
        (bytes(13), None),
        (bytes(12) + b"\0\4" + b"til", None),
        (bytes(12) + b"\0\4" + b"till" + b"rest", "till"),
        (bytes(12) + b"\xff\xff" + b"rest", ""),
        (bytes(12) + b"\0\1\xff", "�"),
    ],
)
def test_the_client_id_is_read_from_a_requests_header(data: bytes, client: str | None) -> None:
    assert client_id_in(data) == client
