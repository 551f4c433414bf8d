"""Counts of one broker's share groups, for its metrics (KIP-1103): plain numbers that a scrape reads.

The numbers of share partitions are kept as sums by group and topic. Each share partition adds what has changed, so that
a scrape does not walk over them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.share.acknowledging import AcknowledgeType, ShareAcknowledgementBatch
from purgatorio.broker.share.acquiring import AcquiredPart
from purgatorio.broker.share.in_flight import RecordsInFlight

MAX_SHARED_TOPICS: Final = 500
"""The most pairs of a group and a topic that are counted apart; clients choose both. Further ones count as `OTHERS`."""
MAX_GROUPS: Final = 500
"""The most groups whose fetches are counted apart; a new one replaces the oldest."""
OTHERS: Final = ("(others)", "(others)")
BUCKETS_MS: Final = (1, 5, 10, 50, 100, 500, 1_000, 5_000, 10_000, 30_000)
"""Upper bounds, inclusive, of times; one more bucket counts longer ones."""
BUCKETS_RECORDS: Final = (1, 10, 50, 100, 500, 1_000, 2_000)
"""The same of numbers of records."""
BUCKETS_PERCENT: Final = (0, 10, 25, 50, 75, 100)
"""The same of shares."""


class ShareObserver(Protocol):
    """Counts requests by topic."""

    def share_fetch_started(self, topics: Iterable[str]) -> None:
        """Count a share fetch from partitions of these topics."""
        ...

    def share_fetch_failed(self, topic: str) -> None:
        """Count a share fetch that was answered with an error for partitions of a topic."""
        ...

    def share_fetched(self, topic: str, size_bytes: int) -> None:
        """Count bytes of record batches that members were sent."""
        ...

    def share_acknowledged(self, topic: str, *, failed: bool) -> None:
        """Count a request that acknowledges records of a topic."""
        ...


class Distribution:
    """How often values of each size occurred.

    Args:
        bounds: the upper bounds, inclusive, of the buckets; one more bucket is for larger values.
    """

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[int]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class TopicCounts:
    """The share partitions of one group and topic that a broker leads, together.

    Attributes:
        partition_count: how many there are.
        record_count: their records in flight.
        batch_count: the batches that these are kept in.
        timed_out_count: the records whose lock ran out.
        acquired: the sizes of the parts in which members acquired records.
    """

    __slots__ = ("acquired", "batch_count", "partition_count", "record_count", "timed_out_count")

    def __init__(self) -> None:
        self.partition_count = self.record_count = self.batch_count = self.timed_out_count = 0
        self.acquired = Distribution(BUCKETS_RECORDS)


class PartitionCounts:
    """The numbers that one share partition has added to the sums.

    Attributes:
        timed_out_count: the records whose lock ran out.
    """

    __slots__ = ("_ended", "_sums", "batch_count", "record_count", "timed_out_count")

    def __init__(self, sums: TopicCounts, ended: Callable[[], None]) -> None:
        self._sums = sums
        self._ended = ended
        self.record_count = self.batch_count = self.timed_out_count = 0
        sums.partition_count += 1

    def look(self, records: RecordsInFlight) -> None:
        """Add what has changed."""
        sums, record_count, batch_count = self._sums, records.record_count, len(records)
        sums.record_count += record_count - self.record_count
        sums.batch_count += batch_count - self.batch_count
        self.record_count, self.batch_count = record_count, batch_count

    def acquired(self, parts: Iterable[AcquiredPart]) -> None:
        """Count the records that a member acquired together."""
        for first_offset, last_offset, _ in parts:
            self._sums.acquired.add(last_offset - first_offset + 1)

    def timed_out(self, record_count: int) -> None:
        """Count records whose lock ran out."""
        self.timed_out_count += record_count
        self._sums.timed_out_count += record_count

    def end(self) -> None:
        """Take all of it away: the share partition is fenced."""
        self.look(RecordsInFlight(0))
        self._sums.partition_count -= 1
        self._ended()


class GroupCounts:
    """The share fetches of a group at one broker.

    Attributes:
        fetch_percent: of the partitions of its session, those that a fetch got records from.
        acquire_ms: how long a fetch that got records had waited for them.
    """

    __slots__ = ("acquire_ms", "fetch_percent")

    def __init__(self) -> None:
        self.fetch_percent = Distribution(BUCKETS_PERCENT)
        self.acquire_ms = Distribution(BUCKETS_MS)


class ShareMetrics:
    """The counters of one broker.

    Args:
        observer: counts by topic.
        now_ms: the clock by which loads and waits are measured.

    Attributes:
        acknowledged: the records that were acknowledged, by type.
        load_ms: how long the states of share partitions took to be read.
        expired_count: the share fetches that expired.
    """

    def __init__(self, observer: ShareObserver, now_ms: Callable[[], int]) -> None:
        self.observer = observer
        self.now_ms = now_ms
        self.acknowledged = dict.fromkeys(AcknowledgeType, 0)
        self.load_ms = Distribution(BUCKETS_MS)
        self.expired_count = 0
        self._topics: dict[tuple[str, str], TopicCounts] = {}
        self._groups: dict[str, GroupCounts] = {}

    @property
    def topics(self) -> Mapping[tuple[str, str], TopicCounts]:
        """The numbers of the share partitions, by group and topic."""
        return self._topics

    @property
    def groups(self) -> Mapping[str, GroupCounts]:
        """The numbers of the groups that have fetched."""
        return self._groups

    def partition(self, group_id: str, topic: str) -> PartitionCounts:
        """Return what counts a new share partition."""
        key = group_id, topic
        if key not in self._topics and len(self._topics) >= MAX_SHARED_TOPICS:
            key = OTHERS
        sums = self._topics.get(key)
        if sums is None:
            sums = self._topics[key] = TopicCounts()

        def ended() -> None:
            if not sums.partition_count:
                self._topics.pop(key, None)

        return PartitionCounts(sums, ended)

    def expired(self) -> None:
        """Count a share fetch that expired."""
        self.expired_count += 1

    def loaded(self, began_ms: int) -> None:
        """Count a state that was read, or could not be."""
        self.load_ms.add(self.now_ms() - began_ms)

    def acquired(self, group_id: str, *, waited_ms: int, partition_count: int, of_count: int) -> None:
        """Count a share fetch that got records, from so many partitions of those of its session."""
        counts = self._groups.get(group_id)
        if counts is None:
            if len(self._groups) >= MAX_GROUPS:
                del self._groups[next(iter(self._groups))]
            counts = self._groups[group_id] = GroupCounts()
        counts.fetch_percent.add(100 * partition_count / of_count)
        counts.acquire_ms.add(waited_ms)

    def acknowledgements(self, tp: TopicPartition, said: Sequence[ShareAcknowledgementBatch], *, failed: bool) -> None:
        """Count what a request said about the records of one partition."""
        self.observer.share_acknowledged(tp.topic, failed=failed)
        if failed:
            return
        for first_offset, last_offset, types in said:
            if len(types) == 1:
                self.acknowledged[AcknowledgeType(types[0])] += last_offset - first_offset + 1
            else:
                for kind in types:
                    self.acknowledged[AcknowledgeType(kind)] += 1
