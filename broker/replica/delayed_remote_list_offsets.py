"""The delayed operation of ListOffsets: waits until timestamps that may lie in the tier are looked up (KIP-405).

A look-up reads the part of a segment that may have the timestamp, by what the descriptions say. If the record that was
found lies before the log's start, or a producer has overstated a timestamp, the look-up goes on behind it, and at last
in memory. (Apache Kafka stops at the first segment whose maximum fits, and answers -1 for records that exist.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from purgatorio.broker.causes.cause import TierLookUp
from purgatorio.broker.causes.kinds import REMOTE_LIST_OFFSETS
from purgatorio.broker.causes.purgatories import Purgatories
from purgatorio.broker.causes.words import MAX_NAMED
from purgatorio.broker.log.time_index import LookUpBudget, TimestampOffset, find_timestamp_in
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.replica.leaders_answer import LeadersAnswer
from purgatorio.broker.replica.lookup import ReplicaLookup
from purgatorio.broker.replica.partition import Partition, PartitionError
from purgatorio.broker.replica.tiering import Tiering
from purgatorio.broker.tier.reads import PartRead
from purgatorio.broker.tier.segment_file import RemoteSegment
from purgatorio.protocol.errors import ErrorCode
from purgatorio.purgatory import Purgatory

NOT_FOUND = TimestampOffset(-1, -1, -1)


class RemoteLookUp:
    """The look-up of one timestamp in one partition.

    Args:
        partition: the partition, which this broker leads.
        timestamp_ms: the record is the first one whose timestamp is not before.
        end_offset: records behind it are not looked at.
        current_leader_epoch: that of the client; -1: not given.
        answered: called with the record, or the error; once.

    Attributes:
        offset: where the look-up goes on.
        read: what it waits for; None: for the list of what the tier has.
    """

    __slots__ = ("answered", "current_leader_epoch", "end_offset", "offset", "partition", "read", "timestamp_ms")

    def __init__(
        self,
        partition: Partition,
        timestamp_ms: int,
        end_offset: int,
        current_leader_epoch: int,
        answered: Callable[[TimestampOffset, ErrorCode], None],
    ) -> None:
        self.partition = partition
        self.timestamp_ms = timestamp_ms
        self.end_offset = end_offset
        self.current_leader_epoch = current_leader_epoch
        self.answered = answered
        self.offset = partition.log.log_start_offset
        self.read: PartRead | None = None


class RemoteLookUps:
    """The look-ups of one broker that wait for the tier.

    Args:
        lookup: this broker's replicas.
        tiering: what the tier has.
        purgatories: those of the broker.
        timeout_ms: returns remote.list.offsets.request.timeout.ms, which may change.
    """

    def __init__(
        self, lookup: ReplicaLookup, tiering: Tiering, purgatories: Purgatories, timeout_ms: Callable[[], int]
    ) -> None:
        self.lookup = lookup
        self.tiering = tiering
        self._actions = purgatories.actions
        self._purgatory: Purgatory[DelayedRemoteListOffsets] = purgatories.of(REMOTE_LIST_OFFSETS)
        self._timeout_ms = timeout_ms

    def park(self, look_ups: Sequence[RemoteLookUp], timeout_ms: int, done: Callable[[], None], client: str) -> None:
        """Look up, and call `done` when all are answered.

        Args:
            timeout_ms: the longest wait; 0 or less: that of the configuration. Then what is missing is answered
                REQUEST_TIMED_OUT.
        """
        with self._actions:
            operation = DelayedRemoteListOffsets(
                timeout_ms if timeout_ms > 0 else self._timeout_ms(), look_ups, self, done
            )
            operation.client = client
            self._purgatory.try_complete_else_watch(operation, [each.partition.tp for each in look_ups])

    def check(self, tp: TopicPartition, cause: str) -> None:
        """Check the look-ups that wait for a partition."""
        if self._purgatory.num_delayed:
            with self._actions:
                self._purgatory.check_and_complete(tp, cause)

    def go_on(self, look_up: RemoteLookUp) -> TimestampOffset | None:
        """Go on with a look-up; return the record, or `NOT_FOUND`; None: it waits.

        Raises:
            PartitionError: this broker does not lead any more, or a part cannot be read.
        """
        partition, log = look_up.partition, look_up.partition.log
        self.lookup.check_kept(partition)
        partition.check_leader(look_up.current_leader_epoch)
        budget = LookUpBudget()
        while True:
            if look_up.offset < log.log_start_offset:  # what is read may be deleted meanwhile
                look_up.offset, look_up.read = log.log_start_offset, None
            if look_up.offset >= log.local_start_offset:
                return log.offset_for_timestamp(look_up.timestamp_ms, look_up.end_offset, budget) or NOT_FOUND
            read = look_up.read
            if read is None:
                segment = self.tiering.segment_at(partition, look_up.offset)
                if segment is None:
                    return None
                self._begin(look_up, segment)
                continue
            if not read.is_over:
                return None
            if read.data is None:
                if not self.tiering.remote_of(partition).has(read.segment):  # another one has its records
                    look_up.read = None
                    continue
                raise PartitionError(ErrorCode.UNKNOWN_SERVER_ERROR, read.trouble)
            found = find_timestamp_in(read.data, look_up.timestamp_ms, look_up.offset, look_up.end_offset, budget)
            if found is not None:
                return found if found.offset < look_up.end_offset else NOT_FOUND
            look_up.offset, look_up.read = read.segment.end_of_part(read.number), None

    def _begin(self, look_up: RemoteLookUp, segment: RemoteSegment) -> None:
        """Begin the read of the next part that may have the timestamp, or go on behind the segment.

        Raises:
            PartitionError: too many reads wait.
        """
        partition = look_up.partition
        number = max(segment.part_of(look_up.offset), segment.part_since(look_up.timestamp_ms))
        if number == len(segment.parts):
            segments = self.tiering.remote_of(partition).segments  # may be thousands: all that are older in one pass
            look_up.offset = max(segment.end_offset, segments.end_from(look_up.offset, look_up.timestamp_ms))
            return
        read = self.tiering.read(partition, segment, number)
        if not read.is_over:
            read.listeners[(partition.tp, self)] = partial(self.check, partition.tp, "remote read")
        look_up.read = read

    def cause_of(self, look_up: RemoteLookUp) -> TierLookUp:
        """Return what a look-up waits for."""
        log, read = look_up.partition.log, look_up.read
        trouble = self.tiering.trouble if read is None else read.trouble
        tp, location = look_up.partition.tp, self.tiering.store.location
        return TierLookUp(tp, look_up.timestamp_ms, look_up.offset, log.local_start_offset, location, trouble)


class DelayedRemoteListOffsets(LeadersAnswer):
    """Waits until all timestamps of a request are looked up.

    Args:
        delay_ms: the longest wait.
        pending: the look-ups.
        look_ups: goes on with them.
        done: called once, when all are answered.
    """

    __slots__ = ("_done", "_look_ups", "_pending")

    def __init__(
        self, delay_ms: int, pending: Sequence[RemoteLookUp], look_ups: RemoteLookUps, done: Callable[[], None]
    ) -> None:
        super().__init__(delay_ms)
        self._pending = pending
        self._look_ups = look_ups
        self._done = done

    def try_complete(self) -> bool:
        """Answer the look-ups that are done; complete when none is pending."""
        self._pending = [each for each in self._pending if not self._settle(each)]
        return not self._pending and self.force_complete()

    def _settle(self, look_up: RemoteLookUp) -> bool:
        """Answer a look-up if it is done; returns whether it is."""
        try:
            found = self._look_ups.go_on(look_up)
        except PartitionError as error:
            look_up.answered(NOT_FOUND, error.error_code)
            return True
        if found is None:
            return False
        look_up.answered(found, ErrorCode.NONE)
        return True

    def causes(self) -> list[TierLookUp]:
        """Return the look-ups that are pending, the first of them."""
        return [self._look_ups.cause_of(each) for each in self._pending[:MAX_NAMED]]

    def fail(self, error_code: ErrorCode) -> None:
        """Answer, with this error for what is still pending."""
        pending, self._pending = self._pending, ()
        for each in pending:
            each.answered(NOT_FOUND, error_code)
        self._done()

    def on_expiration(self) -> None:
        """Count the expiry."""
        self._look_ups.tiering.expired_look_ups += 1
