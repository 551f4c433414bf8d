"""Which fetches wait to hear of which partition.

A fetch that has heard of an event is taken out, until the partition was looked at again: however many fetches nobody
answers any more (sessions of clients that are gone), an append costs no more than those that wait now.
"""

from __future__ import annotations

from collections.abc import Iterable

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.replica.fetch_context import PartitionFetch

_Waiting = dict[TopicPartition, dict[PartitionFetch, None]]


class FetchWatch:
    """The partitions of fetches that were looked at and have had no event since."""

    __slots__ = ("_consumers", "_followers")

    def __init__(self) -> None:
        self._followers: _Waiting = {}
        self._consumers: _Waiting = {}

    def _of(self, fetch: PartitionFetch) -> _Waiting:
        return self._followers if fetch.context.params.replica_id >= 0 else self._consumers

    def add(self, fetch: PartitionFetch) -> None:
        """Wait for the next event of the partition."""
        waiting = self._of(fetch)
        fetches = waiting.get(fetch.tp)
        if fetches is None:
            waiting[fetch.tp] = {fetch: None}
        else:
            fetches[fetch] = None

    def discard(self, fetch: PartitionFetch) -> None:
        """Wait no more."""
        waiting = self._of(fetch)
        fetches = waiting.get(fetch.tp)
        if fetches is not None and fetch in fetches:
            del fetches[fetch]
            if not fetches:
                del waiting[fetch.tp]

    def has_consumers(self, tp: TopicPartition) -> bool:
        """Return whether fetches of consumers wait for a partition."""
        return tp in self._consumers

    def followers(self, tp: TopicPartition) -> Iterable[PartitionFetch]:
        """Return the fetches of followers that wait for a partition, and leave them there."""
        return self._followers.get(tp, ())

    def take_followers(self, tp: TopicPartition) -> Iterable[PartitionFetch]:
        """Take out the fetches of followers that wait for a partition."""
        return self._followers.pop(tp, ())

    def take_consumers(self, tp: TopicPartition) -> Iterable[PartitionFetch]:
        """Take out the fetches of consumers that wait for a partition."""
        return self._consumers.pop(tp, ())

    def partitions(self) -> list[TopicPartition]:
        """Return all partitions for which fetches wait."""
        return list({**self._followers, **self._consumers})
