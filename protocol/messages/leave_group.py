"""LeaveGroup, key 13, versions 0 to 5: members leave a classic group, or an administrator removes them.

* 1 adds throttle_time_ms; 3 names several members, by member id or instance id, with an error for each (KIP-345).
* 4 is the first flexible version; 5 adds the reason (KIP-800).
"""

from __future__ import annotations

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.entity import Entity
from purgatorio.protocol.message import Api, Message, array, int16, int32, nullable_string, string, wire_struct


@wire_struct
class MemberIdentity:
    """One member that leaves; an empty member id and an instance id: an administrator removes the static member."""

    member_id: str = string(since=3)
    group_instance_id: str | None = nullable_string(None, since=3, null_since=3)
    reason: str | None = nullable_string(None, since=5, null_since=5)


@wire_struct
class LeaveGroupRequest(Message):
    """Asks to remove the members: those of `members`, but in versions 0 to 2 the one of `member_id`."""

    group_id: str = string(entity=Entity.GROUP_ID)
    member_id: str = string(until=2)
    members: list[MemberIdentity] = array(MemberIdentity, since=3)


@wire_struct
class MemberResponse:
    """The result for one member."""

    member_id: str = string(since=3)
    group_instance_id: str | None = nullable_string(since=3, null_since=3)
    error_code: int = int16(since=3)


@wire_struct
class LeaveGroupResponse(Message):
    """Reports for each member whether it was removed."""

    throttle_time_ms: int = int32(since=1)
    error_code: int = int16()
    members: list[MemberResponse] = array(MemberResponse, since=3)


API = Api(ApiKey.LEAVE_GROUP, LeaveGroupRequest, LeaveGroupResponse, versions=range(6), flexible_from=4)
