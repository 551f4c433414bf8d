"""The errors that a log raises.

LogError                    carries the error code of the answer
├── InvalidBatch            the batch is damaged or not acceptable; the code says which
├── OffsetOutOfRange        no such offset in this log
├── OffsetInTier            the log has it, but only in the tier
├── UnexpectedOffset        batches fetched from the leader do not continue this log
├── OutOfOrderSequence      a batch of an idempotent producer is missing before this one
├── StaleProducerEpoch      a newer producer has taken over the same id
├── StaleCoordinatorEpoch   a newer transaction coordinator has ended a transaction of the same producer
├── InvalidTransactionState    a plain record within a transaction
├── TooManyTransactions     the log has no room for another open transaction
└── MemoryExhausted         the broker's cap on log memory is reached, and nothing may be deleted
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from purgatorio.protocol.errors import ErrorCode


class LogError(Exception):
    """The log refuses an operation; nothing was changed."""

    error_code = ErrorCode.UNKNOWN_SERVER_ERROR


class RecordError(NamedTuple):
    """The reason why one record of a batch is refused (KIP-467); `batch_index` is its position in the batch."""

    batch_index: int
    message: str


class InvalidBatch(LogError):
    """A batch is damaged or not acceptable.

    Attributes:
        record_errors: the records that are the reason, the first ones of them; empty if it is the batch as a whole.
    """

    def __init__(self, error_code: ErrorCode, message: str, record_errors: Sequence[RecordError] = ()) -> None:
        super().__init__(message)
        self.error_code = error_code
        self.record_errors = tuple(record_errors)


class OffsetOutOfRange(LogError):
    """An offset before the log's start or after its end."""

    error_code = ErrorCode.OFFSET_OUT_OF_RANGE


class OffsetInTier(LogError):
    """An offset between the log's start and the start of what it has in memory: the tier has it (KIP-405).

    Followers are answered so; what a consumer asks for is read from the tier.
    """

    error_code = ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE


class UnexpectedOffset(LogError):
    """Batches from the leader do not continue this log; never answered to a client."""


class OutOfOrderSequence(LogError):
    """The sequence number is not the one that follows the producer's last batch."""

    error_code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class StaleProducerEpoch(LogError):
    """The producer's epoch is lower than one that was already seen."""

    error_code = ErrorCode.INVALID_PRODUCER_EPOCH


class InvalidTransactionState(LogError):
    """A producer with an open transaction sends a batch that is not part of it."""

    error_code = ErrorCode.INVALID_TXN_STATE


class StaleCoordinatorEpoch(LogError):
    """The marker is from a transaction coordinator that was replaced."""

    error_code = ErrorCode.TRANSACTION_COORDINATOR_FENCED


class TooManyTransactions(LogError):
    """The log has no room for another open transaction now; a retry may succeed."""

    error_code = ErrorCode.KAFKA_STORAGE_ERROR


class MemoryExhausted(LogError):
    """The cap on log memory is reached and nothing can be deleted now; a retry may succeed.

    It is answered at once, without a throttle time. Clients wait `retry.backoff.ms` before they send a batch again, so
    that two producers at the cap are refused some 200 times a second, which takes a hundredth of a core. A throttle
    time would hold up what a client sends to other partitions, which have room, and so would an answer that waits: it
    holds up all answers behind it.
    """

    error_code = ErrorCode.KAFKA_STORAGE_ERROR
