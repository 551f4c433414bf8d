"""Heartbeat, key 12, versions 0 to 4: a member of a classic group keeps its session alive.

Version 1 adds throttle_time_ms; 3 adds group_instance_id (KIP-345); 4 is the first flexible one.
"""

from __future__ import annotations

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.entity import Entity
from purgatorio.protocol.message import Api, Message, int16, int32, nullable_string, string, wire_struct


@wire_struct
class HeartbeatRequest(Message):
    """Keeps a member's session alive, in the generation that it names."""

    group_id: str = string(entity=Entity.GROUP_ID)
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = nullable_string(None, since=3, null_since=3)


@wire_struct
class HeartbeatResponse(Message):
    """Reports, by its error code, whether the member has to join again."""

    throttle_time_ms: int = int32(since=1)
    error_code: int = int16()


API = Api(ApiKey.HEARTBEAT, HeartbeatRequest, HeartbeatResponse, versions=range(5), flexible_from=4)
