"""CreateAcls, key 30, versions 1 to 3 (KIP-140): add access control lists.

Version 1 adds the pattern type (KIP-290); 2 is the first flexible version; 3 adds the resource type USER (KIP-373).
The codes are those of `purgatorio.broker.metadata.acls`.
"""

from __future__ import annotations

from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.message import (
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

LITERAL = 3


@wire_struct
class AclCreation:
    """One ACL."""

    resource_type: int = int8()
    resource_name: str = string()
    resource_pattern_type: int = int8(LITERAL)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@wire_struct
class CreateAclsRequest(Message):
    """Asks to add ACLs."""

    creations: list[AclCreation] = array(AclCreation)


@wire_struct
class AclCreationResult:
    """The result for one ACL."""

    error_code: int = int16()
    error_message: str | None = nullable_string(None)


@wire_struct
class CreateAclsResponse(Message):
    """Reports the results in the order of the request."""

    throttle_time_ms: int = int32()
    results: list[AclCreationResult] = array(AclCreationResult)


API = Api(ApiKey.CREATE_ACLS, CreateAclsRequest, CreateAclsResponse, versions=range(1, 4), flexible_from=2)
