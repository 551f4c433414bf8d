"""How a leader learns that a producer's transaction includes its partition, and what waits for that (KIP-890)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.records import MAX_SEQUENCE, NO_SEQUENCE


class ProducerTransaction(NamedTuple):
    """The transaction that a request says it belongs to.

    Attributes:
        transactional_id: not empty.
        producer_id, producer_epoch: those of its batches.
        adds_partitions: whether the request itself adds its partitions to the transaction, as with transaction.version
            2: Produce from version 12 on, TxnOffsetCommit from version 5 on.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    adds_partitions: bool


class VerifyPartitions(Protocol):
    """Asks the coordinator of a transaction, here or on another broker, whether partitions are in it (KIP-890)."""

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
        """Call `done` once, with an error code for each partition; perhaps before this returns.

        Args:
            add: add the partitions to the transaction, as clients of transaction.version 2 want it.
            done: gets NONE for partitions in the transaction, else the coordinator's error, or NETWORK_EXCEPTION.
        """
        ...


GUARDED_APPEND_BYTES: Final = 1024
"""The memory that a waiting append is counted with, beside its records."""
_HALF: Final = (MAX_SEQUENCE + 1) // 2


class GuardedAppend:
    """One append that passes the guard, or waits for that.

    Attributes:
        done: called once, unless the append is withdrawn. With NONE the append is made before it returns.
        sequence: the first sequence of the batch; -1 for a coordinator's.
        memory_bytes: the memory that it takes while it waits.
        counted_bytes: what of that the guard counts now.
        is_withdrawn: the request has been answered already.
    """

    __slots__ = ("counted_bytes", "done", "is_withdrawn", "memory_bytes", "sequence")

    def __init__(self, done: Callable[[ErrorCode], None], sequence: int = NO_SEQUENCE, records_bytes: int = 0) -> None:
        self.done = done
        self.sequence = sequence
        self.memory_bytes = GUARDED_APPEND_BYTES + records_bytes
        self.counted_bytes = 0
        self.is_withdrawn = False


class Verification:
    """A verification of one producer's transaction, in one of the producer's epochs.

    Attributes:
        leader_epoch: the leader epoch in which it was asked.
        adds_partitions: see `ProducerTransaction`.
        lowest_sequence: the lowest sequence among the appends that waited; -1 if they have none.
        waiting: the appends that wait, in the order in which they came.
    """

    __slots__ = ("adds_partitions", "leader_epoch", "lowest_sequence", "waiting")

    def __init__(self, leader_epoch: int, adds_partitions: bool) -> None:
        self.leader_epoch = leader_epoch
        self.adds_partitions = adds_partitions
        self.lowest_sequence = NO_SEQUENCE
        self.waiting: deque[GuardedAppend] = deque()

    def add(self, append: GuardedAppend) -> None:
        """Let an append wait behind the others."""
        self.waiting.append(append)
        if self.lowest_sequence < 0 or _is_after(self.lowest_sequence, append.sequence):
            self.lowest_sequence = append.sequence

    def may_begin_with(self, sequence: int) -> bool:
        """Return whether a producer that the log does not know may begin with this sequence.

        The log itself takes any. But not if a lower one came while the coordinator was asked (KAFKA-14920); and with
        transaction.version 2 each transaction has an epoch of its own, whose first sequence is 0.
        """
        if self.adds_partitions and sequence > 0:
            return False
        return not _is_after(sequence, self.lowest_sequence)


class PartitionVerifications:
    """The open verifications of one partition."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[int, Verification]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_producer)

    def get(self, producer_id: int, producer_epoch: int) -> Verification | None:
        """Return the verification about a producer's transaction in this epoch."""
        return self._by_producer.get(producer_id, {}).get(producer_epoch)

    def add(self, producer_id: int, producer_epoch: int, verification: Verification) -> None:
        """Note a verification; one about the same transaction does not stand any more."""
        self._by_producer.setdefault(producer_id, {})[producer_epoch] = verification

    def remove(self, producer_id: int, producer_epoch: int, verification: Verification) -> None:
        """Forget a verification that was answered, unless another one has taken its place."""
        if self.get(producer_id, producer_epoch) is verification:
            self._drop(producer_id, producer_epoch)

    def ended(self, producer_id: int, producer_epoch: int) -> None:
        """Cancel the verifications about transactions that an end marker with this epoch may have ended.

        With transaction.version 2 the marker ends a transaction of an older epoch; a verification of the same epoch is
        about the next one (KAFKA-18575). A marker of an older epoch ends none of a newer one (KAFKA-16352).
        """
        for epoch, verification in list(self._by_producer.get(producer_id, {}).items()):
            if epoch < producer_epoch or (epoch == producer_epoch and not verification.adds_partitions):
                self._drop(producer_id, epoch)

    def _drop(self, producer_id: int, producer_epoch: int) -> None:
        verifications = self._by_producer[producer_id]
        del verifications[producer_epoch]
        if not verifications:
            del self._by_producer[producer_id]


def _is_after(sequence: int, other: int) -> bool:
    """Return whether a sequence number comes after another; sequence numbers wrap after 2³¹ − 1."""
    return sequence >= 0 and other >= 0 and 0 < (sequence - other) & MAX_SEQUENCE < _HALF
