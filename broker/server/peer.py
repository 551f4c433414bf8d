"""A connection to another broker: requests out, answers in, in the same order.

Followers fetch through it, so its cost is part of the latency of acks=-1: a request costs one encoding and one write,
an answer one decoding and one call from within `data_received`; neither costs a task, a timer or a lock.

Answers come in the order of the requests, so a missing answer holds back all later ones. A request that times out
therefore ends the connection, as in Kafka's own clients, and the caller makes a new one.
"""

# compiled: docs/compiled.md

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from purgatorio.broker.security.brokers_tls import TlsRefused, why_no_tls
from purgatorio.broker.server.held_transport import held, released
from purgatorio.logger import get_logger
from purgatorio.protocol.api import decode_response, encode_request
from purgatorio.protocol.errors import DecodeError
from purgatorio.protocol.framing import FrameDecoder, Gather, gather_plain
from purgatorio.purgatory.clock import Alarm, Clock, time_limit

_log = get_logger(__name__)

MAX_RESPONSE_BYTES = 100 * 1024 * 1024
MAX_OUTSTANDING_REQUESTS = 64
CONNECT_TIMEOUT_MS = 10_000
_CORRELATION_ID_MASK = 0x7FFF_FFFF

Done = Callable[[Any, Exception | None], None]


class PeerBusy(Exception):
    """Too many requests wait for their answers; the connection stays usable."""


class _Outstanding(NamedTuple):
    correlation_id: int
    api_key: int
    api_version: int
    deadline_ms: int
    done: Done


class PeerConnection(asyncio.Protocol):
    """This broker's end of a connection to another broker. It is used once: connect, request, close.

    Args:
        clock: times connecting and requests.
        client_id: the client id of the requests.
        max_response_bytes: a larger answer ends the connection when its size arrives, before memory is allocated.
        max_outstanding_requests: requests that may wait for their answers; bounds the memory held for a peer that
            neither reads nor answers.
        gather: gives the memory for large answers.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        client_id: str,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
        max_outstanding_requests: int = MAX_OUTSTANDING_REQUESTS,
        gather: Gather = gather_plain,
    ) -> None:
        self._clock = clock
        self._client_id = client_id
        self._max_outstanding = max_outstanding_requests
        self._decoder = FrameDecoder(max_response_bytes, gather)
        self._outstanding: deque[_Outstanding] = deque()
        self._correlation_id = 0
        self._name = "a peer"
        self._has_tls = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._transport: asyncio.Transport | None = None
        self._ended: Exception | None = None
        self._lost = asyncio.Event()
        self._alarm: Alarm | None = None
        self._alarm_due_ms = 0

    @property
    def closed(self) -> bool:
        """Whether the connection has ended, so that no request can be sent."""
        return self._ended is not None

    @property
    def max_response_bytes(self) -> int:
        """The largest answer that is taken; it may change."""
        return self._decoder.max_frame_bytes

    @max_response_bytes.setter
    def max_response_bytes(self, size_bytes: int) -> None:
        self._decoder.max_frame_bytes = size_bytes

    @property
    def outstanding(self) -> int:
        """How many requests wait for their answers."""
        return len(self._outstanding)

    async def connect(
        self, host: str, port: int, *, timeout_ms: int = CONNECT_TIMEOUT_MS, tls: ssl.SSLContext | None = None
    ) -> None:
        """Connect.

        Args:
            tls: speak TLS by this context.

        Raises:
            OSError: the peer cannot be reached; TlsRefused if it is for the sake of `tls`.
            TimeoutError: the peer did not accept within `timeout_ms`.
            RuntimeError: this object was connected or closed before.
        """
        if self._loop is not None or self._ended is not None:
            raise RuntimeError("a peer connection is used once")
        self._loop = asyncio.get_running_loop()
        self._has_tls = tls is not None
        self._name = f"{host}:{port}"
        try:
            async with time_limit(self._clock, timeout_ms):
                await self._loop.create_connection(lambda: self, host, port, ssl=tls)
        except TimeoutError:
            raise TimeoutError(f"{self._name} did not accept a connection within {timeout_ms} ms") from None
        except (ssl.SSLError, ConnectionResetError, ConnectionAbortedError) as error:
            if tls is None:
                raise
            raise TlsRefused(f"{self._name} {why_no_tls(error)}") from None
        if self._ended is not None:
            raise self._ended

    async def request(self, api_key: int, api_version: int, message: Any, *, timeout_ms: int) -> Any:
        """Send a request and wait for its response. Cancelling drops the response and keeps the connection.

        Raises:
            ConnectionError: the connection was lost or closed, or the peer sent bytes that are not an answer.
            TimeoutError: no answer within `timeout_ms`; the connection is closed.
            EncodeError: `message` cannot be encoded in that version.
            PeerBusy: too many requests are outstanding.
        """
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def done(response: Any, error: Exception | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(response)
            else:
                future.set_exception(error)

        self.send(api_key, api_version, message, timeout_ms=timeout_ms, done=done)
        return await future

    def send(self, api_key: int, api_version: int, message: Any, *, timeout_ms: int, done: Done) -> None:
        """Send a request and have `done` called with its response, or with None and the error that `request` raises.

        `done` is called once, after this method has returned. The request must have an answer (so not acks=0).

        Raises:
            ConnectionError, EncodeError, PeerBusy: as `request`; `done` is not called.
        """
        if self._loop is None or self._transport is None or self._ended is not None or self._transport.is_closing():
            raise ConnectionError(f"not connected to {self._name}") from self._ended
        if len(self._outstanding) >= self._max_outstanding:
            raise PeerBusy(f"{self._max_outstanding} requests to {self._name} are outstanding")
        self._correlation_id = correlation_id = (self._correlation_id + 1) & _CORRELATION_ID_MASK
        parts = encode_request(api_key, api_version, correlation_id, self._client_id, message)
        deadline_ms = self._clock.now_ms() + timeout_ms
        self._outstanding.append(_Outstanding(correlation_id, api_key, api_version, deadline_ms, done))
        if self._alarm is None or deadline_ms < self._alarm_due_ms:
            self._set_alarm(timeout_ms, deadline_ms)
        if len(parts) == 1:
            self._transport.write(parts[0])
        else:
            self._transport.writelines(parts)

    def hold(self) -> None:
        """Send nothing and read nothing until `release`: the network between the brokers loses all packets."""
        if self._transport is not None:
            self._transport = held(self._transport)

    def release(self) -> None:
        """Go on after `hold`."""
        if self._transport is not None:
            self._transport = released(self._transport)

    def close(self) -> None:
        """Close now. All outstanding requests fail with ConnectionError. May be called again."""
        self._end(ConnectionAbortedError(f"the connection to {self._name} was closed"))

    async def wait_closed(self) -> None:
        """Wait until the socket is closed, after `close` or because the peer closed it."""
        if self._transport is not None:
            await self._lost.wait()

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport, or abort it if `close` was called meanwhile."""
        # uvloop's transports are no subclasses of asyncio's, but have all their methods.
        transport = self._transport = cast("asyncio.Transport", transport)
        if self._ended is not None:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        """Pass each complete answer to the `done` of its request."""
        try:
            for frame in self._decoder.feed(data):
                if not self._outstanding:
                    raise DecodeError("an answer without a request")
                asked = self._outstanding[0]
                correlation_id, response = decode_response(asked.api_key, asked.api_version, frame)
                if correlation_id != asked.correlation_id:
                    raise DecodeError(f"an answer to request {correlation_id} instead of {asked.correlation_id}")
                self._outstanding.popleft()
                self._pass(asked, response, None)
        except DecodeError as error:
            if self._ended is None:
                self._end(ConnectionError(f"{self._name} sent an invalid answer: {error}"))
        except MemoryError:
            self._end(ConnectionError(f"the system has no memory for an answer of {self._name}"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail all outstanding requests."""
        if self._has_tls and self._correlation_id == len(self._outstanding):  # nothing was answered yet
            self._end(TlsRefused(f"{self._name} {why_no_tls(exc)}"))
        else:
            self._end(ConnectionResetError(f"the connection to {self._name} was lost{f': {exc}' if exc else ''}"))
        self._lost.set()

    # Deadlines.

    def expire(self) -> None:
        """End the connection if a request is past its deadline; called when the earliest deadline has come."""
        now_ms = self._clock.now_ms()
        if not any(asked.deadline_ms <= now_ms for asked in self._outstanding):
            return
        outstanding, self._outstanding = self._outstanding, deque()
        self.close()
        for asked in outstanding:
            late = asked.deadline_ms <= now_ms
            error = TimeoutError(f"no answer of {self._name} in time") if late else self._ended
            self._pass(asked, None, error)

    def _set_alarm(self, delay_ms: int, due_ms: int) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_due_ms = due_ms
        self._alarm = self._clock.call_later(max(delay_ms, 0), self._alarm_rings)

    def _alarm_rings(self) -> None:
        """Expire, and set the alarm for the next deadline: most requests were answered since it was set."""
        self._alarm = None
        self.expire()
        if self._outstanding:
            due_ms = min(asked.deadline_ms for asked in self._outstanding)
            self._set_alarm(max(due_ms - self._clock.now_ms(), 1), due_ms)

    # The end.

    def _end(self, error: Exception) -> None:
        if self._ended is not None:
            return
        self._ended = error
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self._transport is not None:
            self._transport.abort()
        outstanding, self._outstanding = self._outstanding, deque()
        for asked in outstanding:
            self._pass(asked, None, error)

    def _pass(self, asked: _Outstanding, response: Any, error: Exception | None) -> None:
        try:
            asked.done(response, error)
        except Exception:  # a bug of one caller must not keep the answers from the others
            _log.exception("handling an answer failed", peer=self._name, api_key=asked.api_key)


async def open_peer(clock: Clock, client_id: str, timeout_ms: int, address: tuple[str, int]) -> PeerConnection:
    """Return a new connection to a host and port; raises as `PeerConnection.connect`."""
    connection = PeerConnection(clock, client_id=client_id)
    try:
        await connection.connect(*address, timeout_ms=timeout_ms)
    except BaseException:
        connection.close()
        raise
    return connection
