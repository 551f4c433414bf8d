"""JoinGroup, key 11, versions 0 to 9: enter a classic group, or take part in its next generation.

* 1 adds rebalance_timeout_ms (KIP-62); in version 0 the session timeout is also the rebalance timeout.
* 2 adds throttle_time_ms; 4 lets the broker ask a new member to join again with an id (KIP-394, MEMBER_ID_REQUIRED).
* 5 adds group_instance_id (KIP-345); 6 is the first flexible version; 7 adds the protocol type to responses (KIP-559).
* 8 adds the reason (KIP-800); 9 adds skip_assignment (KIP-814).
"""

from __future__ import annotations

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.entity import Entity
from purgatorio.protocol.message import (
    Api,
    Message,
    array,
    binary,
    boolean,
    int16,
    int32,
    nullable_string,
    string,
    viewed,
    wire_struct,
)
from purgatorio.protocol.primitives import Buffer


@wire_struct
class JoinGroupRequestProtocol:
    """One protocol that the member supports: the name of an assignor, and the subscription that it shall see.

    Consumers put a `consumer_protocol.ConsumerProtocolSubscription` into the metadata.
    """

    name: str = string()
    metadata: Buffer = viewed()


@wire_struct
class JoinGroupRequest(Message):
    """Asks to join; the member id is empty at first, and the protocols stand in the order of the member's preference.

    `rebalance_timeout_ms` is -1 in version 0.
    """

    group_id: str = string(entity=Entity.GROUP_ID)
    session_timeout_ms: int = int32()
    rebalance_timeout_ms: int = int32(-1, since=1)
    member_id: str = string()
    group_instance_id: str | None = nullable_string(None, since=5, null_since=5)
    protocol_type: str = string()
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol)
    reason: str | None = nullable_string(None, since=8, null_since=8)


@wire_struct
class JoinGroupResponseMember:
    """One member, with its metadata for the chosen protocol."""

    member_id: str = string()
    group_instance_id: str | None = nullable_string(None, since=5, null_since=5)
    metadata: Buffer = binary()


@wire_struct
class JoinGroupResponse(Message):
    """Gives the generation, the chosen protocol and the leader; only the leader's response lists the members.

    The leader assigns partitions unless `skip_assignment` is set. `protocol_name` is null only from version 7 on.
    """

    throttle_time_ms: int = int32(since=2)
    error_code: int = int16()
    generation_id: int = int32(-1)
    protocol_type: str | None = nullable_string(None, since=7, null_since=7)
    protocol_name: str | None = nullable_string(null_since=7)
    leader: str = string()
    skip_assignment: bool = boolean(since=9)
    member_id: str = string()
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember)


API = Api(ApiKey.JOIN_GROUP, JoinGroupRequest, JoinGroupResponse, versions=range(10), flexible_from=6)
