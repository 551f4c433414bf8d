"""The records of `__share_group_state`: how far each share group has come in each partition (KIP-932).

A key is an int16 that identifies the record type, and plain fields: group, topic id and partition. A value is an int16
version and fields. Type 0 is a snapshot of the whole state, and a null value in its place deletes the share partition;
type 1 is an update: the changes since the last snapshot or update. Names are Kafka's, but ids end in `_id` and
times in `_ms` throughout.

Readers skip records of other types, and unknown tagged fields of values (KIP-915).
"""

from __future__ import annotations

import base64
import enum
from typing import Any, Final, NamedTuple

from purgatorio.late import dataclass
from purgatorio.protocol.message import Message, array, int8, int16, int32, int64, string, uuid, wire_struct
from purgatorio.protocol.primitives import Buffer
from purgatorio.protocol.versioned import VersionedCodec, version_of

NO_START_OFFSET: Final = -1
"""The start offset of a share partition that is initialized and was not read from yet; in an update and in a request
to write: as before."""
UNKNOWN_COMPLETE_COUNT: Final = -1
"""The delivery-complete count of a request whose version has no such field."""


class RecordState(enum.IntEnum):
    """The state of a record in a share partition, with Kafka's numbers."""

    AVAILABLE = 0
    """It may be acquired."""
    ACQUIRED = 1
    """A member has it, under a lock that runs out; never in a stored record."""
    ACKNOWLEDGED = 2
    """It was processed."""
    ARCHIVING = 3
    """It is on its way to the dead-letter topic (KIP-1191)."""
    ARCHIVED = 4
    """It is given up: rejected, a gap, delivered too often, or deleted."""

    @property
    def is_terminal(self) -> bool:
        """Whether the record is never delivered again, and nothing is left to do for it."""
        return self is RecordState.ACKNOWLEDGED or self is RecordState.ARCHIVED


class SharePartitionKey(NamedTuple):
    """A partition as one share group consumes it.

    Attributes:
        topic_id: 16 bytes.
    """

    group_id: str
    topic_id: bytes
    partition: int

    def __str__(self) -> str:
        """Return the key by which a share coordinator is found: group, topic id in URL-safe base64, and partition."""
        topic_id = base64.urlsafe_b64encode(self.topic_id).rstrip(b"=").decode()
        return f"{self.group_id}:{topic_id}:{self.partition}"

    @staticmethod
    def parse(text: str) -> SharePartitionKey:
        """Read the key of a FindCoordinator request; the group's id may have colons.

        Raises:
            ValueError: the text is no such key.
        """
        group_id, topic_id, partition = text.rsplit(":", 2)
        decoded = base64.b64decode(topic_id + "=" * (-len(topic_id) % 4), altchars=b"-_", validate=True)
        if not group_id or len(decoded) != 16 or not partition.isdecimal():
            raise ValueError(f"{text!r} is not group:topic id:partition")
        return SharePartitionKey(group_id, decoded, int(partition))


@wire_struct
class StateBatch:
    """The offsets from `first_offset` to `last_offset`, both included, with their state and number of deliveries.

    The state is a `RecordState`, but never ACQUIRED.
    """

    first_offset: int = int64()
    last_offset: int = int64()
    delivery_state: int = int8()
    delivery_count: int = int16()


@wire_struct
class ShareSnapshotKey(Message):
    """The key of a snapshot."""

    group_id: str = string()
    topic_id: bytes = uuid()
    partition: int = int32()


@wire_struct
class ShareSnapshotValue(Message):
    """The whole state of a share partition.

    The snapshot epoch grows with each snapshot; the state epoch is that of the group when the state was initialized;
    the leader epoch fences older leaders. The delivery-complete count is the number of records from the start offset on
    that are acknowledged or archived (KIP-1226).
    """

    snapshot_epoch: int = int32()
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    create_timestamp_ms: int = int64()
    write_timestamp_ms: int = int64()
    state_batches: list[StateBatch] = array(StateBatch)
    delivery_complete_count: int = int32(UNKNOWN_COMPLETE_COUNT, tag=0)


@wire_struct
class ShareUpdateKey(Message):
    """The key of an update."""

    group_id: str = string()
    topic_id: bytes = uuid()
    partition: int = int32()


@wire_struct
class ShareUpdateValue(Message):
    """The changes since the snapshot of this epoch; a start offset of -1 means that it has not moved."""

    snapshot_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    state_batches: list[StateBatch] = array(StateBatch)
    delivery_complete_count: int = int32(UNKNOWN_COMPLETE_COUNT, tag=0)


Key = ShareSnapshotKey | ShareUpdateKey
Value = ShareSnapshotValue | ShareUpdateValue


@dataclass(frozen=True, slots=True)
class _Kind:
    type: int
    keys: VersionedCodec[Any]
    values: VersionedCodec[Any]


def _kind(record_type: int, key: type[Message], value: type[Message]) -> _Kind:
    keys = VersionedCodec(key, range(record_type, record_type + 1))
    return _Kind(record_type, keys, VersionedCodec(value, range(1), flexible_from=0))


KINDS: Final = (_kind(0, ShareSnapshotKey, ShareSnapshotValue), _kind(1, ShareUpdateKey, ShareUpdateValue))
"""The kinds of records, by type."""

_OF_KEY: Final = {kind.keys.cls: kind for kind in KINDS}
_OF_VALUE: Final = {kind.values.cls: kind for kind in KINDS}


def decode_key(data: Buffer) -> Key | None:
    """Decode the key of a record; None for a record of another type, which a reader skips.

    Raises:
        DecodeError: the key is malformed.
    """
    record_type = version_of(data)
    return KINDS[record_type].keys.decode(data) if 0 <= record_type < len(KINDS) else None


def decode_value(key: Key, data: Buffer | None) -> Value | None:
    """Decode the value of a record with this key; None if the record deletes the share partition.

    Raises:
        DecodeError: the value is malformed, or of an unknown version.
    """
    return None if data is None else _OF_KEY[type(key)].values.decode(data)


def encode_key(key: Key) -> bytes:
    """Encode the key of a record.

    Raises:
        EncodeError: the group's id is too long.
    """
    kind = _OF_KEY[type(key)]
    return kind.keys.encode(key, kind.type)


def encode_value(value: Value) -> bytes:
    """Encode the value of a record.

    Raises:
        EncodeError: a field is out of range.
    """
    return _OF_VALUE[type(value)].values.encode(value, 0)
