"""The mutants of the tier: rules by which a log with a tier has each record once, in memory or in a finished copy."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from purgatorio.broker.log.log import Log
from purgatorio.broker.log.producer_state import ProducerSnapshot
from purgatorio.broker.log.segment import Segment
from purgatorio.broker.replica.partition import Partition
from purgatorio.broker.replica.tiering import Tiering
from purgatorio.broker.tier import cleaning
from purgatorio.broker.tier.copying import SegmentCopier
from purgatorio.broker.tier.names import DESCRIPTION, LOG
from purgatorio.broker.tier.reads import PartRead, RemoteReads
from purgatorio.broker.tier.remote_log import RemoteLog
from purgatorio.broker.tier.segment_file import Part, RemoteSegment, to_bytes
from purgatorio.protocol.compression import Buffer
from purgatorio.simulation.rules import BrokerRule, Patches, declares_in, replaced

_DAMAGE: Final = frozenset({"poll-skip", "gap", "lost-write", "unseen", "vanished", "inconsistent-offsets"})
"""A consumer got other records than were written, or none in the place of some."""

BATCH_HEAD_BYTES: Final = 61

TIER_RULES: Final[dict[str, BrokerRule]] = {}
_rule = declares_in(TIER_RULES)


@_rule("copied-when-decided", {"tier-undecided", "tier-copy", "aborted-read"})
def _copied_when_decided() -> Patches:
    """40. Segments below the last stable offset are copied. Without: all that are closed, up to the log's end."""

    def to_copy(log: Log, wall_ms: int | None = None) -> tuple[Segment, ProducerSnapshot | None] | None:
        segments = log._segments
        number = segments.closed_behind(log.copied_to)
        return None if number < 0 else (segments[number], segments[number + 1].producers)

    yield replaced(Log, "to_copy", to_copy)


@_rule("records-first", {"tier-copy"})
def _records_first() -> Patches:
    """41. A copy is described when its records are there, which is the commit. Without: before they are."""

    async def copy_next(
        copier: SegmentCopier, log: Log, remote: RemoteLog, leader_epoch: int, still_leads: Callable[[], bool]
    ) -> bool:
        found = log.to_copy(copier._clock.wall_ms())
        if found is None:
            return False
        source, producers = found
        segment = await copier._described(log, source, producers, leader_epoch, await copier.claim.hold())
        key = f"{remote.folder}{segment.name}"
        await copier._store.put(f"{key}{DESCRIPTION}", [to_bytes(segment)], create=True)
        await copier._store.put(f"{key}{LOG}", source.runs(0, source.batch_count), create=False)
        remote.add(segment, log)
        return still_leads()

    yield replaced(SegmentCopier, "copy_next", copy_next)


@_rule("copied-before-deleted", {"tier-hole"})
def _copied_before_deleted() -> Patches:
    """42. Memory deletes what is copied. Without: all that is committed."""
    copied = Log.copied

    def copied_all(log: Log, offset: int, *, exactly: bool = False) -> None:
        copied(log, max(offset, log.high_watermark), exactly=exactly)

    yield replaced(Log, "copied", copied_all)


@_rule("checked-parts", _DAMAGE | {"not-converged", "tier-memory"})
def _checked_parts() -> Patches:
    """43. A part that is short or damaged is read again. Without: it is taken, as far as it has whole batches."""
    take = PartRead.take

    def take_whole(read: PartRead, data: Buffer) -> None:
        end = 0
        while end + BATCH_HEAD_BYTES <= len(data):
            end_of_next = end + 12 + int.from_bytes(data[end + 8 : end + 12], "big")
            if not end < end_of_next <= len(data):
                break
            end = end_of_next
        take(read, memoryview(data)[:end])

    yield replaced(Part, "check", lambda part, data: None)
    yield replaced(PartRead, "take", take_whole)


@_rule("rebuilt-epochs", {"tier-hole", "not-converged", "committed-prefix"})
def _rebuilt_epochs() -> Patches:
    """44. A follower that begins behind a segment has the leader epochs before it. Without: none of them."""
    begin_behind = Log.begin_behind

    def begin(
        log: Log,
        offset: int,
        *,
        log_start_offset: int,
        epochs: Iterable[tuple[int, int]],
        producers: ProducerSnapshot | None,
    ) -> None:
        begin_behind(log, offset, log_start_offset=log_start_offset, epochs=(), producers=producers)

    yield replaced(Log, "begin_behind", begin)


@_rule("rebuilt-producers", {"unequal-replicas", "duplicate", "sequence-refused"})
def _rebuilt_producers() -> Patches:
    """45. A follower that begins behind a segment knows the producers at its end. Without: none of them."""
    begin_behind = Log.begin_behind

    def begin(
        log: Log,
        offset: int,
        *,
        log_start_offset: int,
        epochs: Iterable[tuple[int, int]],
        producers: ProducerSnapshot | None,
    ) -> None:
        begin_behind(log, offset, log_start_offset=log_start_offset, epochs=epochs, producers=None)

    yield replaced(Log, "begin_behind", begin)


@_rule("copied-aborts", {"aborted-read", "torn-transaction"})
def _copied_aborts() -> Patches:
    """46. A copy names the transactions that were aborted in it. Without: none."""
    described = SegmentCopier._described

    async def without_aborts(
        copier: SegmentCopier,
        log: Log,
        source: Segment,
        producers: ProducerSnapshot | None,
        leader_epoch: int,
        claim: int,
    ) -> RemoteSegment:
        return replace(await described(copier, log, source, producers, leader_epoch, claim), aborted=())

    yield replaced(SegmentCopier, "_described", without_aborts)


@_rule("log-start-first", {"tier-hole"})
def _log_start_first() -> Patches:
    """47. Retention moves the log start, and then deletes objects. Without: it deletes them, and moves it never."""

    def retain(tiering: Tiering, partition: Partition) -> None:
        remote, log = tiering.remote_of(partition), partition.log
        cleaning.doom(remote, log, cleaning.retained_from(remote, log, tiering._clock.wall_ms()))

    yield replaced(Tiering, "retain", retain)


@_rule("woken-by-failures", {"lost-wake-up"})
def _woken_by_failures() -> Patches:
    """48. A read that failed wakes the fetches that wait for it. Without: only one that has brought something."""
    over = RemoteReads._over

    def over_if_done(remote_reads: RemoteReads, read: PartRead) -> None:
        if read.has_failed:
            read.listeners.clear()
        over(remote_reads, read)

    yield replaced(RemoteReads, "_over", over_if_done)
