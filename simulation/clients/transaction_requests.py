"""The requests of a transactional producer: their versions, what they carry, and what their errors mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from purgatorio.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

ADD_VERSION: Final = 3
REQUEST_TIMEOUT_MS: Final = 3_000
"""Longer than that of other clients: a coordinator lets a request wait for the transition before it."""

FENCED: Final = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED)
AGAIN: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
NOT_DONE: Final = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS)
"""With these the coordinator has certainly changed nothing; COORDINATOR_NOT_AVAILABLE may follow an append."""


@dataclass(frozen=True, slots=True)
class Versions:
    """The request versions of a producer, which tell its protocol."""

    produce: int
    txn_offset_commit: int
    end_txn: int

    @property
    def adds_partitions(self) -> bool:
        """Whether the producer adds partitions to its transaction; else Produce and TxnOffsetCommit do."""
        return self.produce < 12


OLD: Final = Versions(produce=9, txn_offset_commit=3, end_txn=3)
TV1: Final = Versions(produce=11, txn_offset_commit=4, end_txn=4)
TV2: Final = Versions(produce=12, txn_offset_commit=5, end_txn=5)


@dataclass(frozen=True, slots=True)
class Membership:
    """What a member of a group tells with the offsets of a transaction (KIP-447)."""

    group: str
    generation: int
    member_id: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Value:
    """A value to send, and the record that it is made from, as partition and offset."""

    value: int
    source: tuple[str, int] = ("", -1)


def partitions_to_add(
    transactional_id: str, producer: tuple[int, int], partitions: Iterable[TopicPartition]
) -> AddPartitionsToTxnRequest:
    """Build the request that adds partitions to the transaction of a producer, given by its id and epoch."""
    topics: dict[str, list[int]] = {}
    for tp in partitions:
        topics.setdefault(tp.topic, []).append(tp.partition)
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=each) for name, each in topics.items()],
    )


def offset_commit(
    transactional_id: str, producer: tuple[int, int], offsets: Mapping[TopicPartition, int], membership: Membership
) -> TxnOffsetCommitRequest:
    """Build the request that commits offsets in the transaction of a producer, given by its id and epoch."""
    return TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=membership.group,
        producer_id=producer[0],
        producer_epoch=producer[1],
        generation_id=membership.generation,
        member_id=membership.member_id,
        group_instance_id=membership.instance_id,
        topics=[
            TxnOffsetCommitRequestTopic(
                name=tp.topic,
                partitions=[
                    TxnOffsetCommitRequestPartition(
                        partition_index=tp.partition, committed_offset=offset, committed_metadata=""
                    )
                ],
            )
            for tp, offset in offsets.items()
        ],
    )


def code_of(answer: Any) -> ErrorCode:
    """Return the error of an answer, or the first that tells why of its partitions' errors."""
    codes = [getattr(answer, "error_code", 0)]
    for topic in getattr(answer, "results_by_topic_v3_and_below", ()):
        codes += [each.partition_error_code for each in topic.results_by_partition]
    for topic in getattr(answer, "topics", ()):
        codes += [each.error_code for each in topic.partitions]
    errors = [ErrorCode(code) for code in codes if code]
    reasons = [code for code in errors if code is not ErrorCode.OPERATION_NOT_ATTEMPTED]
    return (reasons or errors or [ErrorCode.NONE])[0]
