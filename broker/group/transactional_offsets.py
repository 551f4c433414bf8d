"""The offsets that open transactions have written to one shard, until their ends (KIP-98)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from purgatorio.broker.group.memory import GroupMemory, text_bytes
from purgatorio.broker.group.offsets import CommittedOffset, OffsetChange, Tally

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
        """Return what each transaction has written for the partition of the group."""
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
        """Forget what was written for a partition of a group: a tombstone has followed."""
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
