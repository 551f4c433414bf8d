"""InitializeShareGroupState, key 83, version 0, flexible: begin the state of share partitions anew (KIP-932).

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


@wire_struct
class InitializeStatePartition:
    """A partition, the epoch of the group, and the offset to begin at; -1: the partition's leader chooses it."""

    partition: int = int32(entity=Entity.PARTITION)
    state_epoch: int = int32()
    start_offset: int = int64()


@wire_struct
class InitializeStateTopic:
    """The partitions of one topic."""

    topic_id: bytes = uuid(entity=Entity.TOPIC_ID)
    partitions: list[InitializeStatePartition] = array(InitializeStatePartition)


@wire_struct
class InitializeShareGroupStateRequest(Message):
    """Asks to begin states anew."""

    group_id: str = string(entity=Entity.GROUP_ID)
    topics: list[InitializeStateTopic] = array(InitializeStateTopic)


@wire_struct
class InitializeStatePartitionResult:
    """The result for one partition."""

    partition: int = int32(entity=Entity.PARTITION)
    error_code: int = int16()
    error_message: str | None = nullable_string(None)


@wire_struct
class InitializeStateTopicResult:
    """The results for one topic."""

    topic_id: bytes = uuid(entity=Entity.TOPIC_ID)
    partitions: list[InitializeStatePartitionResult] = array(InitializeStatePartitionResult)


@wire_struct
class InitializeShareGroupStateResponse(Message):
    """Reports for each partition whether its new state is committed; there is no throttle time."""

    results: list[InitializeStateTopicResult] = array(InitializeStateTopicResult)


API = Api(
    ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    versions=range(1),
    flexible_from=0,
)
