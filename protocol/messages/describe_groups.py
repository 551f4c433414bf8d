"""DescribeGroups, key 15, versions 0 to 6: describe classic groups and their members.

* 1 adds throttle_time_ms; 3 adds authorized operations (KIP-430); 4 adds group_instance_id (KIP-345).
* 5 is the first flexible version.
* 6 adds error messages, and answers GROUP_ID_NOT_FOUND for an unknown group (KIP-1043), where older versions describe
  a group in state "Dead".
"""

from __future__ import annotations

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.entity import Entity
from purgatorio.protocol.message import (
    STRING,
    Api,
    Message,
    array,
    binary,
    boolean,
    int16,
    int32,
    nullable_string,
    string,
    wire_struct,
)
from purgatorio.protocol.primitives import Buffer


@wire_struct
class DescribeGroupsRequest(Message):
    """Asks for the groups of these ids."""

    groups: list[str] = array(STRING, entity=Entity.GROUP_ID)
    include_authorized_operations: bool = boolean(since=3)


@wire_struct
class DescribedGroupMember:
    """One member; its metadata is empty unless the group is stable, its assignment once members have rejoined."""

    member_id: str = string()
    group_instance_id: str | None = nullable_string(None, since=4, null_since=4)
    client_id: str = string()
    client_host: str = string()
    member_metadata: Buffer = binary()
    member_assignment: Buffer = binary()


@wire_struct
class DescribedGroup:
    """One group; `protocol_data`, the chosen protocol's name, is empty unless the group is stable.

    Authorized operations are -2^31 unless requested.
    """

    error_code: int = int16()
    error_message: str | None = nullable_string(None, since=6, null_since=6)
    group_id: str = string(entity=Entity.GROUP_ID)
    group_state: str = string()
    protocol_type: str = string()
    protocol_data: str = string()
    members: list[DescribedGroupMember] = array(DescribedGroupMember)
    authorized_operations: int = int32(-(2**31), since=3)


@wire_struct
class DescribeGroupsResponse(Message):
    """Describes each requested group."""

    throttle_time_ms: int = int32(since=1)
    groups: list[DescribedGroup] = array(DescribedGroup)


API = Api(ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest, DescribeGroupsResponse, versions=range(7), flexible_from=5)
