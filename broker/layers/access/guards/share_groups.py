"""The checks of the APIs of share groups (KIP-932): ShareFetch, ShareAcknowledge, and those about start offsets.

A share session holds topics that its member may read: READ is needed on the group, and on each topic. One whose member
lost a permission is over, with the error after which clients open a new one.
"""

from __future__ import annotations

from typing import Any, Final

from purgatorio.broker.layers.access.access import CODES, Access, Guard, altering, refuse
from purgatorio.broker.layers.access.authorizer import Permissions
from purgatorio.broker.layers.access.guards.each import EachOne
from purgatorio.broker.layers.access.guards.whole import named
from purgatorio.broker.metadata.acls import AclOperation, ResourceType
from purgatorio.broker.routing.request import Reply, RequestContext, Route
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    without_repeats,
)
from purgatorio.protocol.parts import changed, part_of

GROUP: Final = ResourceType.GROUP
TOPIC: Final = ResourceType.TOPIC
DESCRIBE: Final = AclOperation.DESCRIBE
UNKNOWN: Final = -1
"""The offset and the lag of a partition that the client may not know."""

_PART: Final = part_of(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, "groups")
_TOPICS: Final = part_of(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, "groups", "topics")
_GROUPS: Final = EachOne(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, DESCRIBE, GROUP)
_DESCRIBED: Final = EachOne(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, DESCRIBE, TOPIC, part=_TOPICS)

alter_share_group_offsets: Final = named(
    AclOperation.READ, GROUP, "group_id", EachOne(ApiKey.ALTER_SHARE_GROUP_OFFSETS, AclOperation.READ, TOPIC)
)
delete_share_group_offsets: Final = named(
    AclOperation.DELETE, GROUP, "group_id", EachOne(ApiKey.DELETE_SHARE_GROUP_OFFSETS, AclOperation.READ, TOPIC)
)

READ: Final = AclOperation.READ


def describe_share_group_offsets(
    access: Access, route: Route, ctx: RequestContext, request: DescribeShareGroupOffsetsRequest, reply: Reply
) -> None:
    """Check DESCRIBE on each group and on each topic; a request for all topics gets those that may be described."""
    request = changed(request, groups=without_repeats(request.groups))
    denied = _GROUPS.refused(access, ctx, request)
    refused_groups = _PART.refused(denied.values(), ErrorCode.GROUP_AUTHORIZATION_FAILED)
    passed: list[DescribeShareGroupOffsetsRequestGroup] = []
    refused_topics: list[list[Any]] = []
    for nth, group in enumerate(request.groups):
        if nth not in denied:
            topics = {} if group.topics is None else _DESCRIBED.refused(access, ctx, group)
            refused_topics.append(_refused(topics.values()))
            rest = [each for number, each in enumerate(group.topics or ()) if number not in topics]
            passed.append(changed(group, topics=rest) if topics else group)

    def alter(answer: DescribeShareGroupOffsetsResponse) -> None:
        may = access.of(ctx).allows
        for asked, group, refused in zip(passed, answer.groups, refused_topics, strict=True):
            if asked.topics is None:
                group.topics = [each for each in group.topics if may(DESCRIBE, TOPIC, each.topic_name)]
            if not group.error_code:
                group.topics = [*group.topics, *refused]
        answer.groups = [*answer.groups, *refused_groups]

    if denied and not passed:
        reply(DescribeShareGroupOffsetsResponse(groups=refused_groups))
        return
    if denied or any(refused_topics) or any(group.topics is None for group in passed):
        reply = altering(ctx, reply, alter)
    route.handler(ctx, changed(request, groups=passed), reply)


def _refused(topics: Any) -> list[Any]:
    """Return the answers to topics that the client may not describe."""
    answers = _TOPICS.refused(topics, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    for topic in answers:
        for partition in topic.partitions:
            partition.start_offset = partition.lag = UNKNOWN
    return answers


def _within_session(key: ApiKey) -> Guard:
    topics = EachOne(key, READ, ResourceType.TOPIC)

    def guard(access: Access, route: Route, ctx: RequestContext, request: Any, reply: Reply) -> None:
        if not access.may(ctx, READ, ResourceType.GROUP, request.group_id or ""):
            refuse(route, request, reply, CODES[ResourceType.GROUP])
            return
        session = access.share_sessions.find(request.group_id, request.member_id)
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
