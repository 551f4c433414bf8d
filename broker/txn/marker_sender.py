"""How a coordinator has its transactions ended: leaders get markers for their partitions, until all are written.

A marker is on its way to one broker at a time: to the leader of its partition in the newest image. Markers of many
transactions for one broker share a request. A marker that a leader could not write waits for the partition's next try,
which a timer or a change of the partition's state begins. What arrives late, from a broker that does not lead any more,
counts only if it says that the marker is written.

What waits here is bounded by what the coordinator bounds: its transactional ids, and the partitions of each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

from purgatorio.broker.causes.cause import MarkersMissing, UnwrittenMarker
from purgatorio.broker.coordinator.ask_broker import AskBroker
from purgatorio.broker.log.topic_partition import TopicPartition, by_topic
from purgatorio.broker.metadata.delta import changed_topics
from purgatorio.broker.metadata.image import NO_LEADER, ClusterImage
from purgatorio.broker.txn.marker_writer import Marker, Written
from purgatorio.broker.txn.values import BUMPING_VERSION
from purgatorio.logger import get_logger
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.end_marker import EndMarker
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from purgatorio.purgatory import Timer, TimerEntry

logger = get_logger(__name__)

MAX_MARKERS_PER_REQUEST: Final = 200
"""The most partitions of one request, and of one step of this broker's own appends: about 10 ms of a leader's time."""
MAX_REQUESTS: Final = 4
"""The most requests to one broker that wait for answers. Further markers wait, and share the next request."""
FIRST_RETRY_MS: Final = 20
"""From the first failure at a partition to the next try; doubled with each further one."""
MAX_RETRY_MS: Final = 1_000
"""The longest time between two tries."""
WARN_AT_FAILURE: Final = 7
"""The failure in sequence at one partition that is logged, about a second after the first."""
SHOWN_PARTITIONS: Final = 3
"""The most partitions that the page names."""
REQUEST_VERSION: Final = 2
"""The version of the requests."""

GIVE_UP: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
"""Errors after which no try can succeed. Any other could be of the moment, even one that no broker should send."""

WriteMarkers = Callable[[Marker, list[TopicPartition], Written, str], None]
"""Writes markers on this broker (see `purgatorio.broker.txn.marker_writer.MarkerWriter.write`)."""


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


class Ending:
    """A transaction that is being ended.

    Attributes:
        marker: what each leader is to write.
        written, gave_up: the coordinator's, see `MarkerSender.end`.
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


class MarkerSender:
    """Has leaders write the end markers of this broker's transactions, over failures of any kind.

    Args:
        broker_id: this broker, whose own partitions are written without a request.
        image: returns this broker's image; `image_changed` is called when it has changed.
    """

    def __init__(
        self, broker_id: int, *, image: Callable[[], ClusterImage], write: WriteMarkers, ask: AskBroker, timer: Timer
    ) -> None:
        self._broker_id = broker_id
        self._image = image
        self._write = write
        self._ask = ask
        self._timer = timer
        self._seen = image()
        self._endings: dict[str, Ending] = {}
        self._by_partition: dict[TopicPartition, dict[MissingMarker, None]] = {}
        self._retries: dict[TopicPartition, Retries] = {}
        self._destinations: dict[int, Destination] = {}
        self._ready: dict[int, None] = {}  # destinations with markers that could be sent
        self._is_sending = False

    # --- the coordinator's side ---

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
        earlier = self._endings.get(end.transactional_id)
        if earlier is not None:
            self._forget(earlier)
        ending = Ending(end, written, gave_up)
        ending.missing = {tp: MissingMarker(ending, tp) for tp in end.partitions}
        if not ending.missing:
            return
        self._endings[end.transactional_id] = ending
        for tp, missing in ending.missing.items():
            self._by_partition.setdefault(tp, {})[missing] = None
        for missing in list(ending.missing.values()):
            self._route(missing)
        self._send()

    def drop(self, transactional_id: str, coordinator_epoch: int) -> None:
        """Retry no more: this broker does not coordinate the transactional id any more. Calls nothing."""
        ending = self._endings.get(transactional_id)
        if ending is not None and ending.end.coordinator_epoch == coordinator_epoch:
            self._forget(ending)

    @property
    def missing_count(self) -> int:
        """The markers that are still to be written."""
        return sum(map(len, self._by_partition.values()))

    def waits_for(self, transactional_id: str) -> MarkersMissing:
        """Return the missing markers, the first ones with their leaders and the errors of the last try."""
        ending = self._endings.get(transactional_id)
        missing = {} if ending is None else ending.missing
        shown = tuple(map(self._unwritten, islice(missing, SHOWN_PARTITIONS)))
        return MarkersMissing(transactional_id, shown, len(missing) - len(shown))

    def _unwritten(self, tp: TopicPartition) -> UnwrittenMarker:
        leader = self._leader(tp)
        if leader is None or leader == NO_LEADER:
            return UnwrittenMarker(tp, None, "")
        retries = self._retries.get(tp)
        return UnwrittenMarker(tp, leader, "" if retries is None else retries.why)

    def image_changed(self, image: ClusterImage) -> None:
        """Send the markers of partitions with another leader, or that waited for any change, at once."""
        before, self._seen = self._seen, image
        if not self._by_partition:
            return
        for delta in changed_topics(before, image):
            for tp in delta.changed_partitions:
                if tp in self._by_partition:
                    self._partition_changed(tp)
        self._send()

    def _partition_changed(self, tp: TopicPartition) -> None:
        leader = self._leader(tp)
        if leader == NO_LEADER:
            return
        retries = self._retries.get(tp)
        if retries is not None:
            self._retry(tp, retries)
        for missing in list(self._by_partition.get(tp, ())):
            if missing.sent_to != leader:
                self._route(missing)

    # --- on the way ---

    def _leader(self, tp: TopicPartition) -> int | None:
        """Return a partition's leader in the newest image, or NO_LEADER; None if the partition does not exist."""
        state = self._image().partition(tp.topic, tp.partition)
        return None if state is None else state.leader

    def _route(self, missing: MissingMarker) -> None:
        """Put a marker on the way to its leader; `_send` sends it."""
        if not missing.is_missing:
            return  # the coordinator, told of another one, has dropped the transaction
        leader = self._leader(missing.tp)
        if leader is None:
            self._done(missing)  # the topic was deleted, and what the transaction wrote with it
            return
        if leader == NO_LEADER:
            self._wait(missing, "no leader")
            return
        missing.attempt += 1
        missing.sent_to = leader
        destination = self._destinations.setdefault(leader, Destination())
        destination.queue.append((missing, missing.attempt))
        self._ready[leader] = None

    def _send(self) -> None:
        """Send what is ready; what becomes ready by an answer in between is sent by the same loop."""
        if self._is_sending:
            return
        self._is_sending = True
        try:
            while self._ready:
                broker_id = next(iter(self._ready))
                del self._ready[broker_id]
                destination = self._destinations[broker_id]
                if broker_id != self._broker_id:
                    self._send_to(broker_id, destination)
                elif not destination.is_paused:
                    self._send_here(destination)
        finally:
            self._is_sending = False

    def _send_here(self, destination: Destination) -> None:
        """Write markers of this broker's own partitions; if there are many, the others in another turn of the loop."""
        taken = destination.take(MAX_MARKERS_PER_REQUEST)
        if destination.queue:
            destination.is_paused = True
            self._timer.call_later(1, self._resume, destination)
        for ending, tries in taken.items():
            written = partial(self._written_here, tries)
            try:
                self._write(ending.marker, list(tries), written, ending.end.transactional_id)
            except Exception:  # a bug; the markers must be tried again all the same
                logger.exception("markers could not be written", transactional_id=ending.end.transactional_id)
                for each in tries.values():
                    self._answered(each, ErrorCode.UNKNOWN_SERVER_ERROR)

    def _resume(self, destination: Destination) -> None:
        destination.is_paused = False
        self._ready[self._broker_id] = None
        self._send()

    def _written_here(self, tries: dict[TopicPartition, Try], tp: TopicPartition, error_code: ErrorCode) -> None:
        self._answered(tries[tp], error_code)
        self._send()

    def _send_to(self, broker_id: int, destination: Destination) -> None:
        while destination.requests < MAX_REQUESTS:
            taken = destination.take(MAX_MARKERS_PER_REQUEST)
            if not taken:
                return
            destination.requests += 1
            request = WriteTxnMarkersRequest(markers=[_wire_marker(ending, tries) for ending, tries in taken.items()])
            done = partial(self._broker_answered, broker_id, destination, taken)
            self._ask(broker_id, ApiKey.WRITE_TXN_MARKERS, REQUEST_VERSION, request, done)

    def _broker_answered(
        self,
        broker_id: int,
        destination: Destination,
        taken: dict[Ending, dict[TopicPartition, Try]],
        response: WriteTxnMarkersResponse | None,
        error: Exception | None,
    ) -> None:
        destination.requests -= 1
        self._ready[broker_id] = None
        codes = dict(_error_codes(response))
        why = "not answered" if error is None else str(error) or type(error).__name__
        for ending, tries in taken.items():
            for tp, each in tries.items():
                self._answered(each, codes.get((ending.end.producer_id, tp)), why)
        self._send()

    # --- results ---

    def _answered(self, each: Try, error_code: ErrorCode | None, why: str = "") -> None:
        """Note the result of an attempt; None: there is none, for the reason `why`."""
        missing, attempt = each
        if not missing.is_missing:
            return
        if error_code == ErrorCode.NONE:
            self._done(missing)
        elif missing.attempt != attempt:
            return  # it goes to another leader meanwhile
        elif error_code in GIVE_UP:
            assert error_code is not None
            self._give_up(missing, error_code)
        else:
            leader = self._leader(missing.tp)
            if leader in (missing.sent_to, NO_LEADER):
                self._wait(missing, why if error_code is None else error_code.name)
            else:
                self._route(missing)

    def _done(self, missing: MissingMarker) -> None:
        ending, tp = missing.ending, missing.tp
        del ending.missing[tp]
        if not ending.missing:
            del self._endings[ending.end.transactional_id]
        self._unlink(missing)
        retries = self._retries.pop(tp, None)
        if retries is not None:
            self._retry(tp, retries)
        _call(ending.written, tp)

    def _give_up(self, missing: MissingMarker, error_code: ErrorCode) -> None:
        ending = missing.ending
        logger.info(
            "a transaction's markers are refused",
            transactional_id=ending.end.transactional_id,
            partition=str(missing.tp),
            error=error_code.name,
        )
        self._forget(ending)
        _call(ending.gave_up, error_code)

    def _forget(self, ending: Ending) -> None:
        del self._endings[ending.end.transactional_id]
        markers, ending.missing = ending.missing, {}
        for missing in markers.values():
            self._unlink(missing)

    def _unlink(self, missing: MissingMarker) -> None:
        tp = missing.tp
        markers = self._by_partition[tp]
        del markers[missing]
        retries = self._retries.get(tp)
        if retries is not None:
            retries.waiting.pop(missing, None)
        if not markers:
            del self._by_partition[tp]
            if retries is not None:
                del self._retries[tp]
                retries.cancel()

    # --- retries ---

    def _wait(self, missing: MissingMarker, why: str) -> None:
        """Keep a marker until the partition's next try."""
        missing.attempt += 1
        missing.sent_to = NO_LEADER
        tp = missing.tp
        retries = self._retries.setdefault(tp, Retries())
        retries.waiting[missing] = None
        retries.why = why
        if retries.entry is not None:
            return
        delay_ms = min(FIRST_RETRY_MS << min(retries.failures, 10), MAX_RETRY_MS)
        retries.failures += 1
        if retries.failures == WARN_AT_FAILURE:
            logger.warning("markers of transactions wait for a partition", partition=str(tp), why=why)
        retries.entry = self._timer.call_later(delay_ms, self._retry_later, tp, retries)

    def _retry_later(self, tp: TopicPartition, retries: Retries) -> None:
        self._retry(tp, retries)
        self._send()

    def _retry(self, tp: TopicPartition, retries: Retries) -> None:
        """Put the markers that wait for a partition on their way."""
        retries.cancel()
        waiting, retries.waiting = retries.waiting, {}
        for missing in waiting:
            self._route(missing)


def _wire_marker(ending: Ending, partitions: dict[TopicPartition, Try]) -> WritableTxnMarker:
    """Return the marker of a transaction for some of its partitions, as WriteTxnMarkers has it."""
    topics = by_topic(partitions)
    return WritableTxnMarker(
        producer_id=ending.end.producer_id,
        producer_epoch=ending.end.producer_epoch,
        transaction_result=ending.end.committed,
        topics=[WritableTxnMarkerTopic(name=name, partition_indexes=indexes) for name, indexes in topics.items()],
        coordinator_epoch=ending.end.coordinator_epoch,
        transaction_version=ending.end.version,
    )


def _error_codes(response: WriteTxnMarkersResponse | None) -> Iterator[tuple[tuple[int, TopicPartition], ErrorCode]]:
    """Yield the error codes of a response by producer id and partition."""
    for marker in () if response is None else response.markers:
        for topic in marker.topics:
            for partition in topic.partitions:
                tp = TopicPartition(topic.name, partition.partition_index)
                yield (marker.producer_id, tp), ErrorCode.known(partition.error_code)


def _call(callback: Callable[[Any], None], argument: Any) -> None:
    """Call the coordinator; a failure, which is logged, must not keep the results of other markers from it."""
    try:
        callback(argument)
    except Exception:
        logger.exception("the end of a transaction could not be noted")
