"""The checks of APIs about groups that are more than one question for each group."""

from __future__ import annotations

from typing import Any, Final

from purgatorio.broker.layers.access.access import Access, altering, refuse
from purgatorio.broker.layers.access.authorizer import Permissions
from purgatorio.broker.layers.access.guards.each import EachOne
from purgatorio.broker.layers.access.guards.whole import named
from purgatorio.broker.metadata.acls import CLUSTER_NAME, AclOperation, ResourceType
from purgatorio.broker.routing.request import Reply, RequestContext, Route
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from purgatorio.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseTopics,
    without_repeats,
)
from purgatorio.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from purgatorio.protocol.parts import changed, part_of

GROUP: Final = ResourceType.GROUP
TOPIC: Final = ResourceType.TOPIC
DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUPS_VERSION: Final = 8
"""The first version of OffsetFetch that asks for several groups."""

# --- listings and descriptions ---


def list_groups(access: Access, route: Route, ctx: RequestContext, request: Any, reply: Reply) -> None:
    """Leave out the groups that a client may not describe, unless it may describe the cluster."""
    permissions = access.of(ctx)
    if permissions.allows(AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        route.handler(ctx, request, reply)
        return

    def leave_out(answer: Any) -> None:
        answer.groups = [
            each for each in answer.groups if permissions.allows(AclOperation.DESCRIBE, GROUP, each.group_id)
        ]

    route.handler(ctx, request, altering(ctx, reply, leave_out))


def mask_operations(access: Access, ctx: RequestContext, request: Any, answer: Any) -> None:
    """Restrict the authorized operations of each group to those of the client, if the request asks for them."""
    if request.include_authorized_operations:
        permissions = access.of(ctx)
        for group in answer.groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations &= permissions.operations(GROUP, group.group_id)


def hide_topics(access: Access, ctx: RequestContext, request: Any, answer: Any) -> None:
    """Refuse a group with a member that has a topic which the client may not describe (KIP-848, KIP-932)."""
    permissions = access.of(ctx)
    for group in answer.groups:
        if group.error_code == ErrorCode.NONE and not _may_describe_topics(permissions, group):
            group.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            group.error_message = "The group has topics that the client is not authorized to describe."
            group.members = []
    mask_operations(access, ctx, request, answer)


def _may_describe_topics(permissions: Permissions, group: Any) -> bool:
    names = {
        each.topic_name: None
        for member in group.members
        for assignment in (member.assignment, getattr(member, "target_assignment", None))
        if assignment is not None  # members of share groups have one
        for each in assignment.topic_partitions
    }
    return all(permissions.allows(AclOperation.DESCRIBE, TOPIC, name) for name in names)


# --- members ---


def _subscribe(
    access: Access,
    route: Route,
    ctx: RequestContext,
    request: ConsumerGroupHeartbeatRequest | ShareGroupHeartbeatRequest,
    reply: Reply,
) -> None:
    allows = access.of(ctx).allows
    for name in request.subscribed_topic_names or ():
        if not allows(AclOperation.DESCRIBE, TOPIC, name):
            access.audit.refused(ctx, AclOperation.DESCRIBE, TOPIC, name, 0)
            refuse(route, request, reply, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            return
    route.handler(ctx, request, reply)


consumer_group_heartbeat: Final = named(AclOperation.READ, GROUP, "group_id", _subscribe)
"""Checks READ on the group, and DESCRIBE on the topics that a member subscribes to by name (KAFKA-18813)."""

share_group_heartbeat: Final = consumer_group_heartbeat
"""Checks READ on the group, and DESCRIBE on the topics that a member subscribes to (KIP-932)."""

# --- offsets ---


_READ_EACH: Final = EachOne(ApiKey.OFFSET_COMMIT, AclOperation.READ, TOPIC)
_DELETE_EACH: Final = EachOne(ApiKey.OFFSET_DELETE, AclOperation.READ, TOPIC)
offset_commit: Final = named(AclOperation.READ, GROUP, "group_id", _READ_EACH)
offset_delete: Final = named(AclOperation.DELETE, GROUP, "group_id", _DELETE_EACH)


class _Offsets:
    """The part of one OffsetFetch request that the client may see.

    Attributes:
        refused_groups: the answers for groups that the client may not describe.
        refused_topics: by the position of an allowed group: its topics that the client may not describe.
    """

    def __init__(self, access: Access, ctx: RequestContext) -> None:
        self._access = access
        self._ctx = ctx
        self._permissions = access.of(ctx)
        self.refused_groups: list[OffsetFetchResponseGroup] = []
        self.refused_topics: dict[int, list[OffsetFetchResponseTopics]] = {}

    def groups(self, asked: list[OffsetFetchRequestGroup]) -> list[OffsetFetchRequestGroup]:
        """Return the groups that are passed on, with the topics that may be."""
        allowed: list[OffsetFetchRequestGroup] = []
        for group in asked:
            if not self._access.may(self._ctx, AclOperation.DESCRIBE, GROUP, group.group_id):
                self.refused_groups.append(
                    OffsetFetchResponseGroup(group_id=group.group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
                )
                continue
            if group.topics is not None:
                topics, refused = self.topics(group.topics)
                if refused:
                    self.refused_topics[len(allowed)] = _TOPICS.refused(refused, DENIED)
                    group = changed(group, topics=topics)
            allowed.append(group)
        return allowed

    def topics(self, asked: list[Any]) -> tuple[list[Any], list[Any]]:
        """Return the topics that are passed on, and those that are refused."""
        refused = _DESCRIBED.refused(self._access, self._ctx, _Topics(asked))
        return [each for nth, each in enumerate(asked) if nth not in refused], list(refused.values())

    def visible(self, topics: list[Any]) -> list[Any]:
        """Return the topics of an answer that the client may see."""
        return [each for each in topics if self._is_visible(each)]

    def _is_visible(self, topic: Any) -> bool:
        topic_id = getattr(topic, "topic_id", b"")
        name = self._access.name_of(topic_id) if not topic.name and any(topic_id) else topic.name
        return name is None or self._permissions.allows(AclOperation.DESCRIBE, TOPIC, name)


class _Topics:
    """A part of a request, as `EachOne` looks at it."""

    def __init__(self, topics: list[Any]) -> None:
        self.topics = topics


_TOPICS: Final = part_of(ApiKey.OFFSET_FETCH, "groups", "topics")
_TOPICS_OF_ONE: Final = part_of(ApiKey.OFFSET_FETCH, "topics")
_DESCRIBED: Final = EachOne(ApiKey.OFFSET_FETCH, AclOperation.DESCRIBE, TOPIC, part=_TOPICS)


def offset_fetch(access: Access, route: Route, ctx: RequestContext, request: OffsetFetchRequest, reply: Reply) -> None:
    """Check DESCRIBE on each group and on each topic; a request for all topics gets those that may be described."""
    if ctx.api_version < GROUPS_VERSION:
        _offset_fetch_of_one(access, route, ctx, request, reply)
        return
    offsets = _Offsets(access, ctx)
    allowed = offsets.groups(without_repeats(request.groups))

    def alter(answer: OffsetFetchResponse) -> None:
        for nth, (asked, group) in enumerate(zip(allowed, answer.groups, strict=True)):
            if asked.topics is None:
                group.topics = offsets.visible(group.topics)
            if not group.error_code:
                group.topics = [*group.topics, *offsets.refused_topics.get(nth, ())]
        answer.groups = [*answer.groups, *offsets.refused_groups]

    if not allowed and offsets.refused_groups:
        reply(OffsetFetchResponse(groups=offsets.refused_groups))
        return
    if offsets.refused_groups or offsets.refused_topics or any(each.topics is None for each in allowed):
        reply = altering(ctx, reply, alter)
    route.handler(ctx, changed(request, groups=allowed), reply)


def _offset_fetch_of_one(
    access: Access, route: Route, ctx: RequestContext, request: OffsetFetchRequest, reply: Reply
) -> None:
    if not access.may(ctx, AclOperation.DESCRIBE, GROUP, request.group_id):
        refuse(route, request, reply, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        return
    offsets = _Offsets(access, ctx)
    if request.topics is None:

        def leave_out(answer: OffsetFetchResponse) -> None:
            answer.topics = offsets.visible(answer.topics)

        route.handler(ctx, request, altering(ctx, reply, leave_out))
        return
    topics, refused = offsets.topics(request.topics)

    def add(answer: OffsetFetchResponse) -> None:
        answer.topics = [*answer.topics, *_TOPICS_OF_ONE.refused(refused, DENIED)]

    route.handler(ctx, changed(request, topics=topics), altering(ctx, reply, add) if refused else reply)
