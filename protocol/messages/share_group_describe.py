"""ShareGroupDescribe, key 77, version 1, flexible (KIP-932): describe share groups and their members.

Version 0 was an early access in Kafka 4.0, which later versions do not know.
"""

from __future__ import annotations

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.entity import Entity
from purgatorio.protocol.message import (
    INT32,
    STRING,
    Api,
    Message,
    array,
    boolean,
    int16,
    int32,
    nullable_string,
    own_struct,
    string,
    uuid,
    wire_struct,
)


@wire_struct
class ShareGroupDescribeRequest(Message):
    """Asks for the groups of these ids."""

    group_ids: list[str] = array(STRING, entity=Entity.GROUP_ID)
    include_authorized_operations: bool = boolean()


@wire_struct
class TopicPartitions:
    """The partitions of one topic."""

    topic_id: bytes = uuid(entity=Entity.TOPIC_ID)
    topic_name: str = string(entity=Entity.TOPIC_NAME)
    partitions: list[int] = array(INT32, entity=Entity.PARTITION)


@wire_struct
class Assignment:
    """The partitions of which one member acquires records."""

    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


@wire_struct
class Member:
    """One member."""

    member_id: str = string()
    rack_id: str | None = nullable_string(None)
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(STRING, entity=Entity.TOPIC_NAME)
    assignment: Assignment = own_struct(Assignment)


@wire_struct
class DescribedGroup:
    """One group; authorized operations are -2^31 unless requested."""

    error_code: int = int16()
    error_message: str | None = nullable_string(None)
    group_id: str = string(entity=Entity.GROUP_ID)
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    assignor_name: str = string()
    members: list[Member] = array(Member)
    authorized_operations: int = int32(-(2**31))


@wire_struct
class ShareGroupDescribeResponse(Message):
    """Describes each requested group."""

    throttle_time_ms: int = int32()
    groups: list[DescribedGroup] = array(DescribedGroup)


API = Api(
    ApiKey.SHARE_GROUP_DESCRIBE,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    versions=range(1, 2),
    flexible_from=0,
)
