"""Which fetches wait to hear of which partition.

A fetch that has heard of an event is taken out, until the partition was looked at again: however many fetches nobody
answers any more (sessions of clients that are gone), an append costs no more than those that wait now.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.replica.fetching.fetch_context import PartitionFetch

_Waiting = dict[TopicPartition, dict[PartitionFetch, None]]


class FetchWatch:
    """The partitions of fetches that were looked at and have had no event since."""

    __slots__ = ("_committed", "_consumers", "_followers")

    def __init__(self) -> None:
        self._followers: _Waiting = {}
        self._consumers: _Waiting = {}
        self._committed: _Waiting = {}  # consumers under read_committed

    def _of(self, fetch: PartitionFetch) -> _Waiting:
        params = fetch.context.params
        if params.replica_id >= 0:
            return self._followers
        return self._committed if params.read_committed else self._consumers

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
        if fetch.context.params.replica_id >= 0:
            _discard(self._followers, fetch)
        else:  # a session may have changed its isolation level
            _discard(self._consumers, fetch)
            _discard(self._committed, fetch)

    def has_consumers(self, tp: TopicPartition) -> bool:
        """Return whether fetches of consumers wait for a partition, under any isolation level."""
        return tp in self._consumers or tp in self._committed

    def followers(self, tp: TopicPartition) -> Iterable[PartitionFetch]:
        """Return the fetches of followers that wait for a partition, and leave them there."""
        return self._followers.get(tp, ())

    def take_followers(self, tp: TopicPartition) -> Collection[PartitionFetch]:
        """Take out the fetches of followers that wait for a partition."""
        return self._followers.pop(tp, ())

    def take_consumers(self, tp: TopicPartition) -> Iterable[PartitionFetch]:
        """Take out the fetches of consumers that wait for a partition, but for those under read_committed."""
        return self._consumers.pop(tp, ())

    def has_committed(self, tp: TopicPartition) -> bool:
        """Return whether fetches of consumers under read_committed wait for a partition."""
        return tp in self._committed

    def take_committed(self, tp: TopicPartition, *, unless_at: int = -1) -> Iterable[PartitionFetch]:
        """Take out the fetches of consumers under read_committed that wait for a partition.

        Args:
            unless_at: leave them there if this is the last stable offset that they saw. They all saw the same one,
                since each change of it takes them out.
        """
        fetches = self._committed.get(tp)
        if fetches is None or next(iter(fetches)).stable_offset == unless_at:
            return ()
        return self._committed.pop(tp)

    def partitions(self) -> list[TopicPartition]:
        """Return all partitions for which fetches wait."""
        return list({**self._followers, **self._consumers, **self._committed})


def _discard(waiting: _Waiting, fetch: PartitionFetch) -> None:
    fetches = waiting.get(fetch.tp)
    if fetches is not None and fetch in fetches:
        del fetches[fetch]
        if not fetches:
            del waiting[fetch.tp]
