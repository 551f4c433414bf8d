"""One client's connection: bytes in, requests to the dispatcher, answers out in the order of the requests.

This is the shell that speaks to asyncio. It decides nothing that can be decided without it: `request_queue` cuts bytes
into requests, `reply_queue` keeps the order of the answers, `deadlines` decides when the client is too late.

Requests are worked on as they come, also while earlier ones are parked (Kafka mutes the connection instead). Reading
pauses while

* `max_in_flight_requests` requests are unanswered,
* answers back up: in the transport because the client does not read them, or here behind a parked one,
* so many requests that were read wait for their turn that they need more than one, until none waits,
* the channel is muted, and as many requests wait for its end as may be in flight; or a quota throttles it,
* the memory for requests is spent, unless the client is another broker; or the listener stops.

The event that ends one of these states calls `wake`, and the next turn of the event loop goes on. No request is started
from within an answer, deep inside the completion of a parked operation.
"""

# compiled: docs/compiled.md

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import cast

from purgatorio.broker.layers.faults.toxic_rule import Toxics
from purgatorio.broker.routing.request import Principal, Session
from purgatorio.broker.server.connection_slots import Slot
from purgatorio.broker.server.connection_snapshot import ConnectionSnapshot, host_and_peer
from purgatorio.broker.server.deadlines import Deadlines
from purgatorio.broker.server.dispatch import api_name
from purgatorio.broker.server.exchange import Exchange, ReplyQueue
from purgatorio.broker.server.held_transport import held, released
from purgatorio.broker.server.limits import Refusal
from purgatorio.broker.server.request_queue import RequestQueue
from purgatorio.broker.server.sasl_gate import SaslGate
from purgatorio.broker.server.shared_services import ConnectionOwner, SharedServices
from purgatorio.broker.server.toxic_link import under_toxics
from purgatorio.protocol.errors import DecodeError, FrameTooLarge, NegativeFrameSize, TlsOnPlainListener
from purgatorio.protocol.framing import SIZE_BYTES
from purgatorio.protocol.primitives import Buffer

# Up to here one copy is cheaper than a system call with several buffers.
_JOIN_BELOW_BYTES = 16 * 1024

_STREAM_REFUSALS: tuple[tuple[type[Exception], Refusal], ...] = (
    (FrameTooLarge, Refusal.FRAME_TOO_LARGE),
    (NegativeFrameSize, Refusal.NEGATIVE_FRAME_SIZE),
    (TlsOnPlainListener, Refusal.TLS_ON_PLAIN_LISTENER),
    (MemoryError, Refusal.NO_MEMORY),
)


class Connection(asyncio.Protocol):
    """The server's end of a client's connection.

    Attributes:
        session: the connection as handlers see it; made in `connection_made`.
        closed: whether the connection is gone, so that nothing can be answered any more.
        slot: its slot among the connections of its broker; None until it has one.
    """

    __slots__ = (
        "_bytes_in",
        "_bytes_out",
        "_connection_id",
        "_deadlines",
        "_entered",
        "_gate",
        "_has_ended",
        "_held",
        "_is_new",
        "_owner",
        "_reading_paused",
        "_received_ms",
        "_received_seconds",
        "_replies",
        "_requests",
        "_services",
        "_transport",
        "closed",
        "session",
        "slot",
    )

    _transport: asyncio.Transport
    session: Session

    def __init__(
        self, services: SharedServices, owner: ConnectionOwner[Connection], connection_id: str, slot: Slot | None = None
    ) -> None:
        self.slot = slot
        self._services = services
        self._owner = owner
        self._connection_id = connection_id
        self._gate: SaslGate | None = None
        max_request_bytes = services.limits.max_request_bytes
        if services.sasl is not None:
            self._gate = SaslGate(services.sasl, services.dispatcher, self, services.clock)
            max_request_bytes = min(max_request_bytes, services.sasl.max_request_bytes)
        self._requests = RequestQueue(services.memory, max_request_bytes)
        self._replies = ReplyQueue(services.limits, services.observer, services.clock.now_seconds)
        self._deadlines = Deadlines(
            services.limits, services.deadline_clock.now_ms(), authenticates=services.sasl is not None
        )
        self._entered = self._has_ended = False
        self._is_new = services.sasl is None
        self._held: Callable[[], None] | None = None
        self._reading_paused = False
        self._bytes_in = 0
        self._bytes_out = 0
        self._received_ms = 0
        self._received_seconds = 0.0
        self.closed = False

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the session, or refuse the connection if there are too many."""
        # uvloop's transports are no subclasses of asyncio's, but have all their methods.
        transport = self._transport = cast("asyncio.Transport", transport)
        host, peer = host_and_peer(transport.get_extra_info("peername"))
        self.session = Session(
            connection_id=self._connection_id, listener=self._services.listener, host=host, peer=peer, channel=self
        )
        refusal = self._owner.enter(self)
        if refusal is not None:
            self._log_refusal(*refusal)
            self.abort()
            return
        self._entered = True
        self._services.observer.connection_opened()
        self._set_write_limits()
        if self._services.identify is not None:
            tls = transport.get_extra_info("ssl_object")
            self._identified(self._services.identify(tls.getpeercert(binary_form=True)))

    def _identified(self, client: Principal | str) -> None:
        if isinstance(client, Principal):
            self.session.principal = client
            self.session.is_broker = self._goes_first
        else:
            self._log_refusal(Refusal.NO_PRINCIPAL, client)
            self.accept_no_more()
            self._close()

    def data_received(self, data: bytes) -> None:
        """Start the requests that `data` completes, as far as the limits allow it now."""
        deadlines, requests, services = self._deadlines, self._requests, self._services
        if deadlines.closing_since_ms is not None or self.closed:
            return
        self._bytes_in += len(data)
        services.observer.bytes_in(len(data))
        continued = requests.arrived_bytes > 0
        try:
            completed = requests.feed(data, self)
        except (DecodeError, MemoryError) as error:
            self._refuse_stream(error)
            return
        deadlines.received(services.deadline_clock.now_ms(), completed, continued)
        if not completed:
            self._steer_reading()
            return
        if self._is_new:
            self._is_new = False
            self._owner.logged_in(self)
        self._received_ms = services.clock.now_ms()
        self._received_seconds = now_seconds = services.clock.now_seconds()
        if services.turns.are_over(now_seconds) and not self._goes_first:
            self._steer_reading()
        else:
            self._start_requests(now_seconds)

    def pause_writing(self) -> None:
        """Stop working for a client that does not take its answers. May be called from within a write of this class."""
        self._replies.writing_paused = True
        self._deadlines.writing_paused()
        self._pause_reading()

    def resume_writing(self) -> None:
        """Go on working for the client. May be called from within a write of this class."""
        self._replies.writing_paused = False
        self.wake()

    def eof_received(self) -> bool:
        """Answer what the client has sent, and close then: it sends nothing more, but may still read.

        A client that has closed both ways looks the same until something is sent to it.

        Returns:
            Whether the transport stays open. With TLS it cannot: there is no half of a connection.
        """
        if self._deadlines.closing_since_ms is not None or self._transport.get_extra_info("ssl_object") is not None:
            self._close()
            return False
        self._has_ended = True
        self._requests.ended(self)
        self._deadlines.client_ended(self._services.deadline_clock.now_ms())
        self._pause_reading()
        self._steer_to_end()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget all requests; the answers of parked ones will find `closed` set."""
        self.closed = True
        self.session.lost()
        self._requests.leave(self)
        self._replies.clear()
        if self._gate is not None:
            self._gate.lost()
            self._gate = None
        if self._entered:
            self._services.observer.connection_closed()
            self._owner.left(self)

    # Starting requests.

    @property
    def _goes_first(self) -> bool:
        """Whether the peer has proved to be a broker; other clients of the brokers' listener wait for their turns."""
        return self._services.goes_first and self.session.principal.is_broker

    def wake(self) -> None:
        """In a later turn of the event loop, start the requests that may be started, and steer reading."""
        if not self._replies.turn_scheduled and not self.closed:
            self._replies.turn_scheduled = True
            self._services.turns.wait(self, goes_first=self._goes_first)

    def take_turn(self, now_seconds: float) -> None:
        """Do what `wake` was called for; see `Turns`."""
        self._replies.turn_scheduled = False
        if self.closed:
            return
        held = self._held
        if held is not None and not self._replies.throttled:
            self._held = None
            self._replies.mutes -= 1
            held()
        self._start_requests(now_seconds)

    def _start_requests(self, started_seconds: float) -> None:
        """Start requests, send together all answers that are ready by then, and read on or not.

        Args:
            started_seconds: now, by the clock.
        """
        waiting, replies, session = self._requests.waiting, self._replies, self.session
        begin, dispatch = replies.in_flight.append, (self._gate or self._services.dispatcher).dispatch
        turns_left = self._services.limits.max_requests_per_turn
        now_seconds = self._services.clock.now_seconds
        end_seconds = started_seconds + self._services.limits.max_turn_ms / 1000
        replies.in_turn = True
        room_bytes = replies.room_bytes(self._transport.get_write_buffer_size())
        while waiting and turns_left:
            if replies.unsent_bytes >= room_bytes or not replies.may_start():
                self._flush()
                if not replies.may_start():
                    break
                room_bytes = replies.room_bytes(self._transport.get_write_buffer_size())
            turns_left -= 1
            frame = waiting.popleft()
            exchange = Exchange(self, len(frame) + SIZE_BYTES, self._received_seconds)
            begin(exchange)
            dispatch(frame, exchange, session, self._received_ms)
            if waiting and now_seconds() > end_seconds:
                break
        replies.in_turn = False
        self._flush()
        self._steer_reading()
        self._services.turns.busy_until_seconds = now_seconds()

    def mute(self) -> None:
        """Start no further request until `unmute`; see `Channel`."""
        self._replies.mutes += 1

    def unmute(self) -> None:
        """Take back one `mute`; see `Channel`."""
        self._replies.mutes -= 1
        self.wake()

    def throttle(self) -> None:
        """Start no further request and read nothing until `unthrottle`; see `Channel`."""
        self._replies.throttled = True
        self.mute()
        self._pause_reading()
        self._owner.throttled(self)

    def unthrottle(self, then: Callable[[], None] | None = None) -> None:
        """Take back `throttle`; see `Channel`."""
        self._replies.throttled = False
        self._owner.unthrottled(self)
        if then is None:
            self.unmute()
        else:
            self._held = then
            self.wake()

    # Answering.

    def answered(self, exchange: Exchange) -> None:
        """Send the answer of `exchange` now, or with later ones (see `ReplyQueue.answered`)."""
        if self._replies.answered(exchange):
            self._flush()
            self.wake()

    def refused(self, exchange: Exchange, reason: Refusal, detail: str) -> None:
        """Start no further request; `_flush` closes when the answers of all requests before `exchange` were sent."""
        self._log_refusal(reason, detail, api=api_name(exchange.api_key), version=exchange.api_version)
        self.accept_no_more()
        self.answered(exchange)

    def take_steps(self, steps: Iterator[int]) -> None:
        """Make a long answer in steps; see `Listings`."""
        self._services.answers.begin(steps, self.session)

    def authenticated(self, *, keeps_gate: bool) -> None:
        """Allow large requests and idleness; without `keeps_gate` all further requests go to the dispatcher."""
        self._requests.allow(self._services.limits.max_request_bytes)
        self._deadlines.authenticated()
        self.session.is_broker = self._goes_first
        self._owner.logged_in(self)
        if not keeps_gate:
            self._gate = None

    def _flush(self) -> None:
        """Send the answers that wait for no earlier one, and close if one of them was the last."""
        if self._deadlines.closing_since_ms is not None:
            return
        departure = self._replies.take()
        if departure is not None:
            parts, answer_bytes, request_bytes = departure
            self._requests.release(request_bytes)
            if parts and not self._transport.is_closing():  # it may have failed, and report that in the next turn
                self._bytes_out += answer_bytes
                self._services.observer.bytes_out(answer_bytes)
                if len(parts) == 1:
                    self._transport.write(parts[0])
                else:
                    self._write_parts(parts, answer_bytes)
        if self._replies.ended:
            self._close()

    def _write_parts(self, parts: Sequence[Buffer], size_bytes: int) -> None:
        if size_bytes < _JOIN_BELOW_BYTES:
            self._transport.write(b"".join(parts))
            return
        self._transport.writelines(parts)
        high_water_bytes = self._services.limits.write_high_water_bytes
        if not self._replies.writing_paused and self._transport.get_write_buffer_size() > high_water_bytes:
            # Some CPython 3.12 and 3.13 do not pause in writelines (CVE-2024-12254); setting limits looks again.
            self._set_write_limits()

    def _set_write_limits(self) -> None:
        """Set the sizes of the transport's buffer at which it calls `pause_writing` and `resume_writing`."""
        limits = self._services.limits
        self._transport.set_write_buffer_limits(limits.write_high_water_bytes, limits.write_low_water_bytes)

    # Reading or not.

    def _steer_to_end(self) -> None:
        """Start the requests that the client sent before its end, and close when the last one is answered."""
        replies = self._replies
        if not self._requests.waiting:
            replies.end_when_empty()
            self._flush()
        elif replies.may_start():
            self.wake()

    def _steer_reading(self) -> None:
        if self._has_ended:
            self._steer_to_end()
            return
        replies, requests = self._replies, self._requests
        reads_ahead = replies.mutes > 0 and replies.may_read_ahead(len(requests.waiting))
        may_read = reads_ahead or replies.may_start()
        if may_read and requests.waiting and not reads_ahead:
            self.wake()
            may_read = not self._reading_paused and requests.may_take_more()
        if not may_read or not (
            self.session.is_broker or self._services.memory.may_read(self, partial_bytes=requests.partial_bytes)
        ):
            self._pause_reading()
        elif self._reading_paused:
            self._reading_paused = False
            self._deadlines.reading_resumed(self._services.deadline_clock.now_ms())
            self._transport.resume_reading()

    def _pause_reading(self) -> None:
        if not self._reading_paused:
            self._reading_paused = True
            self._transport.pause_reading()

    # Closing.

    def accept_no_more(self) -> None:
        """Start no further request, and drop those that were read but not started."""
        self._replies.accepting = False
        self._pause_reading()
        self._requests.drop_waiting()

    def close_when_answered(self) -> None:
        """Start no further request, and close as soon as the last answer was sent."""
        self._replies.end_when_empty()
        self.accept_no_more()
        self._flush()

    def abort(self) -> None:
        """Close now; answers that were not sent are lost."""
        self._deadlines.aborted(self._services.deadline_clock.now_ms())
        self._transport.abort()

    def _close(self) -> None:
        """Close as soon as the client has taken the answers that were sent; a sweep aborts if it does not."""
        if self._deadlines.closing_since_ms is None:
            self._deadlines.closing(self._services.deadline_clock.now_ms())
            self._transport.close()

    def _refuse_stream(self, error: DecodeError | MemoryError) -> None:
        """Close: the bytes cannot be cut into requests any more, so there is no order to keep."""
        reason = next((reason for kind, reason in _STREAM_REFUSALS if isinstance(error, kind)), Refusal.BAD_FRAME)
        self._log_refusal(reason, str(error) or "the system has no memory for the request")
        self.accept_no_more()
        self._close()

    def _log_refusal(self, reason: Refusal, detail: str, **fields: object) -> None:
        services, session = self._services, self.session
        services.observer.refused(reason)
        services.refusals.refused(reason, detail, peer=session.peer, client_id=session.client_id, **fields)

    # Called by the owner.

    @property
    def transport(self) -> asyncio.Transport:
        """The connection's way to the client."""
        return self._transport

    @property
    def unsent_bytes(self) -> int:
        """Answers that the client has not taken."""
        return self._replies.unsent_bytes + self._transport.get_write_buffer_size()

    def is_quiet(self, now_ms: int) -> bool:
        """Whether no deadline can have passed: nothing is under way, and the client is not idle for too long."""
        replies, requests = self._replies, self._requests
        is_busy = replies.in_flight or requests.waiting or requests.arrived_bytes or replies.writing_paused
        return self._deadlines.may_rest(now_ms) and not is_busy and self._gate is None

    def enforce_deadlines(self, now_ms: int, *, answers_short: bool = False) -> None:
        """Abort the connection if the client is past one of its deadlines.

        Args:
            answers_short: the unsent answers of all connections are above their bound.
        """
        replies, requests = self._replies, self._requests
        buffered_bytes = self._transport.get_write_buffer_size()
        overdue = self._deadlines.overdue(
            now_ms,
            busy=bool(replies.in_flight or requests.waiting),
            partial_bytes=requests.arrived_bytes,
            reading_paused=self._reading_paused,
            writing_paused=replies.writing_paused,
            taken_bytes=self._bytes_out - buffered_bytes,
        )
        if overdue is None:
            overdue = self._deadlines.overdue_under_pressure(
                now_ms,
                partial_bytes=self._bytes_held_back() if self._services.memory.waiting else None,
                taken_bytes=self._bytes_out - buffered_bytes if buffered_bytes and answers_short else None,
            )
        if overdue is not None:
            self._log_refusal(*overdue)
            self.abort()

    def _bytes_held_back(self) -> int | None:
        """Return the bytes of requests that wait here for this client or for its quota; None without any."""
        requests = self._requests
        if self._replies.throttled:
            return requests.complete_bytes + requests.arrived_bytes or None
        return None if self._reading_paused else requests.arrived_bytes or None

    def make_room(self, why: str) -> None:
        """Close: another client gets the slot; see `connection_slots`."""
        self._log_refusal(Refusal.NOT_LOGGED_IN, why)
        self.abort()

    def client_gone(self, now_ms: int, *, has_sent: bool) -> None:
        """Close, although nothing is read now: the client has closed its end.

        Args:
            has_sent: there are bytes of the client that were not read; they are worked on if the throttle ends in time.
        """
        waits = has_sent or bool(self._requests.waiting or self._replies.in_flight or self._held)
        if self._deadlines.client_gone(now_ms, waits=waits):
            self.abort()

    def hold(self) -> None:
        """Read nothing and send nothing until `release`, as if this process stood still."""
        self._transport = held(self._transport)

    def release(self) -> None:
        """Go on after `hold`."""
        self._transport = released(self._transport)

    def pass_toxics(self, toxics: Toxics) -> None:
        """Have the bytes of this connection pass these toxics, in place of those before."""
        limits = self._services.limits
        client = self.session.client_id
        self._transport = under_toxics(
            self._transport,
            self,
            toxics,
            client="" if client is None and self._bytes_in else client,
            clock=self._services.clock,
            limits_bytes=(limits.write_high_water_bytes, limits.write_low_water_bytes),
            reads=not self._reading_paused,
            waits=self._replies.writing_paused,
        )

    def snapshot(self, now_ms: int) -> ConnectionSnapshot:
        """The state of this connection now."""
        return ConnectionSnapshot(
            connection_id=self._connection_id,
            listener=self._services.listener,
            peer=self.session.peer,
            client_id=self.session.client_id,
            age_ms=now_ms - self._deadlines.opened_ms,
            in_flight=len(self._replies.in_flight),
            waiting=len(self._requests.waiting),
            bytes_in=self._bytes_in,
            bytes_out=self._bytes_out,
            unsent_bytes=self.unsent_bytes,
            has_ended=self._has_ended,
            reading_paused=self._reading_paused,
            principal=str(self.session.principal),
        )
