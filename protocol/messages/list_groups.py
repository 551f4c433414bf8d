"""ListGroups, key 16, versions 0 to 5: list the groups that a broker coordinates.

* 1 adds throttle_time_ms; 3 is the first flexible version.
* 4 adds states and a filter by state (KIP-518); 5 adds types and a filter by type (KIP-848).
"""

from __future__ import annotations

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.entity import Entity
from purgatorio.protocol.message import STRING, Api, Message, array, int16, int32, string, wire_struct


@wire_struct
class ListGroupsRequest(Message):
    """Asks for the groups in these states and of these types; an empty filter passes all."""

    states_filter: list[str] = array(STRING, since=4)
    types_filter: list[str] = array(STRING, since=5)


@wire_struct
class ListedGroup:
    """One group."""

    group_id: str = string(entity=Entity.GROUP_ID)
    protocol_type: str = string()
    group_state: str = string(since=4)
    group_type: str = string(since=5)


@wire_struct
class ListGroupsResponse(Message):
    """Lists the groups."""

    throttle_time_ms: int = int32(since=1)
    error_code: int = int16()
    groups: list[ListedGroup] = array(ListedGroup)


API = Api(ApiKey.LIST_GROUPS, ListGroupsRequest, ListGroupsResponse, versions=range(6), flexible_from=3)
