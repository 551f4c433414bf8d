"""Copies closed segments to the store: first the batches, then the description, whose creation is the commit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from purgatorio.broker.log.log import Log
from purgatorio.broker.log.producer_state import ProducerSnapshot
from purgatorio.broker.log.segment import Segment
from purgatorio.broker.log.transactions import AbortedTxn
from purgatorio.broker.tier.claim import StoreClaim
from purgatorio.broker.tier.names import DESCRIPTION, LOG, SegmentName
from purgatorio.broker.tier.remote_log import RemoteLog
from purgatorio.broker.tier.segment_file import (
    MAX_DESCRIPTION_BYTES,
    DescriptionMaker,
    PartsMaker,
    RemoteSegment,
    epochs_up_to,
)
from purgatorio.broker.tier.store import Exists, Refused, Store, Unavailable
from purgatorio.broker.tier.traffic import TierTraffic
from purgatorio.logger import get_logger
from purgatorio.purgatory.clock import Clock, time_limit

logger = get_logger(__name__)

TRIES: Final = 3
"""The times that an object is written, or deleted, before its copy has failed, and begins anew later."""
PAUSE_MS: Final = 200
"""The pause between two of these tries."""
TRY_MS: Final = 120_000
"""The longest time that one may take."""
QUOTA_PAUSE_MS: Final = 100
"""The time after which a copier that is above its quota looks again."""
OFFSETS_AT_ONCE: Final = 2_000
"""The offsets whose aborted transactions are looked up in one turn: each may have one, which takes a microsecond."""
ID_BYTES: Final = 16


class SegmentCopier:
    """Copies the segments of a broker's logs.

    Args:
        store: where they are copied to.
        clock: times the tries.
        random_bytes: makes the ids of copies, no two of which may be the same.
        claim: by which the cluster owns the store.
        traffic: has the quota of copies, and counts them.

    Attributes:
        claim: the same.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        random_bytes: Callable[[int], bytes],
        claim: StoreClaim,
        traffic: TierTraffic | None = None,
    ) -> None:
        self.claim = claim
        self._traffic = traffic or TierTraffic(clock)
        self._store = store
        self._clock = clock
        self._random_bytes = random_bytes

    async def copy_next(self, log: Log, remote: RemoteLog, leader_epoch: int, still_leads: Callable[[], bool]) -> bool:
        """Copy the next segment of a log; return False if none is due, or the leadership was lost meanwhile.

        Above the quota it waits first, for as long as it takes (KIP-956).

        A leader that lost its leadership before it noticed has made a copy that agrees with the log up to where it was
        committed, so it does no harm.

        Raises:
            ClaimLost: the store is another cluster's by now.
            StoreError: the store has not taken it. An object that it has of it is no segment, unless the answer to the
                last write was lost; the next list shows that.
        """
        while self._traffic.copies.is_over():
            await self._clock.sleep(QUOTA_PAUSE_MS)
            if not still_leads():
                return False
        found = log.to_copy(self._clock.wall_ms())
        if found is None:
            return False
        source, producers = found
        counts = self._traffic.of_folder(remote.folder)
        counts.copy_requests += 1
        self._traffic.copies.record(source.size_bytes)
        try:
            is_copied = await self._copy(log, remote, source, producers, leader_epoch, still_leads)
        except Exception:
            counts.copy_errors += 1
            raise
        counts.copy_bytes += source.size_bytes
        return is_copied

    async def _copy(
        self,
        log: Log,
        remote: RemoteLog,
        source: Segment,
        producers: ProducerSnapshot | None,
        leader_epoch: int,
        still_leads: Callable[[], bool],
    ) -> bool:
        claim = await self.claim.hold()
        segment = await self._described(log, source, producers, leader_epoch, claim)
        description = await self._description(segment)
        key = f"{remote.folder}{segment.name}"
        runs = source.runs(0, source.batch_count)
        await self._tried(lambda: self._store.put(f"{key}{LOG}", runs, create=False))
        if not still_leads():
            await self._tried(lambda: self._store.delete(f"{key}{LOG}"))
            return False
        await self.claim.hold()
        try:
            await self._tried(lambda: self._store.put(f"{key}{DESCRIPTION}", [description], create=True))
        except Exists:  # an earlier try has made it, and its answer was lost
            logger.debug("a copy was committed before", segment=key)
        if not still_leads():
            return False
        remote.add(segment, log)
        logger.debug("segment copied", segment=key, size_bytes=segment.size_bytes)
        return log.copied_to >= segment.end_offset

    async def _described(
        self, log: Log, source: Segment, producers: ProducerSnapshot | None, leader_epoch: int, claim: int
    ) -> RemoteSegment:
        maker = PartsMaker(source)
        for _ in maker.steps():
            await asyncio.sleep(0)
        start_offset, end_offset = source.base_offset, source.next_offset
        aborted: list[AbortedTxn] = []
        for offset in range(start_offset, end_offset, OFFSETS_AT_ONCE):
            aborted += log.producers.aborted.ended_in(offset, min(offset + OFFSETS_AT_ONCE, end_offset))
            await asyncio.sleep(0)
        return RemoteSegment(
            SegmentName(start_offset, leader_epoch, claim, self._random_bytes(ID_BYTES).hex()),
            end_offset,
            source.size_bytes,
            epochs_up_to(log.epochs.entries, end_offset),
            tuple(maker.parts),
            tuple(aborted),
            producers,
        )

    async def _description(self, segment: RemoteSegment) -> bytes:
        """Return the description of a segment.

        Raises:
            Refused: it would be too large to be read. The segment stays in memory.
        """
        maker = DescriptionMaker(segment)
        for _ in maker.steps():
            await asyncio.sleep(0)
        size_bytes = len(maker.data)
        if size_bytes > MAX_DESCRIPTION_BYTES:
            raise Refused(
                f"offsets {segment.start_offset} to {segment.end_offset - 1} have too many producers and aborted "
                f"transactions to be copied ({size_bytes} bytes, {MAX_DESCRIPTION_BYTES} at most): lower segment.bytes"
            )
        return maker.data

    async def _tried(self, call: Callable[[], Awaitable[None]]) -> None:
        for left in range(TRIES - 1, -1, -1):
            try:
                async with time_limit(self._clock, TRY_MS):
                    await call()
            except (Unavailable, TimeoutError) as error:
                if not left:
                    raise Unavailable(str(error) or f"no answer in {TRY_MS // 1000} s") from error
                await self._clock.sleep(PAUSE_MS)
            else:
                return
