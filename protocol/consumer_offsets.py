"""The records of `__consumer_offsets`: committed offsets, and the groups themselves.

A key is an int16 that identifies the record type, and plain fields. A value is an int16 version and fields; null
deletes the object that the key names. Names are Kafka's, but ids end in `_id` and times in `_ms` throughout.

| type | key | value | versions | written |
|---|---|---|---|---|
| 0, 1 | `OffsetCommitKey` | `OffsetCommitValue` | 0 to 4, flexible from 4 | 4, or 1 with a time of expiry |
| 2 | `GroupMetadataKey` | `GroupMetadataValue` | 0 to 4, flexible from 4 | 3 |
| 3 | `ConsumerGroupMetadataKey` | `ConsumerGroupMetadataValue` | 0, flexible | 0 |
| 5 | `ConsumerGroupMemberMetadataKey` | `ConsumerGroupMemberMetadataValue` | 0, flexible | 0 |
| 6 | `ConsumerGroupTargetAssignmentMetadataKey` | `ConsumerGroupTargetAssignmentMetadataValue` | 0, flexible | 0 |
| 7 | `ConsumerGroupTargetAssignmentMemberKey` | `ConsumerGroupTargetAssignmentMemberValue` | 0, flexible | 0 |
| 8 | `ConsumerGroupCurrentMemberAssignmentKey` | `ConsumerGroupCurrentMemberAssignmentValue` | 0, flexible | 0 |
| 10 | `ShareGroupMemberMetadataKey` | `ShareGroupMemberMetadataValue` | 0, flexible | 0 |
| 11 | `ShareGroupMetadataKey` | `ShareGroupMetadataValue` | 0, flexible | 0 |
| 12 | `ShareGroupTargetAssignmentMetadataKey` | `ShareGroupTargetAssignmentMetadataValue` | 0, flexible | 0 |
| 13 | `ShareGroupTargetAssignmentMemberKey` | `ShareGroupTargetAssignmentMemberValue` | 0, flexible | 0 |
| 14 | `ShareGroupCurrentMemberAssignmentKey` | `ShareGroupCurrentMemberAssignmentValue` | 0, flexible | 0 |
| 15 | `ShareGroupStatePartitionMetadataKey` | `ShareGroupStatePartitionMetadataValue` | 0, flexible | 0 |
| 16 | `ConsumerGroupRegularExpressionKey` | `ConsumerGroupRegularExpressionValue` | 0, flexible | 0 |

Offsets are of classic and of consumer groups. Type 2 is of classic groups, types 10 to 15 are of share groups
(KIP-932), the others are of consumer groups (KIP-848); the fields of these two are in `group_records`. Type 0 is older
than type 1 and has the same fields. Readers skip all other types, among them 4, which Kafka 4.0 wrote and later
versions do not need, and unknown tagged fields of values (KIP-915).
"""

from __future__ import annotations

from typing import Any, Final

from purgatorio.late import dataclass
from purgatorio.protocol.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)
from purgatorio.protocol.message import (
    Message,
    array,
    binary,
    int32,
    int64,
    nullable_string,
    string,
    uuid,
    wire_struct,
)
from purgatorio.protocol.primitives import Buffer
from purgatorio.protocol.versioned import VersionedCodec, version_of

NO_EXPIRY: Final = -1
"""The time of expiry of an offset that expires by the broker's configuration."""


@wire_struct
class OffsetCommitKey(Message):
    """The key of a committed offset."""

    group_id: str = string()
    topic: str = string()
    partition: int = int32()


@wire_struct
class OffsetCommitValue(Message):
    """A committed offset; leader epoch -1, or an id of zeros for the topic: the client has not given it.

    Version 1 has a time of expiry; 3 adds the leader epoch (KIP-320), 4 the topic's id.
    """

    offset: int = int64()
    leader_epoch: int = int32(-1, since=3)
    metadata: str = string()
    commit_timestamp_ms: int = int64()
    expire_timestamp_ms: int = int64(NO_EXPIRY, since=1, until=1)
    topic_id: bytes = uuid(since=4, tag=0)


@wire_struct
class GroupMetadataKey(Message):
    """The key of a classic group."""

    group_id: str = string()


@wire_struct
class MemberMetadata:
    """One member of a classic group; the rebalance timeout is -1 in version 0, which means the session timeout."""

    member_id: str = string()
    group_instance_id: str | None = nullable_string(None, since=3, null_since=3)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout_ms: int = int32(-1, since=1)
    session_timeout_ms: int = int32()
    subscription: Buffer = binary()
    assignment: Buffer = binary()


@wire_struct
class GroupMetadataValue(Message):
    """A generation of a classic group; without members it is empty, and has neither protocol nor leader.

    Version 1 adds the rebalance timeout, 2 the time of the last change of state, and 3 the instance id (KIP-345).
    """

    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = nullable_string(None)
    leader: str | None = nullable_string(None)
    current_state_timestamp_ms: int = int64(-1, since=2)
    members: list[MemberMetadata] = array(MemberMetadata)


Key = (
    OffsetCommitKey
    | GroupMetadataKey
    | ConsumerGroupMetadataKey
    | ConsumerGroupMemberMetadataKey
    | ConsumerGroupTargetAssignmentMetadataKey
    | ConsumerGroupTargetAssignmentMemberKey
    | ConsumerGroupCurrentMemberAssignmentKey
    | ConsumerGroupRegularExpressionKey
    | ShareGroupMemberMetadataKey
    | ShareGroupMetadataKey
    | ShareGroupTargetAssignmentMetadataKey
    | ShareGroupTargetAssignmentMemberKey
    | ShareGroupCurrentMemberAssignmentKey
    | ShareGroupStatePartitionMetadataKey
)
Value = (
    OffsetCommitValue
    | GroupMetadataValue
    | ConsumerGroupMetadataValue
    | ConsumerGroupMemberMetadataValue
    | ConsumerGroupTargetAssignmentMetadataValue
    | ConsumerGroupTargetAssignmentMemberValue
    | ConsumerGroupCurrentMemberAssignmentValue
    | ConsumerGroupRegularExpressionValue
    | ShareGroupMemberMetadataValue
    | ShareGroupMetadataValue
    | ShareGroupTargetAssignmentMetadataValue
    | ShareGroupTargetAssignmentMemberValue
    | ShareGroupCurrentMemberAssignmentValue
    | ShareGroupStatePartitionMetadataValue
)


@dataclass(frozen=True, slots=True)
class RecordKind:
    """One kind of record.

    Attributes:
        type: the type in its keys when they are written.
        keys: the codec of its keys; the type stands where other messages have their version.
        values: the codec of its values.
        value_version: the version in which values are written.
    """

    type: int
    keys: VersionedCodec[Any]
    values: VersionedCodec[Any]
    value_version: int


def _group_kind(record_type: int, key: type[Message], value: type[Message]) -> RecordKind:
    keys = VersionedCodec(key, range(record_type, record_type + 1))
    return RecordKind(record_type, keys, VersionedCodec(value, range(1), flexible_from=0), 0)


KINDS: Final = (
    RecordKind(
        1, VersionedCodec(OffsetCommitKey, range(2)), VersionedCodec(OffsetCommitValue, range(5), flexible_from=4), 4
    ),
    RecordKind(
        2,
        VersionedCodec(GroupMetadataKey, range(2, 3)),
        VersionedCodec(GroupMetadataValue, range(5), flexible_from=4),
        3,
    ),
    _group_kind(3, ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    _group_kind(5, ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    _group_kind(6, ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
    _group_kind(7, ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
    _group_kind(8, ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
    _group_kind(10, ShareGroupMemberMetadataKey, ShareGroupMemberMetadataValue),
    _group_kind(11, ShareGroupMetadataKey, ShareGroupMetadataValue),
    _group_kind(12, ShareGroupTargetAssignmentMetadataKey, ShareGroupTargetAssignmentMetadataValue),
    _group_kind(13, ShareGroupTargetAssignmentMemberKey, ShareGroupTargetAssignmentMemberValue),
    _group_kind(14, ShareGroupCurrentMemberAssignmentKey, ShareGroupCurrentMemberAssignmentValue),
    _group_kind(15, ShareGroupStatePartitionMetadataKey, ShareGroupStatePartitionMetadataValue),
    _group_kind(16, ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
)
"""The kinds of records that are read and written, by type."""

_OF_TYPE: Final = {record_type: kind for kind in KINDS for record_type in kind.keys.versions}
_OF_KEY: Final = {kind.keys.cls: kind for kind in KINDS}
_OF_VALUE: Final = {kind.values.cls: kind for kind in KINDS}
_VERSION_WITH_EXPIRY: Final = 1


def decode_key(data: Buffer) -> Key | None:
    """Decode the key of a record; None for a record of another type, which a reader skips.

    Raises:
        DecodeError: the key is malformed.
    """
    kind = _OF_TYPE.get(version_of(data))
    return None if kind is None else kind.keys.decode(data)


def decode_value(key: Key, data: Buffer | None) -> Value | None:
    """Decode the value of a record with this key; None if the record is a tombstone.

    Raises:
        DecodeError: the value is malformed, or of an unknown version.
    """
    return None if data is None else _OF_KEY[type(key)].values.decode(data)


def encode_key(key: Key) -> bytes:
    """Encode the key of a record.

    Raises:
        EncodeError: an id or a topic's name is too long.
    """
    kind = _OF_KEY[type(key)]
    return kind.keys.encode(key, kind.type)


def encode_value(value: Value) -> bytes:
    """Encode the value of a record.

    An offset with a time of expiry is written in version 1, the only one that has it, and so loses its leader epoch.

    Raises:
        EncodeError: a field is out of range.
    """
    kind = _OF_VALUE[type(value)]
    if isinstance(value, OffsetCommitValue) and value.expire_timestamp_ms != NO_EXPIRY:
        return kind.values.encode(value, _VERSION_WITH_EXPIRY)
    return kind.values.encode(value, kind.value_version)
