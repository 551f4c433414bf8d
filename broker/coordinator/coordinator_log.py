"""How a coordinator writes: records appended to its partition with acks=-1, answered when they are committed.

A commit is a produce, as in Kafka 0.8: what waits for the replicas is a `DelayedProduce` in the Produce purgatory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from purgatorio.broker.coordinator.errors import coordinator_error
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.broker.replica.results import AppendResult
from purgatorio.broker.time.clock import Clock
from purgatorio.protocol.end_marker import EndMarker, build_end_marker
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.records import Record, build_batch

Committed = Callable[[ErrorCode], None]
"""Receives NONE when the records are committed, or the error code for the coordinator's client; called once."""


class NewRecord(NamedTuple):
    """A record for the coordinator's topic; a value of None is a tombstone."""

    key: bytes
    value: bytes | None


class Producer(NamedTuple):
    """A transactional producer: the owner of a transaction.

    Attributes:
        transactional_id: noted in the log's state for those who look at it; "": not known.
    """

    producer_id: int
    producer_epoch: int
    transactional_id: str = ""


class CoordinatorLog:
    """Writes a coordinator's records to the partitions that this broker leads.

    Args:
        replicas: this broker's replicas.
        clock: the wall time of the records.
        timeout_ms: the longest wait for the replicas (offsets.commit.timeout.ms).
    """

    def __init__(self, replicas: ReplicaManager, clock: Clock, timeout_ms: int) -> None:
        self._replicas = replicas
        self._clock = clock
        self._timeout_ms = timeout_ms

    def max_batch_bytes(self, tp: TopicPartition) -> int:
        """Return the largest batch that a partition takes (max.message.bytes); 0 without a replica of it."""
        partition = self._replicas.lookup.known(tp)
        return 0 if partition is None else partition.log.config.max_message_bytes

    def append(
        self,
        tp: TopicPartition,
        records: Sequence[NewRecord],
        done: Committed,
        *,
        applied: Callable[[], None] | None = None,
        client: str = "",
        producer: Producer | None = None,
    ) -> bool:
        """Append records in one batch.

        Args:
            tp: the partition of the coordinator's topic.
            records: at least one.
            done: called when the records are committed or have failed; perhaps before this returns.
            applied: called before `done` if the records are in this broker's log; not if the append was refused. The
                calls for a partition follow the order of its log.
            client: the client id, shown while the request waits.
            producer: the producer whose transaction the records belong to; None: they belong to none.

        Returns:
            Whether the records are in this broker's log. They may be committed later even if `done` gets an error.
        """
        now_ms = self._clock.wall_ms()
        made = [Record(nth, now_ms, key, value) for nth, (key, value) in enumerate(records)]
        if producer is None:
            return self._append(tp, build_batch(made), done, applied, client, from_client=True)
        batch = build_batch(
            made, producer_id=producer.producer_id, producer_epoch=producer.producer_epoch, transactional=True
        )
        is_appended = self._append(tp, batch, done, applied, client, from_client=False)
        partition = self._replicas.lookup.known(tp)
        if is_appended and partition is not None:
            partition.log.producers.name(producer.producer_id, producer.transactional_id)
        return is_appended

    def append_end(
        self,
        tp: TopicPartition,
        producer: Producer,
        marker: EndMarker,
        done: Committed,
        *,
        applied: Callable[[], None] | None = None,
    ) -> bool:
        """Append the marker that ends a producer's transaction on a partition; see `append`."""
        batch = build_end_marker(
            marker,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            timestamp_ms=self._clock.wall_ms(),
        )
        return self._append(tp, batch, done, applied, "", from_client=False)

    def _append(
        self,
        tp: TopicPartition,
        batch: bytes,
        done: Committed,
        applied: Callable[[], None] | None,
        client: str,
        *,
        from_client: bool,
    ) -> bool:
        early: list[AppendResult] = []
        inside = True

        def settled(results: Sequence[AppendResult]) -> None:
            if inside:
                early.extend(results)
            else:
                done(coordinator_error(results[0].error_code))

        with self._replicas.actions:  # events of the append may append too, and must find these records applied
            self._replicas.append(
                [(tp, batch)],
                acks=-1,
                timeout_ms=self._timeout_ms,
                done=settled,
                client=client,
                from_client=from_client,
            )
            inside = False
            is_appended = not early or early[0].base_offset >= 0
            if is_appended and applied is not None:
                applied()
        if early:
            done(coordinator_error(early[0].error_code))
        return is_appended

    def when_committed(self, tp: TopicPartition, done: Committed, *, client: str = "") -> None:
        """Call `done` when everything that the partition's log holds now is committed; at once if it is."""

        def settled(results: Sequence[AppendResult]) -> None:
            done(coordinator_error(results[0].error_code))

        self._replicas.await_replicas(tp, timeout_ms=self._timeout_ms, done=settled, client=client)
