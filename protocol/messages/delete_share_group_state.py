"""DeleteShareGroupState, key 86, version 0, flexible: delete the state of share partitions (KIP-932).

The group coordinator sends it to share coordinators.
"""

from __future__ import annotations

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.entity import Entity
from purgatorio.protocol.message import Api, Message, array, int16, int32, nullable_string, string, uuid, wire_struct


@wire_struct
class DeleteStatePartition:
    """A partition."""

    partition: int = int32(entity=Entity.PARTITION)


@wire_struct
class DeleteStateTopic:
    """The partitions of one topic."""

    topic_id: bytes = uuid(entity=Entity.TOPIC_ID)
    partitions: list[DeleteStatePartition] = array(DeleteStatePartition)


@wire_struct
class DeleteShareGroupStateRequest(Message):
    """Asks to delete states."""

    group_id: str = string(entity=Entity.GROUP_ID)
    topics: list[DeleteStateTopic] = array(DeleteStateTopic)


@wire_struct
class DeleteStatePartitionResult:
    """The result for one partition."""

    partition: int = int32(entity=Entity.PARTITION)
    error_code: int = int16()
    error_message: str | None = nullable_string(None)


@wire_struct
class DeleteStateTopicResult:
    """The results for one topic."""

    topic_id: bytes = uuid(entity=Entity.TOPIC_ID)
    partitions: list[DeleteStatePartitionResult] = array(DeleteStatePartitionResult)


@wire_struct
class DeleteShareGroupStateResponse(Message):
    """Reports for each partition whether the deletion is committed; there is no throttle time."""

    results: list[DeleteStateTopicResult] = array(DeleteStateTopicResult)


API = Api(
    ApiKey.DELETE_SHARE_GROUP_STATE,
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    versions=range(1),
    flexible_from=0,
)
