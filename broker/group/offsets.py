"""The committed offsets of one shard: those that clients see, and those that wait for replicas or for transactions."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Generic, NamedTuple, TypeVar

from purgatorio.broker.group.memory import GroupMemory, text_bytes
from purgatorio.protocol.consumer_offsets import NO_EXPIRY
from purgatorio.protocol.primitives import ZERO_UUID
from purgatorio.protocol.records import NO_PRODUCER_ID

A = TypeVar("A", bound=Hashable)

B = TypeVar("B", bound=Hashable)


class CommittedOffset(NamedTuple):
    """The offset that a group has committed for one partition.

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
"""The committed offsets of one group, by topic, then by partition; only replicated ones."""


class OffsetChange(NamedTuple):
    """A committed offset as a record of it says; None: it is deleted."""

    group_id: str
    topic: str
    partition: int
    committed: CommittedOffset | None


class Tally(Generic[A, B]):
    """How many of each pair there are; a pair without any takes no memory."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[A, dict[B, int]] = {}

    def add(self, first: A, second: B) -> None:
        """Increment a pair's count."""
        counts = self._counts.get(first)
        if counts is None:
            counts = self._counts[first] = {}
        counts[second] = counts.get(second, 0) + 1

    def discard(self, first: A, second: B) -> None:
        """Decrement a pair's count, which is at least one."""
        counts = self._counts[first]
        if counts[second] > 1:
            counts[second] -= 1
            return
        del counts[second]
        if not counts:
            del self._counts[first]

    def has(self, first: A, second: B) -> bool:
        """Return whether there is such a pair."""
        return second in self._counts.get(first, ())

    def __contains__(self, first: A) -> bool:
        """Whether there is a pair with this first half."""
        return first in self._counts

    def of(self, first: A) -> Iterable[B]:
        """The second halves of the pairs with this first half, in the order in which they came."""
        return self._counts.get(first, ())


TopicAndPartition = tuple[str, int]


class _Awaited:
    """The offsets that transactions have written for one partition of a group.

    Attributes:
        by_producer: by producer id, the order and the offset of what its transaction wrote last.
        settled: the order of the newest record that took effect meanwhile; 0 if none has.
    """

    __slots__ = ("by_producer", "settled")

    def __init__(self) -> None:
        self.by_producer: dict[int, tuple[int, CommittedOffset]] = {}
        self.settled = 0


class TransactionalOffsets:
    """The offsets of open transactions, by producer id: a producer has one transaction at a time.

    Of the records for a partition of a group the one with the highest offset in the log wins, whichever transaction
    ends last (KAFKA-14505): compaction keeps that one, so a replay must not find another. The calls follow the order of
    the log.

    Args:
        memory: counts what clients have sent with offsets.

    Attributes:
        count: how many offsets there are.
    """

    __slots__ = ("_awaited", "_groups_of_topic", "_keys_of", "_memory", "_order", "count")

    def __init__(self, memory: GroupMemory | None = None) -> None:
        self.count = 0
        self._memory = GroupMemory() if memory is None else memory
        self._order = 0
        self._awaited: dict[str, dict[TopicAndPartition, _Awaited]] = {}
        self._groups_of_topic: Tally[str, str] = Tally()
        self._keys_of: dict[int, dict[tuple[str, TopicAndPartition], None]] = {}

    def __contains__(self, group_id: str) -> bool:
        """Whether a transaction has written offsets of the group."""
        return group_id in self._awaited

    def __iter__(self) -> Iterator[str]:
        """The groups with such offsets."""
        return iter(self._awaited)

    @property
    def group_count(self) -> int:
        """How many groups have such offsets."""
        return len(self._awaited)

    def has(self, group_id: str, topic: str, partition: int) -> bool:
        """Return whether a transaction has written an offset of the group for the partition."""
        return (topic, partition) in self._awaited.get(group_id, ())

    def partitions(self, group_id: str) -> Iterable[TopicAndPartition]:
        """The topics and partitions for which transactions have written offsets of the group."""
        return self._awaited.get(group_id, ())

    def has_topic(self, topic: str) -> bool:
        """Return whether a group has such offsets for the topic."""
        return topic in self._groups_of_topic

    def groups_of(self, topic: str) -> Iterable[str]:
        """The groups with such offsets for the topic."""
        return self._groups_of_topic.of(topic)

    def of(self, group_id: str, topic: str, partition: int) -> list[CommittedOffset]:
        """Return the offset that each transaction has written for the partition of the group."""
        awaited = self._awaited.get(group_id, {}).get((topic, partition))
        return [] if awaited is None else [committed for _, committed in awaited.by_producer.values()]

    def with_more(self, producer_id: int, group_id: str, partitions: Sequence[TopicAndPartition]) -> int:
        """Return how many offsets a producer's transaction has when it has written these too."""
        keys = self._keys_of.get(producer_id, {})
        return len(keys) + sum((group_id, key) not in keys for key in partitions)

    # --- records, in the order of the log ---

    def put(self, producer_id: int, group_id: str, topic: str, partition: int, committed: CommittedOffset) -> None:
        """Keep an offset until the transaction of its producer ends."""
        of_group = self._awaited.get(group_id)
        if of_group is None:
            of_group = self._awaited[group_id] = {}
            self._memory.change(text_bytes(group_id))
        key = topic, partition
        awaited = of_group.get(key)
        if awaited is None:
            awaited = of_group[key] = _Awaited()
            self._groups_of_topic.add(topic, group_id)
        before = awaited.by_producer.get(producer_id)
        if before is None:
            self.count += 1
            self._keys_of.setdefault(producer_id, {})[group_id, key] = None
        else:
            self._memory.change(-text_bytes(before[1].metadata))
        self._memory.change(text_bytes(committed.metadata))
        self._order += 1
        awaited.by_producer[producer_id] = self._order, committed

    def superseded(self, group_id: str, topic: str, partition: int) -> None:
        """Note that a later record, of no transaction, took effect: the earlier ones never will."""
        awaited = self._awaited.get(group_id, {}).get((topic, partition))
        if awaited is not None:
            awaited.settled = self._order

    def clear(self, group_id: str, topic: str, partition: int) -> None:
        """Forget the offsets that were written for a partition of a group: a tombstone has followed."""
        key = topic, partition
        awaited = self._awaited.get(group_id, {}).get(key)
        for producer_id in [] if awaited is None else list(awaited.by_producer):
            self._drop(producer_id, group_id, key)
            keys = self._keys_of[producer_id]
            del keys[group_id, key]
            if not keys:
                del self._keys_of[producer_id]

    def end(self, producer_id: int, *, committed: bool) -> list[OffsetChange]:
        """Forget the offsets of a producer's transaction, which has ended; returns those that take effect."""
        changes = []
        for group_id, key in self._keys_of.pop(producer_id, ()):
            awaited = self._awaited[group_id][key]
            order, offset = awaited.by_producer[producer_id]
            if committed and order > awaited.settled:
                awaited.settled = order
                changes.append(OffsetChange(group_id, *key, offset))
            self._drop(producer_id, group_id, key)
        return changes

    def _drop(self, producer_id: int, group_id: str, key: TopicAndPartition) -> None:
        """Forget one offset, but for its place among the producer's."""
        of_group = self._awaited[group_id]
        by_producer = of_group[key].by_producer
        _, dropped = by_producer.pop(producer_id)
        self._memory.change(-text_bytes(dropped.metadata))
        self.count -= 1
        if not by_producer:
            del of_group[key]
            self._groups_of_topic.discard(key[0], group_id)
            if not of_group:
                del self._awaited[group_id]
                self._memory.change(-text_bytes(group_id))


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

    # --- appended to the log ---

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

    # --- replicated, or being loaded; in the order of the log ---

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
