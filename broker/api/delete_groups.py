"""DeleteGroups (key 42): delete groups without members, with their offsets (KIP-229). Versions 0–3.

Answered when the tombstones of all groups are replicated. The states of a share group are deleted first: if a share
coordinator fails to, its error is answered, and the group stays. (The messages and GROUP_DELETION_FAILED, which came
with v3, are for a plugin of Kafka Streams' groups.)
"""

from __future__ import annotations

from functools import partial
from typing import Final

from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.groups import Groups
from purgatorio.broker.layers.access.guards.each import EachOne
from purgatorio.broker.metadata.acls import AclOperation, ResourceType
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
)
from purgatorio.protocol.parts import failed


def handle(groups: Groups, ctx: RequestContext, request: DeleteGroupsRequest, reply: Reply) -> None:
    """Delete each group independently of the others."""
    response = failed(ApiKey.DELETE_GROUPS, request, ErrorCode.NONE)
    waiting = len(response.results)

    def done(result: DeletableGroupResult, error_code: ErrorCode) -> None:
        nonlocal waiting
        result.error_code = error_code
        waiting -= 1
        if not waiting:
            reply(response)

    if not waiting:
        reply(response)
    for result in response.results:
        try:
            groups.cleaner.delete_group(result.group_id, partial(done, result))
        except CoordinatorError as error:
            done(result, error.error_code)


API: Final = ApiHandler(
    key=ApiKey.DELETE_GROUPS,
    min_version=0,
    max_version=3,
    needs=EachOne(ApiKey.DELETE_GROUPS, AclOperation.DELETE, ResourceType.GROUP),
    bind=lambda services: partial(handle, services.groups),
)
