"""The end of a decided transaction: what leaders are told, and the markers that are not written yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, Protocol

from purgatorio.broker.causes.cause import MarkersMissing
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import NO_LEADER
from purgatorio.broker.purgatory.timing_wheel import TimerEntry
from purgatorio.broker.txn.marker_writer import Marker
from purgatorio.protocol.end_marker import EndMarker
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersResponse,
)

BUMPING_VERSION: Final = 2
"""The first transaction.version in which each end of a transaction raises the producer's epoch (KIP-890)."""


class TransactionEnd(NamedTuple):
    """A transaction whose end is decided and replicated; its markers can be written.

    Attributes:
        transactional_id: names the transaction in logs and on the page.
        producer_id, producer_epoch: those of the markers, which fence older epochs.
        coordinator_epoch: the leader epoch of the coordinator's partition.
        partitions: where markers are still to be written.
        version: the transaction.version by which leaders check the epoch: 2 if this epoch is newer than the data's.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    partitions: tuple[TopicPartition, ...]
    version: int


class EndsTransactions(Protocol):
    """Has the leaders of partitions write end markers, over failures of any kind."""

    def end(
        self, end: TransactionEnd, *, written: Callable[[TopicPartition], None], gave_up: Callable[[ErrorCode], None]
    ) -> None:
        """Have each partition's leader append the marker with acks=-1, and retry for ever.

        Partitions that this broker leads may be written before this returns. An earlier end of the same transactional
        id is dropped.

        Args:
            written: called once per partition: the marker is committed there, or the topic does not exist any more.
            gave_up: called at most once, instead of `written` for what is left: a leader knows a newer epoch of the
                producer or the coordinator (INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED).
        """
        ...

    def drop(self, transactional_id: str, coordinator_epoch: int) -> None:
        """Retry no more: this broker does not coordinate the transactional id any more. Calls nothing."""
        ...

    def waits_for(self, transactional_id: str) -> MarkersMissing:
        """Return the first partitions whose markers are missing, with their leaders, for the page."""
        ...


class Ending:
    """A transaction that is being ended.

    Attributes:
        marker: what each leader is to write.
        written, gave_up: the coordinator's, see `EndsTransactions.end`.
        missing: the markers that are not written yet; emptied when the transaction is dropped.
    """

    __slots__ = ("end", "gave_up", "marker", "missing", "written")

    def __init__(
        self, end: TransactionEnd, written: Callable[[TopicPartition], None], gave_up: Callable[[ErrorCode], None]
    ) -> None:
        self.end = end
        self.marker = Marker(
            end.producer_id,
            end.producer_epoch,
            EndMarker(end.committed, end.coordinator_epoch),
            is_bumped=end.version >= BUMPING_VERSION,
        )
        self.written = written
        self.gave_up = gave_up
        self.missing: dict[TopicPartition, MissingMarker] = {}


class MissingMarker:
    """A marker of one partition.

    Attributes:
        sent_to: the broker to which it is on its way, or NO_LEADER while it waits for the next try.
        attempt: grows with each way, so that the result of an earlier one is told from that of the last.
    """

    __slots__ = ("attempt", "ending", "sent_to", "tp")

    def __init__(self, ending: Ending, tp: TopicPartition) -> None:
        self.ending = ending
        self.tp = tp
        self.sent_to = NO_LEADER
        self.attempt = 0

    @property
    def is_missing(self) -> bool:
        """Whether it is still to be written."""
        return self.ending.missing.get(self.tp) is self


Try = tuple[MissingMarker, int]
"""A marker, with the attempt that was its last when it was sent."""


class Retries:
    """The markers of one partition that wait for its next try.

    Attributes:
        failures: those in sequence.
        why: the last one.
        entry: begins the next try; None if nothing waits.
    """

    __slots__ = ("entry", "failures", "waiting", "why")

    def __init__(self) -> None:
        self.waiting: dict[MissingMarker, None] = {}
        self.failures = 0
        self.why = ""
        self.entry: TimerEntry | None = None

    def cancel(self) -> None:
        """Begin no next try by time."""
        if self.entry is not None:
            self.entry.cancel()
            self.entry = None


class Destination:
    """A leader: markers that are to be sent to it.

    Attributes:
        requests: those that it has not answered; 0 for this broker.
        is_paused: whether a timer sends the next ones, for this broker only.
    """

    __slots__ = ("is_paused", "queue", "requests")

    def __init__(self) -> None:
        self.queue: deque[Try] = deque()
        self.requests = 0
        self.is_paused = False

    def take(self, limit: int) -> dict[Ending, dict[TopicPartition, Try]]:
        """Take markers by transaction; not those that meanwhile go another way, or are written, or dropped."""
        taken: dict[Ending, dict[TopicPartition, Try]] = {}
        while self.queue and limit > 0:
            missing, attempt = each = self.queue.popleft()
            if missing.attempt == attempt and missing.is_missing:
                taken.setdefault(missing.ending, {})[missing.tp] = each
                limit -= 1
        return taken


def wire_marker(ending: Ending, partitions: dict[TopicPartition, Try]) -> WritableTxnMarker:
    """Return the marker of a transaction for some of its partitions, as WriteTxnMarkers has it."""
    topics: dict[str, list[int]] = {}
    for tp in partitions:
        topics.setdefault(tp.topic, []).append(tp.partition)
    return WritableTxnMarker(
        producer_id=ending.end.producer_id,
        producer_epoch=ending.end.producer_epoch,
        transaction_result=ending.end.committed,
        topics=[WritableTxnMarkerTopic(name=name, partition_indexes=indexes) for name, indexes in topics.items()],
        coordinator_epoch=ending.end.coordinator_epoch,
        transaction_version=ending.end.version,
    )


def error_codes(response: WriteTxnMarkersResponse | None) -> Iterator[tuple[tuple[int, TopicPartition], ErrorCode]]:
    """Yield the error codes of a response by producer id and partition."""
    for marker in () if response is None else response.markers:
        for topic in marker.topics:
            for partition in topic.partitions:
                tp = TopicPartition(topic.name, partition.partition_index)
                yield (marker.producer_id, tp), ErrorCode.known(partition.error_code)
