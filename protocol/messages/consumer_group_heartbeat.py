"""ConsumerGroupHeartbeat, key 68, versions 0 and 1, both flexible (KIP-848): join, stay in and leave a consumer group.

Version 1 adds subscriptions by regular expression, and has the client make its member id (KIP-1082).
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
class TopicPartitions:
    """The partitions of one topic."""

    topic_id: bytes = uuid(entity=Entity.TOPIC_ID)
    partitions: list[int] = array(INT32, entity=Entity.PARTITION)


@wire_struct
class ConsumerGroupHeartbeatRequest(Message):
    """Keeps a member's session alive, and reports its changes: -1 for the rebalance timeout and null mean "as before".

    The member epoch is 0 to join, -1 to leave, and -2 if a static member leaves for a while.
    `topic_partitions` are those that the member owns.
    """

    group_id: str = string(entity=Entity.GROUP_ID)
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = nullable_string(None)
    rack_id: str | None = nullable_string(None)
    rebalance_timeout_ms: int = int32(-1)
    subscribed_topic_names: list[str] | None = nullable_array(STRING, default_null=True, entity=Entity.TOPIC_NAME)
    subscribed_topic_regex: str | None = nullable_string(None, since=1, null_since=1)
    server_assignor: str | None = nullable_string(None)
    topic_partitions: list[TopicPartitions] | None = nullable_array(TopicPartitions, default_null=True)


@wire_struct
class Assignment:
    """The partitions that the member may own."""

    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


@wire_struct
class ConsumerGroupHeartbeatResponse(Message):
    """Gives the member's epoch, and its assignment; null means that the assignment is as before."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = nullable_string(None)
    member_id: str | None = nullable_string(None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: Assignment | None = nullable_struct(Assignment)


API = Api(
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    versions=range(2),
    flexible_from=0,
)
