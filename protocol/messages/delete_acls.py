"""DeleteAcls, key 31, versions 1 to 3 (KIP-140): remove the access control lists that match filters.

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
class DeleteAclsFilter:
    """The ACLs to remove; null, and the code ANY (1), match all."""

    resource_type_filter: int = int8()
    resource_name_filter: str | None = nullable_string()
    pattern_type_filter: int = int8(LITERAL)
    principal_filter: str | None = nullable_string()
    host_filter: str | None = nullable_string()
    operation: int = int8()
    permission_type: int = int8()


@wire_struct
class DeleteAclsRequest(Message):
    """Asks to remove ACLs."""

    filters: list[DeleteAclsFilter] = array(DeleteAclsFilter)


@wire_struct
class DeleteAclsMatchingAcl:
    """An ACL that was removed."""

    error_code: int = int16()
    error_message: str | None = nullable_string(None)
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8(LITERAL)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@wire_struct
class DeleteAclsFilterResult:
    """The ACLs that one filter matched; none is no error."""

    error_code: int = int16()
    error_message: str | None = nullable_string(None)
    matching_acls: list[DeleteAclsMatchingAcl] = array(DeleteAclsMatchingAcl)


@wire_struct
class DeleteAclsResponse(Message):
    """Lists the removed ACLs, in the order of the request's filters."""

    throttle_time_ms: int = int32()
    filter_results: list[DeleteAclsFilterResult] = array(DeleteAclsFilterResult)


API = Api(ApiKey.DELETE_ACLS, DeleteAclsRequest, DeleteAclsResponse, versions=range(1, 4), flexible_from=2)
