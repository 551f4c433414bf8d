"""OffsetDelete, key 47, version 0 (KIP-496), not flexible: delete committed offsets of a group.

The response has its error code in front of throttle_time_ms, unlike all others.
"""

from __future__ import annotations

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.entity import Entity
from purgatorio.protocol.message import LATEST, Api, Message, array, int16, int32, string, wire_struct


@wire_struct
class OffsetDeleteRequestPartition:
    """One partition."""

    partition_index: int = int32(entity=Entity.PARTITION)


@wire_struct
class OffsetDeleteRequestTopic:
    """The partitions of one topic."""

    name: str = string(entity=Entity.TOPIC_NAME)
    partitions: list[OffsetDeleteRequestPartition] = array(OffsetDeleteRequestPartition)


@wire_struct
class OffsetDeleteRequest(Message):
    """Asks to delete the offsets of these partitions."""

    group_id: str = string(entity=Entity.GROUP_ID)
    topics: list[OffsetDeleteRequestTopic] = array(OffsetDeleteRequestTopic)


@wire_struct
class OffsetDeleteResponsePartition:
    """The result for one partition."""

    partition_index: int = int32(entity=Entity.PARTITION)
    error_code: int = int16()


@wire_struct
class OffsetDeleteResponseTopic:
    """The partitions of one topic."""

    name: str = string(entity=Entity.TOPIC_NAME)
    partitions: list[OffsetDeleteResponsePartition] = array(OffsetDeleteResponsePartition)


@wire_struct
class OffsetDeleteResponse(Message):
    """Reports for each partition whether its offset was deleted; there are no topics if the whole request failed."""

    error_code: int = int16()
    throttle_time_ms: int = int32()
    topics: list[OffsetDeleteResponseTopic] = array(OffsetDeleteResponseTopic)


API = Api(ApiKey.OFFSET_DELETE, OffsetDeleteRequest, OffsetDeleteResponse, versions=range(1), flexible_from=LATEST)
