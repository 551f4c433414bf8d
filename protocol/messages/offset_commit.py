"""OffsetCommit, key 8, versions 2 to 10: store a group's offsets.

* Versions 0 and 1 have no codec (dropped by KIP-896). Versions 2 to 4 have retention_time_ms; since 5 the broker's
  configuration determines it (KIP-211). 3 adds throttle_time_ms.
* 6 adds leader epochs (KIP-320); 7 adds group_instance_id (KIP-345); 8 is the first flexible version.
* 9 may come from members of new groups, and be answered STALE_MEMBER_EPOCH or GROUP_ID_NOT_FOUND (KIP-848).
* 10 has topic ids instead of names (KIP-848).
"""

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
class OffsetCommitRequestPartition:
    """The offset of one partition; the leader epoch is -1 if the client does not give it."""

    partition_index: int = int32(entity=Entity.PARTITION)
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(-1, since=6)
    committed_metadata: str | None = nullable_string()


@wire_struct
class OffsetCommitRequestTopic:
    """The partitions of one topic."""

    name: str = string(until=9, entity=Entity.TOPIC_NAME)
    topic_id: bytes = uuid(since=10, entity=Entity.TOPIC_ID)
    partitions: list[OffsetCommitRequestPartition] = array(OffsetCommitRequestPartition)


@wire_struct
class OffsetCommitRequest(Message):
    """Asks to store offsets; generation or member epoch is -1, and the member id empty, outside of a membership.

    `retention_time_ms` is -1 if the broker's configuration shall determine it.
    """

    group_id: str = string(entity=Entity.GROUP_ID)
    generation_id_or_member_epoch: int = int32(-1)
    member_id: str = string()
    group_instance_id: str | None = nullable_string(None, since=7, null_since=7)
    retention_time_ms: int = int64(-1, until=4)
    topics: list[OffsetCommitRequestTopic] = array(OffsetCommitRequestTopic)


@wire_struct
class OffsetCommitResponsePartition:
    """The result for one partition."""

    partition_index: int = int32(entity=Entity.PARTITION)
    error_code: int = int16()


@wire_struct
class OffsetCommitResponseTopic:
    """The partitions of one topic."""

    name: str = string(until=9, entity=Entity.TOPIC_NAME)
    topic_id: bytes = uuid(since=10, entity=Entity.TOPIC_ID)
    partitions: list[OffsetCommitResponsePartition] = array(OffsetCommitResponsePartition)


@wire_struct
class OffsetCommitResponse(Message):
    """Reports for each partition whether its offset is stored."""

    throttle_time_ms: int = int32(since=3)
    topics: list[OffsetCommitResponseTopic] = array(OffsetCommitResponseTopic)


API = Api(ApiKey.OFFSET_COMMIT, OffsetCommitRequest, OffsetCommitResponse, versions=range(2, 11), flexible_from=8)
