"""Events of a broker's replicas, and the requests that they concern.

A share fetch hears of what a consumer's fetch hears of: it acquires records up to the same offsets.

| event | Produce | Fetch |
|---|---|---|
| leader append that advances the high watermark (no other in-sync replica) | yes | yes |
| leader append that does not | | yes: followers read up to the log end offset |
| follower fetch that advances the high watermark | yes | yes |
| any of these, without an advance of the last stable offset | yes | yes, but no consumer under read_committed |
| role or ISR changed, partition removed | yes | yes |
| records deleted on request, by retention or for memory | | yes: followers have to delete them, too |
| records truncated | | yes |
| the high watermark of a follower replica advanced (KAFKA-14334) | | yes |
| this broker's lease ran out, or is held again | | all |

An event marks the partition in each fetch that reads it, and has the parked ones checked. Every entry point of the
replicas runs ``with actions``: checks are made when the outermost call returns, since the completion of one operation
may cause the next event.
"""

# compiled: docs/compiled.md

from __future__ import annotations

from functools import partial
from typing import Any

from purgatorio.broker.causes.kinds import FETCH, PRODUCE, SHARE_FETCH
from purgatorio.broker.causes.purgatories import Purgatories
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.replica.fetching.fetch_context import FetchWatch, PartitionFetch
from purgatorio.broker.replica.fetching.fetch_session import FetchSession
from purgatorio.broker.replica.lookup import ReplicaLookup
from purgatorio.broker.replica.partition import Partition
from purgatorio.purgatory import GroupWatch, LaterChecks, Purgatory, TakeLater


class ReplicaEvents:
    """Completes the waiting requests that an event of a replica concerns.

    Args:
        lookup: finds this broker's replicas.
        purgatories: those of the broker.
        later: takes the steps of checks in later turns of the event loop (see `LaterChecks`).

    Attributes:
        watch: the fetches that wait to hear of partitions.
        share_watch: the share fetches that do.
        remote: the purgatories of what waits for the tier, if there is one.
    """

    def __init__(self, lookup: ReplicaLookup, purgatories: Purgatories, later: TakeLater) -> None:
        self._lookup = lookup
        self._actions = purgatories.actions
        self.remote: list[Purgatory[Any]] = []
        self._produce_purgatory: Purgatory[Any] = purgatories.of(PRODUCE)
        self.watch = FetchWatch.over(purgatories.of(FETCH), later, self._note_level)
        share_fetches: Purgatory[Any] = purgatories.of(SHARE_FETCH)
        self.share_watch: GroupWatch[TopicPartition, Any] = GroupWatch(share_fetches, LaterChecks(share_fetches, later))

    def appended(self, partition: Partition, first_offset: int, *, high_watermark_moved: bool) -> None:
        """Handle an append by this broker as the leader."""
        tp, watch = partition.tp, self.watch
        if high_watermark_moved:
            self._produce_purgatory.check_and_complete(tp, "append")
        watch.followers.check_and_complete(tp, "append")
        if not (watch.consumers.of(tp) or watch.committed.of(tp) or self.share_watch.of(tp)):
            return
        # A new segment is enough to read for a consumer that waits at the end of the one before.
        is_new_segment = partition.log.active_segment_start_offset == first_offset
        if high_watermark_moved or is_new_segment:
            watch.consumers.check_and_complete(tp, "append")
            self._check_stable(partition, "append", first_offset if is_new_segment else None)
            self.share_watch.check_and_complete(tp, "append")

    def high_watermark_moved(self, tp: TopicPartition, cause: str = "high watermark") -> None:
        """Handle an advance of the high watermark."""
        self._produce_purgatory.check_and_complete(tp, cause)
        watch = self.watch
        if self._lookup.racks:
            watch.followers.check_and_complete(tp, cause)
        else:  # the followers learn it with their next response; no consumer waits for that
            for fetch in watch.followers.of(tp):
                if isinstance(fetch.context, FetchSession):
                    fetch.context.with_news[fetch] = None
        watch.consumers.check_and_complete(tp, cause)
        if watch.committed.of(tp) and (partition := self._lookup.partitions.get(tp)) is not None:
            self._check_stable(partition, cause)
        self.share_watch.check_and_complete(tp, cause)

    def _check_stable(self, partition: Partition, cause: str, segment_start_offset: int | None = None) -> None:
        """Check fetches under read_committed if the last stable offset moved, or the segment before it ended.

        They all saw the same last stable offset, since each change of it checks them all.
        """
        tp, stable_offset = partition.tp, partition.last_stable_offset
        fetches = self.watch.committed.of(tp)
        if not fetches:
            return
        ends_segment = segment_start_offset is not None and stable_offset >= segment_start_offset
        if ends_segment or next(iter(fetches)).stable_offset != stable_offset:
            self.watch.committed.check_and_complete(tp, cause)

    def changed(self, tp: TopicPartition, cause: str) -> None:
        """Handle any other change of a partition: role, ISR, log start, truncation, lease."""
        for fetch in self.watch.followers.of(tp):
            if isinstance(fetch.context, FetchSession):
                fetch.context.to_note[fetch] = None
        for watch in self.watch:
            watch.check_and_complete(tp, cause)
        self.share_watch.check_and_complete(tp, cause)

    def log_cut(self, tp: TopicPartition) -> None:
        """Handle that records of a log were deleted or truncated; for calls within the change of the log."""
        if self._actions.depth:
            self._cut(tp)
        else:
            self._actions.add(partial(self._cut, tp))

    def _cut(self, tp: TopicPartition) -> None:
        for purgatory in self.remote:
            purgatory.check_and_complete(tp, "log cut")
        self.changed(tp, "log cut")

    def role_changed(self, tp: TopicPartition, cause: str) -> None:
        """Handle a change of a partition's role or ISR, for producers too, and for what waits for the tier."""
        self._produce_purgatory.check_and_complete(tp, cause)
        for purgatory in self.remote:
            purgatory.check_and_complete(tp, cause)
        self.changed(tp, cause)

    def lease_changed(self, cause: str) -> None:
        """Handle that this broker's lease ran out, or is held again: it answers fetches only while it holds one."""
        for tp in dict.fromkeys((*self.watch.partitions(), *self.share_watch.lists)):
            self.changed(tp, cause)
        for purgatory in self.remote:
            for watched in purgatory.watch_lists(purgatory.watched):
                purgatory.check_and_complete(watched.key, cause)

    def racks_changed(self, broker_id: int) -> None:
        """Handle that consumers may read from a follower now, so that it waits to learn the high watermark."""
        for tp in self.watch.partitions():
            if broker_id in {fetch.context.params.replica_id for fetch in self.watch.followers.of(tp)}:
                self.changed(tp, "rack")

    def _note_level(self, fetch: PartitionFetch) -> None:
        """Note until when a follower was level with this leader, which each request of its session has confirmed."""
        session = fetch.context
        if not isinstance(session, FetchSession) or not session.is_privileged or fetch.available_bytes:
            return
        partition = self._lookup.partitions.get(fetch.tp)
        if partition is not None:
            partition.follower_was_level(session.params.replica_id, fetch.request.fetch_offset, session.used_ms)
