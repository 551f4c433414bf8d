"""DeleteAcls (key 31): remove the access control lists that match filters (KIP-140). Versions 1–3.

Any broker answers, when its image no longer has the ACLs. A filter that matches none is no error.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from purgatorio.broker.api.context import AdminContext, submit
from purgatorio.broker.api.describe_acls import NO_AUTHORIZER, read_filter
from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.layers.access.guards.whole import cluster
from purgatorio.broker.metadata.acls import AclOperation
from purgatorio.broker.metadata.cluster_change import ClusterChange
from purgatorio.broker.metadata.controller import FilterResult, delete_acls
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from purgatorio.protocol.parts import failed


def handle(admin: AdminContext, ctx: RequestContext, request: DeleteAclsRequest, reply: Reply) -> None:
    """Remove the ACLs."""
    if admin.has_authorizer:
        submit(admin, ctx, _DeleteAcls(request), reply)
    else:
        reply(_response([FilterResult((), ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)] * len(request.filters)))


class _DeleteAcls(ClusterChange[FilterResult]):
    def __init__(self, request: DeleteAclsRequest) -> None:
        super().__init__(())
        self._request = request
        self._filters = [read_filter(each) for each in request.filters]

    def decide(self, image: ClusterImage) -> tuple[ClusterImage, Sequence[FilterResult]]:
        return delete_acls(image, self._filters)

    def respond(self, results: Sequence[FilterResult]) -> DeleteAclsResponse:
        return _response(results)

    def refuse(self, error_code: ErrorCode) -> Any:
        return failed(ApiKey.DELETE_ACLS, self._request, error_code)


def _response(results: Sequence[FilterResult]) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(
                error_code=result.error,
                error_message=result.message,
                matching_acls=[
                    DeleteAclsMatchingAcl(
                        resource_type=acl.resource_type,
                        resource_name=acl.resource_name,
                        pattern_type=acl.pattern_type,
                        principal=acl.principal,
                        host=acl.host,
                        operation=acl.operation,
                        permission_type=acl.permission,
                    )
                    for acl in result.removed
                ],
            )
            for result in results
        ]
    )


API: Final = ApiHandler(
    key=ApiKey.DELETE_ACLS,
    min_version=1,
    max_version=3,
    needs=cluster(AclOperation.ALTER),
    bind=lambda services: partial(handle, services.admin),
)
