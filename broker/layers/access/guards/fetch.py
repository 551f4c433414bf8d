"""The check of Fetch: READ on each topic for consumers, CLUSTER_ACTION on the cluster for followers (CVE-2018-1288).

A fetch session holds topics that its client may read, and no others: a request that names another one is answered
without a session, and a session whose client lost a permission is over, with an error that all clients know.
"""

from __future__ import annotations

from typing import Any, Final

from purgatorio.broker.layers.access.access import Access, ReadSession, refuse
from purgatorio.broker.layers.access.authorizer import Permissions
from purgatorio.broker.layers.access.guards.each import EachOne
from purgatorio.broker.metadata.acls import AclOperation, ResourceType
from purgatorio.broker.routing.request import Reply, RequestContext, Route
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.fetch import FINAL_EPOCH, FetchRequest, is_full, replica_of
from purgatorio.protocol.parts import changed, refused

_READ: Final = EachOne(ApiKey.FETCH, AclOperation.READ, ResourceType.TOPIC)


def fetch(access: Access, route: Route, ctx: RequestContext, request: FetchRequest, reply: Reply) -> None:
    """Check a fetch of a consumer or a follower."""
    begins = is_full(request)
    if replica_of(request) >= 0:
        _follower(access, route, ctx, request, reply, begins)
    elif begins:
        denied = _READ.refused(access, ctx, request)
        if denied:
            request = changed(request, session_epoch=FINAL_EPOCH)
        _READ.pass_on(denied, route, ctx, request, reply)
    elif (request.topics and _READ.refused(access, ctx, request)) or not _may_go_on(access, access.of(ctx), request):
        refuse(route, request, reply, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    else:
        route.handler(ctx, request, reply)


def _follower(
    access: Access, route: Route, ctx: RequestContext, request: FetchRequest, reply: Reply, begins: bool
) -> None:
    if access.may_cluster(ctx, AclOperation.CLUSTER_ACTION):
        route.handler(ctx, request, reply)
    elif begins:
        reply(refused(ApiKey.FETCH, request, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    else:
        refuse(route, request, reply, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)


def _may_go_on(access: Access, permissions: Permissions, request: FetchRequest) -> bool:
    """Return whether the client may read all topics of the session; the handler answers if there is no such session.

    A session is looked through when its client's permissions are new to it, and while it has topics of unknown names.
    """
    session: ReadSession | None = access.sessions.find(request.session_id)
    if session is None:
        return True
    topics = request.topics
    names_unknown = bool(topics) and any(_name(access, each.topic, each.topic_id) is None for each in topics)
    if session.readable_by is permissions and not names_unknown:
        return True
    names = {_name(access, fetch.tp[0], fetch.topic_id): None for fetch in session.fetches}
    if not all(name is None or permissions.allows(AclOperation.READ, ResourceType.TOPIC, name) for name in names):
        return False
    session.readable_by = None if names_unknown or None in names else permissions
    return True


def _name(access: Access, topic: str, topic_id: Any) -> str | None:
    return access.name_of(topic_id) if topic_id is not None and any(topic_id) else topic
