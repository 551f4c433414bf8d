"""Everything that can happen to connections, in random order: answers keep theirs, and no wake-up is lost."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from purgatorio.broker.server.limits import Refusal
from purgatorio.protocol.api import APIS, encode_request
from purgatorio.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from tests.histories import seeds
from tests.logs import capture_logs

if TYPE_CHECKING:
    from purgatorio.broker.server.connection import Connection

    from .conftest import Bench, FakeTransport

MakeBench = Callable[..., "Bench"]
RequestOf = Callable[..., bytes]


@dataclass
class _End:
    """One connection of a random run, and the bytes that are still to be sent on it."""

    connection: Connection
    transport: FakeTransport
    chunks: deque[bytes]
    silent: set[int] = field(default_factory=set)


class _RandomRun:
    """Three connections that share too little memory, and everything that can happen to them, in any order."""

    requests_each = 60

    def __init__(self, make_bench: MakeBench, request_of: RequestOf, seed: int) -> None:
        self.random = random.Random(seed)
        self.max_in_flight = self.random.randint(1, 12)
        self.bench = make_bench(
            max_in_flight_requests=self.max_in_flight,
            max_requests_per_turn=self.random.randint(1, 9),
            request_memory_bytes=self.random.randint(30, 600),
            write_low_water_bytes=50,
            write_high_water_bytes=self.random.randint(50, 3_000),
        )
        self.bench.handler.decide = self.decide
        self.parked: list[tuple[str, Any]] = []
        self.ends: dict[str, _End] = {}
        for _ in range(3):
            connection, transport = self.bench.connect()
            transport.takes_all = self.random.random() < 0.5
            stream = b"".join(request_of(number) for number in range(1, self.requests_each + 1))
            self.ends[connection.session.connection_id] = _End(connection, transport, deque(self.chunks(stream)))

    def chunks(self, stream: bytes) -> list[bytes]:
        largest = self.random.choice([3, 40, 700])
        cut = []
        while stream:
            size = self.random.randint(1, largest)
            cut.append(stream[:size])
            stream = stream[size:]
        return cut

    def decide(self, reply: Any) -> None:
        asked = (self.bench.handler.contexts[-1].session.connection_id, reply)
        if self.random.random() < 0.5:
            self.parked.append(asked)
        else:
            self.answer(*asked)

    def answer(self, connection_id: str, reply: Any) -> None:
        if self.random.random() < 0.15:
            self.ends[connection_id].silent.add(reply.correlation_id)
            reply.nothing()
        else:
            reply(ApiVersionsResponse(api_keys=[ApiVersion()] * self.random.choice([0, 5, 200])))

    def answer_any(self) -> None:
        self.answer(*self.parked.pop(self.random.randrange(len(self.parked))))

    def step(self) -> None:
        end = self.random.choice(list(self.ends.values()))
        match self.random.randrange(4):
            case 0 if end.chunks and end.transport.reading:
                end.connection.data_received(end.chunks.popleft())
            case 1 if self.parked:
                self.answer_any()
            case 2:
                end.transport.take(self.random.randint(1, 2_000))
            case _:
                self.bench.run_once()
        for other in self.ends.values():
            assert other.connection.snapshot(0).in_flight <= self.max_in_flight

    def finish(self) -> None:
        """Answer, take and send everything; one that does not read although nothing is left missed its wake-up."""
        while True:
            while self.parked:
                self.answer_any()
            for end in self.ends.values():
                end.transport.take(len(end.transport.buffered))
            self.bench.run()
            if self.parked or any(end.transport.buffered for end in self.ends.values()):
                continue
            ready = [end for end in self.ends.values() if end.chunks and end.transport.reading]
            if not ready:
                return
            end = self.random.choice(ready)
            end.connection.data_received(end.chunks.popleft())


@pytest.mark.parametrize("seed", seeds(60, quick=3))
def test_whatever_the_order_of_events_answers_keep_theirs_and_none_is_lost(
    make_bench: MakeBench, request_of: RequestOf, seed: int
) -> None:
    """Random chunks, completions, reading and turns: each request is answered once, in order; all memory is free."""
    run = _RandomRun(make_bench, request_of, seed)
    for _ in range(400):
        run.step()
    run.finish()
    assert run.bench.memory.used_bytes == 0
    assert run.bench.memory.waiting == 0
    for end in run.ends.values():
        assert not end.chunks, "a wake-up was lost"
        assert end.transport.reading
        wanted = [number for number in range(1, run.requests_each + 1) if number not in end.silent]
        assert end.transport.correlation_ids() == wanted
        assert end.connection.snapshot(0).unsent_bytes == 0


@settings(
    max_examples=400, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    key=st.sampled_from(sorted(APIS)),
    version=st.integers(0, 20),
    noise=st.lists(st.tuples(st.integers(4, 200), st.integers(0, 255)), max_size=6),
    tail=st.binary(max_size=40),
    cut=st.integers(1, 64),
)
def test_damaged_requests_are_answered_or_refused_and_nothing_else(
    make_bench: MakeBench, key: int, version: int, noise: list[tuple[int, int]], tail: bytes, cut: int
) -> None:
    """Any request with any bytes changed, and any bytes behind it: no exception gets out, and none is logged."""
    api = APIS[key]
    version = min(api.versions[-1], api.versions[0] + version)
    data = bytearray(b"".join(encode_request(key, version, 1, "tester", api.request())))
    for position, byte in noise:
        data[4 + position % (len(data) - 4)] = byte
    stream = bytes(data) + tail
    bench = make_bench(max_request_bytes=1_000)
    bench.handler.decide = lambda reply: reply.nothing()
    connection, transport = bench.connect()
    with capture_logs():
        for start in range(0, len(stream), cut):
            connection.data_received(stream[start : start + cut])
        bench.run()
    assert Refusal.INTERNAL_ERROR not in bench.probe.refusals
    # ApiVersions in an unknown version is answered without a handler.
    answered = transport.correlation_ids()
    assert len(bench.handler.contexts) + len(bench.probe.refusals) + len(answered) >= 1
    connection.connection_lost(None)
    assert bench.memory.used_bytes == 0
