"""Records of consumer groups (KIP-848) and share groups (KIP-932) in `__consumer_offsets`.

The coordinator assigns the partitions of both. Their codecs are in `consumer_offsets`.
"""

from __future__ import annotations

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
    """The session timeout and protocols of a classic-protocol member in a consumer group."""

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
    """The partitions of one topic that a member shall own, or, in a share group, may acquire records of."""

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
    """The topics that a regular expression matched, the version of the metadata that was searched, and the time."""

    topics: list[str] = array(STRING)
    version: int = int64()
    timestamp_ms: int = int64()


@wire_struct
class ShareGroupMemberMetadataKey(Message):
    """The key of a share group's member."""

    group_id: str = string()
    member_id: str = string()


@wire_struct
class ShareGroupMemberMetadataValue(Message):
    """A member of a share group with its subscription."""

    rack_id: str | None = nullable_string(None)
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(STRING)


@wire_struct
class ShareGroupMetadataKey(Message):
    """The key of a share group."""

    group_id: str = string()


@wire_struct
class ShareGroupMetadataValue(Message):
    """The epoch of a share group, and a hash of its topics' metadata."""

    epoch: int = int32()
    metadata_hash: int = int64()


@wire_struct
class ShareGroupTargetAssignmentMetadataKey(Message):
    """The key of a share group's target assignment as a whole."""

    group_id: str = string()


@wire_struct
class ShareGroupTargetAssignmentMetadataValue(Message):
    """The group epoch that the target assignment was made for, and when (KIP-1263)."""

    assignment_epoch: int = int32()
    assignment_timestamp_ms: int = int64(tag=0)


@wire_struct
class ShareGroupTargetAssignmentMemberKey(Message):
    """The key of the target assignment of one member of a share group."""

    group_id: str = string()
    member_id: str = string()


@wire_struct
class ShareGroupTargetAssignmentMemberValue(Message):
    """The partitions of which a member shall acquire records."""

    topic_partitions: list[TargetPartitions] = array(TargetPartitions)


@wire_struct
class ShareGroupCurrentMemberAssignmentKey(Message):
    """The key of the present assignment of one member of a share group."""

    group_id: str = string()
    member_id: str = string()


@wire_struct
class ShareGroupCurrentMemberAssignmentValue(Message):
    """The epoch of a member, with the partitions of which it acquires records; the state is always 0, stable."""

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[TargetPartitions] = array(TargetPartitions)


@wire_struct
class ShareGroupStatePartitionMetadataKey(Message):
    """The key of what a share group knows of its state in the share coordinators."""

    group_id: str = string()


@wire_struct
class TopicPartitionsInfo:
    """The partitions of one topic, with its name."""

    topic_id: bytes = uuid()
    topic_name: str = string()
    partitions: list[int] = array(INT32)


@wire_struct
class TopicInfo:
    """One topic with its name."""

    topic_id: bytes = uuid()
    topic_name: str = string()


@wire_struct
class ShareGroupStatePartitionMetadataValue(Message):
    """The share partitions whose state is being initialized, is there, and is being deleted."""

    initializing_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo)
    initialized_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo)
    deleting_topics: list[TopicInfo] = array(TopicInfo)
