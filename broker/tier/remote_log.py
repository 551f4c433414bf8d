"""The tier's part of one replica's log: what the store has of it, as it was listed last."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import filterfalse
from typing import Any, Final

from purgatorio.broker.log.log import Log
from purgatorio.broker.tier.claim import StoreClaim
from purgatorio.broker.tier.names import DESCRIPTION, LOG, SegmentName, segment_of
from purgatorio.broker.tier.remote_segments import RemoteSegments, is_of_log
from purgatorio.broker.tier.segment_file import MAX_DESCRIPTION_BYTES, DamagedObject, DescriptionReader, RemoteSegment
from purgatorio.broker.tier.store import NotThere, Store
from purgatorio.logger import get_logger

logger = get_logger(__name__)

NAMES_AT_ONCE: Final = 500
"""The names of a list that are looked at in one turn of the event loop: about a millisecond."""
DESCRIBED_AT_ONCE: Final = 16
"""The descriptions that a list reads at a time."""
COST_AT_ONCE: Final = 500
"""The cost of a turn that reads a description (see `LongWork`): ten partitions may be listed at a time."""
DESCRIPTION_TRIES: Final = 3
"""The times that a list reads a description that is damaged: it may have been damaged on its way."""


class RemoteLog:
    """The copied segments of one log.

    Args:
        folder: the prefix of its objects' names.
        claim: says which of them count; None: all do.
        times_tiered: how often the log had come to the tier; what the tier had of it before is not its own.
        keeps_producers: whether the segments keep the producers' states, which may be much: 1 MB of memory for each
            segment of a log with 1,000 producers. Otherwise `whole` reads them.

    Attributes:
        segments: those that are the log's, as of the last call of `settle`.
        listed_in_epoch: the leader epoch in which the store was listed last; -1: not yet.
        emptied_in_epoch: the leader epoch in which all of it was deleted, after its topic had left the tier.
        is_stale: whether a copy has failed since, so that the store may have more than is known.
        copied_to: the offset after the last one that is known to have been copied; -1: none is. It stays when the
            segment is deleted.
        damaged: what is wrong with segments that cannot be used, by their names.
        undescribed: segments of which the store had the records only, when it was listed; not those of a newer leader,
            nor of an older one that may not have heard of this one, which may be at work.
        unheard: those of older ones that may not have heard.
        unheard_until_ms: the time from which on they have.
        without_records: segments of which it had the description only.
        doomed_before: the offset before which all are doomed, as far as the store was listed.
        doomed: segments that are to be deleted; they are not read, nor do they count as copied.
        runs: for `strip`: what it has found last, with all that this depends on.
    """

    def __init__(
        self,
        folder: str,
        claim: StoreClaim | None = None,
        *,
        times_tiered: int = 0,
        keeps_producers: bool = False,
    ) -> None:
        self.folder = folder
        self._keeps_producers = keeps_producers
        self.times_tiered = times_tiered
        self._claim = claim
        self.segments = RemoteSegments()
        self.listed_in_epoch = -1
        self.emptied_in_epoch = -1
        self.is_stale = False
        self.copied_to = -1
        self.undescribed: Sequence[SegmentName] = ()
        self.unheard: Sequence[SegmentName] = ()
        self.unheard_until_ms = 0
        self.without_records: Sequence[SegmentName] = ()
        self.doomed_before = -1
        self.doomed: dict[SegmentName, None] = {}
        self.damaged: dict[SegmentName, str] = {}
        self.runs: tuple[Any, tuple[Any, ...]] | None = None
        self._described: dict[SegmentName, RemoteSegment] = {}
        self._last_end = 0  # the highest end of a segment, as of the last call of `settle`
        self._settled_by: tuple[Any, ...] | None = None
        self._read: dict[SegmentName, RemoteSegment] = {}  # by a list that did not end
        self._parsing = asyncio.Lock()  # one description in a turn of the event loop: a large one takes some ms

    @property
    def described(self) -> Collection[RemoteSegment]:
        """All segments that are not damaged, whether they are the log's or not."""
        return self._described.values()

    @property
    def delete_lag(self) -> tuple[int, int]:
        """Bytes and number of the segments that are to be deleted."""
        known = (self._described.get(name) for name in self.doomed)
        return sum(each.size_bytes for each in known if each is not None), len(self.doomed)

    def has(self, segment: RemoteSegment) -> bool:
        """Return whether a segment is still there, and not to be deleted."""
        return segment.name in self._described and segment.name not in self.doomed

    def find(self, offset: int, log: Log) -> RemoteSegment | None:
        """Return the segment that has an offset of the log; None: none has, as far as the store was listed."""
        segment = self.segments.find(offset)
        if segment is None:
            if self._settled_by == self._basis(log):
                return None  # a fetch of what is missing, or of what is only in memory, does not look at all segments
        elif is_of_log(segment, log.epochs, log.log_start_offset, log.log_end_offset):
            return segment
        self.settle(log)  # the log's epochs may have come since, or the log was truncated
        return self.segments.find(offset)

    async def list(self, store: Store, leader_epoch: int, *, all_heard: bool = True) -> None:
        """Read from the store which segments there are, and the descriptions of those that are new, or not whole.

        Args:
            all_heard: whether all leaders of older epochs have certainly heard of this one.

        Raises:
            StoreError: the store does not say; nothing is forgotten, and what was read is not read again.
        """
        records: dict[SegmentName, int] = {}
        descriptions: dict[SegmentName, int] = {}
        not_ours: dict[SegmentName, None] = {}
        for number, (key, size_bytes) in enumerate(await store.list(self.folder)):
            if (name := segment_of(key, LOG)) is not None:
                records[name] = size_bytes
            elif (name := segment_of(key)) is not None:
                if self._claim is None or self._claim.counts(key, name):
                    descriptions[name] = size_bytes
                else:
                    not_ours[name] = None
            if number % NAMES_AT_ONCE == 0:
                await asyncio.sleep(0)
        found, damaged = await self._describe_all(store, descriptions, records)
        for name, why in damaged.items():
            if name not in self.damaged:
                logger.warning("a segment of the tier cannot be used", segment=f"{self.folder}{name}", reason=why)
        is_same_epoch = leader_epoch == self.listed_in_epoch
        self._described, self.damaged, self.listed_in_epoch, self.is_stale = found, damaged, leader_epoch, False
        self._settled_by = None
        self._read = {}
        unused = (name for name in {**records, **not_ours} if name not in descriptions)
        left = sorted(name for name in unused if self._is_left(name, leader_epoch))
        may_be_at_work = partial(self._may_be_at_work, leader_epoch=leader_epoch, all_heard=all_heard)
        self.unheard = tuple(filter(may_be_at_work, left))
        self.undescribed = tuple(filterfalse(may_be_at_work, left))
        self.without_records = [name for name in damaged if name not in records]
        self.doomed_before = -1
        self.doomed = {
            name: None for name in self.doomed if is_same_epoch and (name in records or name in descriptions)
        }

    async def _describe_all(
        self, store: Store, descriptions: Mapping[SegmentName, int], records: Mapping[SegmentName, int]
    ) -> tuple[dict[SegmentName, RemoteSegment], dict[SegmentName, str]]:
        """Return the segments that are described, and what is wrong with the others, in the order of their names.

        Args:
            descriptions: the sizes of the descriptions.
            records: the sizes of the objects with the records.
        """
        damaged: dict[SegmentName, str] = {}
        known = {
            name: each
            for name in descriptions
            if (each := self._described.get(name) or self._read.get(name)) is not None
            and records.get(name) == each.size_bytes  # or they were lost since
        }
        unknown = iter([name for name in descriptions if name not in known])

        async def describe() -> None:
            for name in unknown:
                try:
                    object_bytes = records.get(name, -1)
                    described = await self._described_at_last(store, name, descriptions[name], object_bytes)
                    known[name] = self._read[name] = described
                except DamagedObject as error:
                    damaged[name] = str(error)

        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(DESCRIBED_AT_ONCE):
                    tasks.create_task(describe())
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
        return {name: known[name] for name in descriptions if name in known}, {
            name: damaged[name] for name in descriptions if name in damaged
        }

    async def _described_at_last(
        self, store: Store, name: SegmentName, size_bytes: int, object_bytes: int
    ) -> RemoteSegment:
        for _ in range(DESCRIPTION_TRIES - 1):
            with contextlib.suppress(DamagedObject):
                return await self._describe(store, name, size_bytes, object_bytes)
        return await self._describe(store, name, size_bytes, object_bytes)

    async def _describe(self, store: Store, name: SegmentName, size_bytes: int, object_bytes: int) -> RemoteSegment:
        if object_bytes < 0:
            raise DamagedObject(f"{name} is described, but its records are not there")
        if size_bytes > MAX_DESCRIPTION_BYTES:
            raise DamagedObject(f"the description of {name} has {size_bytes} bytes")
        try:
            segment = await self._read_whole(store, name, size_bytes, object_bytes)
        except NotThere as error:
            raise DamagedObject(f"{name} was deleted while it was listed") from error
        return segment if self._keeps_producers else replace(segment, producers=None)

    async def _read_whole(self, store: Store, name: SegmentName, size_bytes: int, object_bytes: int) -> RemoteSegment:
        data = await store.get(f"{self.folder}{name}{DESCRIPTION}", 0, size_bytes)
        async with self._parsing:
            await asyncio.sleep(0)
            reader, cost = DescriptionReader(data, name, object_bytes), 0
            for each in reader.steps():
                cost += each
                if cost >= COST_AT_ONCE:
                    await asyncio.sleep(0)
                    cost = 0
        assert reader.segment is not None, "its steps are done"
        return reader.segment

    async def whole(self, store: Store, segment: RemoteSegment) -> RemoteSegment:
        """Return a segment with the producers' state at its end, which the store has.

        Raises:
            StoreError: the store does not give it.
            DamagedObject: its description cannot be read.
        """
        return await self._read_whole(store, segment.name, MAX_DESCRIPTION_BYTES, segment.size_bytes)

    def with_record(self, offset: int, epoch: int) -> RemoteSegment | None:
        """Return the segment that has an offset in an epoch, of several the one that ends first; None: none has.

        Two logs with the same epoch at an offset are the same up to there, so it need not be one of `segments`. A
        longer one may go on with another log's records, after an unclean election.
        """
        found = [
            each
            for each in self._usable()
            if each.start_offset <= offset < each.end_offset and each.epoch_at(offset) == epoch
        ]
        return min(found, key=lambda each: each.end_offset, default=None)

    def add(self, segment: RemoteSegment, log: Log) -> None:
        """Add a segment that this broker has just copied: the next one behind what was copied, in most cases."""
        segment = self._described[segment.name] = replace(segment, producers=None)
        copied_to = max(log.copied_to, log.local_start_offset)
        if segment.start_offset > copied_to or not is_of_log(
            segment, log.epochs, log.log_start_offset, log.log_end_offset
        ):
            self.settle(log)
            return
        self.segments.add(segment)
        self.copied_to = self.segments.end_from(copied_to)
        log.copied(self.copied_to)

    def drop_doomed(self, log: Log, *, exactly: bool = False) -> None:
        """Take those that were doomed since out of the segments that are read, and count as copied; as `settle`."""
        if self.doomed:
            self.segments.remove(self.doomed)
        self._note_copied(log, exactly)

    def forget(self, name: SegmentName) -> None:
        """Forget a doomed segment, which was deleted."""
        self.doomed.pop(name, None)
        self.damaged.pop(name, None)
        self._described.pop(name, None)

    def _is_left(self, name: SegmentName, leader_epoch: int) -> bool:
        """Return whether a segment that is not used was left by a copy that did not end, or by an earlier owner."""
        claim = name.claim if self._claim is None else self._claim.number
        return name.claim < claim or (name.claim == claim and name.leader_epoch <= leader_epoch)

    def _may_be_at_work(self, name: SegmentName, *, leader_epoch: int, all_heard: bool) -> bool:
        is_own = self._claim is None or name.claim == self._claim.number
        return not all_heard and is_own and name.leader_epoch < leader_epoch

    def _usable(self) -> Iterator[RemoteSegment]:
        return (each for name, each in self._described.items() if name not in self.doomed)

    def settle(self, log: Log, *, exactly: bool = False) -> None:
        """Find the segments that are the log's as it is now, and note in the log up to where it is copied.

        A hole before what the log has in memory is there to stay, and the copies go on behind it.

        Args:
            exactly: the store was just listed by the leader, so that it has no others.
        """
        self.segments = RemoteSegments.of_log(self._usable(), log.epochs, log.log_start_offset, log.log_end_offset)
        self._last_end = max((each.end_offset for each in self._usable()), default=0)
        self._settled_by = self._basis(log)
        self._note_copied(log, exactly)

    def _basis(self, log: Log) -> tuple[Any, ...]:
        """Return that of a log on which it depends whether further segments are its own."""
        return log.log_start_offset, min(log.log_end_offset, self._last_end), log.epochs.entries

    def _note_copied(self, log: Log, exactly: bool) -> None:
        copied_to = self.segments.end_from(log.local_start_offset)
        if self.segments.find(copied_to - 1) is not None:
            self.copied_to = copied_to
        log.copied(copied_to, exactly=exactly)
