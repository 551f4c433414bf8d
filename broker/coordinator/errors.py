"""Refusals of coordinators."""

from __future__ import annotations

from typing import Final

from purgatorio.protocol.errors import ErrorCode


class CoordinatorError(Exception):
    """A request that the coordinator refuses."""

    def __init__(self, error_code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code


_NOT_AVAILABLE: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,  # no room for the batch, or for one more transaction: no other broker has more
    }
)
_OF_TRANSACTIONS: Final = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)
"""Errors that a producer has caused, or must wait for; its client gets them unchanged."""


def coordinator_error(append_error: ErrorCode) -> ErrorCode:
    """Return the error code for a coordinator's client, when the coordinator's append ended with this one."""
    if append_error == ErrorCode.NONE or append_error in _OF_TRANSACTIONS:
        return append_error
    if append_error in _NOT_AVAILABLE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if append_error == ErrorCode.NOT_LEADER_OR_FOLLOWER:
        return ErrorCode.NOT_COORDINATOR
    return ErrorCode.UNKNOWN_SERVER_ERROR
