"""DescribeAcls, key 29, versions 1 to 3 (KIP-140): list access control lists.

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
class DescribeAclsRequest(Message):
    """Asks for the ACLs that match a filter; null, and the code ANY (1), match all."""

    resource_type_filter: int = int8()
    resource_name_filter: str | None = nullable_string()
    pattern_type_filter: int = int8(LITERAL)
    principal_filter: str | None = nullable_string()
    host_filter: str | None = nullable_string()
    operation: int = int8()
    permission_type: int = int8()


@wire_struct
class AclDescription:
    """One ACL of a resource: principal, host, operation, and whether it allows or denies."""

    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@wire_struct
class DescribeAclsResource:
    """The ACLs of one resource pattern."""

    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8(LITERAL)
    acls: list[AclDescription] = array(AclDescription)


@wire_struct
class DescribeAclsResponse(Message):
    """Lists the ACLs by resource pattern."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = nullable_string(None)
    resources: list[DescribeAclsResource] = array(DescribeAclsResource)


API = Api(ApiKey.DESCRIBE_ACLS, DescribeAclsRequest, DescribeAclsResponse, versions=range(1, 4), flexible_from=2)
