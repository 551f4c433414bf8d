"""The transaction that a Produce request belongs to, and the refusals that concern the request as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.replica.partition import NO_TRANSACTIONAL_ID
from purgatorio.broker.replica.producing.verification import ProducerTransaction
from purgatorio.broker.replica.results import AppendResult
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.primitives import Buffer
from purgatorio.protocol.records import NO_PRODUCER_ID, is_transactional, producer_in

ABORTABLE_VERSION: Final = 11
"""The first version that may answer TRANSACTION_ABORTABLE (KIP-890)."""
ADDING_VERSION: Final = 12
"""The first version that adds its partitions to the transaction (KIP-890)."""


def has_transactional(batches: Sequence[tuple[TopicPartition, Buffer | None]]) -> bool:
    """Return whether one of the batches belongs to a transaction."""
    for _, records in batches:  # noqa: SIM110 - each request asks, and `any` takes three times as long
        if records is not None and is_transactional(records):
            return True
    return False


def transaction_of(
    transactional_id: str | None, version: int, batches: Sequence[tuple[TopicPartition, Buffer | None]]
) -> ProducerTransaction | AppendResult:
    """Return the transaction of the transactional batches, of which there is at least one; or why all are refused.

    TRANSACTIONAL_ID_AUTHORIZATION_FAILED without a transactional id, as in Kafka; INVALID_REQUEST if it is empty;
    INVALID_PRODUCER_ID_MAPPING if the batches are of several producers or epochs, or of none.
    """
    if transactional_id is None:
        return AppendResult(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, NO_TRANSACTIONAL_ID)
    if not transactional_id:
        return AppendResult(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
    producers = {producer_in(records) for _, records in batches if records is not None and is_transactional(records)}
    producers.discard(None)  # what cannot be read is refused alone
    if len(producers) > 1:
        message = "a request has batches of one transactional producer only"
        return AppendResult(ErrorCode.INVALID_PRODUCER_ID_MAPPING, message)
    producer_id, epoch = next(iter(producers), None) or (NO_PRODUCER_ID, -1)
    if producers and producer_id < 0:
        return AppendResult(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "a batch of a transaction has no producer id")
    return ProducerTransaction(transactional_id, producer_id, epoch, adds_partitions=version >= ADDING_VERSION)


def as_known_to(version: int, results: Sequence[AppendResult]) -> None:
    """Replace errors that clients of a version do not know."""
    if version >= ABORTABLE_VERSION:
        return
    for result in results:
        if result.error_code == ErrorCode.TRANSACTION_ABORTABLE:
            result.error_code = ErrorCode.INVALID_TXN_STATE
