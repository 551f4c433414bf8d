"""ElectLeaders, key 43, versions 0 to 2 (KIP-183, KIP-460): elect leaders of partitions, preferred or unclean.

Version 1 adds the election type, and a top-level error code; 2 is the first flexible one.
"""

from __future__ import annotations

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.entity import Entity
from purgatorio.protocol.message import (
    INT32,
    Api,
    Message,
    array,
    int8,
    int16,
    int32,
    nullable_array,
    nullable_string,
    string,
    wire_struct,
)


@wire_struct
class TopicPartitions:
    """The partitions of one topic."""

    topic: str = string(entity=Entity.TOPIC_NAME)
    partitions: list[int] = array(INT32, entity=Entity.PARTITION)


@wire_struct
class ElectLeadersRequest(Message):
    """Asks for elections of type 0 (preferred) or 1 (unclean); null partitions mean all partitions."""

    election_type: int = int8(since=1)
    topic_partitions: list[TopicPartitions] | None = nullable_array(TopicPartitions)
    timeout_ms: int = int32(60000)


@wire_struct
class PartitionResult:
    """The result for one partition."""

    partition_id: int = int32(entity=Entity.PARTITION)
    error_code: int = int16()
    error_message: str | None = nullable_string()


@wire_struct
class ReplicaElectionResult:
    """The partitions of one topic."""

    topic: str = string(entity=Entity.TOPIC_NAME)
    partition_result: list[PartitionResult] = array(PartitionResult)


@wire_struct
class ElectLeadersResponse(Message):
    """Reports for each partition whether a leader was elected."""

    throttle_time_ms: int = int32()
    error_code: int = int16(since=1)
    replica_election_results: list[ReplicaElectionResult] = array(ReplicaElectionResult)


API = Api(ApiKey.ELECT_LEADERS, ElectLeadersRequest, ElectLeadersResponse, versions=range(3), flexible_from=2)
