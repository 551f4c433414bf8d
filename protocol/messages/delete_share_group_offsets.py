"""DeleteShareGroupOffsets, key 92, version 0, flexible (KIP-932): a share group without members forgets topics."""

from __future__ import annotations

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.entity import Entity
from purgatorio.protocol.message import (
    Api,
    Message,
    array,
    int16,
    int32,
    nullable_string,
    string,
    uuid,
    wire_struct,
)


@wire_struct
class DeleteShareGroupOffsetsRequestTopic:
    """One topic."""

    topic_name: str = string(entity=Entity.TOPIC_NAME)


@wire_struct
class DeleteShareGroupOffsetsRequest(Message):
    """Asks to delete what one group knows of these topics."""

    group_id: str = string(entity=Entity.GROUP_ID)
    topics: list[DeleteShareGroupOffsetsRequestTopic] = array(DeleteShareGroupOffsetsRequestTopic)


@wire_struct
class DeleteShareGroupOffsetsResponseTopic:
    """The result for one topic."""

    topic_name: str = string(entity=Entity.TOPIC_NAME)
    topic_id: bytes = uuid(entity=Entity.TOPIC_ID)
    error_code: int = int16()
    error_message: str | None = nullable_string(None)


@wire_struct
class DeleteShareGroupOffsetsResponse(Message):
    """Reports the result, of the group or of each topic."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = nullable_string(None)
    responses: list[DeleteShareGroupOffsetsResponseTopic] = array(DeleteShareGroupOffsetsResponseTopic)


API = Api(
    ApiKey.DELETE_SHARE_GROUP_OFFSETS,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    versions=range(1),
    flexible_from=0,
)
