"""ListOffsets, key 2, versions 1 to 11: look up offsets by timestamp.

* 2 adds the isolation level (KIP-98); 4 adds leader epochs (KIP-320); 6 is the first flexible version.
* Negative timestamps have special meanings; versions added some: 7 the largest timestamp, -3 (KIP-734); 8 the earliest
  local offset, -4 (KIP-405); 9 the latest offset in tiered storage, -5 (KIP-1005); 11 adds -6 (KIP-1023).
* 10 adds a time limit for lookups in tiered storage (KIP-1075).
"""

from __future__ import annotations

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.entity import Entity
from purgatorio.protocol.message import Api, Message, array, int8, int16, int32, int64, string, wire_struct


@wire_struct
class ListOffsetsPartition:
    """One partition and the timestamp to look up; the epoch is -1 if the client does not give it."""

    partition_index: int = int32(entity=Entity.PARTITION)
    current_leader_epoch: int = int32(-1, since=4)
    timestamp: int = int64()


@wire_struct
class ListOffsetsTopic:
    """The partitions of one topic."""

    name: str = string(entity=Entity.TOPIC_NAME)
    partitions: list[ListOffsetsPartition] = array(ListOffsetsPartition)


@wire_struct
class ListOffsetsRequest(Message):
    """Asks for offsets; `replica_id` is -1 for a consumer."""

    replica_id: int = int32(-1, entity=Entity.BROKER_ID)
    isolation_level: int = int8(since=2)
    topics: list[ListOffsetsTopic] = array(ListOffsetsTopic)
    timeout_ms: int = int32(since=10)


@wire_struct
class ListOffsetsPartitionResponse:
    """The result for one partition; offset and timestamp are -1 if no record matches."""

    partition_index: int = int32(entity=Entity.PARTITION)
    error_code: int = int16()
    timestamp: int = int64(-1)
    offset: int = int64(-1)
    leader_epoch: int = int32(-1, since=4)


@wire_struct
class ListOffsetsTopicResponse:
    """The partitions of one topic."""

    name: str = string(entity=Entity.TOPIC_NAME)
    partitions: list[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse)


@wire_struct
class ListOffsetsResponse(Message):
    """Gives the offsets of each partition."""

    throttle_time_ms: int = int32(since=2)
    topics: list[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse)


API = Api(ApiKey.LIST_OFFSETS, ListOffsetsRequest, ListOffsetsResponse, versions=range(1, 12), flexible_from=6)
