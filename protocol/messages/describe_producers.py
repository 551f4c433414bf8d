"""DescribeProducers, key 61, version 0 (KIP-664): the producers that a leader knows for its partitions.

Version 0 is flexible.
"""

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
    int64,
    nullable_string,
    string,
    wire_struct,
)


@wire_struct
class TopicRequest:
    """The partitions of one topic."""

    name: str = string(entity=Entity.TOPIC_NAME)
    partition_indexes: list[int] = array(INT32, entity=Entity.PARTITION)


@wire_struct
class DescribeProducersRequest(Message):
    """Asks for the producers of partitions."""

    topics: list[TopicRequest] = array(TopicRequest)


@wire_struct
class DescribedProducer:
    """One producer; the epoch is an int32 here.

    Sequence and time of its last batch are -1 if there is none that the leader knows. `current_txn_start_offset` is the
    first offset of the producer's open transaction, or -1.
    """

    producer_id: int = int64(entity=Entity.PRODUCER_ID)
    producer_epoch: int = int32()
    last_sequence: int = int32(-1)
    last_timestamp_ms: int = int64(-1)
    coordinator_epoch: int = int32()
    current_txn_start_offset: int = int64(-1)


@wire_struct
class PartitionResponse:
    """The producers of one partition, or an error."""

    partition_index: int = int32(entity=Entity.PARTITION)
    error_code: int = int16()
    error_message: str | None = nullable_string(None)
    active_producers: list[DescribedProducer] = array(DescribedProducer)


@wire_struct
class TopicResponse:
    """The partitions of one topic."""

    name: str = string(entity=Entity.TOPIC_NAME)
    partitions: list[PartitionResponse] = array(PartitionResponse)


@wire_struct
class DescribeProducersResponse(Message):
    """Lists the producers of each partition."""

    throttle_time_ms: int = int32()
    topics: list[TopicResponse] = array(TopicResponse)


API = Api(
    ApiKey.DESCRIBE_PRODUCERS, DescribeProducersRequest, DescribeProducersResponse, versions=range(1), flexible_from=0
)
