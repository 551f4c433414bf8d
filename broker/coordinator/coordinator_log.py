"""How a coordinator writes: records appended to its partition with acks=-1, answered when they are committed.

A commit is a produce, as in Kafka 0.8: what waits for the replicas is a `DelayedProduce` in the Produce purgatory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final, NamedTuple

from purgatorio.broker.coordinator.errors import coordinator_error
from purgatorio.broker.coordinator.shard import Shard
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.replica.producing.writes import AppendResult
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.protocol.end_marker import EndMarker, build_end_marker
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch
from purgatorio.purgatory import Timer
from purgatorio.purgatory.clock import Clock

Committed = Callable[[ErrorCode], None]
"""Receives NONE when the records are committed, or the error code for the coordinator's client; called once."""


def ignore(error_code: ErrorCode) -> None:
    """Do nothing: a `Committed` for records that no client waits for."""


RETRY_MS: Final = 100
"""From a failed wait for the replicas to the next."""


class Fate(Enum):
    """The outcome of an append of a coordinator's records.

    * COMMITTED: they are replicated
    * REFUSED: they are not in the log, and never will be
    * UNKNOWN: they are in this broker's log, but the replicas did not confirm them in time; the coordinator goes on
      waiting
    * COMMITTED_LATE: they are replicated after they were UNKNOWN, so their client was answered before
    """

    COMMITTED = "committed"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    COMMITTED_LATE = "committed late"


Fated = Callable[[Fate, ErrorCode], None]
"""Receives the fate of records with the error code for the coordinator's client, NONE if they are committed.

It is called once, and after UNKNOWN once more, with COMMITTED_LATE, if the shard is not unloaded first.
"""


class NewRecord(NamedTuple):
    """A record for the coordinator's topic; a value of None is a tombstone."""

    key: bytes
    value: bytes | None


class TransactionalProducer(NamedTuple):
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
        timer: when to wait again for replicas that did not confirm records in time.
        timeout_ms: the longest wait for the replicas (offsets.commit.timeout.ms).
    """

    def __init__(self, replicas: ReplicaManager, clock: Clock, timer: Timer, timeout_ms: int) -> None:
        self._replicas = replicas
        self._clock = clock
        self._timer = timer
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
        producer: TransactionalProducer | None = None,
    ) -> bool:
        """Append records whose state counts from the append on: only a client waits for their commit; see `write`.

        Args:
            records: at least one.
            done: called when the records are committed or have failed; perhaps before this returns.
            applied: called before `done` if the records are in this broker's log; not if the append was refused. The
                calls for a partition follow the order of its log.
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

    def write(
        self,
        shard: Shard,
        records: Sequence[NewRecord],
        fated: Fated,
        *,
        applied: Callable[[], None] | None = None,
        client: str = "",
        producer: TransactionalProducer | None = None,
    ) -> bool:
        """Append records whose state counts once they are committed, also if their client got an error before.

        Args:
            shard: the shard of the partition; after it is unloaded, `fated` is called no more, except for its first
                call.
            fated: called with the outcome of the append; perhaps before this returns.
            applied: as in `append`, like the rest.
        """
        settled, appended = self._until_known(shard, fated, applied)
        return self.append(shard.tp, records, settled, applied=appended, client=client, producer=producer)

    def write_end(
        self,
        shard: Shard,
        producer: TransactionalProducer,
        marker: EndMarker,
        fated: Fated,
        *,
        applied: Callable[[], None] | None = None,
    ) -> bool:
        """Append the marker that ends a producer's transaction on the shard's partition; see `write`."""
        batch = build_end_marker(
            marker,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            timestamp_ms=self._clock.wall_ms(),
        )
        settled, appended = self._until_known(shard, fated, applied)
        return self._append(shard.tp, batch, settled, appended, "", from_client=False)

    def _until_known(
        self, shard: Shard, fated: Fated, applied: Callable[[], None] | None
    ) -> tuple[Committed, Callable[[], None]]:
        """Return the `done` and the `applied` of an append whose outcome is reported to `fated`."""
        is_in_log = False

        def appended() -> None:
            nonlocal is_in_log
            is_in_log = True
            if applied is not None:
                applied()

        def settled(error_code: ErrorCode) -> None:
            if not error_code:
                fated(Fate.COMMITTED, error_code)
            elif not is_in_log:
                fated(Fate.REFUSED, error_code)
            else:
                shard.unsure.append(lambda: fated(Fate.COMMITTED_LATE, ErrorCode.NONE))
                fated(Fate.UNKNOWN, error_code)
                self._await_unsure(shard)

        return settled, appended

    def _await_unsure(self, shard: Shard) -> None:
        """Wait on for the records whose fate is unknown, one wait at a time."""
        if shard.is_awaited or not shard.unsure:
            return
        shard.is_awaited = True
        awaited, shard.unsure = shard.unsure, []

        def committed() -> None:
            shard.is_awaited = False
            for each in awaited:
                each()
            self._await_unsure(shard)

        self.until_committed(shard, committed)

    def until_committed(
        self, shard: Shard, then: Callable[[], None], *, failed: Callable[[ErrorCode], None] | None = None
    ) -> None:
        """Call `then` when everything that the partition's log holds is committed, however long that takes.

        Args:
            shard: the shard of the partition; after it is unloaded nothing is called.
            failed: receives the error code of each wait that failed; the next one begins `RETRY_MS` later.
        """

        def settled(error_code: ErrorCode) -> None:
            if not shard.is_kept:
                return
            if not error_code:
                then()
                return
            if failed is not None:
                failed(error_code)
            self._timer.call_later(RETRY_MS, wait)

        def wait() -> None:
            if shard.is_kept:
                self.when_committed(shard.tp, settled)

        wait()

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
