"""The requests that were received but not started, of one connection and in the memory of all. Knows no event loop.

Bytes go into a `RequestQueue`, requests come out; both are counted against the memory that all connections share, a
`RequestMemory`.

A connection counts the bytes that it reads, and gives them back when the request is answered. At the bound each
connection that wants to read must wait; when there is room again they go on in the order in which they stopped.
Complete requests are always worked on: answering them makes room.

A quarter of the bound is kept for readers that hold little of an incomplete request, or nothing. So a few clients that
send halves of large requests cannot make all others wait; only requests as large as theirs do.

Incomplete requests alone could fill the memory, and then no answer would ever make room. So one connection at a time,
in the order in which they stopped, may overdraw: it reads on until its request is complete. All connections together
therefore hold at most twice the bound and one request (and a few chunks each): the bound in incomplete requests, the
bound in complete ones, and the request that overdraws. Counted is the memory that an incomplete request takes, which
may be several times what has arrived of it: see `FrameDecoder`.
"""

# compiled: docs/compiled.md

from __future__ import annotations

from collections import deque
from typing import Final, Protocol

from purgatorio.protocol.framing import SIZE_BYTES, FrameDecoder, Gather, gather_plain
from purgatorio.protocol.primitives import Buffer

SMALL_REQUEST_BYTES: Final = 64 * 1024
"""A reader that holds no more of an incomplete request may use the whole bound."""
LARGE_SHARE: Final = 0.75
"""The share of the bound up to which other readers may read."""


class MemoryReader(Protocol):
    """A connection that may have to wait for memory."""

    def wake(self) -> None:
        """Call `RequestMemory.may_read` again, after this method has returned."""
        ...


class RequestMemory:
    """Counts request bytes, and makes readers wait while too many are held.

    Args:
        limit_bytes: while this much is held, only the reader that overdraws may read.
        gather: gives the memory for large requests.

    Attributes:
        partial_bytes: bytes of incomplete requests.
        complete_bytes: bytes of complete requests that are not answered.
    """

    def __init__(self, limit_bytes: int, gather: Gather = gather_plain) -> None:
        self.limit_bytes = limit_bytes
        self.gather = gather
        self._large_limit_bytes = int(limit_bytes * LARGE_SHARE)
        self.partial_bytes = 0
        self.complete_bytes = 0
        self._waiting_small: dict[MemoryReader, bool] = {}
        """Whether each holds an incomplete request."""
        self._waiting_large: dict[MemoryReader, None] = {}
        self._overdrawer: MemoryReader | None = None
        self._overdrawn_bytes = 0

    @property
    def used_bytes(self) -> int:
        """The sum of both."""
        return self.partial_bytes + self.complete_bytes

    @property
    def waiting(self) -> int:
        """How many readers wait for memory."""
        return len(self._waiting_small) + len(self._waiting_large)

    def received(self, reader: MemoryReader, *, partial_bytes: int, complete_bytes: int) -> None:
        """Count a chunk. A request that it completes moves its bytes from partial to complete."""
        self.partial_bytes += partial_bytes
        self.complete_bytes += complete_bytes
        if self._overdrawer is reader:
            self._overdrawn_bytes += partial_bytes + complete_bytes
            if complete_bytes:
                self._end_overdraft()
                self._wake_who_may_read()

    def may_read(self, reader: MemoryReader, *, partial_bytes: int) -> bool:
        """Whether `reader` may read on. If not, it waits, and is woken when there is memory.

        Args:
            partial_bytes: what `reader` holds of an incomplete request; if anything, reading on leads to an answer.
        """
        used_bytes = self.partial_bytes + self.complete_bytes
        if used_bytes < self._large_limit_bytes or self._overdrawer is reader:
            return True
        is_small = partial_bytes <= SMALL_REQUEST_BYTES
        if is_small and used_bytes - self._overdrawn_bytes < self.limit_bytes:
            return True
        if partial_bytes and self._overdrawer is None and self.complete_bytes < self.limit_bytes:
            self._overdrawer = reader
            return True
        if is_small:
            self._waiting_small[reader] = partial_bytes > 0
        else:
            self._waiting_large[reader] = None
        return False

    def release(self, complete_bytes: int) -> None:
        """Give back the bytes of requests that were answered."""
        self.complete_bytes -= complete_bytes
        if self._waiting_small or self._waiting_large:
            self._wake_who_may_read()

    def leave(self, reader: MemoryReader, *, partial_bytes: int, complete_bytes: int) -> None:
        """Forget `reader` and give back the bytes that it held."""
        self._waiting_small.pop(reader, None)
        self._waiting_large.pop(reader, None)
        if self._overdrawer is reader:
            self._end_overdraft()
        self.partial_bytes -= partial_bytes
        self.complete_bytes -= complete_bytes
        self._wake_who_may_read()

    def _end_overdraft(self) -> None:
        self._overdrawer = None
        self._overdrawn_bytes = 0

    def _wake_who_may_read(self) -> None:
        """Wake the readers that may read now, and choose the next one to overdraw: small requests are soon complete."""
        if self.used_bytes < self._large_limit_bytes:
            self._end_overdraft()
            large, self._waiting_large = self._waiting_large, {}
            for reader in large:
                reader.wake()
        if self.used_bytes - self._overdrawn_bytes < self.limit_bytes:
            small, self._waiting_small = self._waiting_small, {}
            for reader in small:
                reader.wake()
        if self._overdrawer is None and self.complete_bytes < self.limit_bytes:
            self._let_next_overdraw()

    def _let_next_overdraw(self) -> None:
        chosen = next((reader for reader, has_partial in self._waiting_small.items() if has_partial), None)
        if chosen is None:
            chosen = next(iter(self._waiting_large), None)
        if chosen is not None:
            self._overdrawer = chosen
            self._waiting_small.pop(chosen, None)
            self._waiting_large.pop(chosen, None)
            chosen.wake()


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
        arrived_bytes: bytes that have come of a request that is not complete, its size included.
        partial_bytes: the memory that this request takes.
        complete_bytes: bytes of complete requests that were not released: waiting or started.
    """

    __slots__ = ("_decoder", "_memory", "arrived_bytes", "complete_bytes", "partial_bytes", "waiting")

    def __init__(self, memory: RequestMemory, max_request_bytes: int) -> None:
        self._memory = memory
        self._decoder = FrameDecoder(max_request_bytes, memory.gather)
        self.waiting: deque[Buffer] = deque()
        self.arrived_bytes = 0
        self.partial_bytes = 0
        self.complete_bytes = 0

    def feed(self, data: bytes, reader: MemoryReader) -> bool:
        """Take in what was read; return whether it completed requests, which wait now.

        Args:
            reader: the connection, to which the memory counts the bytes; the queue holds no reference to it.

        Raises:
            DecodeError: the stream cannot be cut into requests any more.
        """
        frames = self._decoder.feed(data)
        arrived_bytes, held_bytes = self._decoder.pending_bytes, self._decoder.held_bytes
        complete_bytes = self.arrived_bytes + len(data) - arrived_bytes
        self.complete_bytes += complete_bytes
        self._memory.received(reader, partial_bytes=held_bytes - self.partial_bytes, complete_bytes=complete_bytes)
        self.arrived_bytes, self.partial_bytes = arrived_bytes, held_bytes
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

    def ended(self, reader: MemoryReader) -> None:
        """Forget the request that is not complete, as no more bytes come, and give back its memory."""
        self._memory.leave(reader, partial_bytes=self.partial_bytes, complete_bytes=0)
        self.arrived_bytes = self.partial_bytes = 0
        self._decoder = FrameDecoder(0)

    def leave(self, reader: MemoryReader) -> None:
        """Forget everything and give back all memory, also that of requests which are still being worked on."""
        self._memory.leave(reader, partial_bytes=self.partial_bytes, complete_bytes=self.complete_bytes)
        self.arrived_bytes = self.partial_bytes = self.complete_bytes = 0
        self.waiting.clear()
        self._decoder = FrameDecoder(0)
