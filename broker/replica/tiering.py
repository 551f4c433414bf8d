"""The tier of one broker: which of its logs have parts there, copied in rounds by their leaders.

In each round the store is listed for the partitions that this broker follows, so that it too may serve what is there
and delete what is copied; for those that it leads once in an epoch, and what it copies itself it knows. A cluster
writes to the store while its claim is the highest (`StoreClaim`); afterwards it reads on.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Final, NoReturn

from purgatorio.broker.causes.cause import TierNotListed, TierRead
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.replica.lookup import ReplicaLookup
from purgatorio.broker.replica.partition import Partition, PartitionError
from purgatorio.broker.tier.copying import SegmentCopier
from purgatorio.broker.tier.names import partition_folder
from purgatorio.broker.tier.reads import PartRead, RemoteReads
from purgatorio.broker.tier.remote_log import RemoteLog
from purgatorio.broker.tier.segment_file import RemoteSegment
from purgatorio.broker.tier.store import Store, StoreError, Unavailable
from purgatorio.logger import get_logger
from purgatorio.protocol.errors import ErrorCode
from purgatorio.purgatory.clock import Clock, time_limit

logger = get_logger(__name__)

FIRST_BACKOFF_MS: Final = 200
"""The time after a round in which the store failed, until the next one; it doubles up to the interval."""

LIST_MS: Final = 60_000
"""The longest time that the list of a partition may take, with the descriptions that are new."""


class Tiering:
    """The copied parts of this broker's logs, and what keeps them up.

    Args:
        lookup: this broker's replicas.
        store: the store.
        reads: reads it.
        copier: copies to it.
        clock: times the rounds.
        interval_ms: the time between two of them.

    Attributes:
        store: the store.
        reads: its reads.
        listed: are called with a partition, and a cause, when the store was listed for it.
        trouble: why the store failed in the last round; "": it did not.
        trouble_since_ms: the time of the first such round; None: it did not fail.
    """

    def __init__(
        self,
        lookup: ReplicaLookup,
        store: Store,
        *,
        reads: RemoteReads,
        copier: SegmentCopier,
        clock: Clock,
        interval_ms: int,
    ) -> None:
        self.store = store
        self.reads = reads
        self.listed: Sequence[Callable[[TopicPartition, str], None]] = ()
        self.trouble = ""
        self.trouble_since_ms: int | None = None
        self._lookup = lookup
        self._copier = copier
        self._clock = clock
        self._interval_ms = interval_ms
        self._remotes: dict[TopicPartition, tuple[Partition, RemoteLog]] = {}
        self._wanted = asyncio.Event()

    def remote_of(self, partition: Partition) -> RemoteLog:
        """Return what is known of a replica's part in the tier."""
        known, remote = self._remotes.get(partition.tp, (None, None))
        if remote is None or known is not partition:
            image = self._lookup.image
            assert image is not None, "a replica is made by an image"
            remote = RemoteLog(
                partition_folder(image.cluster_id, partition.topic_id, partition.tp.partition), self._copier.claim
            )
            self._remotes[partition.tp] = (partition, remote)
        return remote

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
            self.wake()
            return None
        why = f"no segment of {partition.tp} in the tier has offset {offset}"
        logger.warning("a read of the tier failed", partition=str(partition.tp), reason=why)
        if partition.is_leader:
            raise PartitionError(ErrorCode.UNKNOWN_SERVER_ERROR, why)
        self.wake()  # the leader may have copied it since
        raise PartitionError(ErrorCode.OFFSET_NOT_AVAILABLE, why)

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

    def kept_part(self, partition: Partition, offset: int) -> PartRead | None:
        """Return the part that has an offset, if it is in the cache. Nothing begins."""
        remote = self.remote_of(partition)
        segment = remote.find(offset, partition.log)
        return None if segment is None else self.reads.kept(remote.folder, segment, segment.part_of(offset))

    def aborted(self, partition: Partition, start_offset: int, end_offset: int) -> list[tuple[int, int]]:
        """Return the aborted transactions with a part in [start, end), where start lies in the tier.

        Returns:
            Their first offsets, ascending, with their producer ids: those that the tier knows, then the log's.
        """
        known, is_all = self.remote_of(partition).segments.aborted(start_offset, end_offset)
        found = {(each.first_offset, each.producer_id) for each in known}
        if not is_all:
            found.update(zip(*partition.log.aborted_transactions(start_offset, end_offset), strict=True))
        return sorted(found)

    def cause_of(
        self, tp: TopicPartition, read: PartRead | None, *, is_joined: bool = False
    ) -> TierRead | TierNotListed:
        """Return what somebody waits for: a read, or to hear what the store has of a partition."""
        location = self.store.location
        if read is None:
            return TierNotListed(tp, location, self.trouble)
        start_offset, end_offset = read.part.start_offset, read.segment.end_of_part(read.number)
        waited_ms = self.reads.waited_ms(read)
        return TierRead(tp, start_offset, end_offset, location, waited_ms, read.tries, read.trouble, is_joined)

    def wake(self) -> None:
        """Begin the next round now: a fetch waits to hear what the tier has."""
        self._wanted.set()

    async def run(self) -> NoReturn:
        """Copy and read until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.reads.run())
            await self._rounds()
        raise AssertionError("it runs until it is cancelled")

    async def _rounds(self) -> None:
        backoff_ms = FIRST_BACKOFF_MS
        while True:
            await self.round()
            pause_ms = self._interval_ms
            if self.trouble:
                pause_ms, backoff_ms = min(backoff_ms, self._interval_ms), backoff_ms * 2
            else:
                backoff_ms = FIRST_BACKOFF_MS
            with contextlib.suppress(TimeoutError):
                async with time_limit(self._clock, pause_ms):
                    await self._wanted.wait()
            self._wanted.clear()

    async def round(self) -> None:
        """List and copy what there is to list and copy now. A failure is noted, and the rest left to the next round."""
        trouble = await self._hold()
        if not self._copier.claim.number:
            self._note(trouble)
            return  # what counts in the store is not known
        may_write = not trouble
        for tp in [tp for tp, (known, _) in self._remotes.items() if self._lookup.partitions.get(tp) is not known]:
            del self._remotes[tp]
        for partition in list(self._lookup.partitions.values()):
            if not partition.log.is_tiered or not self._is_kept(partition):
                continue
            try:
                await self._keep_up(partition, may_write=may_write)
            except StoreError as error:
                trouble = str(error)
            except Exception as error:  # a bug: the other partitions go on
                logger.exception("a partition was not copied to the tier", partition=str(partition.tp))
                trouble = repr(error)
        self._note(trouble)

    async def _hold(self) -> str:
        """Return why this cluster may not write to the store; "": it may."""
        try:
            await self._copier.claim.hold()
        except StoreError as error:
            return str(error)
        return ""

    def _note(self, trouble: str) -> None:
        if trouble and not self.trouble:
            self.trouble_since_ms = self._clock.now_ms()
            logger.warning("the tier cannot be used", location=self.store.location, reason=trouble)
        elif self.trouble and not trouble:
            self.trouble_since_ms = None
            logger.info("the tier can be used again", location=self.store.location)
        self.trouble = trouble

    def _is_kept(self, partition: Partition) -> bool:
        return self._lookup.partitions.get(partition.tp) is partition

    async def _keep_up(self, partition: Partition, *, may_write: bool) -> None:
        remote, leader_epoch = self.remote_of(partition), partition.leader_epoch
        if not partition.is_leader or remote.listed_in_epoch != leader_epoch:
            try:
                async with time_limit(self._clock, LIST_MS):
                    await remote.list(self.store, leader_epoch)
            except TimeoutError as error:
                raise Unavailable(f"no list in {LIST_MS // 1000} s") from error
            if not self._is_kept(partition):
                return
            remote.settle(partition.log)
            for listener in self.listed:
                listener(partition.tp, "tier listed")

        if not may_write:
            return

        def still_leads() -> bool:
            return self._is_kept(partition) and partition.is_leader and partition.leader_epoch == leader_epoch

        while still_leads() and await self._copier.copy_next(partition.log, remote, leader_epoch, still_leads):
            pass
