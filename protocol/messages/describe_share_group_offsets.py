"""DescribeShareGroupOffsets, key 90, versions 0 and 1, both flexible (KIP-932): how far share groups have come.

Version 1 adds the lag (KIP-1226).
"""

from __future__ import annotations

from collections.abc import Iterable

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
    nullable_array,
    nullable_string,
    string,
    uuid,
    wire_struct,
)


@wire_struct
class DescribeShareGroupOffsetsRequestTopic:
    """The partitions of one topic."""

    topic_name: str = string(entity=Entity.TOPIC_NAME)
    partitions: list[int] = array(INT32, entity=Entity.PARTITION)


@wire_struct
class DescribeShareGroupOffsetsRequestGroup:
    """One group; null topics ask for all partitions that it has come to."""

    group_id: str = string(entity=Entity.GROUP_ID)
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = nullable_array(DescribeShareGroupOffsetsRequestTopic)


@wire_struct
class DescribeShareGroupOffsetsRequest(Message):
    """Asks for the start offsets of these groups."""

    groups: list[DescribeShareGroupOffsetsRequestGroup] = array(DescribeShareGroupOffsetsRequestGroup)


@wire_struct
class DescribeShareGroupOffsetsResponsePartition:
    """One partition; offset and lag are -1 where there is none yet."""

    partition_index: int = int32(entity=Entity.PARTITION)
    start_offset: int = int64()
    leader_epoch: int = int32()
    lag: int = int64(-1, since=1)
    error_code: int = int16()
    error_message: str | None = nullable_string(None)


@wire_struct
class DescribeShareGroupOffsetsResponseTopic:
    """The partitions of one topic."""

    topic_name: str = string(entity=Entity.TOPIC_NAME)
    topic_id: bytes = uuid(entity=Entity.TOPIC_ID)
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = array(DescribeShareGroupOffsetsResponsePartition)


@wire_struct
class DescribeShareGroupOffsetsResponseGroup:
    """One group."""

    group_id: str = string(entity=Entity.GROUP_ID)
    topics: list[DescribeShareGroupOffsetsResponseTopic] = array(DescribeShareGroupOffsetsResponseTopic)
    error_code: int = int16()
    error_message: str | None = nullable_string(None)


@wire_struct
class DescribeShareGroupOffsetsResponse(Message):
    """Gives the start offsets of each group."""

    throttle_time_ms: int = int32()
    groups: list[DescribeShareGroupOffsetsResponseGroup] = array(DescribeShareGroupOffsetsResponseGroup)


API = Api(
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    versions=range(2),
    flexible_from=0,
)


def without_repeats(
    groups: Iterable[DescribeShareGroupOffsetsRequestGroup],
) -> list[DescribeShareGroupOffsetsRequestGroup]:
    """Return the groups of a request without those that ask for all offsets of a group once more."""
    found: dict[object, DescribeShareGroupOffsetsRequestGroup] = {}
    for nth, group in enumerate(groups):
        found.setdefault(group.group_id if group.topics is None else nth, group)
    return list(found.values())
