"""A bound on the request bytes that all connections hold together.

A connection counts the bytes that it reads, and gives them back when the request is answered. At the bound each
connection that wants to read must wait; when there is room again they go on in the order in which they stopped.
Complete requests are always worked on: answering them makes room.

Incomplete requests alone could fill the memory, and then no answer would ever make room. So one connection at a time,
in the order in which they stopped, may overdraw: it reads on until its request is complete. All connections together
therefore hold at most twice the bound and one request (and a chunk each): the bound in incomplete requests, the bound
in complete ones, and the request that overdraws.
"""

from __future__ import annotations

from typing import Protocol


class Reader(Protocol):
    """A connection that may have to wait for memory."""

    def wake(self) -> None:
        """Call `RequestMemory.may_read` again, after this method has returned."""
        ...


class RequestMemory:
    """Counts request bytes, and makes readers wait while too many are held.

    Args:
        limit_bytes: while this much is held, only the reader that overdraws may read.

    Attributes:
        partial_bytes: bytes of incomplete requests.
        complete_bytes: bytes of complete requests that are not answered.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.partial_bytes = 0
        self.complete_bytes = 0
        self._waiting: dict[Reader, bool] = {}
        self._overdrawer: Reader | None = None

    @property
    def used_bytes(self) -> int:
        """The sum of both."""
        return self.partial_bytes + self.complete_bytes

    @property
    def waiting(self) -> int:
        """How many readers wait for memory."""
        return len(self._waiting)

    def received(self, reader: Reader, *, partial_bytes: int, complete_bytes: int) -> None:
        """Count a chunk. A request that it completes moves its bytes from partial to complete."""
        self.partial_bytes += partial_bytes
        self.complete_bytes += complete_bytes
        if complete_bytes and self._overdrawer is reader:
            self._overdrawer = None
            self._wake_who_may_read()

    def may_read(self, reader: Reader, *, has_partial: bool) -> bool:
        """Whether `reader` may read on. If not, it waits, and is woken when there is memory.

        Args:
            has_partial: whether `reader` holds an incomplete request, so that reading on leads to an answer.
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
        """Forget `reader` and give back the bytes that it held."""
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
