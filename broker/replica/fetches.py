"""Fetches of consumers and followers: read, note a follower's progress, and answer now or later."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Sized
from typing import cast

from purgatorio.broker.clock import Clock
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.controller import InSyncProposal
from purgatorio.broker.metadata.image import BrokerIncarnation, ClusterImage
from purgatorio.broker.purgatory import ActionQueue, Purgatory
from purgatorio.broker.replica.delayed_delete_records import DelayedDeleteRecords
from purgatorio.broker.replica.delayed_fetch import DelayedFetch
from purgatorio.broker.replica.events import ReplicaEvents
from purgatorio.broker.replica.observer import ReplicaObserver
from purgatorio.broker.replica.partition import Partition
from purgatorio.broker.replica.reader import FetchParams, PartitionFetch, ReplicaReader
from purgatorio.protocol.messages.fetch import PartitionData

LAGGING_METADATA_WAIT_MS = 20
"""The longest wait of a follower's fetch that lacks assigned partitions: the follower's image may be older."""


class ReplicaFetches:
    """Answers the fetches that reach this broker.

    Args:
        partitions: this broker's replicas by name.
        reader: reads them.
        follower_assignments: the partitions that each follower should fetch from this broker.
        racks: the racks of the live brokers that have one, by broker id.
        image: the image that this broker applied last; None until it is registered.
        clock: monotonic time for the lag of followers.
        actions: the queue of events that are handled when the outermost call returns.
        events: checks the requests that wait for a follower's progress.
        fetch_purgatory: the purgatory of fetch requests.
        delete_records_purgatory: the purgatory of requests to delete records.
        observer: counts events for metrics.
        propose: submits a partition's proposal for its ISR.
    """

    def __init__(
        self,
        partitions: Mapping[TopicPartition, Partition],
        reader: ReplicaReader,
        *,
        follower_assignments: Mapping[int, Sized],
        racks: Callable[[], Mapping[int, str]],
        image: Callable[[], ClusterImage | None],
        clock: Clock,
        actions: ActionQueue,
        events: ReplicaEvents,
        fetch_purgatory: Purgatory[DelayedFetch],
        delete_records_purgatory: Purgatory[DelayedDeleteRecords],
        observer: ReplicaObserver,
        propose: Callable[[Partition, InSyncProposal], None],
    ) -> None:
        self._partitions = partitions
        self._reader = reader
        self._follower_assignments = follower_assignments
        self._racks = racks
        self._image = image
        self._clock = clock
        self._actions = actions
        self._events = events
        self._fetch_purgatory = fetch_purgatory
        self._delete_records_purgatory = delete_records_purgatory
        self._observer = observer
        self._propose = propose

    def fetch(
        self, params: FetchParams, fetches: list[PartitionFetch], answer: Callable[[list[PartitionData]], None]
    ) -> None:
        """Read, record a follower's progress, and answer: at once, when `min_bytes` can be read, or at the deadline."""
        with self._actions:
            result = self._reader.read_all(params, fetches)
            if params.is_follower:
                incarnation = BrokerIncarnation(params.replica_id, params.replica_epoch)
                self._note_progress(incarnation, fetches, result.partitions)
            answer = self._counting(params, fetches, answer)
            if len(fetches) < self._assigned_to(params):
                params.max_wait_ms = min(params.max_wait_ms, LAGGING_METADATA_WAIT_MS)
            if params.max_wait_ms <= 0 or not fetches or result.answer_now or result.size_bytes >= params.min_bytes:
                answer(result.partitions)
            else:
                operation = DelayedFetch(params, fetches, self._reader, answer, self._observer.fetch_expired)
                self._fetch_purgatory.try_complete_else_watch(operation, operation.watch_keys())

    def _assigned_to(self, params: FetchParams) -> int:
        """Return the number of partitions that a follower should fetch from this broker; 0 for a consumer."""
        return len(self._follower_assignments.get(params.replica_id, ())) if params.is_follower else 0

    def _note_progress(
        self, incarnation: BrokerIncarnation, fetches: Sequence[PartitionFetch], partitions: Sequence[PartitionData]
    ) -> None:
        """Record that a follower has all records before its fetch offset, if the read succeeded without divergence."""
        now_ms = self._clock.now_ms()
        image = self._image()
        may_join = image is not None and image.is_alive(incarnation)
        for fetch, data in zip(fetches, partitions, strict=True):
            if data.error_code or data.diverging_epoch.end_offset >= 0:
                continue
            request, partition = fetch.request, self._partitions[fetch.tp]
            if partition.follower_fetched(incarnation, request.fetch_offset, request.log_start_offset, now_ms):
                self._events.changed(fetch.tp, "high watermark", high_watermark_moved=True)
            if self._delete_records_purgatory.num_delayed:
                self._delete_records_purgatory.check_and_complete(fetch.tp, "follower fetch")
            if may_join and incarnation.broker_id not in partition.isr:
                proposal = partition.propose_to_add(incarnation)
                if proposal is not None:
                    self._propose(partition, proposal)

    def _note_sent(self, replica_id: int, tp: TopicPartition, high_watermark: int) -> None:
        """Record the high watermark that a follower is sent; only needed if brokers have racks (KIP-392)."""
        if self._racks() and (partition := self._partitions.get(tp)) is not None:
            follower = partition.followers.get(replica_id)
            if follower is not None:
                follower.last_sent_high_watermark = high_watermark

    def _counting(
        self,
        params: FetchParams,
        fetches: Sequence[PartitionFetch],
        answer: Callable[[list[PartitionData]], None],
    ) -> Callable[[list[PartitionData]], None]:
        observer = self._observer

        def count_and_answer(partitions: list[PartitionData]) -> None:
            for fetch, data in zip(fetches, partitions, strict=True):
                size_bytes = sum(map(len, cast("list[bytes]", data.records))) if data.records else 0
                if params.is_follower:
                    observer.replicated_out(size_bytes)
                    if not data.error_code:  # an error comes without a high watermark
                        self._note_sent(params.replica_id, fetch.tp, data.high_watermark)
                elif data.error_code:
                    observer.fetch_failed(fetch.tp)
                else:
                    observer.fetched(fetch.tp, size_bytes)
            answer(partitions)

        return count_and_answer
