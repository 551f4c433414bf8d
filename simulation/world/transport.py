"""A connection on the simulated network: the links and pipes that carry it, and its ends as asyncio transports."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, cast

from purgatorio.simulation.world.loop import Node, SimulatedLoop

WINDOW_BYTES: Final = 256 * 1024
"""The limit of bytes in flight or unread at the other end; further bytes wait in the sender's buffer."""


@dataclass(slots=True, eq=False)
class LinkDirection:
    """One direction between two nodes.

    Attributes:
        latency_ms: the range that each packet's delay is drawn from.
        spike_probability: the probability that a packet has an additional delay out of `spike_ms`.
        bytes_per_second: the bandwidth that all connections over the link share; None for no limit.
        busy_until_seconds: the time at which all packets sent so far have left, at that bandwidth.
        pipes: those with packets in flight.
    """

    latency_ms: tuple[float, float]
    spike_probability: float = 0.0
    spike_ms: tuple[float, float] = (0.0, 0.0)
    bytes_per_second: float | None = None
    cut: bool = False
    busy_until_seconds: float = 0.0
    pipes: dict[Pipe, None] = field(default_factory=dict)

    def arrival_seconds(self, now_seconds: float, size_bytes: int, rng: random.Random) -> float:
        """Return the arrival time of a packet that is sent now."""
        delay_ms = rng.uniform(*self.latency_ms)
        if self.spike_probability and rng.random() < self.spike_probability:
            delay_ms += rng.uniform(*self.spike_ms)
        if self.bytes_per_second is None:
            return now_seconds + delay_ms / 1000
        leaves_seconds = max(now_seconds, self.busy_until_seconds) + size_bytes / self.bytes_per_second
        self.busy_until_seconds = leaves_seconds
        return leaves_seconds + delay_ms / 1000


class Pipe:
    """Carries the packets of one direction of one connection, in order: one timer, for the oldest.

    It is a timer of the world: the network goes on while nodes are paused.
    """

    def __init__(self, loop: SimulatedLoop, rng: random.Random, link: LinkDirection) -> None:
        self._loop = loop
        self._rng = rng
        self._link = link
        self._packets: deque[tuple[float, Callable[[], None]]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_cut(self) -> bool:
        """Whether packets are held."""
        return self._link.cut

    def send(self, deliver: Callable[[], None], size_bytes: int = 0) -> None:
        """Send a packet: call `deliver` when it arrives."""
        link = self._link
        due_seconds = link.arrival_seconds(self._loop.time(), size_bytes, self._rng)
        if self._packets:
            due_seconds = max(due_seconds, self._packets[-1][0])
        self._packets.append((due_seconds, deliver))
        link.pipes[self] = None
        if self._timer is None and not link.cut:
            self._set_timer()

    def resend(self) -> None:
        """Send the held and delayed packets again after the link has healed, as if they were sent now."""
        due_seconds = self._link.arrival_seconds(self._loop.time(), 0, self._rng)
        self._packets = deque((due_seconds, deliver) for _, deliver in self._packets)
        if self._timer is not None:
            self._timer.cancel()
        self._set_timer()

    def _set_timer(self) -> None:
        self._timer = self._loop.call_at(self._packets[0][0], self._arrive, context=self._loop.world)

    def _arrive(self) -> None:
        now_seconds = self._loop.time()
        while self._packets and self._packets[0][0] <= now_seconds and not self._link.cut:
            self._packets.popleft()[1]()
        self._timer = None
        if not self._packets:
            self._link.pipes.pop(self, None)
        elif not self._link.cut:
            self._set_timer()


class SimulatedTransport(asyncio.transports._FlowControlMixin):
    """One end of a simulated connection.

    Args:
        splits: draws the sizes of the parts that writes are split into; None: they are not split.
        node: the node of this end; None for the world.
    """

    def __init__(
        self,
        loop: SimulatedLoop,
        splits: random.Random | None,
        node: Node | None,
        *,
        outward: Pipe,
        peer: tuple[str, int],
        name: tuple[str, int],
    ) -> None:
        super().__init__({"peername": peer, "sockname": name}, loop)
        self.other: SimulatedTransport  # `SimulatedNetwork` sets it before it uses either end
        self._loop = loop
        self._flow = cast("Any", self)  # the mixin's methods, which its type stubs do not name
        self._splits = splits
        self._node = node
        self._outward = outward
        self._protocol: asyncio.Protocol | None = None
        self._unsent: deque[bytes] = deque()
        self._unsent_bytes = 0
        self._window_bytes = WINDOW_BYTES
        self._unread: deque[bytes | None] = deque()
        self._reading = True
        self._reads_scheduled = False
        self._room_scheduled = False
        self._closing = False
        self._lost = False
        self._lost_by: Exception | None = None
        if node is not None:
            node.on_kill.append(self.abort)

    def run(self, callback: Callable[[], object]) -> None:
        """Run a callback as this end's node."""
        if self._node is None:
            self._loop.call_soon(callback, context=self._loop.world)
        else:
            self._node.call(callback)

    def begin(self, protocol: asyncio.Protocol) -> None:
        """Give the connection to its protocol; if it is lost already, the protocol learns that next."""
        was_lost = self._lost
        self._protocol = protocol
        protocol.connection_made(self)
        if was_lost:
            self._tell_lost_later(protocol)
        self._schedule_read()

    # --- writing ---

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes, or buffer them until the other end has room."""
        if self._closing or not data:
            return
        self._unsent.append(bytes(data))
        self._unsent_bytes += len(data)
        self._flush()
        self._flow._maybe_pause_protocol()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Send several parts as one write."""
        self.write(b"".join(list_of_data))

    def _flush(self) -> None:
        """Send as much as the other end has room for, and the end of the stream after the last byte if closing."""
        while self._unsent and self._window_bytes > 0:
            data = self._unsent.popleft()
            limit = min(len(data), self._window_bytes)
            if self._splits is not None and limit > 1:
                limit = self._splits.randint(1, limit)
            if limit < len(data):
                self._unsent.appendleft(data[limit:])
                data = data[:limit]
            self._unsent_bytes -= limit
            self._window_bytes -= limit
            self._outward.send(self._delivery(data), limit)
        if self._closing and not self._unsent and not self._lost:
            # As TCP: closing with unread data sends a reset. Otherwise the peer might wait for room for ever.
            self._outward.send(self.other.reset if any(self._unread) else self._delivery(None))
            self._end_later(None)

    def _delivery(self, data: bytes | None) -> Callable[[], None]:
        """Return the function that delivers a packet; `data` None ends the stream."""
        other = self.other

        def deliver() -> None:
            if other._lost:
                if data is not None:
                    other._outward.send(self.reset)
                return
            other._unread.append(data)
            other._schedule_read()

        return deliver

    def _consumed(self, size_bytes: int) -> None:
        """Give back window space, as the other end has read this many bytes."""
        self._window_bytes += size_bytes
        waits = self._unsent or self._flow._protocol_paused
        if waits and not self._lost and not self._room_scheduled:
            self._room_scheduled = True
            self.run(self._use_room)

    def _use_room(self) -> None:
        self._room_scheduled = False
        if self._lost:
            return
        self._flush()
        self._flow._maybe_resume_protocol()

    def get_write_buffer_size(self) -> int:
        """Return the number of buffered bytes, which wait for room at the other end."""
        return self._unsent_bytes

    # --- reading ---

    def _schedule_read(self) -> None:
        if self._unread and self._reading and not self._reads_scheduled and self._protocol is not None:
            self._reads_scheduled = True
            self.run(self._read)

    def _read(self) -> None:
        """Pass one packet to the protocol; an exception from it ends the connection, as in asyncio's transports."""
        self._reads_scheduled = False
        protocol = self._protocol
        if self._closing or not self._reading or not self._unread or protocol is None:
            return
        data = self._unread.popleft()
        try:
            if data is not None:
                # At once, to save packets, or after the cut if the link is cut.
                give_room = partial(self.other._consumed, len(data))
                if self._outward.is_cut:
                    self._outward.send(give_room)
                else:
                    give_room()
                protocol.data_received(data)
            elif not protocol.eof_received():
                self.close()
        except Exception as error:
            self._fail(error)
        self._schedule_read()

    def _fail(self, error: Exception) -> None:
        self._loop.call_exception_handler(
            {
                "message": "Fatal error: a protocol failed on what it received.",
                "exception": error,
                "transport": self,
                "protocol": self._protocol,
            }
        )
        self._abort(error)

    def pause_reading(self) -> None:
        """Pass nothing more to the protocol."""
        self._reading = False

    def resume_reading(self) -> None:
        """Pass received data to the protocol again."""
        self._reading = True
        self._schedule_read()

    def is_reading(self) -> bool:
        """Whether received data is passed to the protocol."""
        return self._reading and not self._closing

    # --- ending ---

    def is_closing(self) -> bool:
        """Whether the connection is closed or closing."""
        return self._closing

    def close(self) -> None:
        """Send the buffered bytes, then end the connection."""
        if not self._closing:
            self._closing = True
            self._flush()

    def abort(self) -> None:
        """End the connection now; the other end sees a reset."""
        self._abort(None)

    def _abort(self, error: Exception | None) -> None:
        if not self._lost:
            self._outward.send(self.other.reset)
        self._end_later(error)

    def reset(self) -> None:
        """End the connection, as the other end has reset it."""
        self._end_later(ConnectionResetError(104, "Connection reset by peer"))

    def _end_later(self, error: Exception | None) -> None:
        if self._lost:
            return
        self._lost = self._closing = True
        self._lost_by = error
        self._unread.clear()
        self._unsent.clear()
        self._unsent_bytes = 0
        if self._node is not None:
            self._node.on_kill.remove(self.abort)
        if self._protocol is not None:
            self._tell_lost_later(self._protocol)

    def _tell_lost_later(self, protocol: asyncio.Protocol) -> None:
        if self._node is not None and not self._node.alive:
            # The node is dead and its tasks unwind; `SimulatedLoop._unwind` takes its callbacks from the ready queue.
            self._loop.call_soon(protocol.connection_lost, self._lost_by, context=self._node.context)
        else:
            self.run(lambda: protocol.connection_lost(self._lost_by))

    # --- the rest of asyncio's interface ---

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Pass received data to another protocol."""
        self._protocol = cast("asyncio.Protocol", protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return the protocol that gets the received data."""
        return cast("asyncio.BaseProtocol", self._protocol)

    def can_write_eof(self) -> bool:
        """Return False: half-closed connections are not simulated."""
        return False
