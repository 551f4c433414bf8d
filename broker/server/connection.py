"""One client's connection: bytes in, frames to the dispatcher, answers out in the order of the requests.

Requests are worked on as they come, also while earlier ones are parked (Kafka mutes the connection instead); answers
wait for those of all earlier requests. Reading pauses while

* `max_in_flight_requests` requests are unanswered,
* answers back up: in the transport because the client does not read them, or here behind a parked one,
* requests that were read wait for their turn,
* the memory for requests is spent, or the listener stops.

Whatever ends one of these states calls `wake`, and the next turn of the loop goes on with what is left. Nothing is
started from within an answer: that runs deep inside whatever completed a parked operation.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from purgatorio.broker.clock import Clock
from purgatorio.broker.request import Session
from purgatorio.broker.server.dispatch import Dispatcher, api_name
from purgatorio.broker.server.exchange import Exchange
from purgatorio.broker.server.limits import ConnectionLimits, Refusal
from purgatorio.broker.server.observer import ServerObserver
from purgatorio.broker.server.request_memory import RequestMemory
from purgatorio.logger import get_logger
from purgatorio.protocol.errors import DecodeError, FrameTooLarge, NegativeFrameSize, TlsOnPlainListener
from purgatorio.protocol.framing import FrameDecoder
from purgatorio.protocol.primitives import Buffer

_log = get_logger(__name__)

# Up to here one copy is cheaper than a system call with several buffers.
_JOIN_BELOW_BYTES = 16 * 1024

_STREAM_REFUSALS: tuple[tuple[type[DecodeError], Refusal], ...] = (
    (FrameTooLarge, Refusal.FRAME_TOO_LARGE),
    (NegativeFrameSize, Refusal.NEGATIVE_FRAME_SIZE),
    (TlsOnPlainListener, Refusal.TLS_ON_PLAIN_LISTENER),
)


@dataclass(slots=True, kw_only=True)
class Surroundings:
    """What all connections of a listener share.

    Attributes:
        call_soon: the event loop's.
    """

    listener: str
    limits: ConnectionLimits
    clock: Clock
    call_soon: Callable[[Callable[[], None]], object]
    dispatcher: Dispatcher
    memory: RequestMemory
    observer: ServerObserver


class Door(Protocol):
    """Who keeps the list of connections."""

    def enter(self, connection: Connection) -> tuple[Refusal, str] | None:
        """Take `connection` in, or say why not."""
        ...

    def left(self, connection: Connection) -> None:
        """`connection`, which was taken in, is gone."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSnapshot:
    """What can be seen of a connection.

    Attributes:
        in_flight: requests that are being worked on or whose answers wait for earlier ones.
        waiting: requests that were read but not started.
        reading_paused: whether no more is read for now.
        unsent_bytes: answers that the client has not taken yet.
    """

    connection_id: str
    listener: str
    peer: str
    client_id: str | None
    age_ms: int
    in_flight: int
    waiting: int
    bytes_in: int
    bytes_out: int
    unsent_bytes: int
    reading_paused: bool


class Connection(asyncio.Protocol):
    """The server's end of a client's connection.

    Attributes:
        session: this connection, as handlers see it; made when the transport is there.
        closed: the connection is gone; nothing can be answered any more.
    """

    __slots__ = (
        "_accepting",
        "_backlog",
        "_bytes_in",
        "_bytes_out",
        "_close_when_answered",
        "_closing_since_ms",
        "_complete_bytes",
        "_connection_id",
        "_corked",
        "_decoder",
        "_door",
        "_entered",
        "_exchanges",
        "_last_active_ms",
        "_limits",
        "_memory",
        "_opened_ms",
        "_partial_bytes",
        "_partial_since_ms",
        "_reading_paused",
        "_received_ms",
        "_received_seconds",
        "_shared",
        "_stall_mark",
        "_stall_since_ms",
        "_started_once",
        "_transport",
        "_unsent_bytes",
        "_wake_scheduled",
        "_write_paused",
        "closed",
        "session",
    )

    _transport: asyncio.Transport
    session: Session

    def __init__(self, shared: Surroundings, door: Door, connection_id: str) -> None:
        self._shared = shared
        self._limits = shared.limits
        self._memory = shared.memory
        self._door = door
        self._connection_id = connection_id
        self.closed = False

        self._decoder = FrameDecoder(shared.limits.max_request_bytes)
        self._backlog: deque[Buffer] = deque()
        self._exchanges: deque[Exchange] = deque()
        self._partial_bytes = 0
        self._complete_bytes = 0
        self._unsent_bytes = 0
        self._bytes_in = 0
        self._bytes_out = 0

        self._accepting = True
        self._close_when_answered = False
        self._corked = False
        self._entered = False
        self._reading_paused = False
        self._started_once = False
        self._wake_scheduled = False
        self._write_paused = False

        self._received_ms = 0
        self._received_seconds = 0.0
        self._opened_ms = self._last_active_ms = self._partial_since_ms = shared.clock.now_ms()
        self._closing_since_ms: int | None = None
        self._stall_mark = 0
        self._stall_since_ms = 0

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection in, or refuse it if there are too many."""
        # uvloop's transports are no subclasses of asyncio's, but are what the protocol is promised.
        transport = self._transport = cast("asyncio.Transport", transport)
        host, peer = _host_and_peer(transport.get_extra_info("peername"))
        self.session = Session(connection_id=self._connection_id, listener=self._shared.listener, host=host, peer=peer)
        refusal = self._door.enter(self)
        if refusal is not None:
            self._log_refusal(*refusal)
            self.abort()
            return
        self._entered = True
        self._shared.observer.connection_opened()
        self._set_write_limits()

    def data_received(self, data: bytes) -> None:
        """Start the requests that `data` completes, as far as the limits allow it now."""
        if self._closing_since_ms is not None or self.closed:
            return
        size_bytes = len(data)
        self._bytes_in += size_bytes
        self._shared.observer.bytes_in(size_bytes)
        try:
            frames = self._decoder.feed(data)
        except DecodeError as error:
            self._refuse_stream(error)
            return
        now_ms = self._last_active_ms = self._shared.clock.now_ms()
        had_bytes = self._partial_bytes
        has_bytes = self._partial_bytes = self._decoder.pending_bytes
        complete_bytes = had_bytes + size_bytes - has_bytes
        self._complete_bytes += complete_bytes
        self._memory.received(self, partial_bytes=has_bytes - had_bytes, complete_bytes=complete_bytes)
        if frames:
            self._started_once = True
            self._received_ms = self._partial_since_ms = now_ms
            self._received_seconds = self._shared.clock.now_seconds()
            self._backlog.extend(frames)
            self._take_turn()
        else:
            if not had_bytes:
                self._partial_since_ms = now_ms
            self._steer_reading()

    def pause_writing(self) -> None:
        """Stop working for a client that does not take its answers. May be called from within our own write."""
        self._write_paused = True
        self._stall_mark = self._bytes_out
        self._stall_since_ms = self._shared.clock.now_ms()
        self._pause_reading()

    def resume_writing(self) -> None:
        """Go on. May be called from within our own write."""
        self._write_paused = False
        self.wake()

    def eof_received(self) -> None:
        """The client says that it is done: close, once it has what it was sent."""
        self._close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget everything; what is parked runs into `closed` when it is answered."""
        self.closed = True
        self._memory.leave(self, partial_bytes=self._partial_bytes, complete_bytes=self._complete_bytes)
        self._partial_bytes = self._complete_bytes = self._unsent_bytes = 0
        self._decoder = FrameDecoder(0)
        self._backlog.clear()
        self._exchanges.clear()
        if self._entered:
            self._shared.observer.connection_closed()
            self._door.left(self)

    # Starting requests.

    def wake(self) -> None:
        """Look again, in the next turn of the event loop, what can be started and whether to read."""
        if not self._wake_scheduled and not self.closed:
            self._wake_scheduled = True
            self._shared.call_soon(self._woken)

    def _woken(self) -> None:
        self._wake_scheduled = False
        if not self.closed:
            self._take_turn()

    def _take_turn(self) -> None:
        """Start requests, let all answers leave together that are ready by then, and read on or not."""
        backlog, exchanges = self._backlog, self._exchanges
        dispatch = self._shared.dispatcher.dispatch
        session = self.session
        turns_left = self._limits.max_requests_per_turn
        self._corked = True
        while backlog and turns_left:
            if not self._may_start():
                self._flush()
                if not self._may_start():
                    break
            turns_left -= 1
            frame = backlog.popleft()
            exchange = Exchange(self, len(frame) + 4, self._received_seconds)
            exchanges.append(exchange)
            dispatch(frame, exchange, session, self._received_ms)
        self._corked = False
        self._flush()
        self._steer_reading()

    def _may_start(self) -> bool:
        return (
            self._accepting
            and not self._write_paused
            and len(self._exchanges) < self._limits.max_in_flight_requests
            and self._unsent_bytes < self._limits.write_high_water_bytes
        )

    # Answering.

    def answered(self, exchange: Exchange) -> None:
        """Send the answer of `exchange` if all earlier ones have left.

        The first answer in a turn of the event loop leaves at once, for its latency; further ones leave together
        in the next turn, since what completes one parked operation often completes many (16 at a time: a third faster).
        """
        self._unsent_bytes += exchange.answer_bytes
        if not self._corked and not self._wake_scheduled and exchange is self._exchanges[0]:
            self._flush()
            self.wake()

    def refused(self, exchange: Exchange, reason: Refusal, detail: str) -> None:
        """Start nothing more; `_flush` closes when the answers of all requests before `exchange` have left."""
        self._log_refusal(reason, detail, api=api_name(exchange.api_key), version=exchange.api_version)
        self.accept_no_more()
        self.answered(exchange)

    def _flush(self) -> None:
        """Let the answers leave that wait for no earlier one, and close if that was the end."""
        if self._closing_since_ms is not None:
            return
        exchanges = self._exchanges
        observer = self._shared.observer
        now_seconds = self._shared.clock.now_seconds() if exchanges else 0.0
        parts: list[Buffer] = []
        answer_bytes = request_bytes = 0
        ends = False
        while exchanges and not ends and (answer := exchanges[0].parts) is not None:
            exchange = exchanges.popleft()
            parts += answer
            answer_bytes += exchange.answer_bytes
            request_bytes += exchange.request_bytes
            observer.request(exchange.api_key, exchange.api_version, now_seconds - exchange.received_seconds)
            ends = exchange.is_refused
        if request_bytes:
            self._unsent_bytes -= answer_bytes
            self._complete_bytes -= request_bytes
            self._memory.release(request_bytes)
        if parts and not self._transport.is_closing():  # it may have failed, and say so in the next turn
            self._write(parts, answer_bytes)
        if ends or (self._close_when_answered and not exchanges):
            self._close()

    def _write(self, parts: Sequence[Buffer], size_bytes: int) -> None:
        self._bytes_out += size_bytes
        self._shared.observer.bytes_out(size_bytes)
        if len(parts) == 1:
            self._transport.write(parts[0])
        elif size_bytes < _JOIN_BELOW_BYTES:
            self._transport.write(b"".join(parts))
        else:
            self._transport.writelines(parts)
            if not self._write_paused and self._transport.get_write_buffer_size() > self._limits.write_high_water_bytes:
                # Some CPython 3.12 and 3.13 do not pause in writelines (CVE-2024-12254); setting limits looks again.
                self._set_write_limits()

    def _set_write_limits(self) -> None:
        """Say when `pause_writing` and `resume_writing` are to be called."""
        self._transport.set_write_buffer_limits(self._limits.write_high_water_bytes, self._limits.write_low_water_bytes)

    # Reading or not.

    def _steer_reading(self) -> None:
        if not self._may_start():
            self._pause_reading()
        elif self._backlog:
            self._pause_reading()
            self.wake()
        elif not self._memory.may_read(self, has_partial=self._partial_bytes > 0):
            self._pause_reading()
        elif self._reading_paused:
            self._reading_paused = False
            self._partial_since_ms = self._last_active_ms = self._shared.clock.now_ms()
            self._transport.resume_reading()

    def _pause_reading(self) -> None:
        if not self._reading_paused:
            self._reading_paused = True
            self._transport.pause_reading()

    # Closing.

    def accept_no_more(self) -> None:
        """Start no further request, and drop those that were read but not started."""
        self._accepting = False
        self._pause_reading()
        dropped_bytes = sum(len(frame) + 4 for frame in self._backlog)
        self._backlog.clear()
        self._complete_bytes -= dropped_bytes
        self._memory.release(dropped_bytes)

    def close_when_answered(self) -> None:
        """Start no further request, and close as soon as the last answer has left."""
        self._close_when_answered = True
        self.accept_no_more()
        self._flush()

    def abort(self) -> None:
        """Close now; what was not sent is lost."""
        self._closing_since_ms = self._closing_since_ms or self._shared.clock.now_ms()
        self._transport.abort()

    def _close(self) -> None:
        """Close as soon as the client has taken what was sent; the sweep ends it if it does not."""
        if self._closing_since_ms is None:
            self._closing_since_ms = self._shared.clock.now_ms()
            self._transport.close()

    def _refuse_stream(self, error: DecodeError) -> None:
        """The bytes cannot be cut into requests any more, so there is no order to keep: close."""
        reason = next((reason for kind, reason in _STREAM_REFUSALS if isinstance(error, kind)), Refusal.BAD_FRAME)
        self._log_refusal(reason, str(error))
        self.accept_no_more()
        self._close()

    def _log_refusal(self, reason: Refusal, detail: str, **fields: object) -> None:
        self._shared.observer.refused(reason)
        _log.warning(
            "connection refused",
            reason=str(reason),
            detail=detail,
            peer=self.session.peer,
            client_id=self.session.client_id,
            listener=self._shared.listener,
            **fields,
        )

    # What the listener asks.

    def enforce_deadlines(self, now_ms: int) -> None:
        """Close the connection if it is past one of its deadlines."""
        overdue = self._overdue(now_ms)
        if overdue is not None:
            self._log_refusal(*overdue)
            self.abort()

    def _overdue(self, now_ms: int) -> tuple[Refusal, str] | None:
        limits = self._limits
        if self._closing_since_ms is not None:
            if now_ms - self._closing_since_ms > limits.write_stall_ms:
                return Refusal.LINGERING_CLOSE, f"its last answers were not taken within {limits.write_stall_ms} ms"
        elif self._write_paused:
            return self._stalled(now_ms)
        elif self._exchanges or self._backlog:
            self._last_active_ms = now_ms
        elif not self._started_once:
            if now_ms - self._opened_ms > limits.handshake_ms:
                return Refusal.HANDSHAKE_TIMEOUT, f"no request within {limits.handshake_ms} ms after connecting"
        elif now_ms - self._last_active_ms > limits.idle_ms:
            return Refusal.IDLE, f"no request for {limits.idle_ms} ms"
        if (
            self._partial_bytes
            and not self._reading_paused
            and now_ms - self._partial_since_ms > limits.partial_frame_ms
        ):
            detail = f"{self._partial_bytes} bytes of a request, but not all of it within {limits.partial_frame_ms} ms"
            return Refusal.PARTIAL_FRAME_TIMEOUT, detail
        return None

    def _stalled(self, now_ms: int) -> tuple[Refusal, str] | None:
        """A slow reader may be slow; it is refused when it takes nothing at all any more."""
        taken_bytes = self._bytes_out - self._transport.get_write_buffer_size()
        if taken_bytes != self._stall_mark:
            self._stall_mark = taken_bytes
            self._stall_since_ms = now_ms
        elif now_ms - self._stall_since_ms > self._limits.write_stall_ms:
            return Refusal.SLOW_READER, f"no byte of its answers taken for {self._limits.write_stall_ms} ms"
        return None

    def snapshot(self, now_ms: int) -> ConnectionSnapshot:
        """What can be seen of this connection now."""
        return ConnectionSnapshot(
            connection_id=self._connection_id,
            listener=self._shared.listener,
            peer=self.session.peer,
            client_id=self.session.client_id,
            age_ms=now_ms - self._opened_ms,
            in_flight=len(self._exchanges),
            waiting=len(self._backlog),
            bytes_in=self._bytes_in,
            bytes_out=self._bytes_out,
            unsent_bytes=self._unsent_bytes + self._transport.get_write_buffer_size(),
            reading_paused=self._reading_paused,
        )


def _host_and_peer(peername: object) -> tuple[str, str]:
    """The host, and `host:port`; the client may be gone already, and then has no name."""
    match peername:
        case (str(host), int(port), *_):
            return host, f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        case _:
            return "unknown", "unknown"
