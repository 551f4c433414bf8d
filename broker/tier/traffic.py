"""The traffic of one broker with the tier: its quotas (KIP-956), and its counts by topic (KIP-405)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from purgatorio.broker.time.byte_quota import ByteQuota
from purgatorio.broker.time.rates import RateWindow
from purgatorio.purgatory.clock import Clock

UNLIMITED: Final = 2**63 - 1
"""The quota that is none; Kafka's default."""
MAX_TOPICS: Final = 1_000
"""The most topics that have counts of their own; beyond, those of the oldest go."""


class TopicTraffic:
    """Counts of the copies, reads and deletions of one topic.

    A copy or deletion of a segment is one request, a try to read a part of one is, and so is the look of a follower for
    where it begins.
    """

    __slots__ = ("build_errors", "build_requests", "copy_bytes", "copy_errors", "copy_requests", "delete_errors",
                 "delete_requests", "fetch_bytes", "fetch_errors", "fetch_requests")  # fmt: skip

    def __init__(self) -> None:
        self.copy_bytes = self.copy_requests = self.copy_errors = 0
        self.fetch_bytes = self.fetch_requests = self.fetch_errors = 0
        self.delete_requests = self.delete_errors = 0
        self.build_requests = self.build_errors = 0


class TierTraffic:
    """The traffic of one broker.

    Args:
        clock: times the rates.
        copy_window, fetch_window: over which they are measured.

    Attributes:
        copies: the quota of copies (remote.log.manager.copy.max.bytes.per.second).
        reads: the quota of reads (remote.log.manager.fetch.max.bytes.per.second).
        topics: the counts, by the hexadecimal ids of topics.
    """

    def __init__(
        self, clock: Clock, copy_window: RateWindow | None = None, fetch_window: RateWindow | None = None
    ) -> None:
        self.copies = ByteQuota(clock, copy_window)
        self.reads = ByteQuota(clock, fetch_window)
        self._topics: dict[str, TopicTraffic] = {}

    @property
    def topics(self) -> Mapping[str, TopicTraffic]:
        """The counts of all topics."""
        return self._topics

    def limit(self, *, copy: int, fetch: int) -> None:
        """Set both limits, in bytes per second."""
        self.copies.limit = copy if copy < UNLIMITED else None
        self.reads.limit = fetch if fetch < UNLIMITED else None

    def of_folder(self, folder: str) -> TopicTraffic:
        """Return the counts of the topic whose partition has a folder."""
        return self.of_topic(folder.split("/", 2)[1])

    def of_topic(self, topic_id: str) -> TopicTraffic:
        """Return the counts of the topic with a hexadecimal id, new ones if needed."""
        found = self._topics.get(topic_id)
        if found is None:
            if len(self._topics) >= MAX_TOPICS:
                del self._topics[next(iter(self._topics))]
            found = self._topics[topic_id] = TopicTraffic()
        return found
