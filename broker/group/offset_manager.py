"""Commits and reads the offsets of groups (Kafka: OffsetMetadataManager)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from purgatorio.broker.coordinator.coordinator_log import (
    Committed,
    CoordinatorLog,
    Fate,
    NewRecord,
    TransactionalProducer,
)
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.coordinator import GroupCoordinator
from purgatorio.broker.group.memory import text_bytes
from purgatorio.broker.group.offsets import CommittedOffset, GroupOffsets, OffsetChange, ShardOffsets
from purgatorio.broker.group.services import GroupServices
from purgatorio.broker.group.shard import GroupShard
from purgatorio.logger import get_logger
from purgatorio.protocol.consumer_offsets import NO_EXPIRY, OffsetCommitValue, encode_value
from purgatorio.protocol.end_marker import EndMarker
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.offset_records import encode_offset_key, encode_offset_value
from purgatorio.protocol.records import NO_PRODUCER_ID

logger = get_logger(__name__)

MEMBER_EPOCH_VERSION: Final = 9
"""The first version of OffsetCommit that knows member epochs, and GROUP_ID_NOT_FOUND (KIP-848)."""

WARNING_INTERVAL_MS: Final = 60_000
"""Clients may go on to send commits that are refused; one warning a minute is enough."""


class OffsetWriter:
    """Writes changes of offsets; they take effect in the order of the log.

    Args:
        log: the partitions of ``__consumer_offsets``.
    """

    def __init__(self, log: CoordinatorLog) -> None:
        self._log = log

    def write(
        self,
        shard: GroupShard,
        changes: Sequence[OffsetChange],
        done: Committed,
        *,
        client: str = "",
        producer: TransactionalProducer | None = None,
    ) -> bool:
        """Append changes of offsets in one batch; they take effect when they are committed.

        Args:
            done: called when the changes are committed and visible, or have failed; perhaps before this returns.
            producer: the producer whose transaction writes the changes: they become visible when a marker commits it.

        Returns:
            Whether the changes are in this broker's log.
        """
        records = [offset_record(change) for change in changes]
        appended, fated = _in_order(
            shard,
            lambda: shard.offsets.append(changes, NO_PRODUCER_ID if producer is None else producer.producer_id),
            done,
        )
        return self._log.write(shard, records, fated, applied=appended, client=client, producer=producer)

    def end(self, shard: GroupShard, producer: TransactionalProducer, marker: EndMarker, done: Committed) -> bool:
        """Append the marker that ends a producer's transaction; it takes effect when it is committed.

        Args:
            done: called when the marker is committed and has taken effect, or has failed; perhaps before this returns.

        Returns:
            Whether the marker is in this broker's log.
        """
        appended, fated = _in_order(
            shard, lambda: shard.offsets.append_end(producer.producer_id, commits=marker.committed), done
        )
        return self._log.write_end(shard, producer, marker, fated, applied=appended)


def _in_order(
    shard: GroupShard, append: Callable[[], int], done: Committed
) -> tuple[Callable[[], None], Callable[[Fate, ErrorCode], None]]:
    """Return the callable for a change that is in the log, and the one for a change that is committed or has failed.

    Args:
        append: puts the change into the shard's order; returns its number there.
    """
    number = 0

    def appended() -> None:
        nonlocal number
        number = append()

    def fated(fate: Fate, error_code: ErrorCode) -> None:
        if not error_code:
            shard.offsets.committed(number)
        if fate is not Fate.COMMITTED_LATE:
            done(error_code)

    return appended, fated


class OffsetManager:
    """The committed offsets of the groups that one broker coordinates.

    Attributes:
        write: see `OffsetWriter.write`.
        commit_count: the offsets that were committed, those of transactions included.
    """

    def __init__(self, services: GroupServices, coordinator: GroupCoordinator, writer: OffsetWriter) -> None:
        self._services = services
        self._coordinator = coordinator
        self.write = writer.write
        self.commit_count = 0
        self._warned_ms: int | None = None

    # --- commit ---

    def commit(
        self,
        group_id: str,
        offsets: Sequence[tuple[str, int, CommittedOffset]],
        done: Committed,
        *,
        member_id: str = "",
        instance_id: str | None = None,
        generation_or_epoch: int = -1,
        version: int,
        client: str = "",
    ) -> None:
        """Write offsets of a group: topic, partition and offset each; at least one.

        A group without a member protocol comes to be by its first offset, from a client with generation -1.

        Args:
            done: called when the offsets are committed and visible, or have failed; perhaps before this returns.
            member_id, instance_id, generation_or_epoch, version: as in `Group.check_commit`.

        Raises:
            CoordinatorError: the offsets may not be committed: with the error code for each of them.
        """
        shard = self._coordinator.shard_of(group_id)
        if group_id in shard.deleting:
            raise CoordinatorError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"group {group_id!r} is being deleted")
        group = shard.groups.get(group_id)
        if group is not None:
            group.check_commit(member_id, instance_id, generation_or_epoch, version)
        elif generation_or_epoch >= 0 and shard.offsets.knows(group_id):
            raise CoordinatorError(ErrorCode.UNKNOWN_MEMBER_ID, f"group {group_id!r} has no members")
        elif generation_or_epoch >= 0:
            is_new = version >= MEMBER_EPOCH_VERSION
            code = ErrorCode.GROUP_ID_NOT_FOUND if is_new else ErrorCode.ILLEGAL_GENERATION
            raise CoordinatorError(code, f"group {group_id!r} does not exist")
        self.check_limits(shard, group_id, offsets)
        changes = [OffsetChange(group_id, *offset) for offset in offsets]

        def settled(error_code: ErrorCode) -> None:
            if error_code == ErrorCode.NONE:
                self.commit_count += len(changes)
            done(error_code)

        self.write(shard, changes, settled, client=client)

    def check_limits(
        self,
        shard: GroupShard,
        group_id: str,
        offsets: Sequence[tuple[str, int, CommittedOffset]],
        *,
        waiting: int = 0,
    ) -> None:
        """Refuse new groups and new partitions beyond the limits; known ones may go on while the replicas follow.

        Args:
            waiting: how many other offsets are about to be written, and take memory already.

        Raises:
            CoordinatorError: INVALID_COMMIT_OFFSET_SIZE, which clients do not retry; COORDINATOR_NOT_AVAILABLE, which
                they do, while too many changes wait for the replicas, or for the ends of transactions.
        """
        known = shard.offsets
        is_new = group_id not in shard.groups and not known.knows(group_id)
        max_groups = self._services.config.max_groups
        if is_new and known.has_groups(max_groups):
            raise self._refusal(f"{shard.tp} has {max_groups} groups, the most that it may have")
        self._check_memory(known, group_id, offsets, is_new=is_new)
        limit = self._services.config.max_offsets
        if sum(each.offsets.total for each in self._coordinator.shards) + waiting + len(offsets) <= limit:
            return
        new = sum(known.get(group_id, topic, partition) is None for topic, partition, _ in offsets)
        if new and sum(each.offsets.count for each in self._coordinator.shards) + new > limit:
            raise self._refusal(f"this broker keeps {limit} committed offsets, the most that it may keep")
        if new or known.pending_count + known.transactional.count + waiting + len(offsets) > limit:
            message = f"too many changes of {shard.tp} wait for its replicas, or for transactions to end"
            raise CoordinatorError(ErrorCode.COORDINATOR_NOT_AVAILABLE, message)

    def _check_memory(
        self,
        known: ShardOffsets,
        group_id: str,
        offsets: Sequence[tuple[str, int, CommittedOffset]],
        *,
        is_new: bool,
    ) -> None:
        """Refuse metadata of offsets, and ids of new groups, for which there is no memory."""
        more_bytes = text_bytes(group_id) if is_new else 0
        for topic, partition, committed in offsets:
            if committed.metadata:
                before = known.get(group_id, topic, partition)
                more_bytes += text_bytes(committed.metadata)
                if before is not None and before.metadata:
                    more_bytes -= text_bytes(before.metadata)
        if more_bytes:
            try:
                self._services.check_room(more_bytes)
            except CoordinatorError as error:
                raise self._refusal(str(error)) from error

    def _refusal(self, message: str) -> CoordinatorError:
        """Return the refusal of offsets beyond a limit, and log it, at most once in `WARNING_INTERVAL_MS`."""
        now_ms = self._services.clock.now_ms()
        if self._warned_ms is None or now_ms - self._warned_ms >= WARNING_INTERVAL_MS:
            self._warned_ms = now_ms
            logger.warning("committed offsets were refused", why=message)
        return CoordinatorError(ErrorCode.INVALID_COMMIT_OFFSET_SIZE, message)

    # --- fetch ---

    def offsets_of(self, group_id: str, member_id: str | None = None, member_epoch: int = -1) -> GroupOffsets:
        """Return the replicated offsets of a group; an unknown group has none.

        Args:
            member_id, member_epoch: as in `Group.check_fetch`.

        Raises:
            CoordinatorError: the error code for the group. Never COORDINATOR_NOT_AVAILABLE, which older consumers
                take for fatal here (KAFKA-17267).
        """
        try:
            shard = self._coordinator.shard_of(group_id)
        except CoordinatorError as error:
            if error.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE:
                error.error_code = ErrorCode.NOT_COORDINATOR  # the same error: a request may name thousands of groups
            raise
        group = shard.groups.get(group_id)
        if group is not None:
            group.check_fetch(member_id, member_epoch)
        return shard.offsets.groups.get(group_id, {})

    def unstable_of(self, group_id: str) -> dict[str, dict[int, None]]:
        """Return, by topic, the partitions whose offset an open transaction may change (KIP-447).

        Raises:
            CoordinatorError: as `offsets_of`.
        """
        return self._coordinator.shard_of(group_id).offsets.unstable_of(group_id)


def offset_record(change: OffsetChange) -> NewRecord:
    """Return the record of a change."""
    group_id, topic, partition, committed = change
    key = encode_offset_key(group_id, topic, partition)
    if committed is None:
        return NewRecord(key, None)
    offset, leader_epoch, metadata, commit_ms, expire_ms, topic_id = committed
    if expire_ms == NO_EXPIRY:
        return NewRecord(key, encode_offset_value(offset, leader_epoch, metadata, commit_ms, topic_id))
    value = OffsetCommitValue(
        offset=offset, metadata=metadata, commit_timestamp_ms=commit_ms, expire_timestamp_ms=expire_ms
    )
    return NewRecord(key, encode_value(value))
