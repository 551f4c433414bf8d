"""Fetches of consumers and followers: note a follower's progress, and answer now or later."""

# compiled: docs/compiled.md

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sized

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.controller import InSyncProposal
from purgatorio.broker.metadata.image import BrokerIncarnation, ClusterImage
from purgatorio.broker.replica.delayed_delete_records import DelayedDeleteRecords
from purgatorio.broker.replica.events import ReplicaEvents
from purgatorio.broker.replica.fetching.context_reader import ContextReader
from purgatorio.broker.replica.fetching.delayed_fetch import DelayedFetch, TakeSteps
from purgatorio.broker.replica.fetching.fetch_context import FetchContext, FetchEntry, FetchParams, PartitionFetch
from purgatorio.broker.replica.fetching.fetch_session import FetchSession
from purgatorio.broker.replica.observer import ReplicaObserver
from purgatorio.broker.replica.partition import Partition
from purgatorio.broker.replica.replication_throttle import ReplicationThrottle
from purgatorio.logger import get_logger
from purgatorio.purgatory import ActionQueue, Purgatory
from purgatorio.purgatory.clock import Clock

logger = get_logger(__name__)

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
        throttle: counts what followers read.
    """

    def __init__(
        self,
        partitions: Mapping[TopicPartition, Partition],
        reader: ContextReader,
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
        throttle: ReplicationThrottle,
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
        self._throttle = throttle

    def fetch(
        self,
        context: FetchContext,
        named: Iterable[PartitionFetch],
        answer: Callable[[list[FetchEntry] | None], None],
    ) -> None:
        """Note a follower's progress, and answer: at once, when `min_bytes` can be read, or at the deadline.

        Args:
            context: the partitions of the request, or of the session that has taken it.
            named: those that the request names.
            answer: receives the response; None if the session took a later request while this one waited.
        """
        params = context.params
        if params.is_follower:
            with self._actions:
                self._note_progress(context, named)
        # The producers that waited for this progress have been answered.
        self._actions.depth += 1  # as `with self._actions`, without its calls
        try:
            entries = self._entries_if_due(context)
            if entries is not None:
                self._count(params, entries)
                answer(entries)
            else:
                self._park(context, answer)
        finally:
            self._actions.leave()

    def fetch_in_steps(
        self, context: FetchContext, answer: Callable[[list[FetchEntry] | None], None], take_steps: TakeSteps
    ) -> None:
        """Answer a consumer's fetch of very many partitions, without a session; see `fetch`.

        Args:
            take_steps: takes the steps, between which the broker does other work.
        """
        take_steps(self._in_steps(context, answer, take_steps))

    def _in_steps(
        self, context: FetchContext, answer: Callable[[list[FetchEntry] | None], None], take_steps: TakeSteps
    ) -> Iterator[None]:
        is_over = True
        try:
            yield
            entries, is_due = yield from self._reader.read_in_steps(context)
            is_over = is_due or context.params.max_wait_ms <= 0
        except Exception:
            logger.exception("a fetch of many partitions failed")
            entries = self._reader.failed(context)
        finally:
            if is_over:
                context.answered()
        with self._actions:
            if is_over:
                self._count(context.params, entries)
                answer(entries)
            else:  # all are marked, and looked at now: if records came meanwhile, all are read again
                self._park(context, answer, take_steps)

    def _entries_if_due(self, context: FetchContext) -> list[FetchEntry] | None:
        """Return the response if it is due or the request does not wait; else None."""
        params, reader = context.params, self._reader
        may_wait = params.max_wait_ms > 0 and bool(context.fetches)
        if params.replica_id >= 0:
            reader.look(context)
            if len(context.fetches) < self._assigned_to(params):
                params.max_wait_ms = min(params.max_wait_ms, LAGGING_METADATA_WAIT_MS)
        elif not context.outlives_requests and not params.rack_id and may_wait:
            return reader.read_if_due(context)
        else:
            reader.look(context, arrives=True)
            if params.rack_id:
                reader.look_for_preferred_replicas(context)
        return reader.read(context) if not may_wait or context.is_due else None

    def _park(
        self,
        context: FetchContext,
        answer: Callable[[list[FetchEntry] | None], None],
        take_steps: TakeSteps | None = None,
    ) -> None:
        def count_and_answer(entries: list[FetchEntry] | None) -> None:
            if entries is not None:
                self._count(context.params, entries)
            answer(entries)

        operation = DelayedFetch(context, self._reader, count_and_answer, self._observer.fetch_expired, take_steps)
        context.operation = operation
        if not context.is_watched:
            self._reader.watch(context)
        keys, shown_keys = operation.watch_keys()
        self._fetch_purgatory.try_complete_else_watch(operation, keys, shown_keys=shown_keys)

    def forget(self, fetches: Iterable[PartitionFetch]) -> None:
        """Let no event mark these partitions any more: their session has forgotten them."""
        self._reader.forget(fetches)

    def end_session(self, session: FetchSession) -> None:
        """Answer the request of a session that has ended, if one waits, and let no event mark its partitions."""
        with self._actions:
            if session.operation is not None:
                session.operation.force_complete()
            self._reader.release(session)
            session.end()

    def _assigned_to(self, params: FetchParams) -> int:
        """Return the number of partitions that a follower should fetch from this broker."""
        return len(self._follower_assignments.get(params.replica_id, ()))

    def _note_progress(self, context: FetchContext, named: Iterable[PartitionFetch]) -> None:
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
        partition = self._partitions[tp]
        if partition.follower_fetched(
            incarnation, request.fetch_offset, request.log_start_offset, self._clock.now_ms()
        ):
            self._events.high_watermark_moved(tp)
        if self._racks():  # whether it lacks the high watermark is known now
            fetch.context.marked[fetch] = None
        if self._delete_records_purgatory.num_delayed:
            self._delete_records_purgatory.check_and_complete(tp, "follower fetch")
        if params.replica_id in partition.isr:
            return False
        image = self._image()
        if image is not None and image.is_alive(incarnation):
            proposal = partition.propose_to_add(incarnation)
            if proposal is not None:
                self._propose(partition, proposal)
        return True

    def _count(self, params: FetchParams, entries: Iterable[FetchEntry]) -> None:
        """Count the entries of a response, and note the high watermarks that a follower is sent."""
        observer = self._observer
        racks = self._racks()
        for fetch, data in entries:
            # The reader gives the parts of the records as a list.
            size_bytes = sum(map(len, data.records)) if data.records else 0  # type: ignore[arg-type]
            if params.replica_id >= 0:
                observer.replicated_out(size_bytes)
                if self._throttle.limit is not None and size_bytes:
                    self._count_throttled(fetch.tp, size_bytes)
                if racks and not data.error_code:  # an error comes without a high watermark
                    self._note_sent(params.replica_id, fetch.tp, data.high_watermark)
            elif data.error_code:
                observer.fetch_failed(fetch.tp)
            else:
                observer.fetched(fetch.tp, size_bytes)

    def _count_throttled(self, tp: TopicPartition, size_bytes: int) -> None:
        """Count what a follower is sent of a partition whose replication is throttled, in sync or not."""
        partition = self._partitions.get(tp)
        if partition is not None:
            listed = partition.log.config.leader_replication_throttled_replicas
            if self._throttle.is_about(listed, tp.partition):
                self._throttle.record(size_bytes)

    def _note_sent(self, replica_id: int, tp: TopicPartition, high_watermark: int) -> None:
        """Note the high watermark that a follower is sent; only needed if brokers have racks (KIP-392)."""
        partition = self._partitions.get(tp)
        follower = None if partition is None else partition.followers.get(replica_id)
        if follower is not None:
            follower.last_sent_high_watermark = high_watermark
