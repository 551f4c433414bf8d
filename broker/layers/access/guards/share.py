"""The checks of ShareFetch and ShareAcknowledge: READ on the group, and on each topic (KIP-932).

A share session holds topics that its member may read. One whose member lost a permission is over, with the error after
which clients open a new one.
"""

from __future__ import annotations

from typing import Any, Final

from purgatorio.broker.layers.access.access import CODES, Access, Guard, refuse
from purgatorio.broker.layers.access.authorizer import Permissions
from purgatorio.broker.layers.access.guards.each import EachOne
from purgatorio.broker.metadata.acls import AclOperation, ResourceType
from purgatorio.broker.routing.request import Reply, RequestContext, Route
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.parts import changed

READ: Final = AclOperation.READ


def _within_session(key: ApiKey) -> Guard:
    topics = EachOne(key, READ, ResourceType.TOPIC)

    def guard(access: Access, route: Route, ctx: RequestContext, request: Any, reply: Reply) -> None:
        if not access.may(ctx, READ, ResourceType.GROUP, request.group_id or ""):
            refuse(route, request, reply, CODES[ResourceType.GROUP])
            return
        session = access.find_share_session(request.group_id, request.member_id)
        if session is not None and not _may_go_on(session, access.of(ctx)):
            refuse(route, request, reply, ErrorCode.SHARE_SESSION_NOT_FOUND)
            return
        denied = topics.refused(access, ctx, request)
        if denied and key is ApiKey.SHARE_FETCH:  # an answer with an error does not wait for records
            request = changed(request, max_wait_ms=0)
        topics.pass_on(denied, route, ctx, request, reply)

    return guard


def _may_go_on(session: Any, permissions: Permissions) -> bool:
    """Return whether a member may still read all topics of its session, which is looked at when permissions change."""
    if session.readable_by is not permissions:
        names = {partition.tp.topic: None for partition in session.partitions.values()}
        if not all(permissions.allows(READ, ResourceType.TOPIC, name) for name in names):
            return False
        session.readable_by = permissions
    return True


share_fetch: Final = _within_session(ApiKey.SHARE_FETCH)
share_acknowledge: Final = _within_session(ApiKey.SHARE_ACKNOWLEDGE)
