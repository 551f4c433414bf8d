"""Deletes segments of the tier: what retention, DeleteRecords and the end of a topic leave there (KIP-405, KIP-950).

The log start moves first, in all replicas that may be elected; then the objects go. So a leader may die at any step:
its successor knows the same log start, lists the store, and deletes what is left.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Final

from purgatorio.broker.log.log import Log
from purgatorio.broker.tier.claim import StoreClaim
from purgatorio.broker.tier.names import DESCRIPTION, LOG, SegmentName
from purgatorio.broker.tier.remote_log import RemoteLog
from purgatorio.broker.tier.remote_segments import is_of_log
from purgatorio.broker.tier.segment_file import RemoteSegment
from purgatorio.broker.tier.store import Store, StoreError, Unavailable
from purgatorio.broker.tier.traffic import TierTraffic
from purgatorio.logger import get_logger
from purgatorio.purgatory.clock import Clock, time_limit

logger = get_logger(__name__)

DELETE_MS: Final = 30_000
"""The longest time that the deletion of a segment may take."""
AT_ONCE: Final = 16
"""The segments of a partition that are deleted at a time."""


async def delete_segment(store: Store, key: str) -> None:
    """Delete a segment: the description first, so that it is no segment any more if the deletion ends there.

    Args:
        key: the name of its objects, with the folder, and without `LOG` or `DESCRIPTION`.

    Raises:
        Unavailable, Refused: it was not deleted, or half of it.
    """
    await store.delete(f"{key}{DESCRIPTION}")
    await store.delete(f"{key}{LOG}")


def retained_from(remote: RemoteLog, log: Log, wall_ms: int) -> int:
    """Return where a log has to start by retention.ms and retention.bytes, of what the tier and the memory have.

    Whole segments go, oldest first: by time if the newest record is older than retention.ms, by size while the log
    would still be at least retention.bytes long. Records in the tier and in memory count once (KAFKA-20732). Records
    that are not copied stay. A segment without timestamps goes with the next one that has one.
    """
    config, start_offset = log.config, log.log_start_offset
    if not config.delete:
        return start_offset
    end_offset = min(log.copied_to, log.high_watermark)
    excess_bytes, expired_ms = -1, 0
    if config.retention_bytes >= 0:
        local_bytes = log.size_between(log.copied_to, log.log_end_offset)
        copied_bytes = remote.segments.bytes_between(start_offset, end_offset)
        excess_bytes = local_bytes + copied_bytes - config.retention_bytes
    if config.retention_ms >= 0:
        expired_ms = wall_ms - config.retention_ms
    for segment, size_bytes in remote.segments.between(start_offset, end_offset):
        if size_bytes <= excess_bytes or 0 <= segment.max_timestamp_ms < expired_ms:
            start_offset = segment.end_offset
        elif segment.max_timestamp_ms >= 0 or config.retention_ms < 0:
            break
        excess_bytes -= size_bytes
    return start_offset


def expires_ms(remote: RemoteLog, log: Log) -> int | None:
    """Return the time since 1970 at which the next segment is older than retention.ms; None: there is none."""
    config = log.config
    if not config.delete or config.retention_ms < 0:
        return None
    times = (each.max_timestamp_ms for each in remote.segments if each.max_timestamp_ms >= 0)
    first_ms = next(times, -1)
    return first_ms + config.retention_ms + 1 if first_ms >= 0 else None


def doom(remote: RemoteLog, log: Log, before_offset: int) -> bool:
    """Doom what lies wholly before an offset, where the logs of all electable replicas start; returns whether it moved.

    Of a damaged segment only its start is known: it lies before the next one.
    """
    if before_offset <= remote.doomed_before:
        return False
    remote.doomed_before = before_offset
    starts = sorted((*(each.start_offset for each in remote.described), log.local_start_offset))
    for each in remote.described:
        if each.end_offset <= before_offset:
            remote.doomed[each.name] = None
    for name in remote.damaged:
        following = bisect_right(starts, name.start_offset)
        if following < len(starts) and starts[following] <= before_offset:
            remote.doomed[name] = None
    return True


def doom_useless(remote: RemoteLog, log: Log) -> None:
    """Doom what is no part of the log: after the leader has listed the store.

    That is the segments of leaders whose records an unclean election has removed; records without a description, of a
    copy or a deletion that did not end; and a description without records that are elsewhere too: this leader has taken
    them for such a copy, while an earlier one made it. Of several copies of the same records none goes before retention
    (KIP-405, too): a store may do a deletion late, which was meant for the one that is left when it was not finished.
    """
    for name in remote.undescribed:
        remote.doomed[name] = None
    for name in remote.without_records:
        if name.start_offset >= log.local_start_offset or remote.segments.find(name.start_offset) is not None:
            remote.doomed[name] = None
    own = {each.name for each in remote.segments}
    for each in remote.described:
        if each.name not in own and _is_refuted(each, log):
            remote.doomed[each.name] = None


def _is_refuted(segment: RemoteSegment, log: Log) -> bool:
    """Return whether the log has other records in the place of a segment, and always will."""
    entries = log.epochs.entries
    if (
        not entries
        or not segment.epochs
        or entries[0][1] >= segment.end_offset
        or segment.end_offset <= log.log_start_offset
    ):
        return False
    (first_epoch, first_start), (last_epoch, _) = entries[0], segment.epochs[-1]
    if last_epoch < first_epoch:
        return True
    is_known = first_start <= max(segment.start_offset, log.log_start_offset)
    is_committed = segment.end_offset <= log.high_watermark
    return is_known and is_committed and not is_of_log(segment, log.epochs, log.log_start_offset, log.log_end_offset)


class SegmentCleaner:
    """Deletes the doomed segments of a broker's logs.

    Args:
        store: where they are.
        clock: times the deletions.
        claim: the cluster's claim to the store.
        traffic: counts them.
    """

    def __init__(self, store: Store, clock: Clock, claim: StoreClaim, traffic: TierTraffic | None = None) -> None:
        self._traffic = traffic or TierTraffic(clock)
        self._store = store
        self._clock = clock
        self._claim = claim

    async def clean(self, remote: RemoteLog, may_delete: Callable[[], bool]) -> None:
        """Delete what is doomed, as long as this broker may.

        Raises:
            ClaimLost: the store is another cluster's by now.
            StoreError: something was not deleted. It stays doomed, and is tried again in the next round.
        """
        trouble: StoreError | None = None
        doomed = list(remote.doomed)
        for first in range(0, len(doomed), AT_ONCE):
            if not may_delete() or isinstance(trouble, Unavailable):
                break
            await self._claim.hold()
            names = doomed[first : first + AT_ONCE]
            counts = self._traffic.of_folder(remote.folder)
            counts.delete_requests += len(names)
            for name, error in zip(names, await self._delete(remote.folder, names), strict=True):
                counts.delete_errors += error is not None
                if error is None:
                    remote.forget(name)
                trouble = error or trouble
        if trouble is not None:
            raise trouble

    async def _delete(self, folder: str, names: Sequence[SegmentName]) -> list[StoreError | None]:
        async with asyncio.TaskGroup() as tasks:
            made = [tasks.create_task(self._try(f"{folder}{name}")) for name in names]
        return [each.result() for each in made]

    async def _try(self, key: str) -> StoreError | None:
        try:
            async with time_limit(self._clock, DELETE_MS):
                await delete_segment(self._store, key)
        except StoreError as error:
            return error
        except TimeoutError:
            return Unavailable(f"no answer to a deletion in {DELETE_MS // 1000} s")
        logger.debug("segment deleted", segment=key)
        return None
