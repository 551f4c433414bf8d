"""SyncGroup, key 14, versions 0 to 5: the leader of a classic group gives the assignment, each member gets its own.

* 1 adds throttle_time_ms; 3 adds group_instance_id (KIP-345); 4 is the first flexible version.
* 5 adds the protocol's type and name to both messages (KIP-559).
"""

from __future__ import annotations

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.entity import Entity
from purgatorio.protocol.message import (
    Api,
    Message,
    array,
    binary,
    int16,
    int32,
    nullable_string,
    string,
    viewed,
    wire_struct,
)
from purgatorio.protocol.primitives import Buffer


@wire_struct
class SyncGroupRequestAssignment:
    """The assignment of one member; of a consumer, a `consumer_protocol.ConsumerProtocolAssignment`."""

    member_id: str = string()
    assignment: Buffer = viewed()


@wire_struct
class SyncGroupRequest(Message):
    """Asks for the member's assignment in this generation; the leader's request lists the assignments of all."""

    group_id: str = string(entity=Entity.GROUP_ID)
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = nullable_string(None, since=3, null_since=3)
    protocol_type: str | None = nullable_string(None, since=5, null_since=5)
    protocol_name: str | None = nullable_string(None, since=5, null_since=5)
    assignments: list[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment)


@wire_struct
class SyncGroupResponse(Message):
    """Gives the member its assignment."""

    throttle_time_ms: int = int32(since=1)
    error_code: int = int16()
    protocol_type: str | None = nullable_string(None, since=5, null_since=5)
    protocol_name: str | None = nullable_string(None, since=5, null_since=5)
    assignment: Buffer = binary()


API = Api(ApiKey.SYNC_GROUP, SyncGroupRequest, SyncGroupResponse, versions=range(6), flexible_from=4)
