"""The records of `__transaction_state`: the last transaction of each transactional id (KIP-98).

A key is an int16, the record type, which is 0, and the id. A value is an int16 version and fields; null deletes the id.
Names are Kafka's. Version 1 of values is flexible and adds tagged fields (KIP-890, KIP-939); Kafka writes version 0
only under transaction.version 0.

Readers skip records of other types, and unknown tagged fields of values (KIP-915).
"""

from __future__ import annotations

import enum
from typing import Final

from purgatorio.protocol.errors import DecodeError, EncodeError
from purgatorio.protocol.message import (
    INT32,
    Message,
    array,
    int8,
    int16,
    int32,
    int64,
    nullable_array,
    string,
    wire_struct,
)
from purgatorio.protocol.primitives import Buffer
from purgatorio.protocol.versioned import VersionedCodec, version_of


class TransactionState(enum.IntEnum):
    """The states of a transactional id, with Kafka's numbers; the last two are never in a record."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    """The id expires: its tombstone is on the way."""
    PREPARE_EPOCH_FENCE = 7
    """The epoch is bumped, to abort the transaction of a producer that is fenced or too slow."""

    @property
    def state_name(self) -> str:
        """The name that DescribeTransactions and ListTransactions use, such as "PrepareCommit"."""
        return self.name.title().replace("_", "")


@wire_struct
class TransactionLogKey(Message):
    """The key of a transactional id."""

    transactional_id: str = string()


@wire_struct
class TransactionTopic:
    """The partitions of one topic."""

    topic: str = string()
    partition_ids: list[int] = array(INT32)


@wire_struct
class TransactionLogValue(Message):
    """The last transaction of a transactional id.

    The status is a `TransactionState`. Kafka writes null for the partitions of an empty one, and a list, which may be
    empty, otherwise. The start time is -1 while no transaction has begun.

    Version 1 adds the producer id of the transaction before; producer id and epoch of the next transaction, if they are
    known and others (else -1); and the `transaction.version` that the client used.
    """

    producer_id: int = int64()
    previous_producer_id: int = int64(-1, since=1, tag=0)
    next_producer_id: int = int64(-1, since=1, tag=1)
    producer_epoch: int = int16()
    next_producer_epoch: int = int16(-1, since=1, tag=3)
    transaction_timeout_ms: int = int32()
    transaction_status: int = int8()
    transaction_partitions: list[TransactionTopic] | None = nullable_array(TransactionTopic)
    transaction_last_update_timestamp_ms: int = int64()
    transaction_start_timestamp_ms: int = int64()
    client_transaction_version: int = int16(since=1, tag=2)


KEYS: Final = VersionedCodec(TransactionLogKey, range(1))
"""The codec of keys; the type stands where other messages have their version."""

VALUES: Final = VersionedCodec(TransactionLogValue, range(2), flexible_from=1)
"""The codec of values in all versions, which knows no states."""

VALUE_VERSION: Final = 1
"""The version in which values are written."""

_LOGGED: Final = range(TransactionState.DEAD)


def decode_key(data: Buffer) -> str | None:
    """Decode the key of a record: a transactional id; None for a record of another type, which a reader skips.

    Raises:
        DecodeError: the key is malformed.
    """
    return KEYS.decode(data).transactional_id if version_of(data) in KEYS.versions else None


def decode_value(data: Buffer | None) -> TransactionLogValue | None:
    """Decode the value of a record; None if the record deletes the transactional id.

    Raises:
        DecodeError: the value is malformed, of an unknown version, or in a state that is never logged.
    """
    if data is None:
        return None
    value = VALUES.decode(data)
    if value.transaction_status not in _LOGGED:
        raise DecodeError(f"a transaction in state {value.transaction_status}, which is never logged")
    return value


def encode_key(transactional_id: str) -> bytes:
    """Encode the key of a record.

    Raises:
        EncodeError: the id is too long.
    """
    return KEYS.encode(TransactionLogKey(transactional_id=transactional_id), 0)


def encode_value(value: TransactionLogValue, version: int = VALUE_VERSION) -> bytes:
    """Encode the value of a record.

    Version 0 has no tagged fields, which are lost.

    Raises:
        EncodeError: a field is out of range, the state is never logged, or the version is unknown.
    """
    if value.transaction_status not in _LOGGED:
        raise EncodeError(f"a transaction in state {value.transaction_status} is never logged")
    return VALUES.encode(value, version)
