"""The sans-IO frame decoder: bytes in, frames out. A frame is a 4-byte size and that many bytes."""

# compiled: docs/compiled.md

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final

from purgatorio.protocol.errors import FrameError, FrameTooLarge, NegativeFrameSize, TlsOnPlainListener
from purgatorio.protocol.primitives import Buffer

SIZE_BYTES: Final = 4
"""The size of the int32 in front of a frame, which gives the frame's size."""

COPY_UP_TO_BYTES: Final = 1024
"""Frames up to this size are copied out of the received chunk. A copy is cheaper than a view, and a view would keep
the whole chunk alive for as long as one small request is parked."""

GATHERED_ABOVE_BYTES: Final = 64 * 1024
"""Larger frames are gathered in memory of the caller's choice, if they do not lie whole in a received chunk."""
GATHERED_FROM_BYTES: Final = 16 * 1024
"""They are when more than so much of them has arrived."""
GROWTH: Final = 4
"""A frame's memory is so many times as large as what has arrived of it, at most: its size is only announced. So a frame
of four chunks, 1 MB, is copied once."""

Gather = Callable[[int], memoryview]
"""Returns writable memory of at least so many bytes. It is freed when nothing refers to it or to a view of it."""

_SIZE: Final = Struct(">i")
_NO_MEMORY: Final = memoryview(bytearray())
_TLS_HANDSHAKE: Final = b"\x16\x03"
"""The first bytes of a TLS record that carries a ClientHello: content type 22, protocol version 3.x."""


def gather_plain(size_bytes: int) -> memoryview:
    """Return memory of the interpreter's own allocator; see `Gather`."""
    return memoryview(bytearray(size_bytes))


class FrameDecoder:
    """Cuts a byte stream into frames, however the network split the stream.

    The decoder checks a frame's size before it keeps any byte of the frame. Of a partial frame it holds the bytes that
    arrived; of a large one `GROWTH` times as many at most.

    Args:
        max_frame_bytes: the largest frame, without its size (Kafka's `socket.request.max.bytes`); may change.
        gather: gives the memory for large frames that arrive in several chunks.
    """

    __slots__ = ("_arrived", "_at_start", "_gather", "_memory", "_partial", "_size", "max_frame_bytes")

    def __init__(self, max_frame_bytes: int, gather: Gather = gather_plain) -> None:
        self.max_frame_bytes = max_frame_bytes
        self._gather = gather
        self._at_start = True
        self._partial = bytearray()
        self._size = -1
        """The size of the large frame that is gathered; -1: none is, and `_partial` has what is held."""
        self._arrived = 0
        self._memory = _NO_MEMORY

    @property
    def pending_bytes(self) -> int:
        """The number of bytes that arrived of a partial frame, its size field included."""
        return len(self._partial) if self._size < 0 else SIZE_BYTES + self._arrived

    @property
    def held_bytes(self) -> int:
        """The memory that the partial frame takes."""
        return len(self._partial) if self._size < 0 else SIZE_BYTES + len(self._memory)

    def feed(self, data: Buffer) -> list[memoryview | bytes]:
        """Take received bytes, and return the frames that are now complete, without their size fields.

        A frame that lies whole in `data` is a view of it, unless it is small; so `data` must not change afterwards.

        Raises:
            FrameTooLarge, NegativeFrameSize, TlsOnPlainListener: the stream is unreadable from here on. The error's
                `frames` are those that were complete before it.
            MemoryError: the system has no memory for a large frame.
        """
        frames: list[memoryview | bytes] = []
        try:
            position = self._finish_partial(data, frames) if self._partial else 0
            if self._size >= 0:
                position = self._gather_from(data, position, frames)
            self._cut(data, position, frames)
        except FrameError as error:
            error.frames = tuple(frames)
            raise
        return frames

    def _cut(self, data: Buffer, position: int, frames: list[memoryview | bytes]) -> None:
        """Cut frames from `position` on, and keep the rest of `data` as a partial frame."""
        view = memoryview(data)
        end = len(view)
        while end - position >= SIZE_BYTES:
            start = position + SIZE_BYTES
            stop = start + self._checked_size(view, position)
            if stop > end:
                break
            frame = view[start:stop]
            frames.append(frame if stop - start > COPY_UP_TO_BYTES else bytes(frame))
            position = stop
        if end - position > GATHERED_FROM_BYTES and (size_bytes := _size_at(view, position)) > GATHERED_ABOVE_BYTES:
            self._size = size_bytes
            self._gather_from(view, position + SIZE_BYTES, frames)
        elif position < end:
            self._partial = bytearray(view[position:])

    def _finish_partial(self, data: Buffer, frames: list[memoryview | bytes]) -> int:
        """Add to the partial frame, and return how many bytes of `data` belonged to it."""
        view = memoryview(data)
        partial = self._partial
        position = 0
        if len(partial) < SIZE_BYTES:
            position = min(SIZE_BYTES - len(partial), len(view))
            partial += view[:position]
            if len(partial) < SIZE_BYTES:
                return position
        size_bytes = self._checked_size(partial, 0)
        if size_bytes > GATHERED_ABOVE_BYTES and len(partial) + len(view) - position > GATHERED_FROM_BYTES:
            self._size, self._memory = size_bytes, memoryview(partial)[SIZE_BYTES:]
            self._arrived = len(self._memory)
            self._partial = bytearray()
            return position
        missing = SIZE_BYTES + size_bytes - len(partial)
        taken = min(missing, len(view) - position)
        partial += view[position : position + taken]
        if taken == missing:
            frames.append(memoryview(partial)[SIZE_BYTES:])
            self._partial = bytearray()
        return position + taken

    def _gather_from(self, data: Buffer, position: int, frames: list[memoryview | bytes]) -> int:
        """Add to the large frame, and return the position after those bytes of `data` that belong to it."""
        view = memoryview(data)
        arrived, size_bytes, memory = self._arrived, self._size, self._memory
        end = min(arrived + len(view) - position, size_bytes)
        stop = position + end - arrived
        if end > len(memory):
            memory = self._gather(min(size_bytes, GROWTH * end))
            memory[:arrived] = self._memory[:arrived]
        memory[arrived:end] = view[position:stop]
        if end < size_bytes:
            self._arrived, self._memory = end, memory
        else:
            frames.append(memory[:size_bytes])
            self._arrived, self._size, self._memory = 0, -1, _NO_MEMORY
        return stop

    def _checked_size(self, data: Buffer, position: int) -> int:
        """Read the frame size at `position` and check it against the limit."""
        if self._at_start:
            self._at_start = False
            if bytes(data[position : position + len(_TLS_HANDSHAKE)]) == _TLS_HANDSHAKE:
                raise TlsOnPlainListener
        size_bytes = _size_at(data, position)
        if size_bytes < 0:
            raise NegativeFrameSize(size_bytes)
        if size_bytes > self.max_frame_bytes:
            raise FrameTooLarge(size_bytes, self.max_frame_bytes)
        return size_bytes


def _size_at(data: Buffer, position: int) -> int:
    (size_bytes,) = _SIZE.unpack_from(data, position)
    return int(size_bytes)
