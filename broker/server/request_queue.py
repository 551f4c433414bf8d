"""The requests of one connection that were received but not started. Knows no event loop.

Bytes go in, requests come out; both are counted against the memory that all connections share.
"""

# compiled: docs/compiled.md

from __future__ import annotations

from collections import deque
from typing import Final

from purgatorio.broker.server.request_memory import Reader, RequestMemory
from purgatorio.protocol.framing import SIZE_BYTES, FrameDecoder
from purgatorio.protocol.primitives import Buffer

MAX_AHEAD: Final = 128
"""Requests that may wait for their turn while more are read; a connection starts as many in one."""
MAX_AHEAD_BYTES: Final = 64 * 1024
"""The most bytes of a connection's requests, waiting or started, with which more are read while some wait."""


class RequestQueue:
    """Cuts one connection's bytes into requests, which wait here for their turn.

    Args:
        memory: where the bytes are counted.
        max_request_bytes: the largest request.

    Attributes:
        waiting: complete requests without their sizes, oldest first; the connection pops those that it starts.
        partial_bytes: bytes held of a request that is not complete, its size included.
        complete_bytes: bytes of complete requests that were not released: waiting or started.
    """

    __slots__ = ("_decoder", "_memory", "complete_bytes", "partial_bytes", "waiting")

    def __init__(self, memory: RequestMemory, max_request_bytes: int) -> None:
        self._memory = memory
        self._decoder = FrameDecoder(max_request_bytes)
        self.waiting: deque[Buffer] = deque()
        self.partial_bytes = 0
        self.complete_bytes = 0

    def feed(self, data: bytes, reader: Reader) -> bool:
        """Take in what was read; return whether it completed requests, which wait now.

        Args:
            reader: the connection, to which the memory counts the bytes; the queue holds no reference to it.

        Raises:
            DecodeError: the stream cannot be cut into requests any more.
        """
        frames = self._decoder.feed(data)
        had_bytes = self.partial_bytes
        has_bytes = self.partial_bytes = self._decoder.pending_bytes
        complete_bytes = had_bytes + len(data) - has_bytes
        self.complete_bytes += complete_bytes
        self._memory.received(reader, partial_bytes=has_bytes - had_bytes, complete_bytes=complete_bytes)
        if not frames:
            return False
        self.waiting.extend(frames)
        return True

    def may_take_more(self) -> bool:
        """Return whether to read on while requests wait for their turn, as stopping costs two calls of the system."""
        return len(self.waiting) < MAX_AHEAD and self.complete_bytes <= MAX_AHEAD_BYTES

    def allow(self, max_request_bytes: int) -> None:
        """Take in requests up to another size from now on."""
        self._decoder.max_frame_bytes = max_request_bytes

    def release(self, request_bytes: int) -> None:
        """Give back the memory of requests that were answered."""
        self.complete_bytes -= request_bytes
        self._memory.release(request_bytes)

    def drop_waiting(self) -> None:
        """Forget the requests that were not started."""
        dropped_bytes = sum(len(frame) + SIZE_BYTES for frame in self.waiting)
        self.waiting.clear()
        self.release(dropped_bytes)

    def ended(self, reader: Reader) -> None:
        """Forget the request that is not complete, as no more bytes come, and give back its memory."""
        self._memory.leave(reader, partial_bytes=self.partial_bytes, complete_bytes=0)
        self.partial_bytes = 0
        self._decoder = FrameDecoder(0)

    def leave(self, reader: Reader) -> None:
        """Forget everything and give back all memory, also that of requests which are still being worked on."""
        self._memory.leave(reader, partial_bytes=self.partial_bytes, complete_bytes=self.complete_bytes)
        self.partial_bytes = self.complete_bytes = 0
        self.waiting.clear()
        self._decoder = FrameDecoder(0)
