"""The check of Metadata: clients see what they may describe, and create what they may create.

Topics that are named are refused before it matters whether they exist; a client learns nothing from the answer.
"""

from __future__ import annotations

from typing import Any, Final

from purgatorio.broker.layers.access.access import NO_ID, Access, altering
from purgatorio.broker.layers.access.authorizer import Permissions
from purgatorio.broker.metadata.acls import CLUSTER_NAME, AclOperation, ResourceType
from purgatorio.broker.metadata.topic_name import is_internal, topic_name_problem
from purgatorio.broker.routing.request import Reply, RequestContext, Route
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic
from purgatorio.protocol.parts import changed

TOPIC_IDS_VERSION: Final = 12
"""The first version that is answered by ids; the handler refuses ids of others."""


def metadata(access: Access, route: Route, ctx: RequestContext, request: MetadataRequest, reply: Reply) -> None:
    """Check DESCRIBE on each topic, and CREATE on those that the request would create."""
    permissions = access.of(ctx)
    refused: list[MetadataResponseTopic] = []
    asked = request.topics
    is_for_all = asked is None or (ctx.api_version == 0 and not asked)
    if not is_for_all and asked is not None:
        allowed = _split(access, ctx, permissions, request, refused)
        if refused:
            request = changed(request, topics=allowed)

    def alter(answer: Any) -> None:
        if is_for_all:
            answer.topics = [
                each
                for each in answer.topics
                if permissions.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, each.name)
            ]
        elif not request.topics:
            answer.topics = []  # in version 0 no topics are all topics
        _mask_operations(permissions, request, answer)
        answer.topics = [*answer.topics, *refused]

    has_operations = request.include_topic_authorized_operations or request.include_cluster_authorized_operations
    if is_for_all or refused or has_operations:
        reply = altering(ctx, reply, alter)
    route.handler(ctx, request, reply)


def _split(
    access: Access,
    ctx: RequestContext,
    permissions: Permissions,
    request: MetadataRequest,
    refused: list[MetadataResponseTopic],
) -> list[MetadataRequestTopic]:
    """Return the topics that are passed on; add the answers for the others to `refused`."""
    allowed = []
    may_create = _Creation(access, permissions, request)
    operations = {AclOperation.DESCRIBE: 0, AclOperation.CREATE: 0}
    first = ""
    for topic in {(each.topic_id, each.name): each for each in request.topics or ()}.values():
        by_id = topic.topic_id != NO_ID or topic.name is None
        name = access.name_of(topic.topic_id) if by_id else topic.name
        if name is None or (by_id and ctx.api_version < TOPIC_IDS_VERSION):
            allowed.append(topic)
            continue
        operation = AclOperation.DESCRIBE
        if permissions.allows(operation, ResourceType.TOPIC, name):
            operation = AclOperation.CREATE
            if by_id or may_create(name):
                allowed.append(topic)
                continue
        first = first or name
        operations[operation] += 1
        refused.append(_refused(topic, by_id))
    for operation, count in operations.items():
        if count:
            access.audit.refused(ctx, operation, ResourceType.TOPIC, first, count - 1)
    return allowed


def _refused(topic: MetadataRequestTopic, by_id: bool) -> MetadataResponseTopic:
    """Return the refusal of a topic, with no more about it than the request has."""
    name = None if by_id else topic.name
    return MetadataResponseTopic(
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        name=name,
        topic_id=topic.topic_id,
        is_internal=name is not None and is_internal(name),
    )


class _Creation:
    """Decides whether a request may go on with a topic that it would create."""

    def __init__(self, access: Access, permissions: Permissions, request: MetadataRequest) -> None:
        self._topics = access.image.topics
        self._permissions = permissions
        self._creates = access.auto_create and request.allow_auto_topic_creation

    def __call__(self, name: str) -> bool:
        if not self._creates or name in self._topics or is_internal(name) or topic_name_problem(name) is not None:
            return True
        allows = self._permissions.allows
        return allows(AclOperation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME) or allows(
            AclOperation.CREATE, ResourceType.TOPIC, name
        )


def _mask_operations(permissions: Permissions, request: MetadataRequest, answer: Any) -> None:
    if request.include_topic_authorized_operations:
        for topic in answer.topics:
            if topic.error_code == ErrorCode.NONE:
                topic.topic_authorized_operations &= permissions.operations(ResourceType.TOPIC, topic.name)
    if request.include_cluster_authorized_operations:
        answer.cluster_authorized_operations &= cluster_operations(permissions)


def cluster_operations(permissions: Permissions) -> int:
    """Return what a client may do with the cluster; nothing if it may not describe it, as in Kafka."""
    may_know = permissions.allows(AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
    return permissions.operations(ResourceType.CLUSTER, CLUSTER_NAME) if may_know else 0


def describe_cluster(access: Access, route: Route, ctx: RequestContext, request: Any, reply: Reply) -> None:
    """Let every client describe the cluster (DescribeCluster), and return its own authorized operations."""

    def mask(answer: Any) -> None:
        if answer.error_code == ErrorCode.NONE:
            answer.cluster_authorized_operations &= cluster_operations(access.of(ctx))

    if request.include_cluster_authorized_operations:
        reply = altering(ctx, reply, mask)
    route.handler(ctx, request, reply)
