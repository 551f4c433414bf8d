"""Ends the transactions of a coordinator: leaders get markers for their partitions, until all are written.

A marker is on its way to one broker at a time: to the leader of its partition in the newest image. Markers of many
transactions for one broker share a request. A marker that a leader could not write waits for the partition's next try,
which a timer or a change of the partition's state begins. A late answer, from a broker that does not lead any more,
counts only if it says that the marker is written.

The coordinator bounds the waiting markers, by its transactional ids and the partitions of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Final, NamedTuple

from purgatorio.broker.causes.cause import MarkersMissing, UnwrittenMarker
from purgatorio.broker.causes.kinds import MARKER
from purgatorio.broker.causes.words import shortened
from purgatorio.broker.coordinator.broker_calls import SUCCESS, Answer, BrokerCalls, Call, CallKind, Pause, Retries
from purgatorio.broker.log.topic_partition import TopicPartition, by_topic
from purgatorio.broker.metadata.image import NO_LEADER
from purgatorio.broker.routing.passing_errors import MARKERS_REFUSED
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

logger = get_logger(__name__)

MAX_MARKERS_PER_REQUEST: Final = 200
"""The most partitions of one request, and of one step of this broker's own appends: about 10 ms of a leader's time."""
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


class MissingMarker(Call):
    """A marker of one partition."""

    __slots__ = ("ending",)

    def __init__(self, kind: MarkerSender, ending: Ending, tp: TopicPartition) -> None:
        super().__init__(kind, tp, (ending.end.producer_id, tp))
        self.ending = ending


class MarkerSender(CallKind[MissingMarker]):
    """Has leaders write the end markers of this broker's transactions, over failures of any kind.

    Args:
        write: writes the markers of partitions that this broker leads.
    """

    row = MARKER
    api_key = ApiKey.WRITE_TXN_MARKERS
    version = REQUEST_VERSION
    retries = Retries(FIRST_RETRY_MS, MAX_RETRY_MS)
    max_ids = max_here = MAX_MARKERS_PER_REQUEST
    follows = True
    by_partition = True

    def __init__(self, calls: BrokerCalls, write: WriteMarkers) -> None:
        self._calls = calls
        self._write = write
        self._endings: dict[str, Ending] = {}

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
        ending.missing = {tp: MissingMarker(self, ending, tp) for tp in end.partitions}
        if ending.missing:
            self._endings[end.transactional_id] = ending
            self._calls.make(list(ending.missing.values()))

    def drop(self, transactional_id: str, coordinator_epoch: int) -> None:
        """Retry no more: this broker does not coordinate the transactional id any more. Calls nothing."""
        ending = self._endings.get(transactional_id)
        if ending is not None and ending.end.coordinator_epoch == coordinator_epoch:
            self._forget(ending)

    @property
    def missing_count(self) -> int:
        """The markers that are still to be written."""
        return self.call_count

    def waits_for(self, transactional_id: str) -> MarkersMissing:
        """Return the missing markers, the first ones with their leaders and the errors of the last try."""
        ending = self._endings.get(transactional_id)
        missing = {} if ending is None else ending.missing
        shown = tuple(map(self._unwritten, islice(missing.values(), SHOWN_PARTITIONS)))
        return MarkersMissing(transactional_id, shown, len(missing) - len(shown))

    def _unwritten(self, marker: MissingMarker) -> UnwrittenMarker:
        leader = self._calls.leader(marker.tp)
        if leader is None or leader == NO_LEADER:
            return UnwrittenMarker(marker.tp, None, "")
        return UnwrittenMarker(marker.tp, leader, marker.why)

    def _forget(self, ending: Ending) -> None:
        del self._endings[ending.end.transactional_id]
        markers, ending.missing = ending.missing, {}
        for marker in markers.values():
            self._calls.drop(marker)

    # --- on the way ---

    def without_leader(self, call: MissingMarker, *, exists: bool) -> Answer:
        """A topic that was deleted needs no marker: what the transaction wrote was deleted with it."""
        return super().without_leader(call, exists=True) if exists else SUCCESS

    def groups(self, calls: list[MissingMarker]) -> Iterable[list[MissingMarker]]:
        """Return the markers of each transaction."""
        return _by_ending(calls).values()

    def here(self, calls: list[MissingMarker], answered: Callable[[MissingMarker, Answer], None]) -> None:
        """Write markers of this broker's own partitions."""
        markers = {call.tp: call for call in calls}
        ending = calls[0].ending

        def written(tp: TopicPartition, error_code: ErrorCode) -> None:
            answered(markers[tp], Answer(error_code) if error_code else SUCCESS)

        self._write(ending.marker, list(markers), written, ending.end.transactional_id)

    def request(self, calls: Mapping[tuple[int, TopicPartition], list[MissingMarker]]) -> WriteTxnMarkersRequest:
        """Return the markers by transaction."""
        endings = _by_ending(call for joined in calls.values() for call in joined)
        return WriteTxnMarkersRequest(markers=[_wire_marker(ending, markers) for ending, markers in endings.items()])

    def answers(
        self, response: WriteTxnMarkersResponse, calls: Mapping[tuple[int, TopicPartition], list[MissingMarker]]
    ) -> dict[tuple[int, TopicPartition], Answer]:
        """Return the error codes by producer id and partition."""
        return {
            (marker.producer_id, TopicPartition(topic.name, each.partition_index)): Answer(
                ErrorCode.known(each.error_code)
            )
            for marker in response.markers
            for topic in marker.topics
            for each in topic.partitions
        }

    # --- results ---

    def passes(self, call: MissingMarker, answer: Answer) -> bool:
        """Any error passes but for those that are of an epoch."""
        return answer.error_code != ErrorCode.NONE and answer.error_code not in MARKERS_REFUSED

    def paused(self, call: MissingMarker, pause: Pause) -> None:
        """Log a wait that has become long."""
        if pause.failures == WARN_AT_FAILURE - 1:
            logger.warning("markers of transactions wait for a partition", partition=str(call.tp), why=call.why)

    def named(self, call: MissingMarker) -> str:
        """Return a marker in words."""
        return f"the end marker of {shortened(call.ending.end.transactional_id)}"

    def ended(self, call: MissingMarker, answer: Answer) -> None:
        """Note a marker that is written, or that no try can write. When the broker stops, note nothing."""
        ending, code = call.ending, answer.error_code
        if code == ErrorCode.NONE:
            del ending.missing[call.tp]
            if not ending.missing:
                del self._endings[ending.end.transactional_id]
            ending.written(call.tp)
        elif code in MARKERS_REFUSED:
            logger.info(
                "a transaction's markers are refused",
                transactional_id=ending.end.transactional_id,
                partition=str(call.tp),
                error=code.name,
            )
            self._forget(ending)
            ending.gave_up(code)


def _by_ending(calls: Iterable[MissingMarker]) -> dict[Ending, list[MissingMarker]]:
    markers: dict[Ending, list[MissingMarker]] = {}
    for call in calls:
        markers.setdefault(call.ending, []).append(call)
    return markers


def _wire_marker(ending: Ending, markers: list[MissingMarker]) -> WritableTxnMarker:
    """Return the marker of a transaction for some of its partitions, as WriteTxnMarkers has it."""
    topics = by_topic([each.tp for each in markers])
    return WritableTxnMarker(
        producer_id=ending.end.producer_id,
        producer_epoch=ending.end.producer_epoch,
        transaction_result=ending.end.committed,
        topics=[WritableTxnMarkerTopic(name=name, partition_indexes=indexes) for name, indexes in topics.items()],
        coordinator_epoch=ending.end.coordinator_epoch,
        transaction_version=ending.end.version,
    )
