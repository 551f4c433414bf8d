"""Reads of parts of copied segments, one at a time for each part, and the cache of what was read.

A fetch that needs a part begins a read, or joins one that is under way. The read goes on when the fetch expires, and
its bytes are kept for the next fetch, which comes for the same part: so a consumer gets on however slow the store is.
(Apache Kafka drops what comes too late: a consumer whose reads take longer than remote.fetch.max.wait.ms gets nothing.)

The parts behind one that was read to its end are read ahead, into a half of the cache at most, while readers are idle.

A read that comes to nothing is tried again for a while, by the broker's clock; then it has failed, and says why.
"""

from __future__ import annotations

import asyncio
import struct
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator
from typing import Final

from purgatorio.broker.tier.names import LOG
from purgatorio.broker.tier.segment_file import DamagedObject, Part, RemoteSegment
from purgatorio.broker.tier.store import NotThere, Refused, Store, StoreError, Unavailable
from purgatorio.broker.tier.traffic import TierTraffic
from purgatorio.logger import get_logger
from purgatorio.protocol.compression import Buffer
from purgatorio.purgatory.clock import Clock, time_limit

logger = get_logger(__name__)

TRIES: Final = 5
"""The times that a part is asked for before its read has failed."""
FIRST_PAUSE_MS: Final = 50
"""The pause before the second try; each further one is four times as long."""
TRY_MS: Final = 30_000
"""The longest time that a try may take."""
BATCHES_PER_TURN: Final = 4_000
"""The batches of a part that are found in one turn of the event loop: some 1.5 ms."""
MAX_WAITING: Final = 100
"""The reads that wait for a reader, at most (Kafka: remote.log.reader.max.pending.tasks)."""
MAX_DAMAGED: Final = 100
"""The damaged segments that are remembered, the newest."""


_PLACE: Final = struct.Struct(">qi")
_DELTA: Final = struct.Struct(">i")
_DELTA_START: Final = 23
"""Where a batch has the difference of its last offset from its base offset."""


class PartRead:
    """The read of one part of a segment.

    Attributes:
        folder: the prefix of the object's name.
        began_ms: the time at which it was asked for.
        tries: the times that the store was asked; 0: it waits for a reader.
        trouble: why the last try came to nothing; "": none has, or it is done.
        data: the bytes of the part, when they are here.
        has_failed: whether it is over without them.
        is_ahead: whether nobody has asked for it yet.
        listeners: are called once, when it is over.
    """

    __slots__ = ("_ends", "_last_offsets", "began_ms", "data", "folder", "has_failed", "is_ahead", "listeners",
                 "number", "segment", "tries", "trouble")  # fmt: skip

    def __init__(self, folder: str, segment: RemoteSegment, number: int, began_ms: int) -> None:
        self.folder = folder
        self.segment = segment
        self.number = number
        self.began_ms = began_ms
        self.tries = 0
        self.trouble = ""
        self.data: memoryview | None = None
        self.has_failed = False
        self.is_ahead = False
        self.listeners: dict[Hashable, Callable[[], None]] = {}
        self._last_offsets = array("q")
        self._ends = array("q")

    @property
    def part(self) -> Part:
        """The part that is read."""
        return self.segment.parts[self.number]

    @property
    def key(self) -> tuple[str, int]:
        """The segment's name with its folder, and the number of the part."""
        return f"{self.folder}{self.segment.name}", self.number

    @property
    def end_offset(self) -> int:
        """The offset after the part."""
        return self.segment.end_of_part(self.number)

    @property
    def is_over(self) -> bool:
        """Whether nothing more happens to it."""
        return self.data is not None or self.has_failed

    def take(self, data: Buffer) -> Iterator[None]:
        """Take the bytes; yields between steps, since small batches are many.

        Raises:
            DamagedObject: they are not those of the part.
        """
        self.part.check(data)
        self._last_offsets, self._ends = array("q"), array("q")
        view = memoryview(data)
        position, end, count = 0, len(view), 0
        while position < end:  # the CRC says that these are the batches of a log, so there is no more to check
            count += 1
            if count % BATCHES_PER_TURN == 0:
                yield
            base_offset, length = _PLACE.unpack_from(view, position)
            (last_delta,) = _DELTA.unpack_from(view, position + _DELTA_START)
            position += _PLACE.size + length
            self._last_offsets.append(base_offset + last_delta)
            self._ends.append(position)
        self.data = view

    def batches(self, offset: int, max_bytes: int, end_offset: int, *, min_one: bool) -> tuple[memoryview, int]:
        """Return whole batches from the one that contains an offset on, and the offset after them; see `Log.read`."""
        assert self.data is not None, "it was read"
        first = bisect_left(self._last_offsets, offset)
        start = self._ends[first - 1] if first else 0
        stop = bisect_left(self._last_offsets, end_offset, first)
        fit = bisect_right(self._ends, start + max_bytes, first, stop)
        if fit == first < stop and min_one:
            fit += 1
        if fit == first:
            return self.data[:0], offset
        return self.data[start : self._ends[fit - 1]], self._last_offsets[fit - 1] + 1


_Key = tuple[str, int]


class RemoteReads:
    """The reads of one broker.

    Args:
        store: what is read.
        clock: times pauses, tries, and how long a read takes.
        readers: the reads that are under way at a time (remote.log.reader.threads).
        cache_bytes: what may be kept of parts that were read.
        traffic: has the quota of reads, and counts them.

    Attributes:
        traffic: the same.
        read_count, read_ms: the reads that are over, and the sum of the times that they took.
        pending: those that are not over, by segment and part, in the order in which they were asked for.
        damaged: what the last read of a segment has found wrong with it, by its name with its folder.
    """

    def __init__(
        self, store: Store, clock: Clock, *, readers: int, cache_bytes: int, traffic: TierTraffic | None = None
    ) -> None:
        self.traffic = traffic or TierTraffic(clock)
        self.read_count = self.read_ms = 0
        self._store = store
        self._clock = clock
        self._readers = readers
        self._begun = 0
        self._is_allowed = asyncio.Event()
        self._cache_bytes = cache_bytes
        self._cache: OrderedDict[_Key, PartRead] = OrderedDict()  # oldest use first
        self._ahead_bytes = 0  # of the parts that nobody has asked for, here or under way
        self._waiting: deque[PartRead] = deque()
        self._has_waiting = asyncio.Event()
        self._cached_bytes = 0
        self.pending: dict[_Key, PartRead] = {}
        self.damaged: dict[str, str] = {}

    @property
    def cached_bytes(self) -> int:
        """Bytes of the parts in the cache."""
        return self._cached_bytes

    @property
    def under_way(self) -> int:
        """The reads that are not over."""
        return len(self.pending)

    @property
    def waiting_count(self) -> int:
        """The reads that wait for a reader."""
        return len(self._waiting)

    @property
    def idle_share(self) -> float:
        """The share of the readers that have nothing to read."""
        return max(0.0, 1 - (len(self.pending) - len(self._waiting)) / self._readers)

    def is_begun(self, folder: str, segment: RemoteSegment, number: int) -> bool:
        """Return whether a part is here or under way, so that it costs nothing more to have it."""
        key = (f"{folder}{segment.name}", number)
        return key in self._cache or key in self.pending

    def read(self, folder: str, segment: RemoteSegment, number: int) -> PartRead | None:
        """Return the read of a part, which may be over, under way, or begin now; None: too many wait for a reader."""
        key = (f"{folder}{segment.name}", number)
        read = self.kept(folder, segment, number) or self.pending.get(key)
        if read is None and len(self._waiting) < MAX_WAITING:
            return self._begin(folder, segment, number)
        if read is not None:
            self._used(read)
        return read

    def kept(self, folder: str, segment: RemoteSegment, number: int) -> PartRead | None:
        """Return the read of a part that is in the cache; None: it is not. Nothing begins."""
        key = (f"{folder}{segment.name}", number)
        read = self._cache.get(key)
        if read is not None:
            self._cache.move_to_end(key)
            self._used(read)
        return read

    def read_ahead(self, folder: str, segment: RemoteSegment, number: int) -> bool:
        """Read a part that is probably asked for next, if there is room, and a reader that nothing else needs.

        Returns:
            Whether it is here or under way now.
        """
        if self.is_begun(folder, segment, number):
            return True
        size_bytes = segment.parts[number].size_bytes
        if len(self.pending) + 1 >= self._readers or self._ahead_bytes + size_bytes > self._cache_bytes // 2:
            return False
        if self.traffic.reads.is_over():
            return False
        self._begin(folder, segment, number).is_ahead = True
        self._ahead_bytes += size_bytes
        return True

    def _begin(self, folder: str, segment: RemoteSegment, number: int) -> PartRead:
        read = PartRead(folder, segment, number, self._clock.now_ms())
        self.pending[read.key] = read
        self._waiting.append(read)
        self._has_waiting.set()
        return read

    def _used(self, read: PartRead) -> None:
        """Note that a part was asked for, or has gone."""
        if read.is_ahead:
            read.is_ahead = False
            self._ahead_bytes -= read.part.size_bytes

    def held_by(self, read: PartRead) -> int | None:
        """Return the fault rule that holds a read now, by its id; None: none does."""
        held_by: Callable[[str], int | None] | None = getattr(self._store, "held_by", None)
        return None if held_by is None else held_by(f"{read.folder}{read.segment.name}{LOG}")

    def waited_ms(self, read: PartRead) -> int:
        """Return for how long a read has been under way."""
        return self._clock.now_ms() - read.began_ms

    async def run(self) -> None:
        """Read until cancelled."""
        self._begun = 0
        async with asyncio.TaskGroup() as tasks:
            while True:
                while self._begun < self._readers:
                    self._begun += 1
                    tasks.create_task(self._reader())
                self._is_allowed.clear()
                await self._is_allowed.wait()

    def allow(self, readers: int) -> None:
        """Make so many reads at a time from now on; a reader that is one too many ends after its read."""
        self._readers = readers
        self._is_allowed.set()
        self._has_waiting.set()

    async def _reader(self) -> None:
        while self._begun <= self._readers:
            if not self._waiting:
                self._has_waiting.clear()
                await self._has_waiting.wait()
                continue
            read = self._waiting.popleft()
            try:
                await self._read(read)
            except Exception as error:  # a bug: the fetch must not wait for it
                logger.exception("a read of the tier failed", segment=str(read.segment.name))
                read.trouble = repr(error)
                self._failed(read)
        self._begun -= 1

    async def _read(self, read: PartRead) -> None:
        pause_ms = FIRST_PAUSE_MS
        while True:
            read.tries += 1
            try:
                await self._try(read)
            except (StoreError, DamagedObject) as error:
                read.trouble = str(error)
                if isinstance(error, (NotThere, Refused)) or read.tries >= TRIES:
                    if isinstance(error, (NotThere, DamagedObject)):
                        self._note_damage(read)
                    self._failed(read)
                    return
            else:
                self._done(read)
                return
            await self._clock.sleep(pause_ms)
            pause_ms *= 4

    async def _try(self, read: PartRead) -> None:
        part, key = read.part, f"{read.folder}{read.segment.name}{LOG}"
        counts = self.traffic.of_folder(read.folder)
        counts.fetch_requests += 1
        try:
            await self._get(read, part, key)
        except Exception:
            counts.fetch_errors += 1
            raise
        counts.fetch_bytes += part.size_bytes
        self.traffic.reads.record(part.size_bytes)

    async def _get(self, read: PartRead, part: Part, key: str) -> None:
        try:
            async with time_limit(self._clock, TRY_MS):
                data = await self._store.get(key, part.position, part.size_bytes)
        except TimeoutError as error:
            raise Unavailable(f"no answer in {TRY_MS // 1000} s") from error
        for _ in read.take(data):
            await asyncio.sleep(0)

    def _note_damage(self, read: PartRead) -> None:
        self.damaged[f"{read.folder}{read.segment.name}"] = read.trouble
        if len(self.damaged) > MAX_DAMAGED:
            del self.damaged[next(iter(self.damaged))]

    def _done(self, read: PartRead) -> None:
        read.trouble = ""
        self.damaged.pop(f"{read.folder}{read.segment.name}", None)
        self._cached_bytes += read.part.size_bytes
        while self._cached_bytes > self._cache_bytes and self._cache:
            _, oldest = self._cache.popitem(last=False)
            self._cached_bytes -= oldest.part.size_bytes
            self._used(oldest)
        self._cache[read.key] = read
        self._over(read)

    def _failed(self, read: PartRead) -> None:
        """End a read without its bytes; the next fetch begins another one."""
        read.has_failed = True
        self._used(read)
        logger.warning(
            "a read of the tier failed",
            segment=f"{read.folder}{read.segment.name}",
            tries=read.tries,
            reason=read.trouble,
        )
        self._over(read)

    def _over(self, read: PartRead) -> None:
        del self.pending[read.key]
        self.read_count += 1
        self.read_ms += self.waited_ms(read)
        listeners, read.listeners = read.listeners, {}
        for listener in listeners.values():
            listener()
