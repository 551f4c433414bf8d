"""uvicorn as this project runs it: with limits, in the brokers' event loop, and without remains when it is stopped.

Import it only when the admin HTTP starts: it imports a web server.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterable, Iterator
from typing import Any, Final, cast

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from purgatorio.logger import LineBudget
from purgatorio.purgatory.clock import Alarm, Clock, time_limit

MAX_CONNECTIONS: Final = 100
KEEP_ALIVE_SECONDS: Final = 15
"""How long a connection may be idle between two requests, by the event loop's time, as uvicorn has it. Prometheus
usually asks every 15 s."""
REQUEST_HEAD_MS: Final = 10_000
"""How long the head of a request may take to arrive."""
DATE_UPDATE_MS: Final = 1_000
"""How often the Date header is updated."""
STOP_GRACE_MS: Final = 400
"""How long a stopping server waits for requests, and once more after it has closed their connections."""


class _SparseLogger(logging.LoggerAdapter[logging.Logger]):
    """uvicorn's logger; of its warnings, which clients cause by bad requests, it passes only a few on."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(logging.getLogger("uvicorn.error"))
        self._clock = clock
        self._budget = LineBudget()

    @property
    def level(self) -> int:
        """The level of uvicorn's logger, which uvicorn looks at."""
        return self.logger.level

    def warning(self, msg: object, *args: object, **kwargs: Any) -> None:
        """Pass a warning on, unless there were many."""
        if self._budget.take(self._clock.now_ms()) is not None:
            super().warning(msg, *args, **kwargs)


class _Config(uvicorn.Config):
    """uvicorn's settings, and the clock, which reaches each connection with them."""

    def __init__(self, app: ASGIApp, clock: Clock) -> None:
        self.clock = clock
        self.logger = _SparseLogger(clock)
        self.waiting: dict[HttpConnection, None] = {}
        """The connections that wait for their client, the longest waiting first: it has to send or to take bytes."""
        super().__init__(
            app,
            interface="asgi3",
            http=HttpConnection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
        )


class _OneLength(h11.Connection):
    """Reads requests, and refuses one with two lengths, of which a proxy before the server may take the other.

    h11 takes Transfer-Encoding. The bytes that it then reads as a second request would belong to the first one for the
    proxy, which has not checked them (RFC 9112, section 6.3).
    """

    def next_event(self) -> Any:
        """Return what was read next.

        Raises:
            RemoteProtocolError: it is no HTTP/1, or it is such a request.
        """
        event = super().next_event()
        if isinstance(event, h11.Request):
            names = {name for name, _ in event.headers}
            if b"content-length" in names and b"transfer-encoding" in names:
                raise h11.RemoteProtocolError("a request has one length")
        return event


class HttpConnection(H11Protocol):
    """A connection; the server waits for the head of a request at most `REQUEST_HEAD_MS`.

    There are at most `MAX_CONNECTIONS`. One more closes the one that has waited longest for its client, so that silent
    and slow clients cannot lock others out; it is closed itself if all others are being answered.
    """

    config: _Config
    _head_deadline: Alarm | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection, and close another one, or this one, if there are too many."""
        self.logger = cast("logging.Logger", self.config.logger)  # an adapter does for uvicorn
        self.conn = _OneLength(h11.SERVER)
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            waiting = self.config.waiting
            longest = next(iter(waiting), self)
            waiting.pop(longest, None)
            longest.transport.abort()
            if longest is self:
                return
        self._wait_for_client()
        self._expect_request()

    def data_received(self, data: bytes) -> None:
        """Read on. Until a request has begun, its head has a deadline."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._expect_nothing()
            if not self.cycle.more_body:
                self.config.waiting.pop(self, None)
        elif self._head_deadline is None:
            self._expect_request()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP, and close. If it is the body of a request, the application answers no more.

        uvicorn would let both answer, and the second one fail with a traceback.
        """
        cycle = self.cycle
        with contextlib.suppress(h11.LocalProtocolError):  # the application has begun to answer
            super().send_400_response(msg)
        self.transport.close()
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()

    def on_response_complete(self) -> None:
        """Wait for the next request, within uvicorn's keep-alive timeout until its first bytes arrive."""
        self._expect_nothing()
        super().on_response_complete()
        self._wait_for_client()

    def pause_writing(self) -> None:
        """Wait until the client takes the answer."""
        super().pause_writing()
        self._wait_for_client()

    def resume_writing(self) -> None:
        """Go on; uvicorn has more of the answer, or is done."""
        super().resume_writing()
        if self.cycle is not None and not self.cycle.response_complete:
            self.config.waiting.pop(self, None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the deadline."""
        self._expect_nothing()
        super().connection_lost(exc)
        self.config.waiting.pop(self, None)

    def _wait_for_client(self) -> None:
        """Note that the connection waits from now on, unless it does already or is gone."""
        if self in self.connections:
            self.config.waiting.setdefault(self)

    def _expect_request(self) -> None:
        self._head_deadline = self.config.clock.call_later(REQUEST_HEAD_MS, self.transport.abort)

    def _expect_nothing(self) -> None:
        if self._head_deadline is not None:
            self._head_deadline.cancel()
            self._head_deadline = None


class HttpServer(uvicorn.Server):
    """Serves an application on sockets that were opened for it.

    Args:
        clock: measures how long the head of a request takes, and requests while the server stops.
        listening: is set when connections are accepted.
    """

    def __init__(self, app: ASGIApp, clock: Clock, listening: asyncio.Event) -> None:
        super().__init__(_Config(app, clock))
        self._clock = clock
        self._listening = listening
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Make `serve` stop the server and return."""
        self._stopping.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the process."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, then set `_listening`."""
        await super().startup(sockets)
        self._listening.set()

    async def main_loop(self) -> None:
        """Update the Date header until `stop`; uvicorn's own loop wakes ten times a second."""
        while not self._stopping.is_set():
            await self.on_tick(0)
            with contextlib.suppress(TimeoutError):
                async with time_limit(self._clock, DATE_UPDATE_MS):
                    await self._stopping.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close everything within a second of the clock: idle connections at once, the others after `STOP_GRACE_MS`."""
        for server in self.servers:
            server.close()
        for listening in sockets or []:
            listening.close()
        state = self.server_state
        for connection in list(state.connections):
            connection.shutdown()
        await self._finish(state.tasks)
        for connection in list(state.connections):
            connection.transport.abort()
        for task in await self._finish(state.tasks):  # by now they have noticed that their client is gone
            task.cancel()
        await asyncio.gather(*state.tasks, return_exceptions=True)
        while state.connections:  # noqa: ASYNC110 -- uvicorn has no event for it, and it takes one turn of the loop
            await asyncio.sleep(0)
        for server in self.servers:
            await server.wait_closed()

    async def _finish(self, tasks: Iterable[asyncio.Task[Any]]) -> list[asyncio.Task[Any]]:
        """Wait for requests, at most `STOP_GRACE_MS`, and return those that are not done."""
        under_way = list(tasks)
        if under_way:
            with contextlib.suppress(TimeoutError):
                async with time_limit(self._clock, STOP_GRACE_MS):
                    await asyncio.wait(under_way)
        return [task for task in under_way if not task.done()]
