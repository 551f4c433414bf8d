"""ReadShareGroupStateSummary, key 87, versions 0 and 1, flexible: read how far share partitions have come (KIP-932).

* 1 adds delivery_complete_count (KIP-1226).

The group coordinator sends it to share coordinators.
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
from purgatorio.protocol.share_state import UNKNOWN_COMPLETE_COUNT


@wire_struct
class ReadStateSummaryPartition:
    """A partition, and the epoch of its leader, which share coordinators do not look at."""

    partition: int = int32(entity=Entity.PARTITION)
    leader_epoch: int = int32()


@wire_struct
class ReadStateSummaryTopic:
    """The partitions of one topic."""

    topic_id: bytes = uuid(entity=Entity.TOPIC_ID)
    partitions: list[ReadStateSummaryPartition] = array(ReadStateSummaryPartition)


@wire_struct
class ReadShareGroupStateSummaryRequest(Message):
    """Asks how far share partitions have come."""

    group_id: str = string(entity=Entity.GROUP_ID)
    topics: list[ReadStateSummaryTopic] = array(ReadStateSummaryTopic)


@wire_struct
class ReadStateSummaryPartitionResult:
    """How far one partition has come, or an error; a start offset of -1: it is not initialized, or not read yet."""

    partition: int = int32(entity=Entity.PARTITION)
    error_code: int = int16()
    error_message: str | None = nullable_string(None)
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32(UNKNOWN_COMPLETE_COUNT, since=1)


@wire_struct
class ReadStateSummaryTopicResult:
    """The results for one topic."""

    topic_id: bytes = uuid(entity=Entity.TOPIC_ID)
    partitions: list[ReadStateSummaryPartitionResult] = array(ReadStateSummaryPartitionResult)


@wire_struct
class ReadShareGroupStateSummaryResponse(Message):
    """Reports how far share partitions have come; there is no throttle time."""

    results: list[ReadStateSummaryTopicResult] = array(ReadStateSummaryTopicResult)


API = Api(
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    versions=range(2),
    flexible_from=0,
)
