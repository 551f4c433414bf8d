"""One end of a simulated connection, as the protocols of asyncio see it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, cast

from broker.simulation.loop import Node

if TYPE_CHECKING:
    from broker.simulation.network import Network, Pipe

WINDOW_BYTES: Final = 256 * 1024
"""Bytes that may be on their way or unread at the other end; the rest waits in the sender's buffer."""
HIGH_WATER_BYTES: Final = 64 * 1024


class SimulatedTransport(asyncio.Transport):
    """See the module's description.

    Args:
        node: whose end it is; None for the world.
        outward: carries what is written.
        peer, name: the addresses of the other end and of this one.
    """

    def __init__(
        self, network: Network, node: Node | None, *, outward: Pipe, peer: tuple[str, int], name: tuple[str, int]
    ) -> None:
        super().__init__({"peername": peer, "sockname": name})
        self.other: SimulatedTransport | None = None
        self._network = network
        self._node = node
        self._outward = outward
        self._protocol: asyncio.Protocol | None = None
        self._unsent: deque[bytes] = deque()
        self._unsent_bytes = 0
        self._window_bytes = WINDOW_BYTES
        self._unread: deque[bytes | None] = deque()
        self._reading = True
        self._reads_scheduled = False
        self._closing = False
        self._lost = False
        self._high_bytes, self._low_bytes = HIGH_WATER_BYTES, HIGH_WATER_BYTES // 4
        self._writing_paused = False
        if node is not None:
            node.on_kill.append(self._node_killed)

    def run(self, callback: Callable[[], object]) -> None:
        """Run a callback as the node that this end belongs to."""
        if self._node is None:
            self._network.loop.call_soon(callback, context=self._network.loop.world)
        else:
            self._node.call(callback)

    def begin(self, protocol: asyncio.Protocol) -> None:
        """The connection is there, as far as this end knows."""
        self._protocol = protocol
        protocol.connection_made(self)
        self._schedule_read()

    # --- writing ---

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send, or keep until there is room at the other end."""
        if self._closing or not data:
            return
        self._unsent.append(bytes(data))
        self._unsent_bytes += len(data)
        self.flush()
        if self._unsent_bytes > self._high_bytes and not self._writing_paused and self._protocol is not None:
            self._writing_paused = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Send several parts as one."""
        self.write(b"".join(list_of_data))

    def flush(self) -> None:
        """Send as much as the other end has room for."""
        while self._unsent and self._window_bytes > 0 and self.other is not None:
            data = self._unsent.popleft()
            limit = min(len(data), self._window_bytes)
            if self._network.split_writes and limit > 1:
                limit = self._network.rng.randint(1, limit)
            if limit < len(data):
                self._unsent.appendleft(data[limit:])
                data = data[:limit]
            self._unsent_bytes -= limit
            self._window_bytes -= limit
            self._outward.send(self._delivery(data), limit)

    def _delivery(self, data: bytes | None) -> Callable[[], None]:
        """What happens when a packet arrives; None ends the stream."""
        other = self.other

        def deliver() -> None:
            assert other is not None
            if other._lost:
                if data is not None:
                    other._outward.send(self.reset)
                return
            other._unread.append(data)
            other._schedule_read()

        return deliver

    def _consumed(self, size_bytes: int) -> None:
        """The other end has taken bytes: there is room for as many."""
        self._window_bytes += size_bytes
        if not self._lost:
            self.flush()
            if self._writing_paused and self._unsent_bytes <= self._low_bytes:
                self._writing_paused = False
                self.run(self._resume_writing)

    def _resume_writing(self) -> None:
        if not self._lost and self._protocol is not None:
            self._protocol.resume_writing()

    def get_write_buffer_size(self) -> int:
        """Bytes that wait for room at the other end."""
        return self._unsent_bytes

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """Low and high water."""
        return self._low_bytes, self._high_bytes

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set when writing is paused and resumed."""
        self._high_bytes = HIGH_WATER_BYTES if high is None else high
        self._low_bytes = self._high_bytes // 4 if low is None else low

    # --- reading ---

    def _schedule_read(self) -> None:
        if self._unread and self._reading and not self._reads_scheduled and self._protocol is not None:
            self._reads_scheduled = True
            self.run(self._read)

    def _read(self) -> None:
        """Hand one packet to the protocol."""
        self._reads_scheduled = False
        if self._lost or not self._reading or not self._unread or self._protocol is None:
            return
        data = self._unread.popleft()
        if data is None:
            if not self._protocol.eof_received():
                self.close()
        else:
            if self.other is not None:
                self.other._consumed(len(data))
            self._protocol.data_received(data)
        self._schedule_read()

    def pause_reading(self) -> None:
        """Hand nothing more to the protocol."""
        self._reading = False

    def resume_reading(self) -> None:
        """Hand on what came."""
        self._reading = True
        self._schedule_read()

    def is_reading(self) -> bool:
        """Whether what comes is handed on."""
        return self._reading and not self._closing

    # --- ending ---

    def is_closing(self) -> bool:
        """Whether it is closed, or about to be."""
        return self._closing

    def close(self) -> None:
        """Send what is buffered, then end the connection."""
        if self._closing:
            return
        self._closing = True
        if self.other is not None:
            # What the window has no room for goes with the end: the other side has it when it reads that.
            rest = b"".join(self._unsent)
            self._unsent.clear()
            self._unsent_bytes = 0
            if rest:
                self._outward.send(self._delivery(rest), len(rest))
            self._outward.send(self._delivery(None))
        self._end_later(None)

    def abort(self) -> None:
        """End the connection now; the other end sees a reset."""
        self._closing = True
        if not self._lost and self.other is not None:
            self._outward.send(self.other.reset)
        self._end_later(None)

    def reset(self) -> None:
        """The other end is gone."""
        self._end_later(ConnectionResetError(104, "Connection reset by peer"))

    def _node_killed(self) -> None:
        if not self._lost:
            self.abort()

    def _end_later(self, error: Exception | None) -> None:
        if self._lost:
            return
        self._lost = self._closing = True
        self._unread.clear()
        self._unsent.clear()
        self._unsent_bytes = 0
        if self._node is not None and not self._node.alive:
            # The node unwinds: its callbacks are not run by the loop any more, but by whoever unwinds it.
            self._network.loop.call_soon(self._tell_lost, error, context=self._node.context)
        else:
            self.run(lambda: self._tell_lost(error))

    def _tell_lost(self, error: Exception | None) -> None:
        if self._node is not None and self._node_killed in self._node.on_kill:
            self._node.on_kill.remove(self._node_killed)
        if self._protocol is not None:
            self._protocol.connection_lost(error)

    # --- the rest of asyncio's interface ---

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Hand what comes to another protocol."""
        self._protocol = cast("asyncio.Protocol", protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Who is told what comes."""
        return cast("asyncio.BaseProtocol", self._protocol)

    def can_write_eof(self) -> bool:
        """Half-closed connections are not simulated."""
        return False
