"""CreateAcls (key 30): add access control lists, each independently of the others (KIP-140). Versions 1–3.

Any broker answers, when its image has the ACLs; from then on they are in effect there. An ACL that exists is no error.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from purgatorio.broker.api.context import AdminContext, submit
from purgatorio.broker.api.describe_acls import NO_AUTHORIZER
from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.layers.access.guards.whole import cluster
from purgatorio.broker.metadata.acls import AclBinding, AclOperation, PatternType, PermissionType, ResourceType
from purgatorio.broker.metadata.cluster_change import ClusterChange
from purgatorio.broker.metadata.controller import AclResult, create_acls
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from purgatorio.protocol.parts import failed


def handle(admin: AdminContext, ctx: RequestContext, request: CreateAclsRequest, reply: Reply) -> None:
    """Add the ACLs that there can be."""
    if admin.has_authorizer:
        submit(admin, ctx, _CreateAcls(request), reply)
    else:
        reply(_response([AclResult(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)] * len(request.creations)))


class _CreateAcls(ClusterChange[AclResult]):
    def __init__(self, request: CreateAclsRequest) -> None:
        super().__init__(())
        self._request = request
        self._acls = [_binding(each) for each in request.creations]

    def decide(self, image: ClusterImage) -> tuple[ClusterImage, Sequence[AclResult]]:
        return create_acls(image, self._acls)

    def respond(self, results: Sequence[AclResult]) -> CreateAclsResponse:
        return _response(results)

    def refuse(self, error_code: ErrorCode) -> Any:
        return failed(ApiKey.CREATE_ACLS, self._request, error_code)


def _binding(asked: AclCreation) -> AclBinding:
    """Return the ACL; unknown codes become UNKNOWN, which no ACL may have."""
    try:
        return AclBinding(
            ResourceType(asked.resource_type),
            asked.resource_name,
            PatternType(asked.resource_pattern_type),
            asked.principal,
            asked.host,
            AclOperation(asked.operation),
            PermissionType(asked.permission_type),
        )
    except ValueError:
        return AclBinding(
            ResourceType.UNKNOWN, "", PatternType.UNKNOWN, "", "", AclOperation.UNKNOWN, PermissionType.UNKNOWN
        )


def _response(results: Sequence[AclResult]) -> CreateAclsResponse:
    return CreateAclsResponse(
        results=[AclCreationResult(error_code=each.error, error_message=each.message) for each in results]
    )


API: Final = ApiHandler(
    key=ApiKey.CREATE_ACLS,
    min_version=1,
    max_version=3,
    needs=cluster(AclOperation.ALTER),
    bind=lambda services: partial(handle, services.admin),
)
