"""A connection without a socket and a loop that runs when told, and a client on a real socket."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from purgatorio.broker.layers.quotas.connection_rates import ConnectionRates
from purgatorio.broker.routing.listings import Listings
from purgatorio.broker.routing.request import Reply, RequestContext, Route, Routes
from purgatorio.broker.security.sasl import SaslSettings
from purgatorio.broker.server.connection import Connection
from purgatorio.broker.server.dispatch import Dispatcher
from purgatorio.broker.server.limits import ConnectionLimits, Refusal
from purgatorio.broker.server.listener import Listener
from purgatorio.broker.server.refusal_log import RefusalLog
from purgatorio.broker.server.request_queue import RequestMemory
from purgatorio.broker.server.shared_services import SharedServices
from purgatorio.broker.server.turns import Turns
from purgatorio.broker.time.long_work import LongWork
from purgatorio.protocol.api import APIS, ApiKey, encode_request
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from purgatorio.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from purgatorio.purgatory.clock import Clock, ManualClock
from tests.broker.routing.harness import routes_of
from tests.broker.server.listeners import listener_of, listener_parts


class Handler:
    """A handler that parks every request until told otherwise.

    Attributes:
        parked: replies of requests that wait, by correlation order.
        decide: called with each reply at once; by default it parks.
    """

    def __init__(self) -> None:
        self.parked: list[Reply] = []
        self.contexts: list[RequestContext] = []
        self.decide: Callable[[Reply], None] = self.parked.append

    def __call__(self, context: RequestContext, request: Any, reply: Reply) -> None:
        self.contexts.append(context)
        self.decide(reply)

    @staticmethod
    def answer(reply: Reply) -> None:
        """Answer at once with a small response."""
        reply(ApiVersionsResponse())

    @staticmethod
    def answer_large(reply: Reply) -> None:
        """Answer at once with 6 KB."""
        reply(ApiVersionsResponse(api_keys=[ApiVersion(api_key=number) for number in range(1_000)]))


class Probe:
    """A `ServerObserver` that can be waited for."""

    def __init__(self) -> None:
        self.opened = 0
        self.closed = 0
        self.received_bytes = 0
        self.sent_bytes = 0
        self.refusals: list[Refusal] = []
        self.requests: list[tuple[int, int, float]] = []
        self._changed = asyncio.Event()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition, looked at after each event, holds."""
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    def connection_opened(self) -> None:
        self.opened += 1
        self._changed.set()

    def connection_closed(self) -> None:
        self.closed += 1
        self._changed.set()

    def refused(self, reason: Refusal) -> None:
        self.refusals.append(reason)
        self._changed.set()

    def bytes_in(self, size_bytes: int) -> None:
        self.received_bytes += size_bytes
        self._changed.set()

    def bytes_out(self, size_bytes: int) -> None:
        self.sent_bytes += size_bytes
        self._changed.set()

    def request(self, api_key: int, api_version: int, seconds: float) -> None:
        self.requests.append((api_key, api_version, seconds))
        self._changed.set()


class FakeTransport(asyncio.Transport):
    """A transport whose client takes bytes only when told; `writes` counts the calls that wrote."""

    def __init__(self, peername: Any = ("192.0.2.7", 5000)) -> None:
        super().__init__({"peername": peername})
        self.protocol: asyncio.Protocol | None = None
        self.taken = bytearray()
        self.buffered = bytearray()
        self.writes = 0
        self.reading = True
        self.closing = False
        self.aborted = False
        self.takes_all = True
        self._high = 65536
        self._low = 16384
        self._full = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high is not None
        assert low is not None
        self._high, self._low = high, low

    def get_write_buffer_size(self) -> int:
        return len(self.buffered)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.aborted
        self.writes += 1
        self.buffered += data
        if self.takes_all:
            self.take(len(self.buffered))
        if len(self.buffered) > self._high and not self._full:
            self._full = True
            assert self.protocol is not None
            self.protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def take(self, size_bytes: int) -> None:
        """The client reads."""
        self.taken += self.buffered[:size_bytes]
        del self.buffered[:size_bytes]
        if self._full and len(self.buffered) <= self._low:
            self._full = False
            assert self.protocol is not None
            self.protocol.resume_writing()

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    def abort(self) -> None:
        self.closing = self.aborted = True

    def correlation_ids(self) -> list[int]:
        """Of the answers that the client has taken, in their order."""
        data = bytes(self.taken)
        found = []
        while data:
            size = int.from_bytes(data[:4])
            found.append(int.from_bytes(data[4:8]))
            assert len(data) >= size + 4, "half an answer"
            data = data[size + 4 :]
        return found


class Bench:
    """Connections without sockets, on a loop that runs when told.

    Args:
        limits: of the connections.
        sasl: how their clients authenticate.
        goes_first: the clients are other brokers.
    """

    def __init__(self, limits: ConnectionLimits, sasl: SaslSettings | None = None, *, goes_first: bool = False) -> None:
        self.clock = ManualClock(now_ms=1_000)
        self.handler = Handler()
        self.probe = Probe()
        self.memory = RequestMemory(limits.request_memory_bytes)
        self.entered: list[Connection] = []
        self.logged_in_count = 0
        self.throttled_count = 0
        self._callbacks: deque[Callable[[], None]] = deque()
        table = {key: Route(self.handler, api.versions[0], api.versions[-1], _failed) for key, api in APIS.items()}
        self._services = SharedServices(
            listener="PLAINTEXT",
            limits=limits,
            clock=self.clock,
            deadline_clock=self.clock,
            turns=Turns(self._callbacks.append, self.clock.now_seconds),
            dispatcher=Dispatcher(routes_of(table)),
            answers=Listings(LongWork(self._callbacks.append).of_owner()),
            memory=self.memory,
            observer=self.probe,
            refusals=RefusalLog("PLAINTEXT", self.clock),
            sasl=sasl,
            goes_first=goes_first,
        )

    def connect(self, **of_transport: Any) -> tuple[Connection, FakeTransport]:
        """A new connection."""
        connection = Connection(self._services, self, f"PLAINTEXT-{len(self.entered)}")
        transport = FakeTransport(**of_transport)
        transport.protocol = connection
        connection.connection_made(transport)
        return connection, transport

    @property
    def is_busy(self) -> bool:
        """Whether something is to be done in the next turn."""
        return bool(self._callbacks)

    def enter(self, connection: Connection) -> tuple[Refusal, str] | None:
        """As the listener would: everyone may."""
        self.entered.append(connection)
        return None

    def left(self, connection: Connection) -> None:
        """As the listener would."""
        self.entered.remove(connection)

    def logged_in(self, connection: Connection) -> None:
        """As the listener would."""
        self.logged_in_count += 1

    def throttled(self, connection: Connection) -> None:
        """As the listener would."""
        self.throttled_count += 1

    def unthrottled(self, connection: Connection) -> None:
        """As the listener would."""
        self.throttled_count -= 1

    def run_once(self) -> None:
        """One iteration of the loop."""
        for _ in range(len(self._callbacks)):
            self._callbacks.popleft()()

    def run(self) -> None:
        """Iterations of the loop until it has nothing left to do."""
        while self._callbacks:
            self.run_once()


def _failed(request: Any, code: ErrorCode) -> Any:
    return HeartbeatResponse(error_code=code) if isinstance(request, HeartbeatRequest) else None


def request_bytes(correlation_id: int, api_key: int = ApiKey.API_VERSIONS, api_version: int = 0) -> bytes:
    """A small request, as it is on the wire."""
    return b"".join(encode_request(api_key, api_version, correlation_id, "tester", ApiVersionsRequest()))


@pytest.fixture
def request_of() -> Callable[..., bytes]:
    """`request_bytes`."""
    return request_bytes


@pytest.fixture
def make_bench() -> Callable[..., Bench]:
    """Makes a bench whose limits are the defaults but for the given ones."""

    def make(*, goes_first: bool = False, **limits: int) -> Bench:
        return Bench(ConnectionLimits(**limits), goes_first=goes_first)

    return make


@pytest.fixture
def clock() -> ManualClock:
    """A clock that stands still."""
    return ManualClock(now_ms=5_000)


@pytest.fixture
def handler() -> Handler:
    """A handler that parks."""
    return Handler()


@pytest.fixture
def probe() -> Probe:
    """An observer that a test can wait for."""
    return Probe()


@pytest.fixture
def routes(handler: Handler) -> Routes:
    """ApiVersions 0 to 3 by `handler`, Produce 0 to 11 of which only 3 and newer are answered."""

    def failed(request: Any, code: ErrorCode) -> ApiVersionsResponse:
        return ApiVersionsResponse(error_code=code)

    return routes_of(
        {
            ApiKey.API_VERSIONS: Route(handler, 0, 3, failed),
            ApiKey.PRODUCE: Route(handler, 0, 11, lambda request, code: None, min_answered_version=3),
        }
    )


@pytest.fixture
async def start_listener(
    routes: Routes, clock: ManualClock, probe: Probe
) -> AsyncIterator[Callable[..., Awaitable[Listener]]]:
    """Starts listeners on loopback with the given limits, and stops them in the end."""
    started: list[Listener] = []

    async def start(
        rates: ConnectionRates | None = None, deadline_clock: Clock | None = None, **limits: Any
    ) -> Listener:
        parts = listener_parts(ConnectionLimits(**limits), clock, deadline_clock=deadline_clock, observer=probe)
        listener = listener_of(routes, parts, rates=rates)
        await listener.start("127.0.0.1", 0)
        started.append(listener)
        return listener

    yield start
    for listener in started:
        await listener.stop(0)


class Client:
    """The other end of a real connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @property
    def name(self) -> str:
        """The address that the server sees."""
        host, port = self.writer.get_extra_info("sockname")
        return f"{host}:{port}"

    def send(self, data: bytes) -> None:
        """Write without waiting."""
        self.writer.write(data)

    async def answer(self) -> tuple[int, bytes]:
        """The next answer: its correlation id and its body."""
        size = int.from_bytes(await self.reader.readexactly(4))
        frame = await self.reader.readexactly(size)
        return int.from_bytes(frame[:4]), frame[4:]

    async def rest(self) -> bytes:
        """All that comes until the server closes, however it does."""
        try:
            return await self.reader.read()
        except ConnectionResetError:
            return b""


@pytest.fixture
async def connect() -> AsyncIterator[Callable[[Listener], Awaitable[Client]]]:
    """Connects clients, and closes them in the end."""
    clients: list[Client] = []

    async def connect_to(listener: Listener) -> Client:
        client = Client(*await asyncio.open_connection(*listener.address))
        clients.append(client)
        return client

    yield connect_to
    for client in clients:
        client.writer.transport.abort()
