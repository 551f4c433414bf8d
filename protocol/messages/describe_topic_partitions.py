"""DescribeTopicPartitions, key 75, version 0, flexible (KIP-966): topics and partitions, in pages."""

from __future__ import annotations

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.entity import Entity
from purgatorio.protocol.message import (
    INT32,
    Api,
    Message,
    array,
    boolean,
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
class TopicRequest:
    """One topic to describe."""

    name: str = string(entity=Entity.TOPIC_NAME)


@wire_struct
class Cursor:
    """The first partition of a page."""

    topic_name: str = string(entity=Entity.TOPIC_NAME)
    partition_index: int = int32(entity=Entity.PARTITION)


@wire_struct
class DescribeTopicPartitionsRequest(Message):
    """Asks for topics (all if the list is empty), from the cursor on."""

    topics: list[TopicRequest] = array(TopicRequest)
    response_partition_limit: int = int32(2_000)
    cursor: Cursor | None = nullable_struct(Cursor)


@wire_struct
class DescribeTopicPartitionsResponsePartition:
    """One partition; the eligible leader replicas are null if the cluster does not track them."""

    error_code: int = int16()
    partition_index: int = int32(entity=Entity.PARTITION)
    leader_id: int = int32(entity=Entity.BROKER_ID)
    leader_epoch: int = int32(-1)
    replica_nodes: list[int] = array(INT32, entity=Entity.BROKER_ID)
    isr_nodes: list[int] = array(INT32, entity=Entity.BROKER_ID)
    eligible_leader_replicas: list[int] | None = nullable_array(INT32, default_null=True, entity=Entity.BROKER_ID)
    last_known_elr: list[int] | None = nullable_array(INT32, default_null=True, entity=Entity.BROKER_ID)
    offline_replicas: list[int] = array(INT32, entity=Entity.BROKER_ID)


@wire_struct
class DescribeTopicPartitionsResponseTopic:
    """One topic; authorized operations are -2^31 unless requested."""

    error_code: int = int16()
    name: str | None = nullable_string(entity=Entity.TOPIC_NAME)
    topic_id: bytes = uuid(entity=Entity.TOPIC_ID)
    is_internal: bool = boolean()
    partitions: list[DescribeTopicPartitionsResponsePartition] = array(DescribeTopicPartitionsResponsePartition)
    topic_authorized_operations: int = int32(-(2**31))


@wire_struct
class DescribeTopicPartitionsResponse(Message):
    """Gives one page; the cursor is the start of the next page, or null."""

    throttle_time_ms: int = int32()
    topics: list[DescribeTopicPartitionsResponseTopic] = array(DescribeTopicPartitionsResponseTopic)
    next_cursor: Cursor | None = nullable_struct(Cursor)


API = Api(
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    versions=range(1),
    flexible_from=0,
)
