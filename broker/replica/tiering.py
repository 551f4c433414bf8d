"""The tier of one broker: which of its logs have parts there, copied by their leaders.

Work follows what changed. A partition is *due* when one of its segments was closed, its log start has moved, its oldest
segment is too old, or this broker was elected its leader; each interval a round begins with those that are due, several
at a time, and a partition whose segments are all copied costs nothing until then. A leader lists the store once in an
epoch, and in each round while an object is damaged, maybe on its way only; what it copies itself it knows. A follower
asks its leader how far the log is copied, and lists the store when it needs a segment. A cluster writes to the store
while its claim is the highest (`StoreClaim`), at which it looks when it writes; afterwards it reads on.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import islice
from typing import Final, NoReturn

from purgatorio.broker.causes.cause import TierNotListed, TierRead, TierThrottled
from purgatorio.broker.causes.words import away
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import NO_LEADER
from purgatorio.broker.replica.lookup import ReplicaLookup
from purgatorio.broker.replica.partition import Partition, PartitionError
from purgatorio.broker.tier.claim import ClaimLost
from purgatorio.broker.tier.cleaning import SegmentCleaner, doom, doom_useless, expires_ms, retained_from
from purgatorio.broker.tier.copying import SegmentCopier
from purgatorio.broker.tier.names import partition_folder
from purgatorio.broker.tier.reads import PartRead, RemoteReads
from purgatorio.broker.tier.remote_log import RemoteLog
from purgatorio.broker.tier.remote_segments import ALL_KNOWN, is_of_log
from purgatorio.broker.tier.restoring import part_in_tier
from purgatorio.broker.tier.segment_file import DamagedObject, RemoteSegment
from purgatorio.broker.tier.store import Refused, Store, StoreError, Unavailable
from purgatorio.broker.tier.strip import NO_LIMIT, Strip, strip_of
from purgatorio.broker.tier.traffic import TierTraffic
from purgatorio.logger import get_logger
from purgatorio.protocol.errors import ErrorCode
from purgatorio.purgatory.clock import Clock, time_limit

logger = get_logger(__name__)

FIRST_BACKOFF_MS: Final = 200
"""The time after a failure of the store until the next round; it doubles up to the interval."""

UNHEARD_MS: Final = 60_000
"""The time after which a broker has heard that another one leads, or has lost its lease: longer than leases."""

LIST_MS: Final = 60_000
"""The longest time that the list of a partition may take, with the descriptions that are new."""

MAX_ASKED: Final = 500
"""The partitions of which a follower asks at once up to where they are copied."""

REFUSED_MS: Final = 10_000
"""The time for which a refusal of a producer is shown."""


LIST: Final = 0
COPY: Final = 1
AT_ONCE: Final = 10
"""The partitions that are listed at a time, for which fetches may wait; and that are copied, if nothing else is set."""


class _Work:
    """Partitions that wait to be listed or copied, and those at work: several of each kind, but no partition twice.

    So what is known of a partition's segments is changed by one task at a time.

    Args:
        at_once: how many may be at work, of each kind.
    """

    def __init__(self, at_once: tuple[int, int]) -> None:
        self._at_once = at_once
        self._waiting: tuple[dict[TopicPartition, None], ...] = ({}, {})
        self._at_work: dict[TopicPartition, None] = {}
        self._begun = [0, 0]
        self._over = asyncio.Event()

    def add(self, tp: TopicPartition, kind: int) -> None:
        """Let a partition wait."""
        self._waiting[kind][tp] = None
        self._over.clear()

    def take(self) -> list[tuple[TopicPartition, int]]:
        """Return what may begin now, and count it as begun."""
        taken: list[tuple[TopicPartition, int]] = []
        for kind, waiting in enumerate(self._waiting):
            for tp in waiting:
                if self._begun[kind] >= self._at_once[kind]:
                    break
                if tp not in self._at_work:
                    self._at_work[tp] = None
                    self._begun[kind] += 1
                    taken.append((tp, kind))
        for tp, kind in taken:
            del self._waiting[kind][tp]
        return taken

    def allow(self, at_once: tuple[int, int]) -> None:
        """Let so many be at work from now on."""
        self._at_once = at_once

    @property
    def idle_share(self) -> float:
        """The share of the copiers that have nothing to do."""
        return max(0.0, 1 - self._begun[COPY] / self._at_once[COPY])

    def end(self, tp: TopicPartition, kind: int) -> None:
        """Take a partition from those at work."""
        del self._at_work[tp]
        self._begun[kind] -= 1
        self._check_over()

    def _check_over(self) -> None:
        if not self._at_work and not any(self._waiting):
            self._over.set()

    async def is_over(self) -> None:
        """Return when nothing waits or is at work."""
        self._check_over()
        await self._over.wait()


QUOTA_LOOK_MS: Final = 100
"""The time between two looks whether reads are below their quota, while consumers wait for that."""
PARTS_AHEAD: Final = 4
"""The parts that are read ahead of a reader that goes on: so many as come while one is on its way to the consumer."""


class Tiering:
    """The copied parts of this broker's logs, and what keeps them up.

    Args:
        lookup: this broker's replicas.
        store: the store.
        reads: reads it.
        copier: copies to it.
        cleaner: deletes in it.
        clock: times the rounds.
        interval_ms: the time between two of them.
        copied_at_once: the partitions that are copied at a time (remote.log.manager.copier.thread.pool.size).

    Attributes:
        store: the store.
        reads: its reads.
        listed: are called with a partition, and a cause, when the store was listed for it.
        expired_fetches, expired_look_ups: how many waits for the tier have ended at their deadlines.
        room_again: is called so when the quota of reads keeps consumers of a partition waiting no more.
        move_log_start: moves the log start of a partition that this broker leads.
        begin_behind: lets an empty replica begin at a log start, behind a segment; and lead, if it is elected.
        trouble: why the store failed, for a partition that was not tried again since; "": it did not.
        trouble_since_ms: since when there is such a partition; None: there is none.
        rebuilding: the partitions that began to be rebuilt, and have not ended; see `rebuilt`.
    """

    def __init__(
        self,
        lookup: ReplicaLookup,
        store: Store,
        *,
        reads: RemoteReads,
        copier: SegmentCopier,
        cleaner: SegmentCleaner,
        clock: Clock,
        interval_ms: int,
        copied_at_once: int = AT_ONCE,
    ) -> None:
        self.store = store
        self.reads = reads
        self.listed: Sequence[Callable[[TopicPartition, str], None]] = ()
        self.room_again: Callable[[TopicPartition, str], None] = lambda tp, cause: None
        self.expired_fetches = self.expired_look_ups = 0
        self._withheld: dict[TopicPartition, None] = {}
        self.move_log_start: Callable[[Partition, int], None] = _not_used
        self.begin_behind: Callable[[Partition, int, RemoteSegment | None], None] = _not_used
        self.trouble = ""
        self.trouble_since_ms: int | None = None
        self.rebuilding: dict[TopicPartition, None] = {}
        self._refused_ms: dict[TopicPartition, int] = {}
        self._lookup = lookup
        self._copier = copier
        self._cleaner = cleaner
        self._clock = clock
        self._interval_ms = interval_ms
        self._due: dict[TopicPartition, None] = {}
        self._due_at: dict[TopicPartition, int] = {}
        self._times: list[tuple[int, TopicPartition]] = []  # a heap; entries that are not as in `_due_at` do not count
        self._work = _Work((AT_ONCE, copied_at_once))
        self._troubles: dict[TopicPartition, str] = {}
        self._backoff_ms = FIRST_BACKOFF_MS
        self._next_round_ms = 0
        self._sooner = asyncio.Event()
        self._to_ask: dict[int, dict[TopicPartition, None]] = {}
        self._heard = asyncio.Event()  # replaced by another one when it is set

    @property
    def traffic(self) -> TierTraffic:
        """Its quotas and counts."""
        return self.reads.traffic

    @property
    def idle_share(self) -> float:
        """The share of the copiers that have nothing to do."""
        return self._work.idle_share

    # --- what is known ---

    def remote_of(self, partition: Partition) -> RemoteLog:
        """Return what is known of a replica's part in the tier."""
        remote = partition.remote
        if remote is None or remote.times_tiered != partition.log.times_tiered:
            remote = partition.remote = self.new_remote_of(partition)
        return remote

    def new_remote_of(self, partition: Partition) -> RemoteLog:
        """Return a replica's part in the tier, of which nothing is known yet."""
        image = self._lookup.image
        assert image is not None, "a replica is made by an image"
        folder = partition_folder(image.cluster_id, partition.topic_id, partition.tp.partition)
        return RemoteLog(folder, self._copier.claim, times_tiered=partition.log.times_tiered)

    def trouble_of(self, tp: TopicPartition) -> str:
        """Return why the store failed for a partition that was not tried again since; "": it did not."""
        return self._troubles.get(tp, "")

    def segment_at(self, partition: Partition, offset: int) -> RemoteSegment | None:
        """Return the segment that has an offset of a replica's log; None: the store is to be listed first.

        Raises:
            PartitionError: the store was listed, and there is none.
        """
        remote = self.remote_of(partition)
        segment = remote.find(offset, partition.log)
        if segment is not None:
            return segment
        if remote.listed_in_epoch != partition.leader_epoch:
            self.list_soon(partition)
            return None
        raise self._lacking(partition, offset)

    def _lacking(self, partition: Partition, offset: int) -> PartitionError:
        """Return the error for an offset that no segment has, as far as the store was listed."""
        why = f"no segment of {partition.tp} in the tier has offset {offset}"
        logger.warning("a read of the tier failed", partition=str(partition.tp), reason=why)
        if partition.is_leader and self.remote_of(partition).listed_in_epoch == partition.leader_epoch:
            return PartitionError(ErrorCode.UNKNOWN_SERVER_ERROR, why)
        self.list_soon(partition)  # the leader may have copied it since
        return PartitionError(ErrorCode.OFFSET_NOT_AVAILABLE, why)

    def part_at(self, partition: Partition, offset: int) -> PartRead | None:
        """Return the read of the part that has an offset: over, under way, or begun now.

        None: the store is to be listed first, after which `listed` are called.

        Raises:
            PartitionError: no segment has the offset, or too many reads wait.
        """
        segment = self.segment_at(partition, offset)
        return None if segment is None else self.read(partition, segment, segment.part_of(offset))

    def read(self, partition: Partition, segment: RemoteSegment, number: int) -> PartRead:
        """Return the read of a part of a segment: over, under way, or begun now.

        Raises:
            PartitionError: too many reads wait.
        """
        read = self.reads.read(self.remote_of(partition).folder, segment, number)
        if read is None:
            why = f"too many reads of the tier wait to read {partition.tp} too"
            raise PartitionError(ErrorCode.UNKNOWN_SERVER_ERROR, why)
        return read

    async def part_read(self, partition: Partition, offset: int) -> PartRead:
        """Return the part that has an offset, when it is read: for what is no request of a client.

        Raises:
            PartitionError: it cannot be read, or not in time.
        """
        try:
            async with time_limit(self._clock, LIST_MS):
                while (read := self.part_at(partition, offset)) is None:
                    await self._heard.wait()
                if not read.is_over:
                    over = asyncio.Event()
                    read.listeners[over] = over.set
                    await over.wait()
        except TimeoutError as error:
            why = f"the tier has not answered in {LIST_MS // 1000} s what it has of {partition.tp}"
            raise PartitionError(ErrorCode.REQUEST_TIMED_OUT, why) from error
        if read.data is None:
            raise PartitionError(ErrorCode.UNKNOWN_SERVER_ERROR, read.trouble)
        return read

    def withholds(self, partition: Partition, offset: int) -> bool:
        """Return whether the quota of reads keeps a consumer from an offset; `room_again` is called when it does not.

        The quota keeps nothing that is in the cache or under way (KIP-956).
        """
        if not self.reads.traffic.reads.is_over():
            return False
        remote = self.remote_of(partition)
        segment = remote.find(offset, partition.log)
        if segment is not None and self.reads.is_begun(remote.folder, segment, segment.part_of(offset)):
            return False
        if not self._withheld:
            self._clock.call_later(QUOTA_LOOK_MS, self._look_at_quota)
        self._withheld[partition.tp] = None
        return True

    def _look_at_quota(self) -> None:
        if self.reads.traffic.reads.is_over():
            self._clock.call_later(QUOTA_LOOK_MS, self._look_at_quota)
            return
        withheld, self._withheld = self._withheld, {}
        for tp in withheld:
            self.room_again(tp, "quota of the tier")

    def quota_cause(self, tp: TopicPartition) -> TierThrottled | None:
        """Return the quota as what keeps consumers from a partition; None: it does not."""
        quota = self.reads.traffic.reads
        if tp not in self._withheld or not quota.is_over():
            return None
        return TierThrottled(tp, quota.per_second(), quota.limit or 0)

    def kept_part(self, partition: Partition, offset: int) -> PartRead | None:
        """Return the part that has an offset, if it is in the cache. Nothing begins."""
        remote = self.remote_of(partition)
        segment = remote.find(offset, partition.log)
        return None if segment is None else self.reads.kept(remote.folder, segment, segment.part_of(offset))

    def read_ahead(self, partition: Partition, offset: int) -> None:
        """Read the parts from an offset on that only the tier has, and that a reader will ask for next."""
        remote = self.remote_of(partition)
        for _ in range(PARTS_AHEAD):
            segment = remote.segments.find(offset) if offset < partition.log.local_start_offset else None
            if segment is None or not self.reads.read_ahead(remote.folder, segment, segment.part_of(offset)):
                return
            offset = segment.end_of_part(segment.part_of(offset))

    def aborted(self, partition: Partition, start_offset: int, end_offset: int) -> list[tuple[int, int]]:
        """Return the aborted transactions with a part in [start, end), where start lies in the tier.

        Returns:
            Their first offsets, ascending, with their producer ids: those that the tier knows, then the log's.

        Raises:
            PartitionError: the segments that are known do not reach to where the log begins to know them.
        """
        remote, log = self.remote_of(partition), partition.log
        known, known_to = remote.segments.aborted(start_offset, end_offset)
        if known_to < log.local_start_offset:
            remote.settle(log)
            known, known_to = remote.segments.aborted(start_offset, end_offset)
        if known_to < log.local_start_offset:
            raise self._lacking(partition, known_to)
        found = {(each.first_offset, each.producer_id) for each in known}
        if known_to != ALL_KNOWN:
            found.update(zip(*log.aborted_transactions(start_offset, end_offset), strict=True))
        return sorted(found)

    def check_is_of(self, partition: Partition, segment: RemoteSegment) -> None:
        """Check that a segment is still of a replica's log, which may have been truncated while it was read.

        Raises:
            PartitionError: it is not.
        """
        log = partition.log
        if not is_of_log(segment, log.epochs, log.log_start_offset, log.log_end_offset):
            why = f"{partition.tp} was truncated while [{segment.start_offset}, {segment.end_offset}) was read"
            raise PartitionError(ErrorCode.OFFSET_NOT_AVAILABLE, why)

    def cause_of(
        self, tp: TopicPartition, read: PartRead | None, *, is_joined: bool = False
    ) -> TierRead | TierNotListed:
        """Return what somebody waits for: a read, or to hear what the store has of a partition."""
        location = self.store.location
        if read is None:
            return TierNotListed(tp, location, self.trouble)
        start_offset, end_offset = read.part.start_offset, read.segment.end_of_part(read.number)
        waited_ms = self.reads.waited_ms(read)
        tries, trouble, held_by = read.tries, read.trouble, self.reads.held_by(read)
        return TierRead(tp, start_offset, end_offset, location, waited_ms, tries, trouble, is_joined, held_by)

    @property
    def away_ms(self) -> int | None:
        """For how long the store has not worked; None: it works, as far as is known."""
        since_ms = self.trouble_since_ms
        return None if since_ms is None else self._clock.now_ms() - since_ms

    def rebuilt(self) -> list[TopicPartition]:
        """Return the partitions that this broker follows, and begins anew behind what only the tier has."""
        partitions = self._lookup.partitions
        return [tp for tp in self.rebuilding if (kept := partitions.get(tp)) is not None and not kept.is_leader]

    def tiered(self) -> Iterator[Partition]:
        """Yield this broker's replicas that have a part in the tier."""
        return (partition for partition in self._lookup.partitions.values() if partition.log.is_tiered)

    def damaged_folders(self) -> frozenset[str]:
        """Return the folders of partitions in which reads have found something damaged."""
        return frozenset(f"{name.rpartition('/')[0]}/" for name in self.reads.damaged)

    def is_damaged(self, partition: Partition, folders: frozenset[str]) -> bool:
        """Return whether something of a replica's part in the tier is known to be damaged; see `damaged_folders`."""
        remote = self.remote_of(partition)
        return bool(remote.damaged) or remote.folder in folders

    def strip(self, partition: Partition, most_segments: int = NO_LIMIT) -> Strip:
        """Return what of a replica's log the tier has, and what memory; see `strip_of`."""
        return strip_of(partition.log, self.remote_of(partition), self.reads.damaged, most_segments)

    def refused(self, tp: TopicPartition) -> str:
        """Note that memory is short for a producer; return why, as the end of a sentence; "": not by the tier."""
        self._refused_ms[tp] = self._clock.now_ms()
        away_ms = self.away_ms
        return "" if away_ms is None else f": {away(self.store.location, away_ms, self.trouble)}"

    def is_refused(self, tp: TopicPartition) -> bool:
        """Return whether producers were refused lately."""
        refused_ms = self._refused_ms.get(tp)
        if refused_ms is not None and self._clock.now_ms() - refused_ms <= REFUSED_MS:
            return True
        self._refused_ms.pop(tp, None)
        return False

    async def whole(self, partition: Partition, segment: RemoteSegment) -> RemoteSegment:
        """Return a segment of a replica's log with the producers' state at its end.

        Raises:
            StoreError: the store does not give it.
            DamagedObject: its description cannot be read.
        """
        try:
            async with time_limit(self._clock, LIST_MS):
                return await self.remote_of(partition).whole(self.store, segment)
        except TimeoutError as error:
            raise Unavailable(f"no description in {LIST_MS // 1000} s") from error

    # --- what is to be done ---

    def note(self, tp: TopicPartition) -> None:
        """Look after a partition in the next round: something of it has changed."""
        self._due[tp] = None

    def note_at(self, tp: TopicPartition, wall_ms: int) -> None:
        """Look after a partition in the first round at or after a time since 1970, and maybe sooner."""
        known = self._due_at.get(tp)
        if known is None or wall_ms < known:
            self._due_at[tp] = wall_ms
            heappush(self._times, (wall_ms, tp))

    def elected(self, tp: TopicPartition, leader_epoch: int) -> None:
        """List the store for a partition that this broker leads from now on, in the next round."""
        self.note(tp)

    def resigned(self, tp: TopicPartition) -> None:
        """Do nothing: what is under way for the partition notices."""

    def list_soon(self, partition: Partition) -> None:
        """List the store for a partition now: a fetch or a follower waits to hear what there is."""
        self._work.add(partition.tp, LIST)
        self.wake()

    def list_later(self, partition: Partition) -> None:
        """List the store for a follower in the next round: a segment that it knows of may have been deleted."""
        if not partition.is_leader:
            self._work.add(partition.tp, LIST)

    def allow(self, *, copies: int, reads: int) -> None:
        """Copy so many partitions, and make so many reads, at a time from now on."""
        self._work.allow((AT_ONCE, copies))
        self.reads.allow(reads)

    def wake(self) -> None:
        """Begin the next round now."""
        self._begin_by(self._clock.now_ms())

    def _begin_by(self, at_ms: int) -> None:
        self._next_round_ms = min(self._next_round_ms, at_ms)
        self._sooner.set()

    def take_to_ask(self, leader_id: int) -> list[Partition]:
        """Return partitions, and forget them, whose leader is to be asked up to where they are copied."""
        asked = self._to_ask.get(leader_id)
        if not asked:
            return []
        taken = list(islice(asked, MAX_ASKED))
        for tp in taken:
            del asked[tp]
        kept = (self._lookup.partitions.get(tp) for tp in taken)
        return [each for each in kept if each is not None and each.leader == leader_id]

    def copied_by_leader(self, partition: Partition, offset: int, epoch: int) -> None:
        """Note the last offset that the leader of this follower has copied, and its epoch.

        It counts if the log up to there is the leader's: two logs with the same epoch at an offset are the same up to
        it. A log that does not reach so far is the leader's if its last records are of the leader's epoch. Of another
        one the store says what is copied: a follower whose memory is full has to know before it can go on.
        """
        log = partition.log
        if log.log_end_offset > offset:
            if log.epochs.epoch_at(offset) == epoch:
                log.copied(offset + 1)
        elif log.epochs.latest_epoch == partition.leader_epoch:
            log.copied(log.log_end_offset)
        else:
            self.list_soon(partition)

    # --- rounds ---

    async def run(self) -> NoReturn:
        """Copy and read until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.reads.run())
            while True:
                self._next_round_ms = self._clock.now_ms() + self._interval_ms
                self._begin_round(tasks)
                await self._pause()
        raise AssertionError("it runs until it is cancelled")

    async def round(self) -> None:
        """Begin a round, and return when all that was due is done, or has failed, which is noted."""
        async with asyncio.TaskGroup() as tasks:
            self._begin_round(tasks)
            await self._work.is_over()

    async def _pause(self) -> None:
        """Return when the next round is to begin."""
        while True:
            self._sooner.clear()
            pause_ms = self._next_round_ms - self._clock.now_ms()
            if pause_ms <= 0:
                return
            with contextlib.suppress(TimeoutError):
                async with time_limit(self._clock, pause_ms):
                    await self._sooner.wait()

    def _begin_round(self, tasks: asyncio.TaskGroup) -> None:
        """Begin what is due, and let it go on in tasks: a partition that is slow or fails leaves the others alone."""
        self._backoff_ms = min(2 * self._backoff_ms, self._interval_ms) if self._troubles else FIRST_BACKOFF_MS
        while self._times and self._times[0][0] <= self._clock.wall_ms():
            wall_ms, tp = heappop(self._times)
            if self._due_at.get(tp) == wall_ms:
                del self._due_at[tp]
                self.note(tp)
        due, self._due = self._due, {}
        for tp in due:
            partition = self._lookup.partitions.get(tp)
            if partition is None or not (partition.log.is_tiered or self._is_to_be_emptied(partition)):
                self._note_trouble(tp, "")
            elif partition.is_leader:
                is_known = self._is_known(partition) and not self.remote_of(partition).damaged
                is_known = is_known or not partition.log.is_tiered
                self._work.add(tp, COPY if is_known else LIST)
            else:
                if tp in self._troubles:
                    self._work.add(tp, LIST)
                if partition.log.awaits_copy:
                    self._due[tp] = None
                    self._to_ask.setdefault(partition.leader, {})[tp] = None
        self._begin_tasks(tasks)

    def _begin_tasks(self, tasks: asyncio.TaskGroup) -> None:
        for tp, kind in self._work.take():
            tasks.create_task(self._do(tp, kind, tasks))

    async def _do(self, tp: TopicPartition, kind: int, tasks: asyncio.TaskGroup) -> None:
        partition = self._lookup.partitions.get(tp)
        trouble = ""
        try:
            if partition is not None and partition.log.is_tiered:
                await (self._list(partition) if kind == LIST else self._keep_up(partition))
            elif partition is not None and self._is_to_be_emptied(partition):
                await self._empty(partition)
        except StoreError as error:
            trouble = str(error)
        except Exception as error:  # a bug: the other partitions go on
            logger.exception("a partition was not copied to the tier", partition=str(tp))
            trouble = repr(error)
        finally:
            self._work.end(tp, kind)
        if trouble or (kind == COPY and partition is not None and self._awaits_work(partition)):
            self.note(tp)
        is_led = partition is not None and partition.is_leader and partition.log.is_tiered
        if trouble or kind == COPY or not is_led:  # behind a leader's list come copies, and only these may fail
            self._note_trouble(tp, trouble)
        self._begin_tasks(tasks)

    def _note_trouble(self, tp: TopicPartition, trouble: str) -> None:
        if trouble:
            self._troubles[tp] = trouble
            self._begin_by(self._clock.now_ms() + self._backoff_ms)
        else:
            self._troubles.pop(tp, None)
        before, self.trouble = self.trouble, next(iter(self._troubles.values()), "")
        if self.trouble and not before:
            self.trouble_since_ms = self._clock.now_ms()
            logger.warning("the tier cannot be used", location=self.store.location, reason=trouble)
        elif before and not self.trouble:
            self.trouble_since_ms = None
            logger.info("the tier can be used again", location=self.store.location)

    async def copy_all(self, partition: Partition) -> None:
        """Copy all closed segments of a replica whose broker has ended, as nothing else does now.

        Raises:
            StoreError: not all of them were copied.
        """
        remote, leader_epoch = self.remote_of(partition), partition.leader_epoch
        await remote.list(self.store, leader_epoch)
        await self._copier.claim.hold(self._clock.now_ms())
        remote.settle(partition.log)
        partition.log.due_to = partition.log.log_end_offset
        while await self._copier.copy_next(partition.log, remote, leader_epoch, lambda: True):
            pass

    def _is_kept(self, partition: Partition) -> bool:
        return self._lookup.partitions.get(partition.tp) is partition

    async def _list(self, partition: Partition) -> None:
        if not self._copier.claim.number:
            await self._copier.claim.hold()  # what counts in the store is not known before
        remote, leader_epoch = self.remote_of(partition), partition.leader_epoch
        now_ms = self._clock.now_ms()
        if remote.listed_in_epoch != leader_epoch:
            remote.unheard_until_ms = now_ms + UNHEARD_MS
        try:
            async with time_limit(self._clock, LIST_MS):
                await remote.list(self.store, leader_epoch, all_heard=now_ms >= remote.unheard_until_ms)
        except TimeoutError as error:
            raise Unavailable(f"no list in {LIST_MS // 1000} s") from error
        await self._check_not_emptied(remote)
        if not self._is_kept(partition) or not partition.log.is_tiered:
            return
        if partition.leader == NO_LEADER and not partition.log.log_end_offset:
            await self._begin(partition, remote)
        if partition.is_leader and partition.leader_epoch == leader_epoch:
            remote.settle(partition.log)
            doom_useless(remote, partition.log)
            remote.drop_doomed(partition.log, exactly=True)
            self._work.add(partition.tp, COPY)
            if remote.damaged:
                self.note(partition.tp)
            if remote.unheard:
                self.note_at(partition.tp, self._clock.wall_ms() + remote.unheard_until_ms - now_ms)
        else:
            remote.settle(partition.log)
        self._heard.set()
        self._heard = asyncio.Event()
        for listener in self.listed:
            listener(partition.tp, "tier listed")

    async def _check_not_emptied(self, remote: RemoteLog) -> None:
        """If a store has nothing of a partition, check that it is the one that was claimed.

        Raises:
            StoreError: it is not, or does not say; the list does not count.
        """
        if remote.described:
            return
        try:
            with contextlib.suppress(ClaimLost):  # what another cluster has claimed is read on
                await self._copier.claim.hold(self._clock.now_ms())
        except StoreError:
            remote.listed_in_epoch = -1
            raise

    async def _begin(self, partition: Partition, remote: RemoteLog) -> None:
        """Let an empty replica of a partition without a leader begin behind what the tier has: no replica may have it.

        Raises:
            StoreError: the store does not say what it has, or does not give it; the replica does not lead until then.
        """
        try:
            damaged = next((each for each in remote.damaged.items() if each[0] not in remote.without_records), None)
            if damaged is not None:
                key, why = f"{remote.folder}{damaged[0]}", damaged[1]
                raise Refused(
                    f"{partition.tp} has no leader since {key} cannot be used: {why}; remove its .json and .log"
                )
            part = part_in_tier(remote.described, 0)
            segment = None
            if part is not None:
                ends = {name for name, end_offset in part.segments if end_offset == part.end_offset}
                segment = await self.whole(partition, next(each for each in remote.described if each.name in ends))
        except DamagedObject as error:
            remote.listed_in_epoch = -1
            raise Unavailable(str(error)) from error
        except StoreError:
            remote.listed_in_epoch = -1
            raise
        if self._is_kept(partition) and partition.leader == NO_LEADER and not partition.log.log_end_offset:
            self.begin_behind(partition, 0 if part is None else part.log_start_offset, segment)

    def retain(self, partition: Partition) -> None:
        """Move the log start of a partition that this broker leads by total retention; the objects go in a round."""
        if partition.certainly_leads and self._is_known(partition):
            log = partition.log
            offset = retained_from(self.remote_of(partition), log, self._clock.wall_ms())
            if offset > log.log_start_offset:
                self.move_log_start(partition, offset)

    def _is_known(self, partition: Partition) -> bool:
        remote = self.remote_of(partition)
        is_waited_for = bool(remote.unheard) and self._clock.now_ms() >= remote.unheard_until_ms
        return remote.listed_in_epoch == partition.leader_epoch and not remote.is_stale and not is_waited_for

    def _awaits_work(self, partition: Partition) -> bool:
        """Whether a leader has segments to copy or to delete, as soon as it may."""
        remote, log = self.remote_of(partition), partition.log
        if not log.is_tiered or not partition.is_leader:
            return self._is_to_be_emptied(partition)
        return log.awaits_copy or bool(remote.doomed) or log.log_start_offset > remote.doomed_before

    async def _keep_up(self, partition: Partition) -> None:
        """Delete and copy what there is of a partition that this broker leads.

        Raises:
            StoreError: something was not deleted, which keeps nothing from the copies; or not copied.
        """
        remote, log, leader_epoch = self.remote_of(partition), partition.log, partition.leader_epoch
        if not self._is_known(partition):
            self.note(partition.tp)
            return
        await self._copier.claim.hold()

        def still_leads() -> bool:
            return (
                self._is_kept(partition)
                and partition.certainly_leads
                and partition.leader_epoch == leader_epoch
                and log.is_tiered
            )

        if not still_leads():
            return
        self.retain(partition)
        if doom(remote, log, partition.electable_start_offset):
            remote.drop_doomed(log)
        trouble: StoreError | None = None
        try:
            await self._cleaner.clean(remote, still_leads)
        except StoreError as error:
            trouble = error
        await self._copy(partition, remote, still_leads)
        next_ms = expires_ms(remote, log)
        if next_ms is not None:
            self.note_at(partition.tp, next_ms)
        if trouble is not None:
            raise trouble

    async def _copy(self, partition: Partition, remote: RemoteLog, still_leads: Callable[[], bool]) -> None:
        log, leader_epoch = partition.log, partition.leader_epoch
        try:
            while (
                still_leads()
                and not log.config.remote_log_copy_disable
                and await self._copier.copy_next(log, remote, leader_epoch, still_leads)
            ):
                pass
        except StoreError:
            remote.is_stale = True  # the store may have the copy nevertheless, or a part of it
            raise

    def _is_to_be_emptied(self, partition: Partition) -> bool:
        """Whether the tier may have something of a topic that has left it (KIP-950)."""
        log = partition.log
        if log.is_tiered or not log.config.remote_log_delete_on_disable or not partition.is_leader:
            return False
        return self.remote_of(partition).emptied_in_epoch != partition.leader_epoch

    async def _empty(self, partition: Partition) -> None:
        """Delete what the tier has of a partition that has left it, once in an epoch.

        Raises:
            StoreError: something was not listed or deleted.
        """
        remote, leader_epoch = self.remote_of(partition), partition.leader_epoch
        await self._copier.claim.hold()

        def may_delete() -> bool:
            return (
                self._is_kept(partition)
                and partition.certainly_leads
                and partition.leader_epoch == leader_epoch
                and not partition.log.is_tiered
            )

        await self._list(partition)
        remote.doomed = dict.fromkeys((*(each.name for each in remote.described), *remote.damaged, *remote.undescribed))
        await self._cleaner.clean(remote, may_delete)
        if may_delete():
            remote.emptied_in_epoch = leader_epoch


def _not_used(*_: object) -> None:
    raise AssertionError("the replicas use the tier before they are made")
