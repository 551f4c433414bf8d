"""One direction of a connection under toxics: bytes in, pieces of them out, each when its time has come.

Knows no event loop and no socket.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

from purgatorio.broker.layers.faults.stages import Bytes, Piece, ToxicStage

EARLY_MS: Final = 1.0
"""A piece may go on that much before its time: event loops ring alarms early by less than their resolution."""


class _Write:
    """Some bytes that were fed together: what is still to come of them."""

    __slots__ = ("left_bytes", "pieces")

    def __init__(self, pieces: Iterator[Piece], size_bytes: int) -> None:
        self.pieces = pieces
        self.left_bytes = size_bytes


class Flow:
    """One direction of a connection. Its owner bounds what it holds, by `buffered_bytes`.

    Attributes:
        stages: the toxics that act on what is fed from now on, the first one first.
        buffered_bytes: bytes that were fed, and have neither gone on nor been lost.
    """

    __slots__ = ("_at_once", "_head", "_last_ms", "_writes", "buffered_bytes", "stages")

    def __init__(self) -> None:
        self.stages: Sequence[ToxicStage] = ()
        self.buffered_bytes = 0
        self._writes: deque[_Write] = deque()
        self._head: Piece | None = None
        self._last_ms = 0.0
        self._at_once = False

    @property
    def is_idle(self) -> bool:
        """Whether it would do nothing to bytes that came now, so that they need not pass it."""
        return not self.stages and self._head is None

    @property
    def due_ms(self) -> float | None:
        """The time of the next piece; None if there is none."""
        if self._head is None:
            return None
        return 0.0 if self._at_once else self._head[0]

    def feed(self, data: Bytes, now_ms: float) -> None:
        """Take in bytes, or with `END` the end of the stream."""
        pieces: Iterator[Piece] = iter(((now_ms, data),))
        for stage in self.stages:
            pieces = stage.through(pieces)
        self._writes.append(_Write(pieces, len(data)))
        self.buffered_bytes += len(data)
        if self._head is None:
            self._advance()

    def take(self, now_ms: float) -> Bytes | None:
        """Return the next piece if its time has come, or None. An empty one is the end of the stream."""
        due_ms = self.due_ms
        if due_ms is None or due_ms > now_ms + EARLY_MS:
            return None
        assert self._head is not None
        data = self._head[1]
        self._writes[0].left_bytes -= len(data)
        self.buffered_bytes -= len(data)
        if data:
            self._advance()
        else:
            self.clear()  # nothing comes after the end
        return data

    def hurry(self) -> None:
        """Have all pieces go on at once that are here now: a toxic was removed."""
        self._at_once = self._head is not None

    def clear(self) -> None:
        """Forget all bytes."""
        self._writes.clear()
        self._head = None
        self._at_once = False
        self.buffered_bytes = 0

    def _advance(self) -> None:
        """Have the next piece ready."""
        self._head = None
        while self._writes:
            write = self._writes[0]
            piece = next(write.pieces, None)
            if piece is not None:
                self._last_ms = max(piece[0], self._last_ms)  # none overtakes another
                self._head = (self._last_ms, piece[1])
                return
            self.buffered_bytes -= write.left_bytes  # a toxic has lost them
            self._writes.popleft()
        self._at_once = False
