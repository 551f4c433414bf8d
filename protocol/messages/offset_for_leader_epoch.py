"""OffsetForLeaderEpoch, key 23, versions 2 to 4 (KIP-101, KIP-279, KIP-320): look up end offsets of leader epochs.

Version 3 adds the requesting replica's id (-1 for a consumer, -2 for a debugging client); 4 is the first flexible one.
"""

from __future__ import annotations

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.entity import Entity
from purgatorio.protocol.message import Api, Message, array, int16, int32, int64, string, wire_struct


@wire_struct
class OffsetForLeaderPartition:
    """One partition and the epoch to look up; the current epoch is -1 if the client does not give it."""

    partition: int = int32(entity=Entity.PARTITION)
    current_leader_epoch: int = int32(-1, since=2)
    leader_epoch: int = int32()


@wire_struct
class OffsetForLeaderTopic:
    """The partitions of one topic."""

    topic: str = string(entity=Entity.TOPIC_NAME)
    partitions: list[OffsetForLeaderPartition] = array(OffsetForLeaderPartition)


@wire_struct
class OffsetForLeaderEpochRequest(Message):
    """Asks for the end offsets of leader epochs."""

    replica_id: int = int32(-2, since=3, entity=Entity.BROKER_ID)
    topics: list[OffsetForLeaderTopic] = array(OffsetForLeaderTopic)


@wire_struct
class EpochEndOffset:
    """The largest epoch up to the requested one, and its end offset; -1 if there is none."""

    error_code: int = int16()
    partition: int = int32(entity=Entity.PARTITION)
    leader_epoch: int = int32(-1)
    end_offset: int = int64(-1)


@wire_struct
class OffsetForLeaderTopicResult:
    """The partitions of one topic."""

    topic: str = string(entity=Entity.TOPIC_NAME)
    partitions: list[EpochEndOffset] = array(EpochEndOffset)


@wire_struct
class OffsetForLeaderEpochResponse(Message):
    """Gives the end offset of each requested leader epoch."""

    throttle_time_ms: int = int32(since=2)
    topics: list[OffsetForLeaderTopicResult] = array(OffsetForLeaderTopicResult)


API = Api(
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    versions=range(2, 5),
    flexible_from=4,
)
