"""DeleteGroups, key 42, versions 0 to 3 (KIP-229): delete groups without members, with their offsets.

Version 2 is the first flexible one; 3 adds messages.
"""

from __future__ import annotations

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.entity import Entity
from purgatorio.protocol.message import STRING, Api, Message, array, int16, int32, nullable_string, string, wire_struct


@wire_struct
class DeleteGroupsRequest(Message):
    """Asks to delete the groups of these ids."""

    groups_names: list[str] = array(STRING, entity=Entity.GROUP_ID)


@wire_struct
class DeletableGroupResult:
    """The result for one group."""

    group_id: str = string(entity=Entity.GROUP_ID)
    error_code: int = int16()
    error_message: str | None = nullable_string(None, since=3, null_since=3)


@wire_struct
class DeleteGroupsResponse(Message):
    """Reports for each group whether it was deleted."""

    throttle_time_ms: int = int32()
    results: list[DeletableGroupResult] = array(DeletableGroupResult)


API = Api(ApiKey.DELETE_GROUPS, DeleteGroupsRequest, DeleteGroupsResponse, versions=range(4), flexible_from=2)
