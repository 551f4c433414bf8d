"""Producers of transactions, and a coordinator that answers when the test says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.replica.producing.verification import ProducerTransaction
from purgatorio.protocol.end_marker import EndMarker, build_end_marker
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch
from tests.broker.replica.harness import ORDERS, Harness, Produced

PRODUCER = 7


class Asked(NamedTuple):
    """A question, and how to answer it."""

    transaction: ProducerTransaction
    partitions: Sequence[TopicPartition]
    done: Callable[[Mapping[TopicPartition, ErrorCode]], None]

    def answer(self, code: ErrorCode = ErrorCode.NONE) -> None:
        """Give the same answer for all partitions."""
        self.done({tp: code for tp in self.partitions})


class Coordinator:
    """A `VerifyPartitions`; answers at once if `code` is set.

    Attributes:
        asked: all questions.
    """

    def __init__(self, code: ErrorCode | None = None) -> None:
        self.code = code
        self.asked: list[Asked] = []

    def __call__(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        add: bool,
        done: Callable[[Mapping[TopicPartition, ErrorCode]], None],
    ) -> None:
        asked = Asked(ProducerTransaction(transactional_id, producer_id, producer_epoch, add), partitions, done)
        self.asked.append(asked)
        if self.code is not None:
            asked.answer(self.code)

    @property
    def only(self) -> Asked:
        (asked,) = self.asked
        return asked


def coordinator_of(broker: Harness, code: ErrorCode | None = None) -> Coordinator:
    """Let the broker ask a new coordinator."""
    broker.replicas.guard.verify = coordinator = Coordinator(code)
    return coordinator


def transactional(
    sequence: int = 0, *, epoch: int = 0, producer_id: int = PRODUCER, count: int = 1, plain: bool = False
) -> bytes:
    """Return a batch of a transaction, or a plain one of the same producer."""
    return build_batch(
        [Record(nth, 1_700_000_000_000, None, b"value") for nth in range(count)],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=not plain,
    )


def send(
    broker: Harness,
    sequence: int = 0,
    *,
    epoch: int = 0,
    tps: Sequence[TopicPartition] = (ORDERS,),
    records: bytes | None = None,
    adds: bool = False,
    acks: int = 1,
    timeout_ms: int = 1000,
) -> Produced:
    """Send a produce request of a transaction, with one batch for each partition."""
    produced = Produced()
    batch = transactional(sequence, epoch=epoch) if records is None else records
    broker.replicas.append_in_transaction(
        [(tp, batch) for tp in tps],
        ProducerTransaction("billing-1", PRODUCER, epoch, adds),
        acks=acks,
        timeout_ms=timeout_ms,
        done=produced.answers.append,
        client="producer",
    )
    return produced


def end(broker: Harness, *, epoch: int = 0, committed: bool = True, producer_id: int = PRODUCER) -> ErrorCode:
    """Append the marker that ends a producer's transaction."""
    marker = build_end_marker(
        EndMarker(committed, 0), producer_id=producer_id, producer_epoch=epoch, timestamp_ms=1_700_000_000_000
    )
    results: list[ErrorCode] = []
    broker.replicas.append(
        [(ORDERS, marker)],
        acks=1,
        timeout_ms=0,
        done=lambda answers: results.extend(answer.error_code for answer in answers),
        from_client=False,
    )
    (code,) = results
    return code
