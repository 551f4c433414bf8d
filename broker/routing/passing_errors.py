"""Errors that pass: by kind of call, those after which a broker asks the leader of a key again.

Kafka has a list of its own in each of the classes that ask other brokers; here they are one table. Whatever a kind has
beyond the errors of an election or a lost broker, or lacks of these, has its reason beside it.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Final

from purgatorio.protocol.errors import ErrorCode

_LOST: Final = frozenset({ErrorCode.NETWORK_EXCEPTION})
"""The broker could not be reached, or gave no answer."""
_ELECTION: Final = _LOST | {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE}
"""Another broker leads the partition, or none does."""
_COORDINATOR: Final = _LOST | {
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}
"""The same of the partition of a coordinator, which reads it before it answers."""
_LATE_IMAGE: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
"""The image of the broker that was asked is behind: the partition is in that of this broker."""
_WRITE: Final = frozenset(
    {
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,  # no room for the batch
    }
)
"""The leader cannot write with acks=all now."""

END_OFFSETS: Final[AbstractSet[ErrorCode]] = _ELECTION | {
    ErrorCode.OFFSET_NOT_AVAILABLE,  # KIP-207: a new leader's high watermark may be below that of the one before
}
"""Without UNKNOWN_TOPIC_OR_PARTITION: a client waits for the answer, and asks again itself."""

SHARE_STATES: Final[AbstractSet[ErrorCode]] = _COORDINATOR | _LATE_IMAGE

DEAD_LETTERS: Final[AbstractSet[ErrorCode]] = _ELECTION | _LATE_IMAGE | _WRITE

VERIFICATIONS: Final[AbstractSet[ErrorCode]] = frozenset({ErrorCode.CONCURRENT_TRANSACTIONS})
"""Only the markers of the transaction before, which are written within milliseconds (KIP-890). A producer waits for the
answer, with the records that it has sent: it repeats them after `ASK_AGAIN` itself."""

ASK_AGAIN: Final[AbstractSet[ErrorCode]] = (
    _COORDINATOR
    | _LATE_IMAGE
    | {
        ErrorCode.REQUEST_TIMED_OUT,  # the coordinator could not write that the partition is added
        ErrorCode.OPERATION_NOT_ATTEMPTED,  # because of another partition of the request
    }
)
"""For producers these are NOT_ENOUGH_REPLICAS: they know no errors of coordinators in Produce (KAFKA-16386)."""

MARKERS_REFUSED: Final[AbstractSet[ErrorCode]] = frozenset(
    {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED}
)
"""All others pass, even one that no broker should send: a transaction without its end markers would never end. After
these no marker can be written, as a leader knows a newer epoch of the producer or the coordinator."""
