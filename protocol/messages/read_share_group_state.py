"""ReadShareGroupState, key 84, version 0, flexible: read the state of share partitions (KIP-932).

Leaders of partitions send it to share coordinators.
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
from purgatorio.protocol.share_state import StateBatch


@wire_struct
class ReadStatePartition:
    """A partition, and the epoch of its leader, which fences those before."""

    partition: int = int32(entity=Entity.PARTITION)
    leader_epoch: int = int32()


@wire_struct
class ReadStateTopic:
    """The partitions of one topic."""

    topic_id: bytes = uuid(entity=Entity.TOPIC_ID)
    partitions: list[ReadStatePartition] = array(ReadStatePartition)


@wire_struct
class ReadShareGroupStateRequest(Message):
    """Asks for states."""

    group_id: str = string(entity=Entity.GROUP_ID)
    topics: list[ReadStateTopic] = array(ReadStateTopic)


@wire_struct
class ReadStatePartitionResult:
    """The state of one partition, or an error; a start offset of -1: the leader chooses it."""

    partition: int = int32(entity=Entity.PARTITION)
    error_code: int = int16()
    error_message: str | None = nullable_string(None)
    state_epoch: int = int32()
    start_offset: int = int64()
    state_batches: list[StateBatch] = array(StateBatch)


@wire_struct
class ReadStateTopicResult:
    """The results for one topic."""

    topic_id: bytes = uuid(entity=Entity.TOPIC_ID)
    partitions: list[ReadStatePartitionResult] = array(ReadStatePartitionResult)


@wire_struct
class ReadShareGroupStateResponse(Message):
    """Returns the states; there is no throttle time."""

    results: list[ReadStateTopicResult] = array(ReadStateTopicResult)


API = Api(
    ApiKey.READ_SHARE_GROUP_STATE,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    versions=range(1),
    flexible_from=0,
)
