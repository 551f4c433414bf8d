"""The parts of a fetch of a consumer or follower: note a follower's progress, and answer now or later."""

# compiled: docs/compiled.md

from __future__ import annotations

from collections.abc import Callable, Iterable

from purgatorio.broker.causes.kinds import DELETE_RECORDS, FETCH
from purgatorio.broker.causes.purgatories import Purgatories
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import BrokerIncarnation
from purgatorio.broker.replica.alter_partition_manager import AlterPartitionManager
from purgatorio.broker.replica.delayed_delete_records import DelayedDeleteRecords
from purgatorio.broker.replica.events import ReplicaEvents
from purgatorio.broker.replica.fetching.delayed_fetch import DelayedFetch, TakeSteps
from purgatorio.broker.replica.fetching.delayed_remote_fetch import RemoteFetches
from purgatorio.broker.replica.fetching.fetch_context import FetchContext, FetchEntry, FetchParams, PartitionFetch
from purgatorio.broker.replica.fetching.fetch_session import FetchSession
from purgatorio.broker.replica.fetching.reader import ContextReader
from purgatorio.broker.replica.lookup import ReplicaLookup
from purgatorio.broker.replica.observer import ReplicaObserver
from purgatorio.purgatory import Purgatory
from purgatorio.purgatory.clock import Clock

LAGGING_METADATA_WAIT_MS = 20
"""The longest wait of a follower's fetch that lacks assigned partitions: the follower's image may be older."""


class ReplicaFetches:
    """The fetches of `ReplicaManager.fetch`: it notes a follower's progress, answers, or parks the request.

    Args:
        lookup: finds this broker's replicas.
        reader: reads them.
        events: checks the requests that wait for a follower's progress.
        purgatories: those of the broker.
        clock: monotonic time for the lag of followers.
        observer: counts events for metrics.
        in_sync_changes: takes a partition's proposal for its ISR.

    Attributes:
        remote: the fetches that wait for the tier; None: there is no tier.
    """

    remote: RemoteFetches | None = None

    def __init__(
        self,
        lookup: ReplicaLookup,
        reader: ContextReader,
        *,
        events: ReplicaEvents,
        purgatories: Purgatories,
        clock: Clock,
        observer: ReplicaObserver,
        in_sync_changes: AlterPartitionManager,
    ) -> None:
        self._lookup = lookup
        self._reader = reader
        self._events = events
        self._fetch_purgatory: Purgatory[DelayedFetch] = purgatories.of(FETCH)
        self._delete_records_purgatory: Purgatory[DelayedDeleteRecords] = purgatories.of(DELETE_RECORDS)
        self._clock = clock
        self._observer = observer
        self._in_sync_changes = in_sync_changes

    def entries_if_due(self, context: FetchContext) -> list[FetchEntry] | None:
        """Return the response if it is due or the request does not wait; else None."""
        params, reader = context.params, self._reader
        may_wait = params.max_wait_ms > 0 and bool(context.fetches)
        if params.replica_id >= 0:
            reader.look(context)
            if len(context.fetches) < len(reader.assignment_of(params.replica_id)):
                params.max_wait_ms = min(params.max_wait_ms, LAGGING_METADATA_WAIT_MS)
        elif not context.outlives_requests and not params.rack_id and may_wait:
            return reader.read_if_due(context)
        else:
            reader.look(context, arrives=True)
            if params.rack_id:
                reader.look_for_preferred_replicas(context)
        return reader.read(context) if not may_wait or context.is_due else None

    def park(
        self,
        context: FetchContext,
        answer: Callable[[list[FetchEntry] | None], None],
        take_steps: TakeSteps | None = None,
    ) -> None:
        """Let a request wait until its response is due."""

        def finish(entries: list[FetchEntry] | None) -> None:
            if entries is None:
                answer(None)
            else:
                self.finish(context.params, entries, answer)

        operation = DelayedFetch(context, self._reader, finish, self._observer, take_steps)
        context.operation = operation
        if not context.is_watched:
            self._reader.watch(context)
        keys, shown_keys = operation.watch_keys()
        self._fetch_purgatory.try_complete_else_watch(operation, keys, shown_keys=shown_keys)

    def finish(
        self, params: FetchParams, entries: list[FetchEntry], answer: Callable[[list[FetchEntry] | None], None]
    ) -> None:
        """Count the entries of a response, and answer; before, wait for what only the tier has."""
        if not params.remote_parts or self.remote is None:
            self.count(params, entries)
            answer(entries)
            return

        def done() -> None:
            self.count(params, entries)
            answer(entries)

        parts, params.remote_parts = params.remote_parts, ()
        self.remote.park(params, parts, done)

    def note_progress(self, context: FetchContext, named: Iterable[PartitionFetch]) -> None:
        """Note that a follower has all records before its fetch offsets, where these can be read without divergence.

        In a session, a partition that is not named is still at its offset. Noting that again is only of use where it
        may join the ISR, or the leader has forgotten it.
        """
        to_note: dict[PartitionFetch, None] = {}
        if isinstance(context, FetchSession):
            to_note, context.to_note = context.to_note, {}
        for fetch in {**dict.fromkeys(named), **to_note}:
            if self._reader.look_at(context, fetch) and self._note(context.params, fetch):
                to_note[fetch] = None
            else:
                to_note.pop(fetch, None)
        if isinstance(context, FetchSession):
            context.to_note = {**to_note, **context.to_note}

    def _note(self, params: FetchParams, fetch: PartitionFetch) -> bool:
        """Note one partition; returns whether the follower is not in its ISR."""
        incarnation = BrokerIncarnation(params.replica_id, params.replica_epoch)
        request, tp = fetch.request, fetch.tp
        partition = self._lookup.partitions[tp]
        if partition.follower_fetched(
            incarnation, request.fetch_offset, request.log_start_offset, self._clock.now_ms()
        ):
            self._events.high_watermark_moved(tp)
        if self._lookup.racks:  # whether it lacks the high watermark is known now
            fetch.context.marked[fetch] = None
        if self._delete_records_purgatory.num_delayed:
            self._delete_records_purgatory.check_and_complete(tp, "follower fetch")
        if params.replica_id in partition.isr:
            return False
        image = self._lookup.image
        if image is not None and image.is_alive(incarnation):
            proposal = partition.propose_to_add(incarnation)
            if proposal is not None:
                self._in_sync_changes.propose(partition, proposal)
        return True

    def count(self, params: FetchParams, entries: Iterable[FetchEntry]) -> None:
        """Count the entries of a response, and note the high watermarks that a follower is sent."""
        observer = self._observer
        racks = self._lookup.racks
        for fetch, data in entries:
            # The reader gives the parts of the records as a list.
            size_bytes = sum(map(len, data.records)) if data.records else 0  # type: ignore[arg-type]
            if params.replica_id >= 0:
                observer.replicated_out(size_bytes)
                if self._reader.throttle.limit is not None and size_bytes:
                    self._count_throttled(fetch.tp, size_bytes)
                if racks and not data.error_code:  # an error comes without a high watermark
                    self._note_sent(params.replica_id, fetch.tp, data.high_watermark)
            elif data.error_code:
                observer.fetch_failed(fetch.tp)
            else:
                observer.fetched(fetch.tp, size_bytes)

    def _count_throttled(self, tp: TopicPartition, size_bytes: int) -> None:
        """Count what a follower is sent of a partition whose replication is throttled, in sync or not."""
        partition = self._lookup.partitions.get(tp)
        if partition is not None:
            listed = partition.log.config.leader_replication_throttled_replicas
            if self._reader.throttle.is_about(listed, tp.partition):
                self._reader.throttle.record(size_bytes)

    def _note_sent(self, replica_id: int, tp: TopicPartition, high_watermark: int) -> None:
        """Note the high watermark that a follower is sent; only needed if brokers have racks (KIP-392)."""
        partition = self._lookup.partitions.get(tp)
        follower = None if partition is None else partition.followers.get(replica_id)
        if follower is not None:
            follower.last_sent_high_watermark = high_watermark
