"""DeleteRecords, key 21, versions 0 to 2 (KIP-107): delete records before an offset. Version 2 is flexible."""

from __future__ import annotations

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.entity import Entity
from purgatorio.protocol.message import Api, Message, array, int16, int32, int64, string, wire_struct


@wire_struct
class DeleteRecordsPartition:
    """One partition and its new first offset; -1 means its high watermark."""

    partition_index: int = int32(entity=Entity.PARTITION)
    offset: int = int64()


@wire_struct
class DeleteRecordsTopic:
    """The partitions of one topic."""

    name: str = string(entity=Entity.TOPIC_NAME)
    partitions: list[DeleteRecordsPartition] = array(DeleteRecordsPartition)


@wire_struct
class DeleteRecordsRequest(Message):
    """Asks to delete records."""

    topics: list[DeleteRecordsTopic] = array(DeleteRecordsTopic)
    timeout_ms: int = int32()


@wire_struct
class DeleteRecordsPartitionResult:
    """The result for one partition: the lowest log start offset of its live replicas; -1 on error."""

    partition_index: int = int32(entity=Entity.PARTITION)
    low_watermark: int = int64()
    error_code: int = int16()


@wire_struct
class DeleteRecordsTopicResult:
    """The partitions of one topic."""

    name: str = string(entity=Entity.TOPIC_NAME)
    partitions: list[DeleteRecordsPartitionResult] = array(DeleteRecordsPartitionResult)


@wire_struct
class DeleteRecordsResponse(Message):
    """Reports for each partition its low watermark, or an error."""

    throttle_time_ms: int = int32()
    topics: list[DeleteRecordsTopicResult] = array(DeleteRecordsTopicResult)


API = Api(ApiKey.DELETE_RECORDS, DeleteRecordsRequest, DeleteRecordsResponse, versions=range(3), flexible_from=2)
