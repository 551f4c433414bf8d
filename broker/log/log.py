"""The log of one partition, in memory.

Batches lie in segments, oldest first; the last segment is the active one, gets all appends, and may be empty. Offsets
ascend, with gaps where compaction removed records. The partition sets the log's high watermark, by `commit_to`; records
below it are committed. Age, size and the memory cap delete committed records only.

A log of a topic with remote.storage.enable is *tiered* (KIP-405): its closed segments are copied to an object store.
Age, size and the memory cap delete only what was copied, and that moves the local start, which lies at or behind the
log start.
"""

# compiled: docs/compiled.md

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from purgatorio.broker.log.compaction import Compaction
from purgatorio.broker.log.config import LogConfig
from purgatorio.broker.log.epochs import LeaderEpochs
from purgatorio.broker.log.errors import LogError, MemoryExhausted, OffsetInTier, OffsetOutOfRange
from purgatorio.broker.log.memory import FILLING_DIVISOR, Age, MemoryBudget
from purgatorio.broker.log.producer_state import ProducerBatch, ProducerSnapshot, ProducerStates
from purgatorio.broker.log.segment import BATCH_OVERHEAD_BYTES, Segment
from purgatorio.broker.log.segments import LogRead, Segments
from purgatorio.broker.log.time_index import LookUpBudget, TimestampOffset, find_max_timestamp, find_timestamp
from purgatorio.broker.log.validator import Admission, RecordValidation, check_fetched
from purgatorio.broker.time.long_work import Steps
from purgatorio.protocol.compression import Buffer
from purgatorio.protocol.records import BatchHeader, TimestampType, place_batch, read_header


class AppendInfo(NamedTuple):
    """The result of an append.

    Attributes:
        first_offset: the offset of the first record; for a duplicate, of its first append.
        last_offset: the offset of the last record, likewise.
        log_append_time_ms: the timestamp that the log gave the records, or −1 if they keep the producer's.
        log_start_offset: the log's start offset.
        duplicate: the log already has the batch, and nothing was appended.
    """

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    size_bytes: int
    record_count: int
    duplicate: bool = False


__all__ = ["AppendInfo", "Log", "LogError", "LogRead", "TimestampOffset"]

_NO_LIMIT_BYTES: Final = 2**62


class Log:
    """The log of one partition.

    Args:
        config: the configuration of its topic; may be replaced at any time.
        memory: the broker's cap on log memory; not given: no limit.
        validation: how the broker checks the records in produced batches; not given: in full.
        name: the partition's name, for log lines.

    Attributes:
        log_start_offset: the lowest offset that can be read.
        local_start_offset: the lowest offset that is in memory; the log start, unless the log is tiered.
        copied_to: the offset up to which the tier has all records from the local start on; what lies behind it is not
            deleted, unless copies are disabled.
        due_to: closed segments that end at or before it are copied at once, whatever lag there may be.
        log_end_offset: the offset that the next record gets.
        high_watermark: the last one that the partition set, by `commit_to`; the memory cap may delete records below it.
            Reads are not bounded by it.
        uncommitted_bytes: memory of the records from the high watermark on.
        is_tiered: whether its closed segments are copied to the tier, and stay here until they are.
        times_tiered: how often it came to the tier; what the tier had before is not its own.
        is_evictable: whether the memory cap may delete records; not those of internal topics, which are state.
        epochs: the leader epoch of each part.
        producers: the state of idempotent and transactional producers.
        on_cut: called after the log start moved or records were truncated, whatever the reason; also within an append
            to another log of the broker, if memory is short.
        on_closed: called after a segment of a tiered log was closed, as on_cut, and when such a log is configured, also
            to be none any more.
    """

    def __init__(
        self,
        config: LogConfig,
        *,
        memory: MemoryBudget | None = None,
        validation: RecordValidation | None = None,
        name: str = "",
    ) -> None:
        self.name = name
        self._validation = validation
        self._memory = memory if memory is not None else MemoryBudget(_NO_LIMIT_BYTES)
        self._memory.add(self)
        self.log_start_offset: int = 0
        self.local_start_offset: int = 0
        self.copied_to: int = 0
        self.due_to: int = 0
        self.is_tiered = False
        self.on_closed: Callable[[], None] = _nothing
        self.times_tiered: int = 0
        self.config = config
        self.is_evictable = True
        self.epochs = LeaderEpochs()
        self.producers = ProducerStates()
        self.log_end_offset: int = 0
        self.high_watermark = 0
        self.uncommitted_bytes = 0
        self._share = self._memory.led
        self._awaits_commit = False
        self.on_cut: Callable[[], None] = _nothing
        self._compaction = Compaction()
        self._compacting = False
        self._segments = Segments(self._memory.next_sequence, self._memory.arena)

    @property
    def config(self) -> LogConfig:
        """The configuration of the log's topic."""
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        if self.is_tiered and not config.remote_storage_enable:
            self._start_at(self.local_start_offset)  # it leaves the tier without its records there (KIP-950)
            self.copied_to = self.log_start_offset
        was_tiered, self.is_tiered = self.is_tiered, config.remote_storage_enable
        self.times_tiered += self.is_tiered and not was_tiered
        self._keeps_uncopied = self.is_tiered and not config.remote_log_copy_disable
        if was_tiered or self.is_tiered:
            self.on_closed()
        self._admission = Admission(config, self._validation)
        self._append_time = config.timestamp_type is TimestampType.LOG_APPEND_TIME
        self._segment_bytes = min(config.segment_bytes, self._memory.max_segment_bytes)
        self._segment_ms = min(config.segment_ms, config.max_compaction_lag_ms) if config.compact else config.segment_ms

    @property
    def size_bytes(self) -> int:
        """Bytes of all batches in memory."""
        return self._segments.size_bytes

    @property
    def segment_count(self) -> int:
        """The number of segments, at least one."""
        return len(self._segments)

    @property
    def active_segment_start_offset(self) -> int:
        """The offset at which the segment starts that gets new batches."""
        return self._segments.active.base_offset

    # --- append --------------------------------------------------------------------------------------------------

    def append_as_leader(
        self, records: Buffer, *, leader_epoch: int, wall_ms: int, from_client: bool = True
    ) -> AppendInfo:
        """Append a produced batch at the end of the log, in the leader's epoch.

        Args:
            records: exactly one batch; it is copied.
            leader_epoch: the leader epoch of this replica.
            wall_ms: the time, in milliseconds since 1970.
            from_client: False for the broker's own batches, such as end markers: control batches are allowed, and
                sequences are not checked.

        Raises:
            InvalidBatch: as `Admission.admit`.
            OutOfOrderSequence, StaleProducerEpoch, InvalidTransactionState, StaleCoordinatorEpoch, TooManyTransactions:
                as `ProducerStates.check` and, for the broker's own batches, `check_own`.
            MemoryExhausted: the log has its share of uncommitted records; or the memory cap is reached, and no segment
                can be deleted for this log; or the system has no memory for the batch.
        """
        header, batch = self._admission.admit(records, wall_ms, from_client=from_client)
        if header.producer_id >= 0:
            if not from_client:
                self.producers.check_own(header, batch)
            elif (known := self.producers.check(header)) is not None:
                return self._duplicate(known)
        offset = self.log_end_offset
        if self._append_time:
            batch = place_batch(batch, offset, leader_epoch, log_append_time_ms=wall_ms)
            header = read_header(batch)
        size_bytes = len(batch)
        memory_bytes = size_bytes + BATCH_OVERHEAD_BYTES
        self._reserve(memory_bytes, memory_bytes, ends=not from_client and header.is_control)
        try:
            self._append(header, batch, offset, leader_epoch, wall_ms, is_leader=True)
        except MemoryError:
            raise self._refused(memory_bytes) from None
        return AppendInfo(
            offset,
            self.log_end_offset - 1,
            wall_ms if self._append_time else -1,
            self.log_start_offset,
            size_bytes,
            header.record_count,
        )

    def append_as_follower(
        self, records: Buffer, *, wall_ms: int = -1, leader_epoch: int | None = None, committed_offset: int = 0
    ) -> AppendInfo | None:
        """Append batches from the leader, with their offsets, epochs and timestamps; None if there is no whole one.

        Args:
            records: batches; a last one that is incomplete is ignored. They are copied.
            wall_ms: the time since 1970 in milliseconds; not given: the batches' own timestamps.
            leader_epoch: if given, batches of higher epochs are ignored: the sender had lost the leadership, and the
                next leader decides their offsets (KAFKA-18723).
            committed_offset: the leader's high watermark: records below it take no share of the uncommitted ones.

        Raises:
            InvalidBatch: a batch is damaged; nothing was appended.
            UnexpectedOffset: the offsets do not ascend from this log's end; nothing was appended. A batch may begin
                before the end of an empty log only: the leader's log start then lies within the batch.
            MemoryExhausted: as `append_as_leader`; nothing was appended. If the system has no memory for a batch after
                the first one, those before it are appended.
        """
        empty = self._segments.is_empty
        batches = check_fetched(records, self.log_end_offset, leader_epoch=leader_epoch, is_empty=empty)
        if not batches:
            return None
        size_bytes = sum(len(batch) for _, batch in batches)
        committed_bytes = 0
        if batches[0][0].last_offset < committed_offset:
            committed = [batch for header, batch in batches if header.last_offset < committed_offset]
            committed_bytes = sum(map(len, committed)) + BATCH_OVERHEAD_BYTES * len(committed)
        memory_bytes = size_bytes + BATCH_OVERHEAD_BYTES * len(batches)
        ends = batches[0][0].is_control and all(header.is_control for header, _ in batches)
        self._reserve(memory_bytes, memory_bytes - committed_bytes, ends=ends)
        if batches[0][0].base_offset < self.log_end_offset:
            self._segments.active.base_offset = batches[0][0].base_offset
        appended = 0
        for header, batch in batches:
            appended_ms = wall_ms if wall_ms >= 0 else header.max_timestamp
            try:
                self._append(header, batch, header.base_offset, header.partition_leader_epoch, appended_ms)
            except MemoryError:
                left_bytes = sum(len(each) + BATCH_OVERHEAD_BYTES for _, each in batches[appended:])
                refused = self._refused(left_bytes)
                if not appended:
                    raise refused from None
                size_bytes -= left_bytes - BATCH_OVERHEAD_BYTES * (len(batches) - appended)
                break
            appended += 1
        count = sum(header.record_count for header, _ in batches[:appended])
        first_offset = batches[0][0].base_offset
        return AppendInfo(first_offset, self.log_end_offset - 1, -1, self.log_start_offset, size_bytes, count)

    def _duplicate(self, known: ProducerBatch) -> AppendInfo:
        append_time_ms = known.max_timestamp_ms if self._append_time else -1
        return AppendInfo(
            known.first_offset, known.last_offset, append_time_ms, self.log_start_offset, 0, 0, duplicate=True
        )

    def _reserve(self, memory_bytes: int, uncommitted_bytes: int, ends: bool) -> None:
        """Make room for an append, and count the part of it that will be uncommitted, or raise MemoryExhausted.

        Args:
            ends: it has end markers only, which find room always: what waits in memory behind an open transaction, to
                be copied to the tier, can go when it ends.
        """
        share, memory = self._share, self._memory
        if FILLING_DIVISOR * (self.uncommitted_bytes + uncommitted_bytes) > share.limit_bytes - share.used_bytes:
            share.check(self.uncommitted_bytes, uncommitted_bytes)
        is_full = memory.used_bytes + memory_bytes > memory.limit_bytes and not memory.make_room(self, memory_bytes)
        if is_full and not (ends and self.is_tiered):
            kept = "no committed segment is left to delete for this log"
            if self.is_tiered:
                kept = "what is not copied to the tier stays"
            raise MemoryExhausted(
                f"the logs of this broker hold {memory.used_bytes} bytes of at most {memory.limit_bytes}, and {kept}"
            )
        self.uncommitted_bytes += memory_bytes
        share.used_bytes += memory_bytes

    def _refused(self, memory_bytes: int) -> MemoryExhausted:
        """Give back what `_reserve` has counted for batches for which the system has no memory; return the error."""
        self.uncommitted_bytes -= memory_bytes
        self._share.used_bytes -= memory_bytes
        return MemoryExhausted(
            f"the system has no memory for {memory_bytes} bytes more; the logs of this broker hold "
            f"{self._memory.used_bytes} bytes of at most {self._memory.limit_bytes}: lower log.memory.bytes"
        )

    def _append(
        self, header: BatchHeader, batch: Buffer, offset: int, leader_epoch: int, wall_ms: int, is_leader: bool = False
    ) -> None:
        """Append a copy of a batch that was checked and for which there is room.

        Args:
            is_leader: whether the copy gets the offset and the leader epoch; otherwise the batch has them.

        Raises:
            MemoryError: the system has no memory. Nothing was appended.
        """
        segment, timestamp_ms = self._segments.active, header.max_timestamp
        before_bytes = segment.size_bytes
        ages = not before_bytes
        if not ages:  # a new segment, by size or by the records' own time if they have one: all replicas roll alike
            first_ms = segment.first_timestamp_ms
            age_ms = timestamp_ms - first_ms if first_ms >= 0 else wall_ms - segment.created_ms
            if before_bytes + len(batch) > self._segment_bytes or age_ms > self._segment_ms:
                segment, before_bytes = self._roll(offset, wall_ms), 0
                ages = len(self._segments) == 2
        last_offset = offset + header.last_offset_delta
        self._memory.used_bytes += segment.append(
            batch, last_offset, timestamp_ms, wall_ms, offset if is_leader else -1, leader_epoch
        )
        self.log_end_offset = last_offset + 1
        if leader_epoch != self.epochs.latest_epoch:
            self.epochs.assign(leader_epoch, offset)
        if header.producer_id >= 0:
            self.producers.appended(header, batch, offset, wall_ms)
        if ages or before_bytes < self._memory.small_bytes <= segment.size_bytes:
            self._memory.aged(self)

    def _roll(self, base_offset: int, wall_ms: int) -> Segment:
        """Start a new active segment."""
        self._memory.release(self._segments.active.close())
        if not self.is_tiered:
            return self._segments.roll(base_offset, wall_ms, self.producers.snapshot())
        segment = self._segments.roll(base_offset, wall_ms, self.producers.snapshot(), self.copied_to)
        self.on_closed()
        return segment

    # --- read ----------------------------------------------------------------------------------------------------

    def read(self, offset: int, *, max_bytes: int, end_offset: int, min_one: bool = True) -> LogRead:
        """Read whole batches, starting with the one that contains `offset`.

        Args:
            offset: the first offset to read.
            max_bytes: the largest number of bytes to read.
            end_offset: read only batches that end before it.
            min_one: read the first batch even if it is larger than `max_bytes` (KIP-74).

        Raises:
            OffsetOutOfRange: `offset` is before the log's start or after its end.
            OffsetInTier: it is before the local start.
        """
        if not self.local_start_offset <= offset <= self.log_end_offset:
            if self.log_start_offset <= offset < self.local_start_offset:
                raise OffsetInTier(f"{offset} is before {self.local_start_offset}, where the log's memory begins")
            raise OffsetOutOfRange(f"{offset} is not between {self.log_start_offset} and {self.log_end_offset}")
        if offset >= end_offset:
            return LogRead([], 0, offset)
        return self._segments.read(offset, max_bytes, end_offset, min_one)

    def size_between(self, start_offset: int, end_offset: int) -> int:
        """Bytes from the batch that contains `start_offset` to before the batch that contains `end_offset`."""
        return self._segments.size_between(start_offset, end_offset)

    def overhead_between(self, start_offset: int, end_offset: int) -> int:
        """Memory of those batches besides their bytes."""
        segments = self._segments
        return segments.memory_between(start_offset, end_offset) - segments.size_between(start_offset, end_offset)

    def is_on_older_segment(self, offset: int, end_offset: int) -> bool:
        """Whether `offset` lies on an older segment than `end_offset`, the end of the reader's range."""
        return self._segments.number_of(offset) < self._segments.number_of(end_offset)

    def offset_for_timestamp(
        self, timestamp_ms: int, end_offset: int, budget: LookUpBudget | None = None
    ) -> TimestampOffset | None:
        """The first record before `end_offset` whose timestamp is not before `timestamp_ms`: offset, timestamp, epoch.

        The batches' headers are searched first; then the batch is unpacked.

        Args:
            budget: what all look-ups of a request may cost; the answer is inexact once it is spent (see `time_index`).
        """
        return find_timestamp(self._segments, timestamp_ms, self.log_start_offset, end_offset, budget or LookUpBudget())

    def max_timestamp(self, end_offset: int, budget: LookUpBudget | None = None) -> TimestampOffset | None:
        """The first record before `end_offset` that has the highest timestamp there (KIP-734); see above."""
        return find_max_timestamp(self._segments, self.log_start_offset, end_offset, budget or LookUpBudget())

    def last_stable_offset(self, high_watermark: int) -> int:
        """The offset below which all records are committed and of no open transaction; at most the high watermark."""
        if not self.producers.unstable.by_start:
            return high_watermark
        # The start of an open transaction may have been deleted.
        return min(high_watermark, max(self.log_start_offset, self.producers.last_stable_offset(high_watermark)))

    def aborted_transactions(self, start_offset: int, end_offset: int) -> tuple[array[int], array[int]]:
        """First offsets and producer ids of the aborted transactions with a part in [start, end), by first offsets."""
        return self.producers.aborted.overlapping(start_offset, end_offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest epoch not above `epoch`, and its end offset; (−1, −1) if unknown (KIP-101, KIP-279)."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    # --- commit --------------------------------------------------------------------------------------------------

    def commit_to(self, offset: int) -> None:
        """Take `offset` as the high watermark, at most the log's end."""
        before = self.high_watermark
        self.high_watermark = offset
        if offset < self.log_end_offset or self._awaits_commit:
            if offset > before:
                self._count_uncommitted(self.uncommitted_bytes - self._segments.memory_between(before, offset))
            else:
                self._recount_uncommitted()
        else:  # the usual case, without a further call
            self._share.used_bytes -= self.uncommitted_bytes
            self.uncommitted_bytes = 0

    def count_as(self, *, led: bool) -> None:
        """Count the uncommitted records to the share of the logs that this broker leads, or of the others."""
        share = self._memory.led if led else self._memory.followed
        self._share.used_bytes -= self.uncommitted_bytes
        share.used_bytes += self.uncommitted_bytes
        self._share = share

    def _recount_uncommitted(self) -> None:
        self._count_uncommitted(self._segments.memory_between(self.high_watermark, self.log_end_offset))

    def _count_uncommitted(self, size_bytes: int) -> None:
        self._share.used_bytes += size_bytes - self.uncommitted_bytes
        self.uncommitted_bytes = size_bytes
        if self._awaits_commit:
            self._awaits_commit = False
            self._memory.aged(self)

    # --- truncate ------------------------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> None:
        """Remove all records from `offset` on.

        Only whole batches are removed: if `offset` lies within a batch, the log ends at the start of that batch, below
        `offset`. (Replication never asks for that, since leader epochs end where batches end.) Producers and epochs
        return to their state at the new end. If the log starts after `offset`, it becomes empty and starts at `offset`.

        Even if the log ends before `offset`, an epoch without records that starts at its end is removed: otherwise a
        leader that never appended would diverge from its successor for ever.
        """
        if offset >= self.log_end_offset:
            self.epochs.truncate_from_end(self.log_end_offset)
            self.on_cut()
            return
        if offset < self._segments[0].base_offset:
            # A tiered log starts where it did, and the follower begins behind what the tier has.
            self.truncate_fully_and_start_at(min(offset, self.log_start_offset) if self.is_tiered else offset)
            return
        before_bytes = self._segments.memory_bytes
        offset = self._segments.truncate(offset)
        self._memory.release(before_bytes - self._segments.memory_bytes)
        self.log_end_offset = offset
        self.log_start_offset = min(self.log_start_offset, offset)
        self.local_start_offset = min(self.local_start_offset, offset)
        if offset < self.copied_to:  # the copies of what stays may end in what goes, and are not this log's any more
            self.copied_to = self.local_start_offset
        self.high_watermark = min(self.high_watermark, offset)
        self._compaction.truncated(offset)
        self.epochs.truncate_from_end(offset)
        self._segments.rebuild(self.producers)
        self._recount_uncommitted()
        self.on_cut()

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove all records, epochs and producers, and start again at `offset`."""
        self._memory.release(self._segments.memory_bytes)
        self._segments.restart(offset)
        self.log_start_offset = self.local_start_offset = self.log_end_offset = self.high_watermark = offset
        self.copied_to = min(self.copied_to, offset)
        self._count_uncommitted(0)
        self._compaction.truncated(offset)
        self.epochs.clear()
        self.producers.clear()
        self.on_cut()

    def begin_behind(
        self,
        offset: int,
        *,
        log_start_offset: int,
        epochs: Iterable[tuple[int, int]],
        producers: ProducerSnapshot | None,
    ) -> None:
        """Remove all records, and begin in memory at an offset, before which the tier has all from the log's start on.

        Args:
            epochs: the leader epochs up to there, with their start offsets.
            producers: the producers' state there; None: nothing is known.
        """
        self.truncate_fully_and_start_at(offset)
        self.copied_to = offset
        for epoch, start_offset in epochs:
            self.epochs.assign(epoch, start_offset)
        if log_start_offset < offset:
            self.log_start_offset = log_start_offset
            self.epochs.truncate_from_start(log_start_offset)
        if producers is not None:
            self.producers.restore(producers, offset)
            self._segments.active.producers = producers
        self.on_cut()

    # --- delete and compact --------------------------------------------------------------------------------------

    def _start_at(self, offset: int) -> None:
        """Move the log start; epochs are kept from there on, so also those of records that only the tier has."""
        is_cut = offset > self.local_start_offset
        if is_cut:
            self.local_start_offset = offset
            self.producers.aborted.delete_before(offset)
        if offset > self.log_start_offset:
            is_cut = True
            self.log_start_offset = offset
            self.epochs.truncate_from_start(offset)
        if is_cut:
            self.on_cut()

    def _start_locally_at(self, offset: int) -> None:
        """Move the local start: the tier has what lies before it."""
        if offset > self.local_start_offset:
            self.local_start_offset = offset
            self.producers.aborted.delete_before(offset)
            self.on_cut()

    def _delete_oldest(self, count: int) -> int:
        """Delete the oldest segments, and start the log after them, a tiered one locally; returns the bytes deleted."""
        if not count:
            return 0
        if count == len(self._segments):
            active = self._segments.active
            self._roll(self.log_end_offset, active.appended_ms)
        deleted = self._segments.delete_oldest(count)
        self._memory.release(sum(segment.memory_bytes for segment in deleted))
        if deleted[-1].next_offset > self.high_watermark:
            self._recount_uncommitted()
        start_offset = self._segments[0].base_offset
        if self.is_tiered and deleted[-1].next_offset <= self.copied_to:
            self._start_locally_at(start_offset)
        else:
            self._start_at(start_offset)
        return sum(segment.size_bytes for segment in deleted)

    def advance_log_start(self, offset: int) -> bool:
        """Move the log's start to `offset`, or to the log's end if that is lower; returns whether it moved.

        Segments that lie wholly below the new start are deleted.
        """
        offset = min(offset, self.log_end_offset)
        if offset <= self.log_start_offset:
            return False
        self._start_at(offset)
        is_empty = offset == self.log_end_offset
        self._delete_oldest(len(self._segments) if is_empty else self._segments.number_of(offset))
        return True

    def apply_retention(self, wall_ms: int, high_watermark: int) -> int:
        """Delete segments by retention.ms and retention.bytes, and forget idle producers.

        Whole segments are deleted, oldest first, but none that has a record at or above the high watermark: by time if
        the newest record is older than retention.ms, by size while the log would still be at least retention.bytes
        long. A log whose cleanup policy is only compact keeps all segments. A tiered log keeps those that are not
        copied, and goes by local.retention.ms and local.retention.bytes; it closes an active segment that is past it.

        Returns:
            The number of bytes deleted.
        """
        self.commit_to(min(high_watermark, self.log_end_offset))
        self.producers.expire(wall_ms)
        self.producers.committed(self.high_watermark)
        if not self._config.delete:
            return 0
        config, segments = self._config, self._segments
        if not self.is_tiered:
            return self._delete_oldest(
                segments.count_outdated(config.retention_ms, config.retention_bytes, self.high_watermark, wall_ms)
            )
        retention_ms, retention_bytes = config.effective_local_retention
        active = segments.active
        is_past = 0 <= retention_ms < wall_ms - active.newest_ms
        if self._keeps_uncopied and active.size_bytes and is_past and active.next_offset <= self.high_watermark:
            self._roll(self.log_end_offset, wall_ms)
            self._memory.aged(self)
        return self._delete_oldest(segments.count_outdated(retention_ms, retention_bytes, self._deletable_to, wall_ms))

    @property
    def _deletable_to(self) -> int:
        """The offset up to which age, size and the memory cap may delete."""
        return min(self.high_watermark, self.copied_to) if self._keeps_uncopied else self.high_watermark

    def copied(self, offset: int, *, exactly: bool = False) -> None:
        """Note that the tier has all records from the local start up to an offset; these may be deleted here.

        Args:
            exactly: it has none behind, either. It may have had: the store has lost them.
        """
        before = self.copied_to
        if offset > before or exactly:
            self.copied_to = offset
        if offset > before:
            self._segments.reduce(offset)
            self._memory.aged(self)

    @property
    def first_producers(self) -> ProducerSnapshot | None:
        """The producers' state where the log's memory begins, or what is kept of it; None: nothing."""
        return self._segments[0].producers

    @property
    def copy_lag(self) -> tuple[int, int]:
        """Bytes and number of the closed segments of a tiered log that are not copied."""
        segments, start_offset = self._segments, max(self.copied_to, self.local_start_offset)
        lag_segments = len(segments) - 1 - segments.number_of(start_offset)
        return segments.size_between(start_offset, segments.active.base_offset), lag_segments

    def to_copy(self, wall_ms: int | None = None) -> tuple[Segment, ProducerSnapshot | None] | None:
        """Return the next closed segment to copy, and the producers' state at its end; None: there is none yet.

        It lies below the last stable offset, so that nothing in it can change.

        Args:
            wall_ms: the time since 1970, at which it is due by remote.copy.lag.ms or remote.copy.lag.bytes (KIP-1241),
                or because it is to leave memory; None: these do not count.
        """
        segments = self._segments
        number = segments.closed_behind(self.copied_to)
        if number < 0 or (wall_ms is not None and not self._is_due(segments[number], wall_ms)):
            return None
        following = segments[number + 1]
        is_stable = following.base_offset <= self.last_stable_offset(self.high_watermark)
        return (segments[number], following.producers) if is_stable else None

    def close_active(self, wall_ms: int) -> int:
        """Begin a new segment if the active one has records; return where closed segments end that nothing can change.

        They end at or below the last stable offset, and are copied at once.
        """
        if self._segments.active.size_bytes:
            self._roll(self.log_end_offset, wall_ms)
            self._memory.aged(self)
        stable_offset = self.last_stable_offset(self.high_watermark)
        self.due_to = self._segments[self._segments.number_of(stable_offset)].base_offset
        return self.due_to

    def drop_copied(self) -> int:
        """Delete from memory all segments of a tiered log that the tier has; returns the bytes deleted.

        Only committed records are copied, which a follower may not have heard of these yet.
        """
        self.commit_to(max(self.high_watermark, min(self.copied_to, self.log_end_offset)))
        count = 0
        for segment in self._segments:
            if not segment.size_bytes or segment.next_offset > self._deletable_to:
                break
            count += 1
        return self._delete_oldest(count)

    def _is_due(self, segment: Segment, wall_ms: int) -> bool:
        lag_ms, lag_bytes = self._config.effective_copy_lag
        if not lag_ms or not lag_bytes or self._awaits_commit or segment.next_offset <= self.due_to:
            return True
        newer_bytes = self._segments.size_between(segment.next_offset, self.log_end_offset)
        return 0 < lag_ms <= wall_ms - segment.newest_ms or 0 < lag_bytes <= newer_bytes

    @property
    def awaits_copy(self) -> bool:
        """Whether a closed segment is not copied, or not known to be."""
        return self._keeps_uncopied and self._segments.closed_behind(self.copied_to) >= 0

    def oldest_age(self) -> Age | None:
        """For the memory budget: the age of the oldest segment, or None if it may delete none."""
        return self._segments.oldest_age(self._memory.small_bytes) if self.is_evictable else None

    def evict_oldest(self) -> bool:
        """For the memory budget: delete the oldest segment; False if it has records that are not committed.

        Or, in a tiered log, that are not copied. If it is the active one, it is closed, so that it can be deleted as
        soon as its records are.
        """
        oldest, active = self._segments[0], self._segments.active
        if oldest.next_offset > self._deletable_to:
            self._awaits_commit = True
            if oldest is active and oldest.size_bytes >= self._memory.small_bytes:
                self._roll(self.log_end_offset, active.appended_ms)
            return False
        self._delete_oldest(1)
        return True

    def compaction_steps(self, high_watermark: int, wall_ms: int, *, forced: bool = False) -> Steps:
        """Keep only the newest record of each key, in steps of bounded work, between which the log may be used.

        Does nothing if the cleanup policy is not compact. Compaction does not touch the active segment or records at or
        above the high watermark or the last stable offset. Offsets do not change. Tombstones are dropped
        delete.retention.ms after the first pass that kept them. The last step replaces the segments; if the log was
        truncated or segments were deleted meanwhile, the result is dropped and the next pass starts over.

        Args:
            forced: close the active segment before, and compact whatever min.cleanable.dirty.ratio says; wait for the
                end of a pass that is under way. Otherwise such a pass is the only one.
        """
        while self._compacting and forced:
            yield 0
        self.commit_to(min(high_watermark, self.log_end_offset))
        if self._compacting or not self._config.compact:
            return
        if forced and self._segments.active.size_bytes:
            self._roll(self.log_end_offset, wall_ms)
            self._memory.aged(self)
        self._compacting = True
        try:
            yield from self._compaction_pass(wall_ms, forced)
        finally:
            self._compacting = False

    def _compaction_pass(self, wall_ms: int, forced: bool) -> Steps:
        limit_offset = self.last_stable_offset(self.high_watermark)
        segments = self._segments.inactive
        config, memory = self._config, self._memory
        job = self._compaction.plan(
            segments, config, self.producers, limit_offset, wall_ms, memory.arena, forced=forced
        )
        if job is None:
            return
        cuts = self._segments.cuts
        counted_bytes = 0
        try:
            for cost in job.build(self._segment_bytes):
                memory.count_built(job.memory_bytes - counted_bytes)
                counted_bytes = job.memory_bytes
                yield cost
        finally:
            memory.count_built(-counted_bytes)
        if cuts != self._segments.cuts:
            return
        before_bytes = self._segments.memory_bytes
        self._segments.replace_oldest(job.segment_count, job.result)
        memory.release(before_bytes - self._segments.memory_bytes)
        self._memory.aged(self)
        self._compaction.done(job)
        self.producers.aborted.delete_before(job.end_offset)  # their records are gone

    def close(self) -> None:
        """Remove all records, and leave the memory budget."""
        self.truncate_fully_and_start_at(self.log_end_offset)
        self._memory.remove(self)


def _nothing() -> None:
    """Do nothing when a log is cut, or a segment closed."""
