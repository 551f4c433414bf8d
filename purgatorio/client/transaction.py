"""Transactions (KIP-98, KIP-890): the requests of a producer with a transactional id to its coordinator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from purgatorio.client.client import FAILURES, TRANSACTION, Coordinator, KafkaClient, Partition
from purgatorio.client.group import GroupMembership
from purgatorio.client.produce import NO_PRODUCER
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.message import Message
from purgatorio.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from purgatorio.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from purgatorio.protocol.messages.end_txn import EndTxnRequest
from purgatorio.protocol.messages.init_producer_id import InitProducerIdRequest
from purgatorio.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

MOVED: Final = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
AGAIN: Final = (
    ErrorCode.NETWORK_EXCEPTION,  # there was no answer
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    *MOVED,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
"""After these errors the same request is sent again: the coordinator is not ready, or still ends a transaction."""


class TransactionalId:
    """A producer's transactional id, and its producer id, epoch and sequences.

    Args:
        timeout_ms: transaction.timeout.ms.
        answer_timeout_ms: how long its requests wait; None: as others of the client.

    Attributes:
        name: the transactional id.
        producer: producer id and epoch.
    """

    def __init__(
        self, client: KafkaClient[Any], name: str, *, timeout_ms: int, answer_timeout_ms: int | None = None
    ) -> None:
        self.name = name
        self.producer = NO_PRODUCER
        self.coordinator = Coordinator(client, name, TRANSACTION, timeout_ms=answer_timeout_ms)
        self._client = client
        self._timeout_ms = timeout_ms
        self._sequences: dict[Partition, int] = {}

    def take(self, producer: tuple[int, int]) -> None:
        """Use this id and epoch from now on; each partition's sequences begin anew."""
        if producer != self.producer:
            self.producer = producer
            self._sequences.clear()

    def next_sequence(self, tp: Partition, records: int) -> int:
        """Return the sequence of the next batch of a partition, which has so many records."""
        sequence = self._sequences.get(tp, 0)
        self._sequences[tp] = sequence + records
        return sequence

    async def until_taken(self, request: Message) -> tuple[ErrorCode, Any]:
        """Ask the coordinator until it takes or refuses the request, and return its code and answer."""
        while True:
            try:
                answer = await self.coordinator.ask(request)
            except FAILURES:
                code = ErrorCode.NETWORK_EXCEPTION
            else:
                code = code_of(answer)
                if code not in AGAIN:
                    return code, answer
            await self.retry(code)

    async def retry(self, code: ErrorCode) -> None:
        """Wait before a request is sent again that had this error."""
        if code in MOVED:
            self.coordinator.forget()
        await self._client.back_off()

    # --- requests ---

    async def initialize(self) -> ErrorCode:
        """Get a producer id and epoch; one that has them already gets its next epoch (KIP-360)."""
        producer_id, epoch = self.producer
        request = InitProducerIdRequest(
            transactional_id=self.name,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        code, answer = await self.until_taken(request)
        if code is ErrorCode.NONE:
            self.take((answer.producer_id, answer.producer_epoch))
        return code

    async def add(self, partitions: Iterable[Partition]) -> ErrorCode:
        """Add partitions to the transaction, which begins with the first."""
        topics: dict[str, list[int]] = {}
        for topic, index in partitions:
            topics.setdefault(topic, []).append(index)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.producer[0],
            v3_and_below_producer_epoch=self.producer[1],
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=each) for name, each in topics.items()],
        )
        return (await self.until_taken(request))[0]

    async def add_offsets(self, group: str) -> ErrorCode:
        """Add a group's offsets to the transaction."""
        request = AddOffsetsToTxnRequest(
            transactional_id=self.name, producer_id=self.producer[0], producer_epoch=self.producer[1], group_id=group
        )
        return (await self.until_taken(request))[0]

    def offset_commit(self, me: GroupMembership, offsets: Mapping[Any, int]) -> TxnOffsetCommitRequest:
        """Build the request to the group's coordinator that commits offsets in the transaction (KIP-447)."""
        return TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=me.group,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            generation_id=me.generation,
            member_id=me.member_id,
            group_instance_id=me.instance_id,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=index, committed_offset=offset, committed_metadata=""
                        )
                    ],
                )
                for (topic, index), offset in offsets.items()
            ],
        )

    def end_request(self, *, committed: bool) -> EndTxnRequest:
        """Build the request that commits or aborts the transaction."""
        return EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            committed=committed,
        )


def code_of(answer: Any) -> ErrorCode:
    """Return the error of an answer, or the most specific of its partitions' errors."""
    codes = [getattr(answer, "error_code", 0)]
    for topic in getattr(answer, "results_by_topic_v3_and_below", ()):
        codes += [each.partition_error_code for each in topic.results_by_partition]
    for topic in getattr(answer, "topics", ()):
        codes += [each.error_code for each in topic.partitions]
    errors = [ErrorCode(code) for code in codes if code]
    reasons = [code for code in errors if code is not ErrorCode.OPERATION_NOT_ATTEMPTED]
    return (reasons or errors or [ErrorCode.NONE])[0]
