"""Memory of records: blocks of a segment, cut out of large chunks whose pages are used again.

A batch of its own from the system's allocator costs more than all else that an append does: its pages are new, and the
kernel clears them (16 KiB: 9 µs; into pages that are there 0.6 µs). And batches of odd sizes leave holes that no
allocator gives back. So the batches of a segment lie one after the other in blocks. Small blocks are byte arrays;
larger ones are runs of pages in chunks of private anonymous memory.
Large requests, and answers of other brokers, are gathered in blocks too (`Arena.gather`).

A block is freed when nothing refers to it any more: neither its segment nor an answer that is on its way to a client.
Its pages are the first to be taken again. Those that are not wanted for a while go back to the system; at once, those
for which there is no room besides new ones (`Arena.limit_bytes`).

The system's huge pages are declined. With the first byte that is touched the kernel clears 2 MiB: on a virtual machine
that gives free memory back to its host this took up to 40 ms, in which the event loop stood still, and logs grew at a
third of the rate. Nor would memory stay where it went: the kernel fills up holes in huge pages within half a minute.
"""

from __future__ import annotations

import contextlib
import mmap
import weakref
from collections import deque
from typing import Any, Final

from purgatorio.broker.log.heap import heap
from purgatorio.purgatory.clock import Alarm, Clock

PAGE_BYTES: Final = 16 * 1024
CHUNK_BYTES: Final = 16 * 1024 * 1024
PAGES_PER_CHUNK: Final = CHUNK_BYTES // PAGE_BYTES
FIRST_UNIT_BYTES: Final = 64
"""The first block of a log is as large as its batch, in these units: many logs get no other."""
MIN_BLOCK_BYTES: Final = 512
"""The smallest of the others."""
MAX_HEAP_BYTES: Final = 32 * 1024
"""The largest block that is a byte array: a partition of a few records takes no pages."""
MAX_SMALL_BYTES: Final = 1024
"""The largest block without a view of its own. A write to it takes 0.1 µs longer, and makes a copy on the way."""
MAX_GROWN_BYTES: Final = 1024 * 1024
"""The largest block that is larger than the batch for which it is made."""
GROWTH_DIVISOR: Final = 2
"""A new block is this part of what its segment has: few blocks to read, and little that is never used."""
TRIM_INTERVAL_MS: Final = 2_000
"""Pages that are free go back to the system after once or twice this time."""
TRIMMED_BYTES: Final = 64 * 1024 * 1024
"""The most that goes back to the system at once, so that it does not hold the event loop: 5 ms. More follows soon."""
TRIM_PAUSE_MS: Final = 20
ROOM_DIVISOR: Final = 64
"""At the limit so much of it more goes back than one block needs, so that not every block has to wait for that; not
more than `TRIMMED_BYTES`."""

_TURNED: Final = bytes((1, 0)).ljust(256, b"\0")


class Block:
    """A piece of memory in which batches lie one after the other.

    The collector of garbage visits five objects for each: the block, its memory, two that ctypes has for that, its run.

    Attributes:
        start: bytes of the segment before the block.
        capacity_bytes: the memory that it takes.
    """

    __slots__ = ("_memory", "_run", "capacity_bytes", "start")

    def __init__(self, memory: Any, size_bytes: int, run: Run | None) -> None:
        self.start = 0
        self.capacity_bytes = size_bytes
        self._memory = memory
        self._run = run

    @property
    def room(self) -> memoryview | bytearray:
        """The memory to which a segment writes: no view of a small block, which would take more than a record does."""
        return self._memory if self.capacity_bytes <= MAX_SMALL_BYTES else self.writable

    @property
    def writable(self) -> memoryview:
        """The memory, as a new view. It and its slices keep the memory from being used again."""
        return memoryview(self._memory).cast("B")

    @property
    def readable(self) -> memoryview:
        """The same, for those who read it."""
        return self.writable.toreadonly()

    def close(self, used_bytes: int) -> int:
        """Give back the pages behind what is used, since nothing more will be appended; return how many bytes."""
        given_back = 0 if self._run is None else self._run.shorten(used_bytes)
        self.capacity_bytes -= given_back
        return given_back


class Run(weakref.ref[Any]):
    """Pages of a chunk that a block has, until nothing refers to their memory any more."""

    __slots__ = ("arena", "chunk", "count", "first")
    arena: Arena
    chunk: Chunk
    count: int
    first: int
    __eq__ = object.__eq__  # a reference's own compare the memory
    __hash__ = object.__hash__

    def shorten(self, used_bytes: int) -> int:
        """Give back the pages behind these bytes; return how many bytes."""
        count = max(1, -(-used_bytes // PAGE_BYTES))
        spare = self.count - count
        if spare > 0:
            self.arena.freed.append((self.chunk, self.first + count, spare))
            self.count = count
        return max(0, spare) * PAGE_BYTES


def _end(run: Run) -> None:
    """Give back all pages. Any thread may call it."""
    run.arena.runs.discard(run)
    run.arena.freed.append((run.chunk, run.first, run.count))


class Chunk:
    """A piece of private anonymous memory, in pages.

    Attributes:
        view: all of its memory.
        taken: a byte for each page, 1: a block has it.
        cold: likewise, 1: a block has it, or its memory is not there: the system has it back, or never gave it.
        idle: likewise, 1: it is free, and its memory is there, since the last `Arena.trim`.
        free_count: the number of free pages.
        warm_count: the number of free pages whose memory is there.
    """

    __slots__ = ("cold", "free_count", "idle", "memory", "page_count", "taken", "view", "warm_count")

    def __init__(self, page_count: int) -> None:
        try:
            self.memory = mmap.mmap(-1, page_count * PAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except OSError as error:
            raise MemoryError(str(error)) from None
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            with contextlib.suppress(OSError):  # a kernel without huge pages
                self.memory.madvise(mmap.MADV_NOHUGEPAGE)
        self.view = memoryview(self.memory)
        self.page_count = self.free_count = page_count
        self.warm_count = 0
        self.taken = bytearray(page_count)
        self.cold = bytearray(b"\x01") * page_count
        self.idle = bytearray(page_count)

    def take(self, first: int, count: int) -> bool:
        """Note that a block has these pages; return whether the memory of all of them was there."""
        last = first + count
        warm_count = self.cold.count(0, first, last)
        self.warm_count -= warm_count
        self.free_count -= count
        ones = b"\x01" * count
        self.taken[first:last] = ones
        self.cold[first:last] = ones
        self.idle[first:last] = bytes(count)
        return warm_count == count

    def free(self, first: int, count: int) -> None:
        """Note that no block has these pages any more. Their memory is there, or was never touched."""
        zeros = bytes(count)
        self.taken[first : first + count] = zeros
        self.cold[first : first + count] = zeros
        self.free_count += count
        self.warm_count += count

    @property
    def is_spare(self) -> bool:
        """Whether it is larger than others, for a batch that was, and the system has all of its memory."""
        return self.page_count > PAGES_PER_CHUNK and self.free_count == self.page_count and not self.warm_count

    def trim(self, max_bytes: int) -> int:
        """Give memory back to the system that is idle since the last call, up to `max_bytes`; return how many bytes."""
        idle, left, last = self.idle, max_bytes // PAGE_BYTES, 0
        while left > 0 and (first := idle.find(1, last)) >= 0:
            last = idle.find(0, first)
            last = min(first + left, last if last >= 0 else self.page_count)
            self._give_back(first, last)
            left -= last - first
        if left > 0:
            self.idle = self.cold.translate(_TURNED)
        else:
            idle[:last] = bytes(last)
        return (max_bytes // PAGE_BYTES - left) * PAGE_BYTES

    def spare(self, wanted: int) -> int:
        """Give up to `wanted` free pages back to the system now; return how many."""
        given_back, last = 0, 0
        while given_back < wanted and (first := self.cold.find(0, last)) >= 0:
            last = self.cold.find(1, first)
            last = min(first + wanted - given_back, last if last >= 0 else self.page_count)
            self._give_back(first, last)
            given_back += last - first
        return given_back

    def _give_back(self, first: int, last: int) -> None:
        """Give free pages back to the system whose memory is there."""
        count = last - first
        self.memory.madvise(mmap.MADV_DONTNEED, first * PAGE_BYTES, count * PAGE_BYTES)
        self.cold[first:last] = b"\x01" * count
        self.idle[first:last] = bytes(count)
        self.warm_count -= count


class Arena:
    """The memory of the logs of one broker. Blocks are taken in its event loop, and freed in any thread.

    Args:
        clock: times how long free pages stay; None: until `trim` is called twice.
        limit_bytes: the most that it takes of the system's memory, unless blocks have more: free pages go back to the
            system so that new ones fit. None: there is no limit.

    Attributes:
        limit_bytes: this limit.
        freed: pages that are free, and not yet counted as such: their chunk, the first one, how many.
        runs: those that blocks have.
    """

    def __init__(self, clock: Clock | None = None, limit_bytes: int | None = None) -> None:
        self.limit_bytes = limit_bytes
        self.runs: set[Run] = set()
        self.freed: deque[tuple[Chunk, int, int]] = deque()
        self._chunks: list[Chunk] = []
        self._clock = clock
        self._alarm: Alarm | None = None
        self._types: dict[int, Any] = {}
        """The type of a block by its pages: ctypes would make one for each block, and leave it to the collector."""

    @property
    def taken_bytes(self) -> int:
        """Bytes of the pages that blocks have."""
        self._count_freed()
        return sum(each.page_count - each.free_count for each in self._chunks) * PAGE_BYTES

    @property
    def idle_bytes(self) -> int:
        """Bytes of the free pages whose memory is there."""
        self._count_freed()
        return sum(each.warm_count for each in self._chunks) * PAGE_BYTES

    def block(self, size_bytes: int, held_bytes: int) -> Block:
        """Return a block for a batch of a segment.

        Args:
            size_bytes: the batch's; the block is as large, at least.
            held_bytes: what the segment's blocks have already; 0: it is the first one of a log.

        Raises:
            MemoryError: the system has no memory.
        """
        wanted_bytes = max(size_bytes, min(held_bytes // GROWTH_DIVISOR, MAX_GROWN_BYTES))
        if wanted_bytes <= MAX_HEAP_BYTES:
            if held_bytes:
                capacity_bytes = max(MIN_BLOCK_BYTES, 1 << (wanted_bytes - 1).bit_length())
            else:
                capacity_bytes = -(-size_bytes // FIRST_UNIT_BYTES) * FIRST_UNIT_BYTES
            return Block(bytearray(capacity_bytes), capacity_bytes, None)
        return self._pages(-(-wanted_bytes // PAGE_BYTES), -(-size_bytes // PAGE_BYTES))

    def gather(self, size_bytes: int) -> memoryview:
        """Return memory for a request or an answer that arrives in pieces; raises as `block`."""
        return self.block(size_bytes, 0).writable

    def _pages(self, wanted: int, least: int) -> Block:
        """Return a block of so many pages; of fewer, if otherwise pages would go back to the system for new ones."""
        self._count_freed()
        count = wanted
        place = self._find_warm(count)
        while place is None and count > least and self._is_full(wanted):
            count = max(least, count // 2)
            place = self._find_warm(count)
        if place is None:
            count = wanted
            place = self._find_free(count)
        chunk, first = place
        if not chunk.take(first, count):
            self._keep_to_limit()
        self.trim_later()
        size_bytes = count * PAGE_BYTES
        made = self._types.get(count) or self._type_of(count)
        memory = made.from_buffer(chunk.view, first * PAGE_BYTES)
        run = Run(memory, _end)
        run.arena, run.chunk, run.first, run.count = self, chunk, first, count
        self.runs.add(run)
        return Block(memory, size_bytes, run)

    def _type_of(self, count: int) -> Any:
        import ctypes  # 4 ms, which a cluster of small logs need not wait for

        made = ctypes.c_char * (count * PAGE_BYTES)
        if count <= PAGES_PER_CHUNK:
            self._types[count] = made
        return made

    def _find_warm(self, count: int) -> tuple[Chunk, int] | None:
        """Return a chunk and the first of so many free pages in it whose memory is there; None if there are none."""
        zeros = bytes(count)
        for chunk in self._chunks:
            if chunk.warm_count >= count and (first := chunk.cold.find(zeros)) >= 0:
                return chunk, first
        return None

    def _find_free(self, count: int) -> tuple[Chunk, int]:
        """Return a chunk, which may be a new one, and the first of so many free pages in it."""
        zeros = bytes(count)
        for chunk in self._chunks:
            if chunk.free_count >= count and (first := chunk.taken.find(zeros)) >= 0:
                return chunk, first
        self._chunks.append(Chunk(max(count, PAGES_PER_CHUNK)))
        return self._chunks[-1], 0

    @property
    def _present_count(self) -> int:
        return sum(each.page_count - each.free_count + each.warm_count for each in self._chunks)

    def _is_full(self, more: int) -> bool:
        """Return whether there is no room for so many pages more without giving others back."""
        return self.limit_bytes is not None and (self._present_count + more) * PAGE_BYTES > self.limit_bytes

    def _keep_to_limit(self) -> None:
        """Give free pages back to the system if there is no room for them, and a few more."""
        if self.limit_bytes is not None and self._is_full(0):
            kept_bytes = self.limit_bytes - min(self.limit_bytes // ROOM_DIVISOR, TRIMMED_BYTES)
            self.give_back(self._present_count * PAGE_BYTES - kept_bytes)

    def give_back(self, max_bytes: int) -> int:
        """Give free pages back to the system now; return how many bytes."""
        self._count_freed()
        wanted = left = -(-max_bytes // PAGE_BYTES)
        for chunk in reversed(self._chunks):
            if left > 0 and chunk.warm_count:
                left -= chunk.spare(left)
        return (wanted - left) * PAGE_BYTES

    def _count_freed(self) -> None:
        freed = self.freed
        while freed:
            chunk, first, count = freed.popleft()
            chunk.free(first, count)

    def trim(self) -> int:
        """Give memory back to the system that no block has had since the last call; return how many bytes."""
        self._count_freed()
        given_back = 0
        for chunk in self._chunks:
            given_back += chunk.trim(TRIMMED_BYTES - given_back)
            if given_back >= TRIMMED_BYTES:
                break
        if any(each.page_count > PAGES_PER_CHUNK for each in self._chunks):
            self._chunks = [each for each in self._chunks if not each.is_spare]
        return given_back

    def trim_later(self, delay_ms: int = TRIM_INTERVAL_MS) -> None:
        """Call `trim` after a while, and again as long as it has something to do. Does nothing without a clock."""
        if self._alarm is None and self._clock is not None and self._chunks:
            self._alarm = self._clock.call_later(delay_ms, self._trim)

    def _trim(self) -> None:
        self._alarm = None
        given_back = self.trim()
        if (of_process := heap()) is not None:
            of_process.trim()
        if given_back >= TRIMMED_BYTES:
            self.trim_later(TRIM_PAUSE_MS)
        elif self.runs or self.idle_bytes:
            self.trim_later()

    def close(self) -> None:
        """Trim no more; the memory goes with the last block."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._clock = self._alarm = None
