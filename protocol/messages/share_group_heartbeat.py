"""ShareGroupHeartbeat, key 76, version 1, flexible (KIP-932): join, stay in and leave a share group.

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
    int16,
    int32,
    nullable_array,
    nullable_string,
    nullable_struct,
    string,
    uuid,
    wire_struct,
)


@wire_struct
class ShareGroupHeartbeatRequest(Message):
    """Keeps a member's session alive, and reports its changes; null means "as before".

    The member makes its id. Its epoch is 0 to join and -1 to leave.
    """

    group_id: str = string(entity=Entity.GROUP_ID)
    member_id: str = string()
    member_epoch: int = int32()
    rack_id: str | None = nullable_string(None)
    subscribed_topic_names: list[str] | None = nullable_array(STRING, default_null=True, entity=Entity.TOPIC_NAME)


@wire_struct
class TopicPartitions:
    """The partitions of one topic."""

    topic_id: bytes = uuid(entity=Entity.TOPIC_ID)
    partitions: list[int] = array(INT32, entity=Entity.PARTITION)


@wire_struct
class Assignment:
    """The partitions of which the member acquires records."""

    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


@wire_struct
class ShareGroupHeartbeatResponse(Message):
    """Gives the member's epoch, and its assignment; null means that the assignment is as before."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = nullable_string(None)
    member_id: str | None = nullable_string(None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: Assignment | None = nullable_struct(Assignment)


API = Api(
    ApiKey.SHARE_GROUP_HEARTBEAT,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    versions=range(1, 2),
    flexible_from=0,
)
