"""The committed offsets of one shard: those that clients see, and those that wait for replicas or for transactions."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

from purgatorio.broker.group.memory import GroupMemory, text_bytes
from purgatorio.broker.group.offsets import CommittedOffset, GroupOffsets, OffsetChange, Tally
from purgatorio.broker.group.transactional_offsets import TransactionalOffsets
from purgatorio.protocol.records import NO_PRODUCER_ID


class _Append(NamedTuple):
    """A batch in the log that is not replicated yet.

    Attributes:
        number: appends are numbered in the order of the log.
        changes: the records of the batch.
        producer_id: the producer whose transaction the batch belongs to, or ends; -1: it belongs to none.
        commits: for an end marker whether it commits or aborts; None for records.
    """

    number: int
    changes: Sequence[OffsetChange]
    producer_id: int
    commits: bool | None


class ShardOffsets:
    """The committed offsets of one shard's groups.

    Changes take effect in the order of the log when they are committed, whether or not their client had that answer: a
    commit that was answered with a time-out is in the log, and may be replicated later. Those of a transaction take
    effect when the marker that commits it does.

    Args:
        memory: counts what clients have sent with offsets: the ids of groups, and metadata.

    Attributes:
        groups: the replicated offsets by group id; no group without offsets.
        groups_of_topic: the groups with replicated offsets of a topic, so that its deletion touches only these.
        transactional: the replicated offsets of open transactions.
        count: the number of replicated offsets; those of open transactions do not count.
        pending_count: the number of changes that are in the log, and not replicated yet; an end marker is one, too.
        appended: the number of the newest append.
    """

    __slots__ = (
        "_memory",
        "_pending",
        "_pending_of_group",
        "_pending_of_transactions",
        "appended",
        "count",
        "groups",
        "groups_of_topic",
        "pending_count",
        "transactional",
    )

    def __init__(self, memory: GroupMemory | None = None) -> None:
        self._memory = GroupMemory() if memory is None else memory
        self.groups: dict[str, GroupOffsets] = {}
        self.groups_of_topic: dict[str, dict[str, None]] = {}
        self.transactional = TransactionalOffsets(self._memory)
        self.count = 0
        self.appended = 0
        self.pending_count = 0
        self._pending: deque[_Append] = deque()
        self._pending_of_group: Tally[str, tuple[str, int]] = Tally()
        self._pending_of_transactions: Tally[str, tuple[str, int]] = Tally()

    @property
    def total(self) -> int:
        """How many offsets take memory."""
        return self.count + self.pending_count + self.transactional.count

    def has_group(self, group_id: str) -> bool:
        """Return whether a group has replicated offsets, be it of open transactions: as in Kafka, it exists then."""
        return group_id in self.groups or group_id in self.transactional

    def has_groups(self, number: int) -> bool:
        """Return whether at least `number` groups have offsets, counting the offsets of open transactions."""
        transactional = self.transactional
        if len(self.groups) + transactional.group_count < number:
            return False
        return len(self.groups) + sum(each not in self.groups for each in transactional) >= number

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        """Return the replicated offset of a group for a partition, or None."""
        of_topic = self.groups.get(group_id, {}).get(topic)
        return None if of_topic is None else of_topic.get(partition)

    def has(self, group_id: str, topic: str, partition: int) -> bool:
        """Return whether the group has an offset for a partition, or one that waits for something."""
        return (
            self.get(group_id, topic, partition) is not None
            or self.is_pending(group_id, topic, partition)
            or self.transactional.has(group_id, topic, partition)
        )

    def all_of(self, group_id: str, topic: str, partition: int) -> list[CommittedOffset]:
        """Return the replicated offset of a group for a partition, and those that open transactions have written."""
        committed = self.get(group_id, topic, partition)
        written = self.transactional.of(group_id, topic, partition)
        return written if committed is None else [committed, *written]

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Return whether the log has a change of this offset that is not replicated yet."""
        return self._pending_of_group.has(group_id, (topic, partition))

    def is_unstable(self, group_id: str, topic: str, partition: int) -> bool:
        """Return whether the end of a transaction may change this offset; see `unstable_of`."""
        key = topic, partition
        return self._pending_of_transactions.has(group_id, key) or self.transactional.has(group_id, *key)

    def unstable_of(self, group_id: str) -> dict[str, dict[int, None]]:
        """Return, by topic, the partitions whose offset in a group the end of a transaction may change (KIP-447).

        It may as soon as the transaction's record is in the log, and until the marker is replicated.
        """
        found: dict[str, dict[int, None]] = {}
        for topic, partition in chain(
            self.transactional.partitions(group_id), self._pending_of_transactions.of(group_id)
        ):
            found.setdefault(topic, {})[partition] = None
        return found

    def knows(self, group_id: str) -> bool:
        """Return whether the group has offsets, including offsets that wait for replicas or for a transaction."""
        return group_id in self.groups or group_id in self._pending_of_group or group_id in self.transactional

    def partitions(self, group_id: str) -> list[tuple[str, int]]:
        """Return the topics and partitions with an offset of the group, those that wait for something included."""
        found = {(topic, each): None for topic, offsets in self.groups.get(group_id, {}).items() for each in offsets}
        found.update(dict.fromkeys(self._pending_of_group.of(group_id)))
        found.update(dict.fromkeys(self.transactional.partitions(group_id)))
        return list(found)

    def partitions_of(self, group_id: str, topic: str) -> list[int]:
        """Return the partitions of a topic with a replicated offset of the group, or one of an open transaction."""
        found = dict.fromkeys(self.groups.get(group_id, {}).get(topic, ()))
        found.update((each, None) for name, each in self.transactional.partitions(group_id) if name == topic)
        return list(found)

    def has_topic(self, topic: str) -> bool:
        """Return whether a group has replicated offsets for a topic, be it of open transactions."""
        return topic in self.groups_of_topic or self.transactional.has_topic(topic)

    def groups_with(self, topic: str) -> list[str]:
        """Return the groups with replicated offsets for a topic, or with such of open transactions."""
        return list({**self.groups_of_topic.get(topic, {}), **dict.fromkeys(self.transactional.groups_of(topic))})

    # --- what is appended to the log ---

    def append(self, changes: Sequence[OffsetChange], producer_id: int = NO_PRODUCER_ID) -> int:
        """Note changes that were appended to the log; returns the number of the append, for `committed`.

        Args:
            producer_id: the producer whose transaction they belong to; -1: they belong to none.
        """
        self.pending_count += len(changes)
        for group_id, topic, partition, _ in changes:
            self._pending_of_group.add(group_id, (topic, partition))
            if producer_id != NO_PRODUCER_ID:
                self._pending_of_transactions.add(group_id, (topic, partition))
        return self._append(changes, producer_id, None)

    def append_end(self, producer_id: int, *, commits: bool) -> int:
        """Note that the marker which ends a producer's transaction was appended; returns the number of the append."""
        self.pending_count += 1
        return self._append((), producer_id, commits)

    def _append(self, changes: Sequence[OffsetChange], producer_id: int, commits: bool | None) -> int:
        self.appended += 1
        self._pending.append(_Append(self.appended, changes, producer_id, commits))
        return self.appended

    def committed(self, number: int) -> None:
        """Let the append of this number take effect, with all earlier ones: they are committed."""
        pending = self._pending
        while pending and pending[0].number <= number:
            _, changes, producer_id, commits = pending.popleft()
            if commits is not None:
                self.pending_count -= 1
                self.end(producer_id, commits=commits)
            self.pending_count -= len(changes)
            for change in changes:
                self.apply(change, producer_id)
                self._settled(change, producer_id)

    def _settled(self, change: OffsetChange, producer_id: int) -> None:
        group_id, topic, partition, _ = change
        self._pending_of_group.discard(group_id, (topic, partition))
        if producer_id != NO_PRODUCER_ID:
            self._pending_of_transactions.discard(group_id, (topic, partition))

    # --- what is replicated, or is being loaded; in the order of the log ---

    def apply(self, change: OffsetChange, producer_id: int = NO_PRODUCER_ID) -> None:
        """Make one change, of a producer's transaction or of none."""
        group_id, topic, partition, committed = change
        if committed is None:
            self.remove(group_id, topic, partition)
        elif producer_id != NO_PRODUCER_ID:
            self.transactional.put(producer_id, group_id, topic, partition, committed)
        else:
            if self.transactional.count:
                self.transactional.superseded(group_id, topic, partition)
            self.put(group_id, topic, partition, committed)

    def end(self, producer_id: int, *, commits: bool) -> None:
        """End the transaction of a producer: its offsets take effect, or are forgotten."""
        for group_id, topic, partition, committed in self.transactional.end(producer_id, committed=commits):
            assert committed is not None
            self.put(group_id, topic, partition, committed)

    def put(self, group_id: str, topic: str, partition: int, committed: CommittedOffset) -> None:
        """Keep an offset in place of an earlier one; `transactional` must know that it supersedes others."""
        of_group = self.groups.get(group_id)
        if of_group is None:
            of_group = self.groups[group_id] = {}
            self._memory.change(text_bytes(group_id))
        offsets = of_group.get(topic)
        if offsets is None:
            offsets = of_group[topic] = {}
            self.groups_of_topic.setdefault(topic, {})[group_id] = None
        before = offsets.get(partition)
        if before is None:
            self.count += 1
        elif before.metadata:
            self._memory.change(-text_bytes(before.metadata))
        if committed.metadata:
            self._memory.change(text_bytes(committed.metadata))
        offsets[partition] = committed

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """Drop an offset, if there is one, and those that transactions have written for the partition."""
        if self.transactional.count:
            self.transactional.clear(group_id, topic, partition)
        of_group = self.groups.get(group_id)
        offsets = None if of_group is None else of_group.get(topic)
        if of_group is None or offsets is None:
            return
        removed = offsets.pop(partition, None)
        if removed is None:
            return
        self.count -= 1
        if removed.metadata:
            self._memory.change(-text_bytes(removed.metadata))
        if offsets:
            return
        del of_group[topic]
        groups = self.groups_of_topic[topic]
        del groups[group_id]
        if not groups:
            del self.groups_of_topic[topic]
        if not of_group:
            del self.groups[group_id]
            self._memory.change(-text_bytes(group_id))
