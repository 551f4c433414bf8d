"""The committed offsets of one shard: those that clients see, and those that wait for the replicas."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from purgatorio.protocol.consumer_offsets import NO_EXPIRY
from purgatorio.protocol.primitives import ZERO_UUID


class CommittedOffset(NamedTuple):
    """What a group has committed for one partition.

    Attributes:
        offset: the offset of the next record to consume.
        leader_epoch: the leader epoch of the last consumed record (KIP-320); -1 if the client has not given it.
        metadata: the client's own note.
        commit_ms: the wall time of the commit.
        expire_ms: the wall time at which it expires whatever the retention; -1: by the retention.
        topic_id: the topic that it belongs to; all zero if unknown.
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int = NO_EXPIRY
    topic_id: bytes = ZERO_UUID

    def is_of(self, topic_id: bytes) -> bool:
        """Return whether it belongs to the topic with this id; not to an earlier topic of the same name."""
        return self.topic_id == topic_id or ZERO_UUID in (self.topic_id, topic_id)


GroupOffsets = dict[str, dict[int, CommittedOffset]]
"""The committed offsets of one group, by topic, then by partition; only what is replicated."""


class OffsetChange(NamedTuple):
    """A committed offset as a record of it says; None: it is deleted."""

    group_id: str
    topic: str
    partition: int
    committed: CommittedOffset | None


class ShardOffsets:
    """The committed offsets of one shard's groups.

    Changes take effect in the order of the log when they are committed, whether or not their client was told so: a
    commit that was answered with a time-out is in the log, and may be replicated later.

    Attributes:
        groups: the replicated offsets by group id; no group without offsets.
        groups_of_topic: the groups with replicated offsets of a topic, so that its deletion touches only these.
        count: the number of replicated offsets.
        pending_count: the number of changes that are in the log, and not replicated yet.
        appended: the number of the newest append.
        is_awaited: whether somebody waits for changes whose client got an error.
    """

    __slots__ = (
        "_pending",
        "_pending_of_group",
        "appended",
        "count",
        "groups",
        "groups_of_topic",
        "is_awaited",
        "pending_count",
    )

    def __init__(self) -> None:
        self.groups: dict[str, GroupOffsets] = {}
        self.groups_of_topic: dict[str, dict[str, None]] = {}
        self.count = 0
        self.appended = 0
        self.pending_count = 0
        self.is_awaited = False
        self._pending: deque[tuple[int, Sequence[OffsetChange]]] = deque()
        self._pending_of_group: dict[str, dict[tuple[str, int], int]] = {}

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        """Return the replicated offset of a group for a partition, or None."""
        of_topic = self.groups.get(group_id, {}).get(topic)
        return None if of_topic is None else of_topic.get(partition)

    # --- changes ---

    def append(self, changes: Sequence[OffsetChange]) -> int:
        """Note changes that were appended to the log; returns the number of the append, for `committed`."""
        self.appended += 1
        self._pending.append((self.appended, changes))
        self.pending_count += len(changes)
        for group_id, topic, partition, _ in changes:
            of_group = self._pending_of_group.setdefault(group_id, {})
            of_group[topic, partition] = of_group.get((topic, partition), 0) + 1
        return self.appended

    def committed(self, number: int) -> None:
        """Let the append of this number take effect, with all earlier ones: they are committed."""
        pending = self._pending
        while pending and pending[0][0] <= number:
            _, changes = pending.popleft()
            self.pending_count -= len(changes)
            for change in changes:
                self.apply(change)
                self._settled(change)

    def _settled(self, change: OffsetChange) -> None:
        group_id, topic, partition, _ = change
        of_group = self._pending_of_group[group_id]
        of_group[topic, partition] -= 1
        if not of_group[topic, partition]:
            del of_group[topic, partition]
            if not of_group:
                del self._pending_of_group[group_id]

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Return whether the log has a change of this offset that is not replicated yet."""
        return (topic, partition) in self._pending_of_group.get(group_id, ())

    def knows(self, group_id: str) -> bool:
        """Return whether the group has offsets, or has changes that are not replicated yet."""
        return group_id in self.groups or group_id in self._pending_of_group

    def partitions(self, group_id: str) -> list[tuple[str, int]]:
        """Return the topics and partitions with an offset of the group, pending ones included."""
        found = {(topic, each): None for topic, offsets in self.groups.get(group_id, {}).items() for each in offsets}
        found.update(dict.fromkeys(self._pending_of_group.get(group_id, ())))
        return list(found)

    def apply(self, change: OffsetChange) -> None:
        """Make one change at once: it is replicated, or is being loaded."""
        group_id, topic, partition, committed = change
        if committed is None:
            self.remove(group_id, topic, partition)
        else:
            self.put(group_id, topic, partition, committed)

    def put(self, group_id: str, topic: str, partition: int, committed: CommittedOffset) -> None:
        """Keep an offset in place of an earlier one."""
        of_group = self.groups.get(group_id)
        if of_group is None:
            of_group = self.groups[group_id] = {}
        offsets = of_group.get(topic)
        if offsets is None:
            offsets = of_group[topic] = {}
            self.groups_of_topic.setdefault(topic, {})[group_id] = None
        if partition not in offsets:
            self.count += 1
        offsets[partition] = committed

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """Drop an offset, if there is one."""
        of_group = self.groups.get(group_id)
        offsets = None if of_group is None else of_group.get(topic)
        if of_group is None or offsets is None or offsets.pop(partition, None) is None:
            return
        self.count -= 1
        if offsets:
            return
        del of_group[topic]
        groups = self.groups_of_topic[topic]
        del groups[group_id]
        if not groups:
            del self.groups_of_topic[topic]
        if not of_group:
            del self.groups[group_id]
