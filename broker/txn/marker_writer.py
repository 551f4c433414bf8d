"""How a leader writes the end markers of transactions (KIP-98): checked, appended, answered when committed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from purgatorio.broker.coordinator.coordinator_log import Committed
from purgatorio.broker.log.errors import LogError
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.topic_name import OFFSETS_TOPIC
from purgatorio.broker.replica.partition import PartitionError
from purgatorio.broker.replica.producing.writes import AppendResult
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.protocol.end_marker import EndMarker, build_end_marker
from purgatorio.protocol.errors import ErrorCode
from purgatorio.purgatory.clock import Clock

Written = Callable[[TopicPartition, ErrorCode], None]
"""Receives the result for one partition."""

EndOffsets = Callable[[TopicPartition, int, int, EndMarker, Committed], None]
"""Appends a producer's marker to a partition of ``__consumer_offsets``, and applies it: see `TxnOffsetManager.end`."""


class Marker(NamedTuple):
    """An end marker, as the leaders of all partitions of a transaction get it.

    Attributes:
        producer_id, producer_epoch: the producer whose transaction it ends; older epochs are fenced by it.
        end: commit or abort, and the leader epoch of the coordinator's partition.
        is_bumped: whether the coordinator raised the epoch for this marker (transaction.version 2), so that the
            records of the transaction have a lower one.
    """

    producer_id: int
    producer_epoch: int
    end: EndMarker
    is_bumped: bool


class MarkerWriter:
    """Writes markers to the partitions that this broker leads, for the coordinator here and for those of other brokers.

    Markers for ``__consumer_offsets`` go through the group coordinator, which applies them to the offsets that it has
    in memory, and says so only then (KAFKA-17507).

    Args:
        timeout_ms: the longest wait for the in-sync replicas. A coordinator on another broker must wait longer for the
            answer.
        end_offsets: the group coordinator's part; None: it has no offsets in transactions.
    """

    def __init__(
        self, replicas: ReplicaManager, clock: Clock, *, timeout_ms: int, end_offsets: EndOffsets | None = None
    ) -> None:
        self._replicas = replicas
        self._clock = clock
        self._end_offsets = end_offsets
        self._timeout_ms = timeout_ms

    def write(self, marker: Marker, partitions: Sequence[TopicPartition], written: Written, client: str) -> None:
        """Append a marker to each partition, also to those without an open transaction of the producer.

        Args:
            partitions: each at most once.
            written: called once for each partition, perhaps before this returns: NONE when all in-sync replicas have
                the marker. INVALID_PRODUCER_EPOCH: a newer epoch of the producer wrote here.
                TRANSACTION_COORDINATOR_FENCED: a newer coordinator did. After any other error, the sender tries again;
                the marker may be in the log already, and a second one does no harm.
            client: the coordinator or its transactional id, shown while the request waits.
        """
        appends = []
        for tp in partitions:
            refused = self._refusal(marker, tp)
            if refused != ErrorCode.NONE:
                written(tp, refused)
            elif tp.topic == OFFSETS_TOPIC and self._end_offsets is not None:
                self._end_offsets(tp, *marker[:3], partial(_offsets_ended, tp, written))
            else:
                appends.append(tp)
        if not appends:
            return

        def appended(results: Sequence[AppendResult]) -> None:
            for tp, result in zip(appends, results, strict=True):
                written(tp, ErrorCode(result.error_code))

        batch = build_end_marker(
            marker.end,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            timestamp_ms=self._clock.wall_ms(),
        )
        self._replicas.append(
            [(tp, batch) for tp in appends],
            acks=-1,
            timeout_ms=self._timeout_ms,
            done=appended,
            client=client,
            from_client=False,
        )

    def _refusal(self, marker: Marker, tp: TopicPartition) -> ErrorCode:
        """Return the reason why this leader does not append the marker; NONE if it does."""
        if marker.producer_id < 0 or marker.producer_epoch < 0:
            return ErrorCode.INVALID_REQUEST
        try:
            partition = self._replicas.lookup.find(tp)
            partition.check_leader(-1)
            partition.log.producers.check_marker(
                marker.producer_id, marker.producer_epoch, marker.end, is_bumped=marker.is_bumped
            )
        except (PartitionError, LogError) as error:
            return error.error_code
        return ErrorCode.NONE


_OF_COORDINATORS: Final = frozenset(
    {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
)


def _offsets_ended(tp: TopicPartition, written: Written, error_code: ErrorCode) -> None:
    """Answer the sender, in error codes of leaders: it knows no group coordinators."""
    written(tp, ErrorCode.NOT_LEADER_OR_FOLLOWER if error_code in _OF_COORDINATORS else error_code)
