"""A bad network: it stands between a connection and its transport while toxics are about the connection.

To the connection it is the transport, to the transport it is the protocol. A connection that no toxic is about has
none, and pays nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Iterable
from typing import Any, Final

from purgatorio.broker.layers.faults.flow import Flow
from purgatorio.broker.layers.faults.stages import END, STAGES, Bytes, ToxicStage
from purgatorio.broker.layers.faults.toxic_rule import LiveToxic, Toxics
from purgatorio.broker.server.held_transport import HeldTransport
from purgatorio.purgatory.clock import Alarm, Clock

MAX_UPSTREAM_BYTES: Final = 1024 * 1024
"""Bytes of the client that a link holds; then it reads no more, as a network whose buffers are full. Bytes to the
client are bounded by the connection, which pauses at its own limit."""
PIECES_PER_TURN: Final = 64
"""Pieces that go on in one turn of the event loop."""
_NOBODY: Final = asyncio.Protocol()
"""The owner of a link whose connection is lost."""
_RESET: Final = struct.pack("ii", 1, 0)
"""The linger option (on, 0 s) with which a socket that closes sends RST."""


class ToxicLink(asyncio.Transport, asyncio.Protocol):
    """The bad network of one connection.

    Args:
        transport: the connection's; the link is to take the place of its protocol.
        owner: the connection.
        client: the client id, if the connection knows it.
        clock: the time of delays.
        reads: whether the connection wants to read. A transport of uvloop cannot be asked: it begins to read only after
            `connection_made`.
        waits: whether the connection waits for `resume_writing` now.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        owner: asyncio.Protocol,
        client: str | None,
        clock: Clock,
        *,
        reads: bool,
        waits: bool,
    ) -> None:
        super().__init__()
        self._transport = transport
        self._owner = owner
        self._client = client
        self._clock = clock
        self._first = b""
        self._reads = self._transport_reads = reads
        self._up, self._down = Flow(), Flow()
        self._toxics: Toxics | None = None
        self._stages: dict[LiveToxic, tuple[Flow, ToxicStage] | None] = {}
        self._ends: dict[LiveToxic, Alarm] = {}
        self._alarms: dict[Flow, Alarm] = {}
        self._high_bytes, self._low_bytes = 0, 0
        self._transport_full = self._owner_waits = waits
        self._closes = self._has_closed = False

    # --- which toxics ---

    def update(self, toxics: Toxics) -> None:
        """Pass these toxics from now on, in place of others. Bytes that a removed toxic holds go on at once."""
        self._toxics = toxics
        gone = [live for live in self._stages if live not in toxics.rules]
        for live in gone:
            acted = self._stages.pop(live) is not None
            if (alarm := self._ends.pop(live, None)) is not None:
                alarm.cancel()
            if acted and live.rule.toxic == "timeout":
                self.abort()  # bytes are lost: what comes next would make no sense
                return
        if self._client is not None:
            self._meet(self._client)
        if gone:
            self._assign()
            for flow in (self._up, self._down):
                flow.hurry()
                self._pump(flow)

    @property
    def is_needed(self) -> bool:
        """Whether toxics may still act, or bytes are under way; otherwise `leave` may be called."""
        assert self._toxics is not None, "it is updated as soon as it is made"
        toxics, client = self._toxics, self._client
        may_act = bool(toxics.rules) if client is None else toxics.are_about(client)
        return may_act or self._closes or bool(self._first) or not (self._up.is_idle and self._down.is_idle)

    def leave(self) -> asyncio.Transport:
        """Give the connection its transport back, and return that."""
        self._transport.set_protocol(self._owner)
        return self._transport

    def _meet(self, client: str) -> None:
        """Draw whether the toxics that are about this client act on this connection."""
        assert self._toxics is not None
        new = [live for live in self._toxics.rules if live not in self._stages and live.is_about(client)]
        for live in new:
            rng = self._toxics.draw(live, client)
            toxic = live.rule
            make = STAGES.get(toxic.toxic)
            flow = self._up if toxic.stream == "upstream" else self._down
            self._stages[live] = None if rng is None or make is None else (flow, make(toxic, rng))
            if rng is None:
                continue
            if toxic.toxic == "reset_peer" and not toxic.timeout_ms:
                self._reset()
            elif toxic.toxic in ("reset_peer", "timeout") and toxic.timeout_ms:
                end = self._reset if toxic.toxic == "reset_peer" else self.abort
                self._ends[live] = self._clock.call_later(toxic.timeout_ms, end)
        if new:
            self._assign()

    def _assign(self) -> None:
        for flow in (self._up, self._down):
            flow.stages = [each[1] for each in self._stages.values() if each is not None and each[0] is flow]

    # --- bytes under way ---

    def _now_ms(self) -> float:
        return self._clock.now_seconds() * 1000

    def _pump(self, flow: Flow) -> None:
        """Have the pieces go on whose time has come, and come again for the next."""
        now_ms = self._now_ms()
        for _ in range(PIECES_PER_TURN):
            if self._has_closed or (flow is self._up and not self._reads):
                break
            data = flow.take(now_ms)
            if data is None:
                break
            if flow is self._up:
                self._deliver(data)
            elif data:
                self._transport.write(data)
            else:
                self._has_closed = True
                self._transport.close()
        self._steer()
        self._come_again(flow, now_ms)

    def _come_again(self, flow: Flow, now_ms: float) -> None:
        """Set the alarm for the next piece; none for bytes that the connection does not want to read."""
        if (alarm := self._alarms.pop(flow, None)) is not None:
            alarm.cancel()
        due_ms = flow.due_ms
        if due_ms is not None and not self._has_closed and (flow is self._down or self._reads):
            self._alarms[flow] = self._clock.call_later(max(0.0, due_ms - now_ms), self._pump, flow)

    def _deliver(self, data: Bytes) -> None:
        if data:
            self._owner.data_received(bytes(data))
        elif not self._owner.eof_received():
            self.close()

    def _steer(self) -> None:
        """Read as long as the connection wants to and there is room; let the connection write as long as there is."""
        reads = self._reads and self._up.buffered_bytes < MAX_UPSTREAM_BYTES
        if reads != self._transport_reads and not self._transport.is_closing():
            self._transport_reads = reads
            if reads:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()
        held_bytes = self._down.buffered_bytes
        if not self._owner_waits and (self._transport_full or held_bytes > self._high_bytes):
            self._owner_waits = True
            self._owner.pause_writing()
        elif self._owner_waits and not self._transport_full and held_bytes <= self._low_bytes:
            self._owner_waits = False
            self._owner.resume_writing()

    def _reset(self) -> None:
        """Close with RST."""
        sock = self._transport.get_extra_info("socket")
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.abort()

    # --- called by the transport ---

    def data_received(self, data: bytes) -> None:
        """Pass on what the client sent."""
        if self._client is None:
            data, self._first = self._first + data, b""
            client = client_id_in(data)
            if client is None:
                self._first = data  # the rest of it comes
                return
            self._client = client
            self._meet(client)
        if self._has_closed:
            return
        if self._up.is_idle:
            self._owner.data_received(data)
            return
        self._up.feed(data, self._now_ms())
        self._pump(self._up)

    def eof_received(self) -> bool:
        """Pass on that the client sends no more, behind what it has sent; return whether the transport stays open.

        With TLS it cannot: there is no half of a connection.
        """
        if self._up.is_idle:
            self._deliver(END)
        else:
            self._up.feed(END, self._now_ms())
            self._pump(self._up)
        return self._transport.get_extra_info("ssl_object") is None

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget what is under way."""
        self._has_closed = True
        for alarm in (*self._alarms.values(), *self._ends.values()):
            alarm.cancel()
        self._alarms.clear()
        self._ends.clear()
        self._up.clear()
        self._down.clear()
        owner, self._owner = self._owner, _NOBODY  # they would refer to each other
        owner.connection_lost(exc)

    def pause_writing(self) -> None:
        """Have the connection wait: the client does not take its bytes."""
        self._transport_full = True
        self._steer()

    def resume_writing(self) -> None:
        """Let the connection write."""
        self._transport_full = False
        self._steer()

    # --- called by the connection ---

    def write(self, data: Bytes) -> None:
        """Send bytes over the bad network."""
        self.writelines([data])

    def writelines(self, list_of_data: Iterable[Bytes]) -> None:
        """Send bytes over the bad network."""
        if self._closes:
            return
        if self._down.is_idle:
            self._transport.writelines(list_of_data)
            return
        now_ms = self._now_ms()
        for data in list_of_data:
            if data:
                self._down.feed(data, now_ms)
        self._pump(self._down)

    def pause_reading(self) -> None:
        """Pass on nothing of what the client sent."""
        self._reads = False
        self._steer()

    def resume_reading(self) -> None:
        """Pass on what the client sends, beginning with what has arrived meanwhile; in a later turn."""
        self._reads = True
        self._steer()
        self._come_again(self._up, self._now_ms())

    def is_reading(self) -> bool:
        """Return whether the connection wants to read."""
        return self._reads

    def close(self) -> None:
        """Close behind what was written."""
        if self._closes:
            return
        self._closes = True
        if self._down.is_idle:
            self._has_closed = True
            self._transport.close()
        else:
            self._down.feed(END, self._now_ms())
            self._pump(self._down)

    def abort(self) -> None:
        """Close now."""
        self._closes = self._has_closed = True
        self._transport.abort()

    def is_closing(self) -> bool:
        """Return whether it was closed."""
        return self._closes or self._transport.is_closing()

    def get_write_buffer_size(self) -> int:
        """Return the bytes that are not sent yet."""
        return self._down.buffered_bytes + self._transport.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the limits of what is under way, and of the transport's own buffer."""
        self._high_bytes, self._low_bytes = high or 0, low or 0
        self._transport.set_write_buffer_limits(high, low)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what the transport knows."""
        return self._transport.get_extra_info(name, default)


def client_id_in(data: bytes) -> str | None:
    """Return the client id of the request that begins here; None if not enough of it has come.

    A size of four bytes, the API's key and version, the correlation id, and the client id with its length in two bytes,
    which is negative for none (Kafka's request header, versions 1 and 2).
    """
    if len(data) < 14:
        return None
    length = int.from_bytes(data[12:14], signed=True)
    if length > 0 and len(data) < 14 + length:
        return None
    return data[14 : 14 + max(length, 0)].decode(errors="replace")


def under_toxics(
    transport: asyncio.Transport,
    owner: asyncio.Protocol,
    toxics: Toxics,
    *,
    client: str | None,
    clock: Clock,
    limits_bytes: tuple[int, int],
    reads: bool,
    waits: bool,
) -> asyncio.Transport:
    """Have a connection pass these toxics, in place of those before; return the transport that it has now.

    Args:
        transport: the one that it has, which may stand still.
        client: the client id; None: the connection does not know it yet.
        limits_bytes: the high and the low limit of the transport's buffer.
        reads: whether the connection wants to read.
        waits: whether the connection waits until it may write.
    """
    if isinstance(transport, HeldTransport):
        transport.replace(
            lambda inner: under_toxics(
                inner, owner, toxics, client=client, clock=clock, limits_bytes=limits_bytes, reads=False, waits=waits
            )
        )
        return transport
    if isinstance(transport, ToxicLink):
        link = transport
    elif not toxics.rules or transport.is_closing() or (client is not None and not toxics.are_about(client)):
        return transport
    else:
        link = ToxicLink(transport, owner, client, clock, reads=reads, waits=waits)
        link.set_write_buffer_limits(*limits_bytes)
        transport.set_protocol(link)
    link.update(toxics)
    return link if link.is_needed else link.leave()
