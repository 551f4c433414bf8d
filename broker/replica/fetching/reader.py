"""Reads partitions for fetch requests: checks, limits, and the number of bytes that can be read.

`ReplicaReader` reads one partition, `ContextReader` all those of a fetch, at the cost of those that changed.
"""

# compiled: docs/compiled.md

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence, Sized
from typing import Final

from purgatorio.broker.causes.cause import OpenTransaction, ReplicationThrottled, TierThrottled
from purgatorio.broker.log.log import Log, LogError
from purgatorio.broker.replica.fetching.fetch_context import (
    FetchContext,
    FetchEntry,
    FetchParams,
    FetchWatch,
    PartitionFetch,
    RemotePart,
)
from purgatorio.broker.replica.fetching.fetch_session import FetchSession
from purgatorio.broker.replica.lookup import NO_HINT, ReplicaLookup
from purgatorio.broker.replica.partition import Partition, PartitionError
from purgatorio.broker.replica.replication_throttle import ReplicationThrottle
from purgatorio.broker.replica.tiering import Tiering
from purgatorio.protocol.columns import Columns
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchPartition,
    LeaderIdAndEpoch,
    PartitionData,
)
from purgatorio.purgatory.clock import Clock

REFUSED: Final = -2
"""The partition cannot be read: an error, or an epoch that diverges."""
ABSENT: Final = -3
"""The partition of a consumer's fetch does not exist, as far as this broker knows."""
ANSWER_NOW: Final = -1
"""The partition can be read, and must be answered at once."""
NOTHING_ASSIGNED: Final[Sized] = ()
"""The assignment of a broker that should fetch nothing from this one."""
NO_LEADER_HINT: Final = LeaderIdAndEpoch()
"""The leader in a response that names none; no response changes it."""
NOT_READ: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
"""The errors of partitions that Kafka does not try to read: their aborted transactions are an empty list there, and
null after other errors."""
MANY_ABORTED: Final = 16
"""From so many aborted transactions on, columns take less time than objects."""
READ_COST: Final = 8
"""The cost of reading a partition in steps (see `LongWork`)."""


class ReplicaReader:
    """Reads this broker's replicas.

    Args:
        lookup: finds the replicas, and names the leaders of other partitions.
        assignments: the partitions that each other broker should fetch from this one; another object when they change.
        clock: its wall time says how long a transaction has been open.
        throttle: of what followers read here.

    Attributes:
        tiering: what the tier has, if there is one.
    """

    def __init__(
        self,
        lookup: ReplicaLookup,
        assignments: Mapping[int, Sized],
        clock: Clock,
        throttle: ReplicationThrottle,
    ) -> None:
        self._lookup = lookup
        self._assignments = assignments
        self._clock = clock
        self.throttle = throttle
        self.tiering: Tiering | None = None

    def assignment_of(self, replica_id: int) -> Sized:
        """Return the partitions that a follower should fetch from here, in an object that is replaced with them."""
        return self._assignments.get(replica_id, NOTHING_ASSIGNED)

    def resolve(self, params: FetchParams, fetch: PartitionFetch) -> Partition:
        """Return the replica to read, if this client or follower may read it in its leader epoch.

        Raises:
            PartitionError: with the error code for the partition.
        """
        if fetch.error_code:
            raise PartitionError(fetch.error_code, f"{fetch.tp} was refused before it was read")
        partition = self._lookup.find(fetch.tp)
        if fetch.topic_id is not None and fetch.topic_id != partition.topic_id:
            raise PartitionError(ErrorCode.INCONSISTENT_TOPIC_ID, f"{fetch.tp} has another topic id")
        epoch = max(fetch.request.current_leader_epoch, -1)  # in other requests than Fetch only -1 is none
        if params.may_read_followers and not partition.is_leader:
            partition.check_follower(epoch)
        else:
            partition.check_leader(epoch)
        if params.replica_id >= 0 and params.replica_id not in partition.followers:
            raise PartitionError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {params.replica_id} holds no replica of {fetch.tp}"
            )
        return partition

    def read(
        self, params: FetchParams, fetch: PartitionFetch, left_bytes: int, *, min_one: bool
    ) -> tuple[PartitionData, int]:
        """Return a partition's entry in the response, and the size of its records in bytes.

        Args:
            params: the parameters of the request.
            fetch: the partition.
            left_bytes: the most bytes to read.
            min_one: read the first batch even if it is larger (KIP-74).

        Records that only the tier has are noted in the parameters, and counted as if they were all that fits.
        """
        request = fetch.request
        if not fetch.error_code and self._lookup.known(fetch.tp) is None:
            return self._error(fetch, self._lookup.why_absent(fetch.tp)), 0  # a client may name thousands: no exception
        try:
            partition = self.resolve(params, fetch)
            log = partition.log
            end_offset = self._end_offset(params, partition, request.fetch_offset)
            data = PartitionData(
                partition_index=request.partition,
                high_watermark=partition.high_watermark,
                last_stable_offset=partition.last_stable_offset,
                log_start_offset=log.log_start_offset,
                aborted_transactions=None,
                records=[],  # not null: librdkafka rejects such a response
            )
            if not partition.is_leader and request.fetch_offset > log.log_end_offset:
                raise _lags(params, partition, request.fetch_offset)
            diverging = self._diverging_epoch(partition, request)
            if diverging is not None:
                data.diverging_epoch = diverging
                return data, 0
            data.preferred_read_replica = self.preferred_replica(params, partition, request.fetch_offset)
            if data.preferred_read_replica >= 0:
                return data, 0
            offset = request.fetch_offset
            if offset < log.local_start_offset and offset >= log.log_start_offset and params.replica_id < 0:
                max_bytes = min(left_bytes, request.partition_max_bytes)
                if max_bytes <= 0 and not min_one:
                    return data, 0
                if self.tiering is not None and self.tiering.withholds(partition, offset):
                    return data, 0
                params.remote_parts += (RemotePart(fetch, data, max_bytes, end_offset, min_one),)
                return data, max_bytes
            read = log.read(
                request.fetch_offset,
                max_bytes=min(left_bytes, request.partition_max_bytes),
                end_offset=end_offset,
                min_one=min_one,
            )
            if params.read_committed and params.replica_id < 0:
                data.aborted_transactions = _aborted_transactions(log, request.fetch_offset, read.next_offset)
        except (PartitionError, LogError) as error:
            return self._error(fetch, error.error_code), 0
        data.records = read.parts
        return data, read.size_bytes

    def may_have_records(self, fetch: PartitionFetch) -> bool:
        """Return whether a consumer can probably read something, at the cost of a look-up."""
        partition = self._lookup.known(fetch.tp)
        return partition is not None and fetch.request.fetch_offset < partition.high_watermark

    def has_preferred_replica(self, params: FetchParams, fetch: PartitionFetch) -> bool:
        """Return whether the consumer should read the partition from another replica, as `read` would answer."""
        try:
            partition = self.resolve(params, fetch)
        except PartitionError:
            return False
        return self.preferred_replica(params, partition, fetch.request.fetch_offset) >= 0

    def may_prefer(self, params: FetchParams) -> bool:
        """Return whether a consumer has a rack in which other brokers live, and this one does not (KIP-392)."""
        rack, racks = params.rack_id, self._lookup.racks
        return bool(rack) and racks.get(self._lookup.broker_id) != rack and rack in racks.values()

    def preferred_replica(self, params: FetchParams, partition: Partition, fetch_offset: int) -> int:
        """Return the preferred read replica: an in-sync follower in the consumer's rack (KIP-392); -1: the leader."""
        if not params.rack_id or params.is_follower or not partition.is_leader:
            return -1
        racks = self._lookup.racks
        if racks.get(partition.broker_id) == params.rack_id:
            return -1
        near = [
            follower
            for follower in partition.followers.values()
            if follower.broker_id in partition.isr
            and racks.get(follower.broker_id) == params.rack_id
            and follower.log_start_offset <= fetch_offset <= follower.log_end_offset
        ]
        return max(near, key=lambda follower: follower.log_end_offset).broker_id if near else -1

    def _waits_for_high_watermark(self, params: FetchParams, partition: Partition) -> bool:
        """Return whether consumers may read from this follower and it lacks the high watermark (KIP-392)."""
        follower = partition.followers.get(params.replica_id)
        if follower is None or params.replica_id not in self._lookup.racks:
            return False
        return follower.last_sent_high_watermark < partition.high_watermark

    def is_withheld(self, params: FetchParams, fetch: PartitionFetch) -> bool:
        """Return whether the throttle keeps the records of a partition from a follower."""
        if self.throttle.limit is None or params.replica_id < 0:
            return False
        partition = self._lookup.known(fetch.tp)
        return partition is not None and self._withholds(params, partition)

    def _withholds(self, params: FetchParams, partition: Partition) -> bool:
        """Return whether a follower is to wait: the replica is listed, it is not in sync, and the rate is exceeded."""
        listed = partition.log.config.leader_replication_throttled_replicas
        return (
            self.throttle.is_about(listed, partition.tp.partition)
            and params.replica_id not in partition.isr
            and self.throttle.is_over()
        )

    def _end_offset(self, params: FetchParams, partition: Partition, fetch_offset: int) -> int:
        """Return the end offset of the read: the log end for followers, committed records for consumers.

        A follower that is throttled (KIP-73, KAFKA-4313) reads nothing.
        """
        if params.replica_id >= 0:
            if self.throttle.limit is not None and self._withholds(params, partition):
                return fetch_offset
            return partition.log.log_end_offset
        if params.read_committed:
            return partition.last_stable_offset
        return partition.high_watermark

    @staticmethod
    def _diverging_epoch(partition: Partition, request: FetchPartition) -> EpochEndOffset | None:
        """Return where the follower's log diverges from this one; None if it does not (KIP-595).

        Raises:
            PartitionError: OFFSET_OUT_OF_RANGE if this log does not know the last fetched epoch.
        """
        if request.last_fetched_epoch < 0:
            return None
        epoch, end_offset = partition.log.end_offset_for_epoch(request.last_fetched_epoch)
        if end_offset < 0:
            raise PartitionError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{partition.tp} knows nothing of leader epoch {request.last_fetched_epoch}",
            )
        if epoch == request.last_fetched_epoch and end_offset >= request.fetch_offset:
            return None
        return EpochEndOffset(epoch=epoch, end_offset=end_offset)

    def _error(self, fetch: PartitionFetch, error_code: ErrorCode) -> PartitionData:
        hint = self._lookup.hint(fetch.tp, error_code)
        leader = NO_LEADER_HINT
        if hint is not NO_HINT:
            leader = LeaderIdAndEpoch(leader_id=hint.leader_id, leader_epoch=hint.leader_epoch)
        return PartitionData(
            partition_index=fetch.request.partition,
            error_code=error_code,
            high_watermark=-1,
            last_stable_offset=-1,
            log_start_offset=-1,
            current_leader=leader,
            aborted_transactions=() if error_code in NOT_READ else None,
            records=[],
        )

    def refuse(self, fetch: PartitionFetch, data: PartitionData, error_code: ErrorCode) -> None:
        """Make an entry one of a partition that cannot be read."""
        error = self._error(fetch, error_code)
        for name in ("error_code", "high_watermark", "last_stable_offset", "log_start_offset", "current_leader"):
            setattr(data, name, getattr(error, name))
        data.aborted_transactions, data.records = error.aborted_transactions, error.records

    def failed(self, fetch: PartitionFetch) -> PartitionData:
        """Return the entry of a partition after an unexpected error."""
        return self._error(fetch, ErrorCode.UNKNOWN_SERVER_ERROR)

    def look(self, params: FetchParams, fetch: PartitionFetch) -> int:
        """Return the number of bytes that can be read from a partition, `ANSWER_NOW`, `REFUSED` or `ABSENT`.

        It must be answered at once when the follower lacks the current log start offset or high watermark, or the fetch
        offset lies on an older segment than the end (there is enough to read then). It is refused when `read` would
        answer with an error, or its epoch diverges.
        """
        try:
            partition = self.resolve(params, fetch)
            if self._diverging_epoch(partition, fetch.request) is not None:
                return REFUSED
        except PartitionError as error:
            return ABSENT if params.replica_id < 0 and error.error_code in NOT_READ else REFUSED
        request, log = fetch.request, partition.log
        offset = request.fetch_offset
        start_offset = log.log_start_offset
        if not start_offset <= offset <= log.log_end_offset:
            return REFUSED
        is_follower = params.replica_id >= 0
        if offset < log.local_start_offset:  # the tier has it, and a follower goes by the error
            if is_follower:
                return REFUSED
            return 0 if self.tiering is not None and self.tiering.withholds(partition, offset) else ANSWER_NOW
        if is_follower and (
            request.log_start_offset < start_offset != fetch.log_start_offset
            or self._waits_for_high_watermark(params, partition)
        ):
            return ANSWER_NOW
        end_offset = self._end_offset(params, partition, offset)
        if params.read_committed:
            fetch.stable_offset = end_offset
        if offset >= end_offset:
            return 0
        if log.is_on_older_segment(offset, end_offset):
            return ANSWER_NOW
        return min(log.size_between(offset, end_offset), request.partition_max_bytes)

    def held_back_by(
        self, params: FetchParams, fetch: PartitionFetch
    ) -> OpenTransaction | ReplicationThrottled | TierThrottled | None:
        """Return the transaction behind which a consumer under read_committed cannot read, or the throttle."""
        partition = self._lookup.known(fetch.tp)
        if self.is_withheld(params, fetch):
            return ReplicationThrottled(fetch.tp, self.throttle.per_second(), self.throttle.limit or 0)
        if params.is_follower or partition is None:
            return None
        if self.tiering is not None and fetch.request.fetch_offset < partition.log.local_start_offset:
            return self.tiering.quota_cause(fetch.tp)
        if not params.read_committed:
            return None
        return self.open_transaction(partition)

    def open_transaction(self, partition: Partition) -> OpenTransaction | None:
        """Return the transaction that keeps the last stable offset below the high watermark; None: none does."""
        stable_offset = partition.last_stable_offset
        producers = partition.log.producers
        oldest = producers.oldest_unstable()
        if stable_offset == partition.high_watermark or oldest is None:
            return None
        producer_id, started_ms = oldest
        state = producers.get(producer_id)
        transactional_id = "" if state is None else state.transactional_id
        open_ms = None if started_ms < 0 else max(0, self._clock.wall_ms() - started_ms)
        return OpenTransaction(partition.tp, transactional_id, producer_id, stable_offset, open_ms)


class ContextReader:
    """Looks at the partitions of fetches, and reads them.

    Args:
        reader: looks at one partition, and reads it.
        watch: gets the partitions that were looked at, to hear of their next event.

    Attributes:
        assignment_of, held_back_by, throttle: see `ReplicaReader`.
    """

    def __init__(self, reader: ReplicaReader, watch: FetchWatch) -> None:
        self._reader = reader
        self._watch = watch
        self.assignment_of = reader.assignment_of
        self.held_back_by = reader.held_back_by
        self.throttle = reader.throttle

    def look(self, context: FetchContext, *, arrives: bool = False) -> None:
        """Look at the marked partitions; of a full response only until it is due, since it reads all anyway.

        Args:
            arrives: the request has just come, so that partitions which do not exist do not end its wait.
        """
        for fetch in list(context.marked):
            self.look_at(context, fetch, arrives=arrives)
            if context.is_full and context.is_due:
                return

    def look_at(self, context: FetchContext, fetch: PartitionFetch, *, arrives: bool = False) -> bool:
        """Look at one partition; returns False if it cannot be read. See `look`."""
        context.marked.pop(fetch, None)
        standing = self._reader.look(context.params, fetch)
        if standing < 0:
            if standing == ABSENT and (arrives or fetch in context.absent):
                context.found_absent(fetch)
                return False
            context.looked_at(fetch, None)
            return standing == ANSWER_NOW
        context.looked_at(fetch, standing)
        if context.is_watched:
            self._watch.add(fetch)
        return True

    def look_for_preferred_replicas(self, context: FetchContext) -> None:
        """Note the partitions that a consumer should read from a replica in its rack (KIP-392).

        Followers move all the time, so this looks at all partitions; but only for consumers whose rack has a broker.
        """
        if self._reader.may_prefer(context.params):
            for fetch in context.fetches:
                if self._reader.has_preferred_replica(context.params, fetch):
                    context.looked_at(fetch, None)

    def is_due(self, context: FetchContext) -> bool:
        """Return whether the response is due, by a look at every partition: what the marks should have led to."""
        available_bytes = 0
        for fetch in context.fetches:
            standing = self._reader.look(context.params, fetch)
            if standing == ABSENT and fetch in context.absent:
                continue
            if standing < 0:
                return True
            available_bytes += standing
        return available_bytes >= context.params.min_bytes

    def read(self, context: FetchContext) -> list[FetchEntry]:
        """Read the response within the request's limits; the first batch may be larger than the limits (KIP-74)."""
        if not context.is_full:
            self.look(context)
        entries, _ = self._read(context)
        context.answered()
        return entries

    def read_if_due(self, context: FetchContext) -> list[FetchEntry] | None:
        """Return a response that lists all partitions if it is due, else None.

        A response of which the first partition has something to read is probably due, and read without a look.
        """
        if self._reader.may_have_records(next(iter(context.fetches))):
            entries, size_bytes = self._read(context)
            is_enough = size_bytes >= context.params.min_bytes or context.params.remote_parts
            if is_enough or any(_is_urgent(data) for _, data in entries):
                context.answered()
                return entries
        self.look(context, arrives=True)
        return self.read(context) if context.is_due else None

    def read_in_steps(self, context: FetchContext) -> Generator[int, None, tuple[list[FetchEntry], bool]]:
        """Read a response without a session as `read` does, in steps, between which other work can be done.

        Returns:
            The response, and whether it is due.
        """
        params = context.params
        params.remote_parts = ()
        left_bytes, size_bytes, is_urgent = params.max_bytes, 0, False
        entries: list[FetchEntry] = []
        for fetch in context.fetches:
            data, part_bytes = self._reader.read(params, fetch, left_bytes, min_one=size_bytes == 0)
            size_bytes += part_bytes
            left_bytes = max(0, left_bytes - part_bytes)
            is_urgent = is_urgent or _is_urgent(data)
            if data.error_code in NOT_READ:
                context.absent[fetch] = None
            entries.append((fetch, data))
            yield READ_COST
        is_due = is_urgent or size_bytes >= params.min_bytes or len(context.absent) == len(entries)
        is_due = is_due or bool(params.remote_parts)
        return entries, is_due

    def _read(self, context: FetchContext) -> tuple[list[FetchEntry], int]:
        """Return the response, and the size of its records in bytes."""
        params = context.params
        if params.remote_parts:
            params.remote_parts = ()  # those of an earlier try
        session = context if isinstance(context, FetchSession) else None
        left_bytes = params.max_bytes
        size_bytes = 0
        entries: list[FetchEntry] = []
        for fetch in context.worth_reading:
            data, part_bytes = self._reader.read(params, fetch, left_bytes, min_one=size_bytes == 0)
            size_bytes += part_bytes
            left_bytes = max(0, left_bytes - part_bytes)
            if session is None or session.note_answer(fetch, data, part_bytes):
                entries.append((fetch, data))
        return entries, size_bytes

    def watch(self, context: FetchContext) -> None:
        """Let events mark the partitions from now on. All were looked at, with no event since."""
        context.is_watched = True
        for fetch in context.fetches:
            self._watch.add(fetch)

    def release(self, context: FetchContext) -> None:
        """Let no event mark the partitions any more."""
        context.is_watched = False
        self.forget(context.fetches)

    def forget(self, fetches: Iterable[PartitionFetch]) -> None:
        """Let no event mark these partitions any more."""
        for fetch in fetches:
            self._watch.discard(fetch)

    def failed(self, context: FetchContext) -> list[FetchEntry]:
        """Return the response after an unexpected error."""
        return [(fetch, self._reader.failed(fetch)) for fetch in context.fetches]


def _aborted_transactions(log: Log, start_offset: int, end_offset: int) -> Sequence[AbortedTransaction]:
    """Return the aborted transactions with a part in [start, end), by first offsets: thousands, if all are short."""
    first_offsets, producer_ids = log.aborted_transactions(start_offset, end_offset)
    if len(first_offsets) < MANY_ABORTED:
        return [
            AbortedTransaction(producer_id=producer_id, first_offset=first_offset)
            for first_offset, producer_id in zip(first_offsets, producer_ids, strict=True)
        ]
    return Columns(AbortedTransaction, producer_id=producer_ids, first_offset=first_offsets)


def _lags(params: FetchParams, partition: Partition, fetch_offset: int) -> PartitionError:
    """Return the error for a consumer's offset beyond the end of this follower, which lags or came back empty.

    The leader may have that offset. OFFSET_OUT_OF_RANGE would send the consumer back to its reset position. A consumer
    without a rack was not sent to this follower: its metadata is old, and NOT_LEADER_OR_FOLLOWER makes it ask again
    (aiokafka 0.14 does so with no other error). One with a rack returns to the leader on OFFSET_NOT_AVAILABLE.
    """
    code = ErrorCode.OFFSET_NOT_AVAILABLE if params.rack_id else ErrorCode.NOT_LEADER_OR_FOLLOWER
    return PartitionError(code, f"{partition.tp} ends at {partition.log.log_end_offset} here, before {fetch_offset}")


def _is_urgent(data: PartitionData) -> bool:
    """Return whether an entry must be answered at once."""
    if data.error_code:
        return data.error_code not in NOT_READ
    return data.diverging_epoch.end_offset >= 0 or data.preferred_read_replica >= 0
