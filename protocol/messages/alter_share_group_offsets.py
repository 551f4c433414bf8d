"""AlterShareGroupOffsets, key 91, version 0, flexible (KIP-932): where a share group without members goes on."""

from __future__ import annotations

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.entity import Entity
from purgatorio.protocol.message import (
    Api,
    Message,
    array,
    int16,
    int32,
    int64,
    nullable_string,
    string,
    uuid,
    wire_struct,
)


@wire_struct
class AlterShareGroupOffsetsRequestPartition:
    """One partition, with its new start offset."""

    partition_index: int = int32(entity=Entity.PARTITION)
    start_offset: int = int64()


@wire_struct
class AlterShareGroupOffsetsRequestTopic:
    """The partitions of one topic."""

    topic_name: str = string(entity=Entity.TOPIC_NAME)
    partitions: list[AlterShareGroupOffsetsRequestPartition] = array(AlterShareGroupOffsetsRequestPartition)


@wire_struct
class AlterShareGroupOffsetsRequest(Message):
    """Asks to alter the start offsets of one group."""

    group_id: str = string(entity=Entity.GROUP_ID)
    topics: list[AlterShareGroupOffsetsRequestTopic] = array(AlterShareGroupOffsetsRequestTopic)


@wire_struct
class AlterShareGroupOffsetsResponsePartition:
    """The result for one partition."""

    partition_index: int = int32(entity=Entity.PARTITION)
    error_code: int = int16()
    error_message: str | None = nullable_string(None)


@wire_struct
class AlterShareGroupOffsetsResponseTopic:
    """The partitions of one topic."""

    topic_name: str = string(entity=Entity.TOPIC_NAME)
    topic_id: bytes = uuid(entity=Entity.TOPIC_ID)
    partitions: list[AlterShareGroupOffsetsResponsePartition] = array(AlterShareGroupOffsetsResponsePartition)


@wire_struct
class AlterShareGroupOffsetsResponse(Message):
    """Reports the result, of the group or of each partition."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = nullable_string(None)
    responses: list[AlterShareGroupOffsetsResponseTopic] = array(AlterShareGroupOffsetsResponseTopic)


API = Api(
    ApiKey.ALTER_SHARE_GROUP_OFFSETS,
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    versions=range(1),
    flexible_from=0,
)
