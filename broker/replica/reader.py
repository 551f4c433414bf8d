"""Reads partitions for fetch requests: the checks, the limits, and how much could be read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from purgatorio.broker.log.log import LogError
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.replica.partition import Partition, PartitionError
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.fetch import EpochEndOffset, FetchPartition, LeaderIdAndEpoch, PartitionData

# Errors whose answer names the current leader, so that a client need not ask for metadata (KIP-951).
_LEADER_ERRORS = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


@dataclass(slots=True)
class FetchParams:
    """What a fetch request asks for as a whole.

    Attributes:
        replica_id: the follower's broker id, or -1 for a consumer.
        replica_epoch: the follower's broker epoch (KIP-903).
        rack_id: where a consumer is that can be sent to another replica (KIP-392); "": it does not say.
        may_read_followers: whether a consumer knows of KIP-392, so that it may be here on purpose.
        max_wait_ms: how long the request may wait; 0 or less: not at all.
        min_bytes: how many bytes are enough, never more than `max_bytes`.
        max_bytes: how many bytes the answer may hold; only its first batch may go past it.
        client: who asks, for observers.
        read_committed: whether the reader stops at the last stable offset rather than the high watermark.
    """

    replica_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    read_committed: bool = False
    replica_epoch: int = -1
    rack_id: str = ""
    may_read_followers: bool = False
    client: str = ""

    @property
    def is_follower(self) -> bool:
        """Whether a broker asks, which may read up to the log end."""
        return self.replica_id >= 0


@dataclass(slots=True)
class PartitionFetch:
    """One partition of a fetch request.

    Attributes:
        topic_id: the topic's id where the request names topics by id, else None.
        error_code: an error that was found before the partition was looked at (an unknown topic id).
    """

    tp: TopicPartition
    topic_id: bytes | None
    request: FetchPartition
    error_code: ErrorCode = ErrorCode.NONE


@dataclass(slots=True)
class FetchResult:
    """What was read.

    Attributes:
        partitions: one entry for each partition asked for, in that order.
        size_bytes: of all records together.
        answer_now: whether a partition has something to say that does not get better by waiting.
    """

    partitions: list[PartitionData]
    size_bytes: int
    answer_now: bool


class ReplicaReader:
    """Reads this broker's replicas.

    Args:
        partitions: the replicas by name.
        follower_assignments: for each other broker, an object that is replaced when the set of partitions that it
            should fetch from this broker changes.
        racks: the racks of the live brokers that have one, by broker id.
    """

    def __init__(
        self,
        partitions: Mapping[TopicPartition, Partition],
        follower_assignments: Mapping[int, object],
        racks: Callable[[], Mapping[int, str]],
    ) -> None:
        self._partitions = partitions
        self._follower_assignments = follower_assignments
        self._racks = racks

    def assignment_of(self, replica_id: int) -> object:
        """Stands for the set of partitions that a follower should fetch; another object once that set changes."""
        return self._follower_assignments.get(replica_id)

    def resolve(self, params: FetchParams, fetch: PartitionFetch) -> Partition:
        """The replica that a fetch means, if it may be read by this reader at this epoch.

        Raises:
            PartitionError: with the code that answers the partition.
        """
        if fetch.error_code:
            raise PartitionError(fetch.error_code, f"{fetch.tp} was refused before it was read")
        partition = self._partitions.get(fetch.tp)
        if partition is None:
            raise PartitionError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{fetch.tp} is not on this broker")
        if fetch.topic_id is not None and fetch.topic_id != partition.topic_id:
            raise PartitionError(ErrorCode.INCONSISTENT_TOPIC_ID, f"{fetch.tp} has another topic id")
        if params.may_read_followers and not partition.is_leader:
            partition.check_follower(fetch.request.current_leader_epoch)
        else:
            partition.check_leader(fetch.request.current_leader_epoch)
        if params.is_follower and params.replica_id not in partition.followers:
            raise PartitionError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {params.replica_id} holds no replica of {fetch.tp}"
            )
        return partition

    def read_all(self, params: FetchParams, fetches: list[PartitionFetch]) -> FetchResult:
        """Read every partition within the request's limits; the first batch is given whatever its size (KIP-74)."""
        left_bytes = params.max_bytes
        size_bytes = 0
        answer_now = False
        partitions = []
        for fetch in fetches:
            data, part_bytes = self._read(params, fetch, left_bytes, min_one=size_bytes == 0)
            size_bytes += part_bytes
            left_bytes = max(0, left_bytes - part_bytes)
            if data.error_code or data.diverging_epoch.end_offset >= 0 or data.preferred_read_replica >= 0:
                answer_now = True
            partitions.append(data)
        return FetchResult(partitions, size_bytes, answer_now)

    def _read(
        self, params: FetchParams, fetch: PartitionFetch, left_bytes: int, *, min_one: bool
    ) -> tuple[PartitionData, int]:
        request = fetch.request
        try:
            partition = self.resolve(params, fetch)
            log = partition.log
            end_offset = self._end_offset(params, partition)
            data = PartitionData(
                partition_index=request.partition,
                high_watermark=partition.high_watermark,
                last_stable_offset=log.last_stable_offset(partition.high_watermark),
                log_start_offset=log.log_start_offset,
                aborted_transactions=None,
                records=[],  # not null, which librdkafka takes for a broken answer
            )
            diverging = self._diverging_epoch(partition, request)
            if diverging is not None:
                data.diverging_epoch = diverging
                return data, 0
            data.preferred_read_replica = self.preferred_replica(params, partition, request.fetch_offset)
            if data.preferred_read_replica >= 0:
                return data, 0
            read = log.read(
                request.fetch_offset,
                max_bytes=min(left_bytes, request.partition_max_bytes),
                end_offset=end_offset,
                min_one=min_one,
            )
        except (PartitionError, LogError) as error:
            return self._error(fetch, error.error_code), 0
        data.records = read.parts
        return data, read.size_bytes

    def preferred_replica(self, params: FetchParams, partition: Partition, fetch_offset: int) -> int:
        """The in-sync follower in the consumer's own rack that can serve it from there on (KIP-392); -1: stay here."""
        if not params.rack_id or params.is_follower or not partition.is_leader:
            return -1
        racks = self._racks()
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
        """Whether consumers may read from this follower, and it does not know yet how far (KIP-392)."""
        follower = partition.followers.get(params.replica_id)
        if follower is None or params.replica_id not in self._racks():
            return False
        return follower.told_high_watermark < partition.high_watermark

    @staticmethod
    def _end_offset(params: FetchParams, partition: Partition) -> int:
        """Where this reader's view ends: followers see everything, consumers what is committed."""
        if params.is_follower:
            return partition.log.log_end_offset
        if params.read_committed:
            return partition.log.last_stable_offset(partition.high_watermark)
        return partition.high_watermark

    @staticmethod
    def _diverging_epoch(partition: Partition, request: FetchPartition) -> EpochEndOffset | None:
        """Where the reader's log parts from this one, if it does (KIP-595).

        Raises:
            PartitionError: OFFSET_OUT_OF_RANGE, if the reader's epoch is one that this log cannot place.
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
        data = PartitionData(
            partition_index=fetch.request.partition,
            error_code=error_code,
            high_watermark=-1,
            last_stable_offset=-1,
            log_start_offset=-1,
            aborted_transactions=None,
            records=[],
        )
        partition = self._partitions.get(fetch.tp)
        # A leader whose lease ran out knows of no other one.
        fenced = partition is not None and partition.is_leader and error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        if partition is not None and error_code in _LEADER_ERRORS and not fenced:
            data.current_leader = LeaderIdAndEpoch(leader_id=partition.leader, leader_epoch=partition.leader_epoch)
        return data

    def failed(self, fetch: PartitionFetch) -> PartitionData:
        """The answer for a partition whose reading failed for a reason of the broker's own."""
        return self._error(fetch, ErrorCode.UNKNOWN_SERVER_ERROR)

    def available_bytes(self, params: FetchParams, fetch: PartitionFetch) -> int | None:
        """How many bytes could be read of a partition, or None if it must be answered at once.

        It must be: when it cannot be read any more, when its log was truncated below the fetch offset, when it
        diverges, when a follower is to learn that the log begins later now or that more is committed, or when the
        fetch offset lies on an older segment than the end (there is plenty to read).
        """
        try:
            partition = self.resolve(params, fetch)
            if self._diverging_epoch(partition, fetch.request) is not None:
                return None
        except PartitionError:
            return None
        request, log = fetch.request, partition.log
        offset = request.fetch_offset
        if not log.log_start_offset <= offset <= log.log_end_offset:
            return None
        if params.is_follower and (
            request.log_start_offset < log.log_start_offset or self._waits_for_high_watermark(params, partition)
        ):
            return None
        end_offset = self._end_offset(params, partition)
        if offset >= end_offset:
            return 0
        if log.is_on_older_segment(offset, end_offset):
            return None
        return min(log.size_between(offset, end_offset), request.partition_max_bytes)
