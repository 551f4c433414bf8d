"""The heap of the process: free memory that its allocator keeps goes back to the system if it is much.

glibc gives back by itself only what is free at the heap's end. After a flood of large requests a few small objects
there kept 250 MB that were free below them.

That is the longest hold of the event loop which is not cut into parts: glibc walks all holes in one call, of which no
part can be asked for. Another thread would not help: it has the lock of the heap meanwhile, so that the loop's next
allocation of more than 512 bytes waits as long (measured for 64 and 256 MB).
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any, Final, Protocol

KEPT_BYTES: Final = 16 * 1024 * 1024
"""So much may stay free: the next requests and answers take it."""
_COUNTS: Final = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"


class Allocator(Protocol):
    """The allocator of a process."""

    def free_bytes(self) -> int:
        """The bytes that are free, whether their memory is there or not."""
        ...

    def give_back(self) -> None:
        """Give the memory of free pages back to the system."""
        ...


class Glibc:
    """The allocator of glibc 2.33 (of 2021) and later.

    Raises:
        AttributeError: there is another library, or an older one.
    """

    def __init__(self) -> None:
        import ctypes

        class Counts(ctypes.Structure):
            _fields_ = tuple((name, ctypes.c_size_t) for name in _COUNTS.split())

        library: Any = ctypes.CDLL(None)
        self._counts, self._trim = library.mallinfo2, library.malloc_trim
        self._counts.restype = Counts

    def free_bytes(self) -> int:
        """The bytes of all holes. glibc looks at each of them: 5 µs for 500, 1.6 ms for 5,000."""
        return int(self._counts().fordblks)

    def give_back(self) -> None:
        """Give the memory of whole free pages back to the system, 0.11 ms of CPU for a megabyte."""
        self._trim(0)


class Heap:
    """Gives free memory of the heap back to the system."""

    def __init__(self, allocator: Allocator) -> None:
        self._allocator = allocator
        self._absent_bytes = 0  # of what is free, the most that the system may have back already

    def trim(self) -> bool:
        """Give back what is free if it is more than `KEPT_BYTES` of memory that is there; return whether it was."""
        free_bytes = self._allocator.free_bytes()
        self._absent_bytes = min(self._absent_bytes, free_bytes)
        if free_bytes - self._absent_bytes <= KEPT_BYTES:
            return False
        self._allocator.give_back()
        self._absent_bytes = free_bytes
        return True


@cache
def heap() -> Heap | None:
    """Return the heap of this process; None where the allocator is not glibc's."""
    try:
        return Heap(Glibc()) if sys.platform == "linux" else None
    except AttributeError:
        return None
