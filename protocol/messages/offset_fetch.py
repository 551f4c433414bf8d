"""OffsetFetch, key 9, versions 1 to 10: read the offsets that groups have committed.

* Version 0 has no codec (dropped by KIP-896). 2 lets null topics mean all topics, and adds a top-level error code.
* 3 adds throttle_time_ms; 5 adds leader epochs (KIP-320); 6 is the first flexible version.
* 7 adds require_stable, and may answer UNSTABLE_OFFSET_COMMIT (KIP-447); 8 asks for several groups (KIP-709).
* 9 adds member id and epoch, and may answer STALE_MEMBER_EPOCH or UNKNOWN_MEMBER_ID (KIP-848).
* 10 has topic ids instead of names (KIP-848).

Versions 1 to 7 have the topics of the only group in the message itself.
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
    boolean,
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
class OffsetFetchRequestTopic:
    """The partitions of one topic, in versions 1 to 7."""

    name: str = string(until=7, entity=Entity.TOPIC_NAME)
    partition_indexes: list[int] = array(INT32, until=7, entity=Entity.PARTITION)


@wire_struct
class OffsetFetchRequestTopics:
    """The partitions of one topic, since version 8."""

    name: str = string(since=8, until=9, entity=Entity.TOPIC_NAME)
    topic_id: bytes = uuid(since=10, entity=Entity.TOPIC_ID)
    partition_indexes: list[int] = array(INT32, since=8, entity=Entity.PARTITION)


@wire_struct
class OffsetFetchRequestGroup:
    """One group; topics None means all. A member of a new group (KIP-848) gives its id and epoch."""

    group_id: str = string(since=8, entity=Entity.GROUP_ID)
    member_id: str | None = nullable_string(None, since=9, null_since=9)
    member_epoch: int = int32(-1, since=9)
    topics: list[OffsetFetchRequestTopics] | None = nullable_array(OffsetFetchRequestTopics, since=8, null_since=8)


@wire_struct
class OffsetFetchRequest(Message):
    """Asks for committed offsets; topics None means all.

    With `require_stable` the broker gives no offset while an open transaction may change it.
    """

    group_id: str = string(until=7, entity=Entity.GROUP_ID)
    topics: list[OffsetFetchRequestTopic] | None = nullable_array(OffsetFetchRequestTopic, until=7, null_since=2)
    groups: list[OffsetFetchRequestGroup] = array(OffsetFetchRequestGroup, since=8)
    require_stable: bool = boolean(since=7)


@wire_struct
class OffsetFetchResponsePartition:
    """The offset of one partition, in versions 1 to 7; offset and leader epoch are -1 if there is none."""

    partition_index: int = int32(until=7, entity=Entity.PARTITION)
    committed_offset: int = int64(until=7)
    committed_leader_epoch: int = int32(-1, since=5, until=7)
    metadata: str | None = nullable_string(until=7)
    error_code: int = int16(until=7)


@wire_struct
class OffsetFetchResponseTopic:
    """The partitions of one topic, in versions 1 to 7."""

    name: str = string(until=7, entity=Entity.TOPIC_NAME)
    partitions: list[OffsetFetchResponsePartition] = array(OffsetFetchResponsePartition, until=7)


@wire_struct
class OffsetFetchResponsePartitions:
    """The offset of one partition, since version 8; offset and leader epoch are -1 if there is none."""

    partition_index: int = int32(since=8, entity=Entity.PARTITION)
    committed_offset: int = int64(since=8)
    committed_leader_epoch: int = int32(-1, since=8)
    metadata: str | None = nullable_string(since=8)
    error_code: int = int16(since=8)


@wire_struct
class OffsetFetchResponseTopics:
    """The partitions of one topic, since version 8."""

    name: str = string(since=8, until=9, entity=Entity.TOPIC_NAME)
    topic_id: bytes = uuid(since=10, entity=Entity.TOPIC_ID)
    partitions: list[OffsetFetchResponsePartitions] = array(OffsetFetchResponsePartitions, since=8)


@wire_struct
class OffsetFetchResponseGroup:
    """The offsets of one group."""

    group_id: str = string(since=8, entity=Entity.GROUP_ID)
    topics: list[OffsetFetchResponseTopics] = array(OffsetFetchResponseTopics, since=8)
    error_code: int = int16(since=8)


@wire_struct
class OffsetFetchResponse(Message):
    """Gives the committed offsets."""

    throttle_time_ms: int = int32(since=3)
    topics: list[OffsetFetchResponseTopic] = array(OffsetFetchResponseTopic, until=7)
    error_code: int = int16(since=2, until=7)
    groups: list[OffsetFetchResponseGroup] = array(OffsetFetchResponseGroup, since=8)


API = Api(ApiKey.OFFSET_FETCH, OffsetFetchRequest, OffsetFetchResponse, versions=range(1, 11), flexible_from=6)


def without_repeats(groups: Iterable[OffsetFetchRequestGroup]) -> list[OffsetFetchRequestGroup]:
    """Return the groups of a request without those that ask for all offsets of a group once more."""
    found: dict[object, OffsetFetchRequestGroup] = {}
    for nth, group in enumerate(groups):
        key = nth if group.topics is not None else (group.group_id, group.member_id, group.member_epoch)
        found.setdefault(key, group)
    return list(found.values())
