"""AlterPartitionReassignments, key 45, versions 0 and 1 (KIP-455): move partitions to other brokers.

All versions are flexible. Version 1 lets a client forbid another replication factor (KIP-860).
"""

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
    string,
    wire_struct,
)


@wire_struct
class ReassignablePartition:
    """One partition and its target replicas; null cancels its reassignment."""

    partition_index: int = int32(entity=Entity.PARTITION)
    replicas: list[int] | None = nullable_array(INT32, default_null=True, entity=Entity.BROKER_ID)


@wire_struct
class ReassignableTopic:
    """The partitions of one topic."""

    name: str = string(entity=Entity.TOPIC_NAME)
    partitions: list[ReassignablePartition] = array(ReassignablePartition)


@wire_struct
class AlterPartitionReassignmentsRequest(Message):
    """Asks for reassignments."""

    timeout_ms: int = int32(60000)
    allow_replication_factor_change: bool = boolean(True, since=1)
    topics: list[ReassignableTopic] = array(ReassignableTopic)


@wire_struct
class ReassignablePartitionResponse:
    """The result for one partition."""

    partition_index: int = int32(entity=Entity.PARTITION)
    error_code: int = int16()
    error_message: str | None = nullable_string()


@wire_struct
class ReassignableTopicResponse:
    """The partitions of one topic."""

    name: str = string(entity=Entity.TOPIC_NAME)
    partitions: list[ReassignablePartitionResponse] = array(ReassignablePartitionResponse)


@wire_struct
class AlterPartitionReassignmentsResponse(Message):
    """Reports for each partition whether its reassignment has started or was cancelled."""

    throttle_time_ms: int = int32()
    allow_replication_factor_change: bool = boolean(True, since=1)
    error_code: int = int16()
    error_message: str | None = nullable_string()
    responses: list[ReassignableTopicResponse] = array(ReassignableTopicResponse)


API = Api(
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    versions=range(2),
    flexible_from=0,
)
