"""The records of `__consumer_offsets`: committed offsets, and the groups themselves.

A key is an int16 that tells the record's type, and plain fields. A value is an int16 version and fields; null deletes
what the key names. Names are Kafka's, but ids end in `_id` and times in `_ms` throughout.

| type | key | value | versions | written |
|---|---|---|---|---|
| 0, 1 | `OffsetCommitKey` | `OffsetCommitValue` | 0 to 4, flexible from 4 | 4, or 1 with a time of expiry |
| 2 | `GroupMetadataKey` | `GroupMetadataValue` | 0 to 4, flexible from 4 | 3 |
| 3 | `ConsumerGroupMetadataKey` | `ConsumerGroupMetadataValue` | 0, flexible | 0 |
| 5 | `ConsumerGroupMemberMetadataKey` | `ConsumerGroupMemberMetadataValue` | 0, flexible | 0 |
| 6 | `ConsumerGroupTargetAssignmentMetadataKey` | `ConsumerGroupTargetAssignmentMetadataValue` | 0, flexible | 0 |
| 7 | `ConsumerGroupTargetAssignmentMemberKey` | `ConsumerGroupTargetAssignmentMemberValue` | 0, flexible | 0 |
| 8 | `ConsumerGroupCurrentMemberAssignmentKey` | `ConsumerGroupCurrentMemberAssignmentValue` | 0, flexible | 0 |
| 16 | `ConsumerGroupRegularExpressionKey` | `ConsumerGroupRegularExpressionValue` | 0, flexible | 0 |

Offsets are of groups of both protocols, type 2 is of classic groups, the others are of consumer groups (KIP-848).
Type 0 is older than type 1 and has the same fields. Readers skip all other types, among them 4, which Kafka 4.0 wrote
and later versions do not need, and unknown tagged fields of values (KIP-915).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from purgatorio.protocol.message import (
    INT32,
    STRING,
    Message,
    array,
    binary,
    int8,
    int32,
    int64,
    nullable_array,
    nullable_string,
    nullable_struct,
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


@wire_struct
class ConsumerGroupMetadataKey(Message):
    """The key of a consumer group."""

    group_id: str = string()


@wire_struct
class ConsumerGroupMetadataValue(Message):
    """The epoch of a consumer group, and a hash of its topics' metadata (KIP-1101)."""

    epoch: int = int32()
    metadata_hash: int = int64(tag=0)


@wire_struct
class ConsumerGroupMemberMetadataKey(Message):
    """The key of a member's subscription."""

    group_id: str = string()
    member_id: str = string()


@wire_struct
class ClassicProtocol:
    """One protocol that a member supports, with its subscription as in JoinGroup."""

    name: str = string()
    metadata: Buffer = binary()


@wire_struct
class ClassicMemberMetadata:
    """What a consumer group knows of a member that speaks the classic protocol."""

    session_timeout_ms: int = int32()
    supported_protocols: list[ClassicProtocol] = array(ClassicProtocol)


@wire_struct
class ConsumerGroupMemberMetadataValue(Message):
    """A member of a consumer group with its subscription; with classic metadata if it speaks the classic protocol."""

    instance_id: str | None = nullable_string(None)
    rack_id: str | None = nullable_string(None)
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(STRING)
    subscribed_topic_regex: str | None = nullable_string(None)
    rebalance_timeout_ms: int = int32(-1)
    server_assignor: str | None = nullable_string(None)
    classic_member_metadata: ClassicMemberMetadata | None = nullable_struct(ClassicMemberMetadata, tag=0)


@wire_struct
class ConsumerGroupTargetAssignmentMetadataKey(Message):
    """The key of a consumer group's target assignment as a whole."""

    group_id: str = string()


@wire_struct
class ConsumerGroupTargetAssignmentMetadataValue(Message):
    """The group epoch that the target assignment was made for, and when (KIP-1263)."""

    assignment_epoch: int = int32()
    assignment_timestamp_ms: int = int64(tag=0)


@wire_struct
class ConsumerGroupTargetAssignmentMemberKey(Message):
    """The key of the target assignment of one member."""

    group_id: str = string()
    member_id: str = string()


@wire_struct
class TargetPartitions:
    """The partitions of one topic that a member shall own."""

    topic_id: bytes = uuid()
    partitions: list[int] = array(INT32)


@wire_struct
class ConsumerGroupTargetAssignmentMemberValue(Message):
    """The partitions that a member shall own."""

    topic_partitions: list[TargetPartitions] = array(TargetPartitions)


@wire_struct
class ConsumerGroupCurrentMemberAssignmentKey(Message):
    """The key of the present assignment of one member."""

    group_id: str = string()
    member_id: str = string()


@wire_struct
class CurrentPartitions:
    """The partitions of one topic, with the epoch at which each was assigned (KIP-1251); none if that is not known."""

    topic_id: bytes = uuid()
    partitions: list[int] = array(INT32)
    assignment_epochs: list[int] | None = nullable_array(INT32, tag=0)


@wire_struct
class ConsumerGroupCurrentMemberAssignmentValue(Message):
    """The epoch of a member, with the partitions that it owns and those that it has to give up.

    The state is 0 for stable, 1 while the member has partitions to give up (unrevoked), 2 while it waits for partitions
    that others own (unreleased).
    """

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[CurrentPartitions] = array(CurrentPartitions)
    partitions_pending_revocation: list[CurrentPartitions] = array(CurrentPartitions)


@wire_struct
class ConsumerGroupRegularExpressionKey(Message):
    """The key of a regular expression that members of a group subscribe by."""

    group_id: str = string()
    regular_expression: str = string()


@wire_struct
class ConsumerGroupRegularExpressionValue(Message):
    """The topics that a regular expression matches, with the version of the metadata that told and the time."""

    topics: list[str] = array(STRING)
    version: int = int64()
    timestamp_ms: int = int64()


Key = (
    OffsetCommitKey
    | GroupMetadataKey
    | ConsumerGroupMetadataKey
    | ConsumerGroupMemberMetadataKey
    | ConsumerGroupTargetAssignmentMetadataKey
    | ConsumerGroupTargetAssignmentMemberKey
    | ConsumerGroupCurrentMemberAssignmentKey
    | ConsumerGroupRegularExpressionKey
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


def _consumer_group_kind(record_type: int, key: type[Message], value: type[Message]) -> RecordKind:
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
    _consumer_group_kind(3, ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    _consumer_group_kind(5, ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    _consumer_group_kind(6, ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
    _consumer_group_kind(7, ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
    _consumer_group_kind(8, ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
    _consumer_group_kind(16, ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
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
    """Decode the value of a record with this key; None if the record deletes what the key names.

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
