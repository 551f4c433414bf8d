"""ListPartitionReassignments, key 46, version 0 (KIP-455): list the ongoing reassignments. Flexible."""

from __future__ import annotations

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.entity import Entity
from purgatorio.protocol.message import (
    INT32,
    Api,
    Message,
    array,
    int16,
    int32,
    nullable_array,
    nullable_string,
    string,
    wire_struct,
)


@wire_struct
class ListPartitionReassignmentsTopics:
    """The partitions of one topic."""

    name: str = string(entity=Entity.TOPIC_NAME)
    partition_indexes: list[int] = array(INT32, entity=Entity.PARTITION)


@wire_struct
class ListPartitionReassignmentsRequest(Message):
    """Asks for the reassignments of these partitions; null means all partitions."""

    timeout_ms: int = int32(60000)
    topics: list[ListPartitionReassignmentsTopics] | None = nullable_array(
        ListPartitionReassignmentsTopics, default_null=True
    )


@wire_struct
class OngoingPartitionReassignment:
    """One partition: its replicas, and those that its reassignment adds and removes."""

    partition_index: int = int32(entity=Entity.PARTITION)
    replicas: list[int] = array(INT32, entity=Entity.BROKER_ID)
    adding_replicas: list[int] = array(INT32, entity=Entity.BROKER_ID)
    removing_replicas: list[int] = array(INT32, entity=Entity.BROKER_ID)


@wire_struct
class OngoingTopicReassignment:
    """The partitions of one topic."""

    name: str = string(entity=Entity.TOPIC_NAME)
    partitions: list[OngoingPartitionReassignment] = array(OngoingPartitionReassignment)


@wire_struct
class ListPartitionReassignmentsResponse(Message):
    """Lists the partitions with an ongoing reassignment."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = nullable_string()
    topics: list[OngoingTopicReassignment] = array(OngoingTopicReassignment)


API = Api(
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    versions=range(1),
    flexible_from=0,
)
