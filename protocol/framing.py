"""The sans-IO frame decoder: bytes in, frames out. A frame is a 4-byte size and that many bytes."""

# compiled: docs/compiled.md

from __future__ import annotations

from struct import Struct
from typing import Final

from purgatorio.protocol.errors import FrameError, FrameTooLarge, NegativeFrameSize, TlsOnPlainListener
from purgatorio.protocol.primitives import Buffer

SIZE_BYTES: Final = 4
"""The size of the int32 in front of a frame, which gives the frame's size."""

COPY_UP_TO_BYTES: Final = 1024
"""Frames up to this size are copied out of the received chunk. A copy is cheaper than a view, and a view would keep
the whole chunk alive for as long as one small request is parked."""

_SIZE: Final = Struct(">i")
_TLS_HANDSHAKE: Final = b"\x16\x03"
"""The first bytes of a TLS record that carries a ClientHello: content type 22, protocol version 3.x."""


class FrameDecoder:
    """Cuts a byte stream into frames, however the network split the stream.

    The decoder checks a frame's size before it keeps any byte of the frame, and of a partial frame it keeps only the
    bytes that arrived. So `pending_bytes` is all the memory that a connection's partial frame takes.

    Args:
        max_frame_bytes: the largest frame, without its size (Kafka's `socket.request.max.bytes`); may change.
    """

    __slots__ = ("_at_start", "_partial", "max_frame_bytes")

    def __init__(self, max_frame_bytes: int) -> None:
        self.max_frame_bytes = max_frame_bytes
        self._partial = bytearray()
        self._at_start = True

    @property
    def pending_bytes(self) -> int:
        """The number of bytes held of a partial frame, its size field included."""
        return len(self._partial)

    def feed(self, data: Buffer) -> list[memoryview | bytes]:
        """Take received bytes, and return the frames that are now complete, without their size fields.

        A large frame that lies whole in `data` is a view of it; so `data` must not change afterwards.

        Raises:
            FrameTooLarge, NegativeFrameSize, TlsOnPlainListener: the stream is unreadable from here on. The error's
                `frames` are those that were complete before it.
        """
        frames: list[memoryview | bytes] = []
        try:
            position = self._finish_partial(data, frames) if self._partial else 0
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
        if position < end:
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
        missing = SIZE_BYTES + self._checked_size(partial, 0) - len(partial)
        taken = min(missing, len(view) - position)
        partial += view[position : position + taken]
        if taken == missing:
            frames.append(memoryview(partial)[SIZE_BYTES:])
            self._partial = bytearray()
        return position + taken

    def _checked_size(self, data: Buffer, position: int) -> int:
        """Read the frame size at `position` and check it against the limit."""
        if self._at_start:
            self._at_start = False
            if bytes(data[position : position + len(_TLS_HANDSHAKE)]) == _TLS_HANDSHAKE:
                raise TlsOnPlainListener
        (size_bytes,) = _SIZE.unpack_from(data, position)
        if size_bytes < 0:
            raise NegativeFrameSize(size_bytes)
        if size_bytes > self.max_frame_bytes:
            raise FrameTooLarge(size_bytes, self.max_frame_bytes)
        return int(size_bytes)
