"""DeleteTopics, key 20, versions 1 to 6.

Version 4 is the first flexible one; 5 adds error messages (KIP-599); 6 names topics by name or by id (KIP-516).
"""

from __future__ import annotations

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.entity import Entity
from purgatorio.protocol.message import STRING, Api, Message, array, int16, int32, nullable_string, uuid, wire_struct


@wire_struct
class DeleteTopicState:
    """One topic to delete, by name or, if the name is null, by id."""

    name: str | None = nullable_string(None, since=6, null_since=6, entity=Entity.TOPIC_NAME)
    topic_id: bytes = uuid(since=6, entity=Entity.TOPIC_ID)


@wire_struct
class DeleteTopicsRequest(Message):
    """Asks to delete topics."""

    topics: list[DeleteTopicState] = array(DeleteTopicState, since=6)
    topic_names: list[str] = array(STRING, until=5, entity=Entity.TOPIC_NAME)
    timeout_ms: int = int32()


@wire_struct
class DeletableTopicResult:
    """The result for one topic."""

    name: str | None = nullable_string(null_since=6, entity=Entity.TOPIC_NAME)
    topic_id: bytes = uuid(since=6, entity=Entity.TOPIC_ID)
    error_code: int = int16()
    error_message: str | None = nullable_string(None, since=5, null_since=5)


@wire_struct
class DeleteTopicsResponse(Message):
    """Reports for each topic whether it was deleted."""

    throttle_time_ms: int = int32(since=1)
    responses: list[DeletableTopicResult] = array(DeletableTopicResult)


API = Api(ApiKey.DELETE_TOPICS, DeleteTopicsRequest, DeleteTopicsResponse, versions=range(1, 7), flexible_from=4)
