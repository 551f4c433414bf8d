"""A bound on the request bytes that all connections hold together.

A connection counts what it reads and gives it back when the request is answered. Once the bound is reached,
connections stop reading one by one as they notice, and go on in that order when there is room again. Requests that
are complete are always worked on, for that is what makes room.

Should the memory be full of requests of which each still misses bytes, nothing would ever make room. So one
connection at a time, in the order in which they stopped, may overdraw: it reads on until its request is complete.
Never held is therefore more than twice the bound and one request (and a chunk for each connection): the bound in
incomplete requests, the bound in complete ones, and the one that overdraws.
"""

from __future__ import annotations

from typing import Protocol


class Reader(Protocol):
    """A connection, as far as memory is concerned."""

    def wake(self) -> None:
        """Ask again whether you may read, but not before this call has returned."""
        ...


class RequestMemory:
    """Counts request bytes and makes readers wait while too many are held.

    Args:
        limit_bytes: once this much is held, only the reader that overdraws may read.

    Attributes:
        partial_bytes: bytes of incomplete requests.
        complete_bytes: bytes of complete requests that are not answered yet.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.partial_bytes = 0
        self.complete_bytes = 0
        self._waiting: dict[Reader, bool] = {}
        self._overdrawer: Reader | None = None

    @property
    def used_bytes(self) -> int:
        """All bytes that are held."""
        return self.partial_bytes + self.complete_bytes

    @property
    def waiting(self) -> int:
        """How many readers wait."""
        return len(self._waiting)

    def received(self, reader: Reader, *, partial_bytes: int, complete_bytes: int) -> None:
        """Count what a chunk changed: a request that it completes moves its bytes from partial to complete."""
        self.partial_bytes += partial_bytes
        self.complete_bytes += complete_bytes
        if complete_bytes and self._overdrawer is reader:
            self._overdrawer = None
            self._wake_who_may_read()

    def may_read(self, reader: Reader, *, has_partial: bool) -> bool:
        """Whether `reader` may read on; if not, it waits, and is woken when it may.

        Args:
            has_partial: whether it holds an incomplete request, and so would make room by reading on.
        """
        if self.partial_bytes + self.complete_bytes < self.limit_bytes or self._overdrawer is reader:
            return True
        if has_partial and self._overdrawer is None and self.complete_bytes < self.limit_bytes:
            self._overdrawer = reader
            return True
        self._waiting[reader] = has_partial
        return False

    def release(self, complete_bytes: int) -> None:
        """Give back the bytes of requests that were answered."""
        self.complete_bytes -= complete_bytes
        if self._waiting:
            self._wake_who_may_read()

    def leave(self, reader: Reader, *, partial_bytes: int, complete_bytes: int) -> None:
        """`reader` is gone, and so are the bytes that it held."""
        self._waiting.pop(reader, None)
        if self._overdrawer is reader:
            self._overdrawer = None
        self.partial_bytes -= partial_bytes
        self.complete_bytes -= complete_bytes
        self._wake_who_may_read()

    def _wake_who_may_read(self) -> None:
        if self.used_bytes < self.limit_bytes:
            self._overdrawer = None
            waiting, self._waiting = self._waiting, {}
            for reader in waiting:
                reader.wake()
        elif self._overdrawer is None and self.complete_bytes < self.limit_bytes:
            self._overdrawer = next((reader for reader, has_partial in self._waiting.items() if has_partial), None)
            if self._overdrawer is not None:
                del self._waiting[self._overdrawer]
                self._overdrawer.wake()
