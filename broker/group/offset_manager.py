"""Commits and reads the offsets of groups (Kafka: OffsetMetadataManager)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from purgatorio.broker.coordinator.coordinator_log import Committed, NewRecord
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.coordinator.shards import RETRY_MS
from purgatorio.broker.group.coordinator import GroupCoordinator
from purgatorio.broker.group.offsets import CommittedOffset, GroupOffsets, OffsetChange
from purgatorio.broker.group.services import GroupServices
from purgatorio.broker.group.shard import GroupShard
from purgatorio.logger import get_logger
from purgatorio.protocol.consumer_offsets import NO_EXPIRY, OffsetCommitKey, OffsetCommitValue, encode_value
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.offset_records import encode_offset_key, encode_offset_value

logger = get_logger(__name__)

MEMBER_EPOCH_VERSION: Final = 9
"""The first version of OffsetCommit that knows member epochs, and GROUP_ID_NOT_FOUND (KIP-848)."""
WARNING_INTERVAL_MS: Final = 60_000
"""Clients may go on to send what is refused; one warning a minute tells enough."""


class OffsetManager:
    """The committed offsets of the groups that one broker coordinates.

    Args:
        services: the log, the clock, the settings.
        coordinator: the shards of this broker.

    Attributes:
        commit_count: the offsets that were committed.
    """

    def __init__(self, services: GroupServices, coordinator: GroupCoordinator) -> None:
        self._services = services
        self._coordinator = coordinator
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
            client: the client id, shown while the request waits.

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
        self._check_limits(shard, group_id, offsets)
        changes = [OffsetChange(group_id, *offset) for offset in offsets]

        def settled(error_code: ErrorCode) -> None:
            if error_code == ErrorCode.NONE:
                self.commit_count += len(changes)
            done(error_code)

        self.write(shard, changes, settled, client=client)

    def _check_limits(
        self, shard: GroupShard, group_id: str, offsets: Sequence[tuple[str, int, CommittedOffset]]
    ) -> None:
        """Refuse new groups and new partitions beyond the limits; known ones may go on while the replicas follow.

        Raises:
            CoordinatorError: INVALID_COMMIT_OFFSET_SIZE, which clients do not retry; COORDINATOR_NOT_AVAILABLE, which
                they do, while too many changes wait for the replicas.
        """
        known = shard.offsets
        is_new = group_id not in shard.groups and not known.knows(group_id)
        max_groups = self._services.config.max_groups
        if is_new and len(known.groups) >= max_groups:
            raise self._refusal(f"{shard.tp} has {max_groups} groups, the most that it may have")
        limit = self._services.config.max_offsets
        shards = self._coordinator.shards
        if sum(each.offsets.count + each.offsets.pending_count for each in shards) + len(offsets) <= limit:
            return
        new = sum(known.get(group_id, topic, partition) is None for topic, partition, _ in offsets)
        if new and sum(each.offsets.count for each in shards) + new > limit:
            raise self._refusal(f"this broker keeps {limit} committed offsets, the most that it may keep")
        if new or known.pending_count + len(offsets) > limit:
            message = f"too many changes of {shard.tp} wait for its replicas"
            raise CoordinatorError(ErrorCode.COORDINATOR_NOT_AVAILABLE, message)

    def _refusal(self, message: str) -> CoordinatorError:
        """Return the refusal of offsets beyond a limit, and log it, at most once in `WARNING_INTERVAL_MS`."""
        now_ms = self._services.clock.now_ms()
        if self._warned_ms is None or now_ms - self._warned_ms >= WARNING_INTERVAL_MS:
            self._warned_ms = now_ms
            logger.warning("committed offsets were refused", why=message)
        return CoordinatorError(ErrorCode.INVALID_COMMIT_OFFSET_SIZE, message)

    # --- the log ---

    def write(
        self,
        shard: GroupShard,
        changes: Sequence[OffsetChange],
        done: Committed,
        *,
        client: str = "",
    ) -> bool:
        """Append changes of offsets in one batch; they take effect when they are committed.

        Call it from an event of the loop, not from the completion of another append: changes take effect in the order
        of these calls.

        Args:
            done: called when the changes are committed and visible, or have failed; perhaps before this returns.
            client: the client id, shown while the request waits.

        Returns:
            Whether the changes are in this broker's log.
        """
        number = 0

        def appended() -> None:
            nonlocal number
            number = shard.offsets.append(changes)

        def settled(error_code: ErrorCode) -> None:
            if error_code == ErrorCode.NONE:
                shard.offsets.committed(number)
            elif number:
                self._await_commit(shard)
            done(error_code)

        records = [offset_record(change) for change in changes]
        return self._services.log.append(shard.tp, records, settled, applied=appended, client=client)

    def _await_commit(self, shard: GroupShard) -> None:
        """Wait on for appended changes whose client got an error: they may be committed later."""
        offsets = shard.offsets
        number = offsets.appended

        def committed(error_code: ErrorCode) -> None:
            offsets.is_awaited = False
            if not shard.is_active:
                return
            if error_code:
                self._services.timer.call_later(RETRY_MS, self._await_commit, shard)
            else:
                offsets.committed(number)

        if shard.is_active and offsets.pending_count and not offsets.is_awaited:
            offsets.is_awaited = True
            self._services.log.when_committed(shard.tp, committed)

    def replay(self, shard: GroupShard, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        """Apply a record that is loaded."""
        committed = None
        if value is not None:
            committed = CommittedOffset(
                value.offset,
                value.leader_epoch,
                value.metadata,
                value.commit_timestamp_ms,
                value.expire_timestamp_ms,
                value.topic_id,
            )
        shard.offsets.apply(OffsetChange(key.group_id, key.topic, key.partition, committed))

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
                raise CoordinatorError(ErrorCode.NOT_COORDINATOR, str(error)) from error
            raise
        group = shard.groups.get(group_id)
        if group is not None:
            group.check_fetch(member_id, member_epoch)
        return shard.offsets.groups.get(group_id, {})


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
