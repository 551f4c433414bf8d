"""FindCoordinator, key 10, versions 0 to 6: find the brokers that coordinate groups or transactions.

* 1 adds the type of the key, throttle_time_ms and error messages; 3 is the first flexible version.
* 4 asks for several keys at once, with an error for each (KIP-699).
* 5 may answer TRANSACTION_ABORTABLE (KIP-890); 6 adds keys of share groups (KIP-932).
"""

from __future__ import annotations

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.entity import Entity
from purgatorio.protocol.message import (
    STRING,
    Api,
    Message,
    array,
    int8,
    int16,
    int32,
    nullable_string,
    string,
    wire_struct,
)


@wire_struct
class FindCoordinatorRequest(Message):
    """Asks for the coordinators of groups (key type 0), transactional ids (1), or partitions of share groups (2)."""

    key: str = string(until=3, entity=Entity.COORDINATOR_KEY)
    key_type: int = int8(since=1)
    coordinator_keys: list[str] = array(STRING, since=4, entity=Entity.COORDINATOR_KEY)


@wire_struct
class Coordinator:
    """The coordinator of one key, or the error; with an error the node id is -1."""

    key: str = string(since=4, entity=Entity.COORDINATOR_KEY)
    node_id: int = int32(since=4, entity=Entity.BROKER_ID)
    host: str = string(since=4)
    port: int = int32(since=4)
    error_code: int = int16(since=4)
    error_message: str | None = nullable_string(since=4, null_since=4)


@wire_struct
class FindCoordinatorResponse(Message):
    """Gives the coordinators: in `coordinators`, but in versions 0 to 3 the only one in the message itself."""

    throttle_time_ms: int = int32(since=1)
    error_code: int = int16(until=3)
    error_message: str | None = nullable_string(since=1, until=3, null_since=1)
    node_id: int = int32(until=3, entity=Entity.BROKER_ID)
    host: str = string(until=3)
    port: int = int32(until=3)
    coordinators: list[Coordinator] = array(Coordinator, since=4)


API = Api(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest, FindCoordinatorResponse, versions=range(7), flexible_from=3)
