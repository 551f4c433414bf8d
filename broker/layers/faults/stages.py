"""The effect of each toxic on the bytes of one direction of one connection. Knows no event loop.

A stage takes pieces, each with the time at which it arrives, and gives pieces with the times at which they go on. An
empty piece is the end of the stream. A stage works when its next piece is asked for, so that one large write that is
cut into many pieces does not hold up the broker.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol

from purgatorio.broker.layers.faults.toxic import Toxic

Bytes = bytes | bytearray | memoryview
Piece = tuple[float, Bytes]
"""The time in milliseconds, and the bytes; without bytes: the end."""

END: Final = b""
LEAST_PIECE_BYTES: Final = 1024
PIECE_MS: Final = 50
"""The bandwidth toxic lets pieces of that duration pass, so that they come as a stream."""


class ToxicStage(Protocol):
    """One toxic at one direction of one connection."""

    def through(self, pieces: Iterator[Piece]) -> Iterator[Piece]:
        """Return the pieces that come out, with the times at which they go on."""
        ...


class Latency:
    """Delays pieces."""

    def __init__(self, toxic: Toxic, rng: random.Random) -> None:
        self._latency_ms, self._jitter_ms = toxic.number("latency_ms"), toxic.number("jitter_ms")
        self._rng = rng

    def through(self, pieces: Iterator[Piece]) -> Iterator[Piece]:
        for at_ms, data in pieces:
            jitter_ms = self._rng.uniform(-self._jitter_ms, self._jitter_ms) if self._jitter_ms else 0.0
            yield at_ms + max(0.0, self._latency_ms + jitter_ms), data


class Bandwidth:
    """Lets so many bytes pass in a second."""

    def __init__(self, toxic: Toxic, rng: random.Random) -> None:
        self._bytes_per_ms = toxic.number("rate_kb")  # as Toxiproxy, a kB has 1,000 bytes
        self._piece_bytes = max(LEAST_PIECE_BYTES, self._bytes_per_ms * PIECE_MS)
        self._free_ms = 0.0

    def through(self, pieces: Iterator[Piece]) -> Iterator[Piece]:
        for at_ms, data in pieces:
            if not data:
                yield max(at_ms, self._free_ms), data
            for start in range(0, len(data), self._piece_bytes):
                piece = data[start : start + self._piece_bytes]
                self._free_ms = max(at_ms, self._free_ms) + len(piece) / self._bytes_per_ms
                yield self._free_ms, piece


class Slicer:
    """Cuts bytes into small pieces."""

    def __init__(self, toxic: Toxic, rng: random.Random) -> None:
        self._average = toxic.number("average_size_bytes")
        self._variation = min(toxic.number("size_variation_bytes"), self._average - 1)
        self._delay_ms = toxic.number("delay_ms")
        self._rng = rng
        self._free_ms = 0.0

    def through(self, pieces: Iterator[Piece]) -> Iterator[Piece]:
        for at_ms, data in pieces:
            if not data:
                yield max(at_ms, self._free_ms), data
            start = 0
            while start < len(data):
                size = self._average + self._rng.randint(-self._variation, self._variation)
                at = max(at_ms, self._free_ms)
                yield at, data[start : start + size]
                self._free_ms = at + self._delay_ms
                start += size


class SlowClose:
    """Delays the end."""

    def __init__(self, toxic: Toxic, rng: random.Random) -> None:
        self._delay_ms = toxic.number("delay_ms")

    def through(self, pieces: Iterator[Piece]) -> Iterator[Piece]:
        for at_ms, data in pieces:
            yield (at_ms, data) if data else (at_ms + self._delay_ms, data)


class Silence:
    """Loses all bytes."""

    def __init__(self, toxic: Toxic, rng: random.Random) -> None:
        pass

    def through(self, pieces: Iterator[Piece]) -> Iterator[Piece]:
        return (piece for piece in pieces if not piece[1])


class LimitData:
    """Ends the stream when so many bytes have passed."""

    def __init__(self, toxic: Toxic, rng: random.Random) -> None:
        self._left_bytes = toxic.number("limit_bytes")

    def through(self, pieces: Iterator[Piece]) -> Iterator[Piece]:
        for at_ms, data in pieces:
            allowed = data[: self._left_bytes]
            self._left_bytes -= len(allowed)
            if allowed:
                yield at_ms, allowed
            if not self._left_bytes or not data:
                yield at_ms, END
                return


STAGES: Final[Mapping[str, Callable[[Toxic, random.Random], ToxicStage]]] = {
    "latency": Latency,
    "bandwidth": Bandwidth,
    "slicer": Slicer,
    "slow_close": SlowClose,
    "timeout": Silence,
    "limit_data": LimitData,
}
"""The toxics that do something to bytes; of the others, a connection only ends."""
