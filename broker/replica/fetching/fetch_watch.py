"""Which fetches wait to hear of which partition."""

# compiled: docs/compiled.md

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.replica.fetching.fetch_context import PartitionFetch
from purgatorio.purgatory import GroupWatch, LaterChecks, Purgatory

_Watch = GroupWatch[TopicPartition, PartitionFetch]


class FetchWatch(NamedTuple):
    """The watches of the fetch purgatory: an event may concern some kinds of fetches only.

    Attributes:
        followers: fetches of followers, which read up to the log end offset.
        consumers: fetches of consumers, which read up to the high watermark.
        committed: fetches of consumers under read_committed, which read up to the last stable offset.
    """

    followers: _Watch
    consumers: _Watch
    committed: _Watch

    @classmethod
    def over(
        cls,
        purgatory: Purgatory[Any],
        call_later: Callable[[int, Callable[[], None]], Any],
        follower_fetch_woken: Callable[[PartitionFetch], None],
    ) -> FetchWatch:
        """Return the watches of a purgatory; a follower's fetch is never put off, since an in-sync replica is."""
        later = LaterChecks(purgatory, call_later)
        return cls(
            GroupWatch(purgatory, None, follower_fetch_woken),
            GroupWatch(purgatory, later),
            GroupWatch(purgatory, later),
        )

    def add(self, fetch: PartitionFetch) -> None:
        """Wait for the next event of the partition."""
        params = fetch.context.params
        if params.replica_id >= 0:
            self.followers.watch(fetch.tp, fetch)
        else:
            (self.committed if params.read_committed else self.consumers).watch(fetch.tp, fetch)

    def discard(self, fetch: PartitionFetch) -> None:
        """Wait no more."""
        if fetch.context.params.replica_id >= 0:
            self.followers.discard(fetch.tp, fetch)
        else:  # a session may have changed its isolation level
            self.consumers.discard(fetch.tp, fetch)
            self.committed.discard(fetch.tp, fetch)

    def partitions(self) -> list[TopicPartition]:
        """Return all partitions for which fetches wait."""
        return list({**self.followers.lists, **self.consumers.lists, **self.committed.lists})
