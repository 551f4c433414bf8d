"""DescribeAcls (key 29): list the access control lists that match a filter (KIP-140). Versions 1–3.

A long list is made in steps, from one image. Without an authorizer the answer is SECURITY_DISABLED, as in Kafka; the
same holds for CreateAcls and DeleteAcls.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from purgatorio.broker.api.context import AdminContext
from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.layers.access.guards.whole import cluster
from purgatorio.broker.metadata.acls import (
    AclBinding,
    AclFilter,
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
)
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.broker.time.long_work import Steps
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

NO_AUTHORIZER: Final = "No authorizer is configured (authorizer.class.name), so that there are no ACLs."
UNKNOWN_CODE: Final = "The filter has an unknown code."


def handle(admin: AdminContext, ctx: RequestContext, request: DescribeAclsRequest, reply: Reply) -> None:
    """Answer from this broker's image, by resource pattern."""
    wanted = read_filter(request)
    if not admin.has_authorizer:
        reply(DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER))
    elif wanted is None:
        reply(DescribeAclsResponse(error_code=ErrorCode.INVALID_REQUEST, error_message=UNKNOWN_CODE))
    else:
        admin.listings.begin(_list(admin.store.image.acls, wanted, reply), ctx.session)


def _list(acls: Mapping[AclBinding, None], wanted: AclFilter, reply: Reply) -> Steps:
    """Look at all ACLs of one image, and reply after the last one."""
    resources: dict[tuple[ResourceType, str, PatternType], DescribeAclsResource] = {}
    for acl in (wanted.only,) if wanted.only is not None else acls:
        if wanted.matches(acl) and acl in acls:
            resource = resources.get(acl[:3])
            if resource is None:
                kind, name, pattern = acl[:3]
                resource = DescribeAclsResource(resource_type=kind, resource_name=name, pattern_type=pattern, acls=[])
                resources[acl[:3]] = resource
            resource.acls.append(
                AclDescription(
                    principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission
                )
            )
        yield 2
    reply(DescribeAclsResponse(resources=list(resources.values())))


def read_filter(asked: Any) -> AclFilter | None:
    """Return the filter of a DescribeAcls request, or one of a DeleteAcls request; None if a code is unknown."""
    try:
        found = AclFilter(
            ResourceType(asked.resource_type_filter),
            asked.resource_name_filter,
            PatternType(asked.pattern_type_filter),
            asked.principal_filter,
            asked.host_filter,
            AclOperation(asked.operation),
            PermissionType(asked.permission_type),
        )
    except ValueError:
        return None
    codes = (found.resource_type, found.pattern_type, found.operation, found.permission)
    return found if all(codes) else None


API: Final = ApiHandler(
    key=ApiKey.DESCRIBE_ACLS,
    min_version=1,
    max_version=3,
    needs=cluster(AclOperation.DESCRIBE),
    bind=lambda services: partial(handle, services.admin),
)
