"""The delayed operation of fetches of what only the tier has: waits until it is read (KIP-405).

The records in memory were read when the request came, and wait with the rest; so do the watermarks. At the deadline,
remote.fetch.max.wait.ms, the parts that did not come are empty, without an error. Their reads go on, and the consumer's
next fetch joins them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from purgatorio.broker.causes.cause import TierNotListed, TierRead
from purgatorio.broker.causes.kinds import REMOTE_FETCH
from purgatorio.broker.causes.purgatories import Purgatories
from purgatorio.broker.causes.words import MAX_NAMED
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.replica.fetching.fetch_context import FetchParams, RemotePart
from purgatorio.broker.replica.fetching.reader import ReplicaReader
from purgatorio.broker.replica.leaders_answer import LeadersAnswer
from purgatorio.broker.replica.partition import Partition, PartitionError
from purgatorio.broker.replica.tiering import Tiering
from purgatorio.broker.tier.reads import PartRead
from purgatorio.protocol.compression import Buffer
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.fetch import AbortedTransaction
from purgatorio.purgatory import Purgatory


class RemoteFetches:
    """The fetches of one broker that wait for the tier.

    Args:
        reader: says whether a partition may be read still.
        tiering: what the tier has.
        purgatories: those of the broker.
        max_wait_ms: returns remote.fetch.max.wait.ms, which may change.
    """

    def __init__(
        self,
        reader: ReplicaReader,
        tiering: Tiering,
        purgatories: Purgatories,
        *,
        max_wait_ms: Callable[[], int],
    ) -> None:
        self.reader = reader
        self.tiering = tiering
        self._actions = purgatories.actions
        self._purgatory: Purgatory[DelayedRemoteFetch] = purgatories.of(REMOTE_FETCH)
        self._max_wait_ms = max_wait_ms

    def park(self, params: FetchParams, parts: Sequence[RemotePart], done: Callable[[], None]) -> None:
        """Read the parts, and call `done` when they are filled in, or at the deadline."""
        operation = DelayedRemoteFetch(self._max_wait_ms(), params, parts, self, done)
        self._purgatory.try_complete_else_watch(operation, [part.fetch.tp for part in parts])

    def check(self, tp: TopicPartition, cause: str) -> None:
        """Check the fetches that wait for a partition."""
        if self._purgatory.num_delayed:
            with self._actions:
                self._purgatory.check_and_complete(tp, cause)

    def begin(self, part: RemotePart, partition: Partition) -> PartRead | None:
        """Begin the read of a part, or join one; None: it is not known yet what the tier has of the partition.

        Raises:
            PartitionError: the tier does not have the offset, or too many reads wait.
        """
        tp = partition.tp
        read = self.tiering.part_at(partition, part.fetch.request.fetch_offset)
        if read is not None and not read.is_over:
            part.is_joined = bool(read.listeners)
            read.listeners[tp] = partial(self.check, tp, "remote read")
        return read

    def is_there(self, read: PartRead, partition: Partition) -> bool:
        """Return whether the segment of a read is not deleted; otherwise another one has its records."""
        return self.tiering.remote_of(partition).has(read.segment)

    def fill_in(self, params: FetchParams, part: RemotePart, partition: Partition) -> None:
        """Fill in the records of a part that was read, and of those behind it that are in the cache.

        Raises:
            PartitionError: the log was truncated meanwhile, and the segment is another log's; or it is not known which
                transactions were aborted.
        """
        assert part.read is not None, "it was read"
        self.tiering.check_is_of(partition, part.read.segment)
        offset, data = part.fetch.request.fetch_offset, part.data
        runs: list[Buffer] = []
        read: PartRead | None = part.read
        next_offset, left_bytes = offset, part.max_bytes
        while read is not None:
            min_one = part.min_one and not runs
            records, next_offset = read.batches(next_offset, left_bytes, part.end_offset, min_one=min_one)
            if not len(records):
                break
            runs.append(records)
            left_bytes -= len(records)
            if next_offset < read.end_offset:
                break
            self.tiering.read_ahead(partition, next_offset)
            read = self.tiering.kept_part(partition, next_offset) if left_bytes > 0 else None
        data.records = runs
        if params.read_committed:
            data.aborted_transactions = [
                AbortedTransaction(producer_id=producer_id, first_offset=first_offset)
                for first_offset, producer_id in self.tiering.aborted(partition, offset, next_offset)
            ]

    def cause_of(self, part: RemotePart) -> TierRead | TierNotListed:
        """Return what a part waits for."""
        return self.tiering.cause_of(part.fetch.tp, part.read, is_joined=part.is_joined)


class DelayedRemoteFetch(LeadersAnswer):
    """Waits until all parts that only the tier has are read, or cannot be.

    Args:
        delay_ms: remote.fetch.max.wait.ms.
        parts: what is to be read.
        fetches: begins the reads, and fills in what they bring.
        done: called once, when the parts are as they will be answered.
    """

    __slots__ = ("_done", "_fetches", "_params", "_pending")

    def __init__(
        self,
        delay_ms: int,
        params: FetchParams,
        parts: Sequence[RemotePart],
        fetches: RemoteFetches,
        done: Callable[[], None],
    ) -> None:
        super().__init__(delay_ms)
        self.client = params.client
        self._params = params
        self._pending = parts
        self._fetches = fetches
        self._done = done

    def try_complete(self) -> bool:
        """Fill in the parts that are read; complete when none is pending."""
        self._pending = [part for part in self._pending if not self._settle(part)]
        return not self._pending and self.force_complete()

    def _settle(self, part: RemotePart) -> bool:
        """Fill in a part, or its error; returns whether either was possible."""
        fetches = self._fetches
        try:
            partition = fetches.reader.resolve(self._params, part.fetch)
            if part.fetch.request.fetch_offset < partition.log.log_start_offset:  # it was deleted meanwhile
                raise PartitionError(ErrorCode.OFFSET_OUT_OF_RANGE, "the log starts behind it")
            if part.read is None or (part.read.has_failed and not fetches.is_there(part.read, partition)):
                part.read = fetches.begin(part, partition)
            read = part.read
            if read is None or not read.is_over:
                return False
            if read.has_failed:
                fetches.tiering.list_later(partition)
                raise PartitionError(ErrorCode.UNKNOWN_SERVER_ERROR, read.trouble)
            fetches.fill_in(self._params, part, partition)
        except PartitionError as error:
            fetches.reader.refuse(part.fetch, part.data, error.error_code)
        return True

    def causes(self) -> list[TierRead | TierNotListed]:
        """Return the reads that it waits for, the first of them."""
        return [self._fetches.cause_of(part) for part in self._pending[:MAX_NAMED]]

    def on_complete(self) -> None:
        """Answer; what was not read is empty."""
        self._done()

    def on_expiration(self) -> None:
        """Count the expiry."""
        self._fetches.tiering.expired_fetches += 1

    def fail(self, error_code: ErrorCode) -> None:
        """Answer, with this error for what is still pending."""
        for part in self._pending:
            self._fetches.reader.refuse(part.fetch, part.data, error_code)
        self._done()
