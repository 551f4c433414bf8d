"""One partition of ``__consumer_offsets`` that this broker leads, and how its records make its groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.coordinator.shard import Shard
from purgatorio.broker.group.group import Group
from purgatorio.broker.group.memory import GroupMemory
from purgatorio.broker.group.offsets import CommittedOffset, ShardOffsets
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.protocol.consumer_offsets import (
    NO_EXPIRY,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_key,
    decode_value,
)
from purgatorio.protocol.end_marker import EndMarker
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.offset_records import OffsetKey, read_offset_key, read_offset_value
from purgatorio.protocol.records import BatchHeader

OTHER_RECORD_WORK: Final = 5
"""The work of a record that takes the codecs; that of a committed offset is 1."""


ReplayRecord = Callable[["GroupShard", Any, Any], None]
"""Applies one record to a shard: its key, and its value or None for a tombstone."""


class GroupShard(Shard):
    """The groups of one partition.

    The state is that of the log's end: records change it when they are appended, and answers leave when they are
    committed. Committed offsets are different: a client must never see one that could be lost, so they are applied when
    they are committed.

    Args:
        replays: by type of key, what applies a record; committed offsets need none.

    Attributes:
        groups: the groups by id; `put` and `remove` change them.
        memory: the bytes that the groups keep; that of their broker counts it until the shard is unloaded.
        offsets: the committed offsets of the groups; a group without members may have only these, and no `Group`.
        deleting: the groups whose offsets are being deleted, which takes several steps.
    """

    __slots__ = ("_groups", "_replays", "deleting", "groups", "memory", "offsets")

    def __init__(self, tp: TopicPartition, leader_epoch: int, replays: Mapping[type, ReplayRecord]) -> None:
        super().__init__(tp, leader_epoch)
        self._replays = replays
        self._groups: dict[str, Group] = {}
        self.groups: Mapping[str, Group] = self._groups
        self.memory = GroupMemory()
        self.offsets = ShardOffsets(self.memory)
        self.deleting: dict[str, None] = {}

    def put(self, group: Group) -> None:
        """Keep a group, in place of another one of its id."""
        before = self._groups.get(group.group_id)
        if before is group:
            return
        if before is not None:
            before.memory.leave()
        self._groups[group.group_id] = group
        group.memory.enter(self.memory)

    def check_group_count(self, max_groups: int) -> None:
        """Check that one more group may be kept.

        Raises:
            CoordinatorError: GROUP_MAX_SIZE_REACHED.
        """
        if len(self.groups) >= max_groups:
            message = f"this broker keeps {len(self.groups)} groups in {self.tp}, the most that it may"
            raise CoordinatorError(ErrorCode.GROUP_MAX_SIZE_REACHED, message)

    def remove(self, group_id: str) -> None:
        """Forget a group."""
        self._groups.pop(group_id).memory.leave()

    def group_ids(self) -> list[str]:
        """Return the ids of the groups, and of those that have only offsets, be it of open transactions."""
        groups, offsets = self.groups, self.offsets
        only_offsets = [each for each in offsets.groups if each not in groups]
        only_open = [each for each in offsets.transactional if each not in groups and each not in offsets.groups]
        return [*groups, *only_offsets, *only_open]

    # --- loading ---

    def replay(self, batch: BatchHeader, key: bytes | None, value: bytes | None) -> int:
        """Apply a record; one of an unknown type is skipped (KIP-915)."""
        if key is None:
            return 1
        offset_key = read_offset_key(key)
        if offset_key is None:
            decoded = decode_key(key)
            replay = self._replays.get(type(decoded))
            if replay is not None and decoded is not None:
                replay(self, decoded, decode_value(decoded, value))
            return OTHER_RECORD_WORK
        if value is None:
            self.offsets.remove(*offset_key)
            return 1
        read = read_offset_value(value)
        if read is None:
            self._put(batch, offset_key, _of_other_version(value))
            return OTHER_RECORD_WORK
        offset, leader_epoch, metadata, commit_ms, topic_id = read
        committed = CommittedOffset(offset, leader_epoch, metadata, commit_ms, NO_EXPIRY, topic_id)
        if batch.is_transactional or self.offsets.transactional.count:
            self._put(batch, offset_key, committed)
        else:
            self.offsets.put(*offset_key, committed)  # nearly always, so without a call of its own
        return 1

    def _put(self, batch: BatchHeader, key: OffsetKey, committed: CommittedOffset) -> None:
        offsets = self.offsets
        if batch.is_transactional:
            offsets.transactional.put(batch.producer_id, *key, committed)
        else:
            offsets.transactional.superseded(*key)
            offsets.put(*key, committed)

    def replay_end(self, batch: BatchHeader, marker: EndMarker) -> None:
        """Make the offsets of the transaction visible, or drop them."""
        self.offsets.end(batch.producer_id, commits=marker.committed)


def _of_other_version(value: bytes) -> CommittedOffset:
    """Read a committed offset with the codecs.

    Raises:
        DecodeError: the value is malformed, or of an unknown version.
    """
    read = decode_value(OffsetCommitKey(), value)
    assert isinstance(read, OffsetCommitValue)
    return CommittedOffset(
        read.offset,
        read.leader_epoch,
        read.metadata,
        read.commit_timestamp_ms,
        read.expire_timestamp_ms,
        read.topic_id,
    )
