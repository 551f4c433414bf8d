"""How a leader learns that a producer's transaction includes its partition (KIP-890)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.protocol.errors import ErrorCode


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
            done: gets NONE for partitions in the transaction, else what a client is told. Failures on the way are
                NOT_ENOUGH_REPLICAS, which all clients retry (KAFKA-16386).
        """
        ...
