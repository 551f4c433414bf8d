"""Events of a broker's replicas, and the requests that they concern.

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

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.purgatory import ActionQueue, Purgatory
from purgatorio.broker.replica.fetching.fetch_context import ParkedFetch, PartitionFetch
from purgatorio.broker.replica.fetching.fetch_session import FetchSession
from purgatorio.broker.replica.fetching.fetch_watch import FetchWatch
from purgatorio.broker.replica.partition import Partition
from purgatorio.broker.replica.producing.delayed_verification import ProduceOperation

WOKEN_PER_TURN: Final = 2_000
"""The most partitions of consumers' fetches, but for those of the last fetch, that one event has read in one turn of
the event loop: some 10 ms. The other fetches are checked in later turns."""


class ReplicaEvents:
    """Tells the requests that an event of a replica concerns.

    Args:
        partitions: this broker's replicas by name.
        watch: the fetches that wait to hear of partitions.
        actions: the queue of events that are handled when the outermost call returns.
        racks: the racks of the live brokers that have one, by broker id.
        produce_purgatory: the purgatory of produce requests.
        fetch_purgatory: the purgatory of fetch requests.
        call_later: the clock's; with 0, a later turn of the event loop.
    """

    def __init__(
        self,
        partitions: Mapping[TopicPartition, Partition],
        watch: FetchWatch,
        *,
        actions: ActionQueue,
        racks: Callable[[], Mapping[int, str]],
        produce_purgatory: Purgatory[ProduceOperation],
        fetch_purgatory: Purgatory[Any],
        call_later: Callable[[int, Callable[[], None]], Any],
    ) -> None:
        self._partitions = partitions
        self._watch = watch
        self._actions = actions
        self._racks = racks
        self._produce_purgatory = produce_purgatory
        self._fetch_purgatory = fetch_purgatory
        self._call_later = call_later
        self._deferred: dict[ParkedFetch, tuple[str, TopicPartition]] = {}

    def appended(self, partition: Partition, first_offset: int, *, high_watermark_moved: bool) -> None:
        """Handle an append by this broker as the leader."""
        tp, watch = partition.tp, self._watch
        if high_watermark_moved:
            self._produce_purgatory.check_and_complete(tp, "append")
        followers = watch.take_followers(tp)
        if followers:  # most appends find none that waits
            self._mark(tp, followers, "append")
        # A new segment is enough to read for a consumer that waits at the end of the one before.
        if watch.has_consumers(tp):
            is_new_segment = partition.log.active_segment_start_offset == first_offset
            if high_watermark_moved or is_new_segment:
                self._mark(tp, watch.take_consumers(tp), "append")
                self._check_stable(partition, "append", first_offset if is_new_segment else None)

    def high_watermark_moved(self, tp: TopicPartition, cause: str = "high watermark") -> None:
        """Handle an advance of the high watermark."""
        self._produce_purgatory.check_and_complete(tp, cause)
        watch = self._watch
        if self._racks():
            self._mark(tp, watch.take_followers(tp), cause)
        else:  # the followers learn it with their next response; no consumer waits for that
            for fetch in watch.followers(tp):
                if isinstance(fetch.context, FetchSession):
                    fetch.context.telling[fetch] = None
        self._mark(tp, watch.take_consumers(tp), cause)
        if watch.has_committed(tp) and (partition := self._partitions.get(tp)) is not None:
            self._check_stable(partition, cause)

    def _check_stable(self, partition: Partition, cause: str, segment_start_offset: int | None = None) -> None:
        """Mark a partition for consumers under read_committed if its last stable offset moved, or its segment ended."""
        tp, stable_offset = partition.tp, partition.last_stable_offset
        ends_segment = segment_start_offset is not None and stable_offset >= segment_start_offset
        self._mark(tp, self._watch.take_committed(tp, unless_at=-1 if ends_segment else stable_offset), cause)

    def changed(self, tp: TopicPartition, cause: str) -> None:
        """Handle any other change of a partition: role, ISR, log start, truncation, lease."""
        watch = self._watch
        followers = watch.take_followers(tp)
        for fetch in followers:
            if isinstance(fetch.context, FetchSession):
                fetch.context.to_note[fetch] = None
        self._mark(tp, followers, cause)
        self._mark(tp, watch.take_consumers(tp), cause)
        self._mark(tp, watch.take_committed(tp), cause)

    def log_cut(self, tp: TopicPartition) -> None:
        """Handle that records of a log were deleted or truncated; for calls within the change of the log."""
        if self._actions.depth:
            self.changed(tp, "log cut")
        else:
            self._actions.add(partial(self.changed, tp, "log cut"))

    def role_changed(self, tp: TopicPartition, cause: str) -> None:
        """Handle a change of a partition's role or ISR, for producers too."""
        self._produce_purgatory.check_and_complete(tp, cause)
        self.changed(tp, cause)

    def lease_changed(self, cause: str) -> None:
        """Handle that this broker's lease ran out, or is held again: it answers fetches only while it holds one."""
        for tp in self._watch.partitions():
            self.changed(tp, cause)

    def racks_changed(self, broker_id: int) -> None:
        """Handle that consumers may read from a follower now, so that it waits to learn the high watermark."""
        for tp in self._watch.partitions():
            if broker_id in {fetch.context.params.replica_id for fetch in self._watch.followers(tp)}:
                self.changed(tp, "rack")

    def _mark(self, tp: TopicPartition, fetches: Iterable[PartitionFetch], cause: str) -> None:
        woken = 0
        for fetch in fetches:
            context = fetch.context
            if isinstance(context, FetchSession) and context.is_privileged:
                self._note_level(fetch, context)
            context.marked[fetch] = None
            operation = context.operation
            if operation is not None:
                if woken < WOKEN_PER_TURN or context.params.replica_id >= 0:
                    woken += 1 + context.size
                    self._fetch_purgatory.check(operation, cause, tp)
                else:
                    self._check_later(operation, cause, tp)

    def _check_later(self, operation: ParkedFetch, cause: str, tp: TopicPartition) -> None:
        """Check a consumer's fetch in a later turn of the event loop: the event has woken many others."""
        if not self._deferred:
            self._call_later(0, self._check_deferred)
        operation.is_deferred = True
        self._deferred.setdefault(operation, (cause, tp))

    def _check_deferred(self) -> None:
        woken = 0
        while self._deferred:
            if woken >= WOKEN_PER_TURN:
                self._call_later(0, self._check_deferred)
                return
            operation = next(iter(self._deferred))
            cause, tp = self._deferred.pop(operation)
            operation.is_deferred = False
            woken += 1 + operation.size
            self._fetch_purgatory.check(operation, cause, tp)

    def _note_level(self, fetch: PartitionFetch, session: FetchSession) -> None:
        """Note until when a follower was level with this leader, which each request of its session has confirmed."""
        partition = self._partitions.get(fetch.tp)
        if partition is not None and not fetch.available_bytes:
            partition.follower_was_level(session.params.replica_id, fetch.request.fetch_offset, session.used_ms)
