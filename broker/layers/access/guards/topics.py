"""The checks of APIs about topics that are more than one question for each topic."""

from __future__ import annotations

from typing import Any, Final

from purgatorio.broker.layers.access.access import (
    CODES,
    NO_ID,
    Access,
    altering,
    extending,
    refuse,
    send,
)
from purgatorio.broker.layers.access.authorizer import Permissions
from purgatorio.broker.layers.access.guards.each import EachOne
from purgatorio.broker.metadata.acls import CLUSTER_NAME, AclOperation, ResourceType
from purgatorio.broker.routing.request import Reply, RequestContext, Route
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.create_topics import CreateTopicsRequest
from purgatorio.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from purgatorio.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from purgatorio.protocol.messages.produce import TOPIC_IDS_VERSION, ProduceRequest
from purgatorio.protocol.parts import changed, failed
from purgatorio.protocol.records import is_transactional

TOPIC: Final = ResourceType.TOPIC
DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED

# --- Produce ---

_WRITE: Final = 1 << AclOperation.WRITE
_PRODUCE: Final = EachOne(ApiKey.PRODUCE, AclOperation.WRITE, TOPIC)


def produce(access: Access, route: Route, ctx: RequestContext, request: ProduceRequest, reply: Reply) -> None:
    """Check WRITE on each topic, and on the transactional id if any batch is of a transaction (CVE-2018-17196)."""
    transactional_id = request.transactional_id
    if transactional_id is None and ctx.api_version < TOPIC_IDS_VERSION:
        known = access.authorizer.of(ctx.session).kept[TOPIC]
        for topic in request.topic_data:
            if not known.get(topic.name, 0) & _WRITE:
                break
        else:  # nearly all requests; the general check takes twice as long
            route.handler(ctx, request, reply)
            return
    if transactional_id is not None and _has_transactional(request):
        kind = ResourceType.TRANSACTIONAL_ID
        if not access.may(ctx, AclOperation.WRITE, kind, transactional_id):
            refuse(route, request, reply, CODES[kind])
            return
    _PRODUCE(access, route, ctx, request, reply)


def _has_transactional(request: ProduceRequest) -> bool:
    return any(
        data.records is not None and is_transactional(data.records)  # type: ignore[arg-type]  # decoded: one view
        for topic in request.topic_data
        for data in topic.partition_data
    )


# --- CreateTopics ---


def _hide_configs(access: Access, ctx: RequestContext, request: CreateTopicsRequest, answer: Any) -> None:
    """Show the configs of created topics only to clients that may describe them."""
    permissions = access.of(ctx)
    for topic in answer.topics:
        if not topic.error_code and not permissions.allows(AclOperation.DESCRIBE_CONFIGS, TOPIC, topic.name):
            topic.topic_config_error_code = DENIED
            topic.num_partitions = topic.replication_factor = -1
            topic.configs = None


def _not_created(request: CreateTopicsRequest) -> Any:
    answer = failed(ApiKey.CREATE_TOPICS, request, DENIED)
    for topic in answer.topics:
        topic.error_message = "Authorization failed."
    return answer


def _creates_anything(access: Access, ctx: RequestContext) -> bool:
    return access.of(ctx).allows(AclOperation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME)


_CREATE_EACH: Final = EachOne(
    ApiKey.CREATE_TOPICS, AclOperation.CREATE, TOPIC, failed=_not_created, change=_hide_configs
)


def create_topics(
    access: Access, route: Route, ctx: RequestContext, request: CreateTopicsRequest, reply: Reply
) -> None:
    """Check CREATE on the cluster, or on each topic."""
    if _creates_anything(access, ctx):
        hide = altering(ctx, reply, lambda answer: _hide_configs(access, ctx, request, answer))
        route.handler(ctx, request, hide)
    else:
        _CREATE_EACH(access, route, ctx, request, reply)


# --- DeleteTopics ---


def delete_topics(
    access: Access, route: Route, ctx: RequestContext, request: DeleteTopicsRequest, reply: Reply
) -> None:
    """Check DELETE on each topic; the refusal of a topic id has no name if the client may not describe the topic."""
    permissions = access.of(ctx)
    refused: list[tuple[str, DeletableTopicResult]] = []
    names, topics = [], []
    for name in request.topic_names:
        if permissions.allows(AclOperation.DELETE, TOPIC, name):
            names.append(name)
        else:
            refused.append((name, DeletableTopicResult(name=name, error_code=DENIED)))
    for topic in request.topics:
        known = access.name_of(topic.topic_id) if topic.topic_id != NO_ID else None
        asked = [each for each in (topic.name, known) if each is not None]
        hidden = next((each for each in asked if not permissions.allows(AclOperation.DELETE, TOPIC, each)), None)
        if hidden is None:
            topics.append(topic)
        else:
            may_know = permissions.allows(AclOperation.DESCRIBE, TOPIC, hidden)
            shown = hidden if topic.name is not None or may_know else None
            refused.append((hidden, DeletableTopicResult(name=shown, topic_id=topic.topic_id, error_code=DENIED)))
    if not refused:
        route.handler(ctx, request, reply)
        return
    access.audit.refused(ctx, AclOperation.DELETE, TOPIC, refused[0][0], len(refused) - 1)
    answer = DeleteTopicsResponse(responses=[result for _, result in refused])
    if names or topics:
        rest = changed(request, topic_names=names, topics=topics)
        route.handler(ctx, rest, altering(ctx, reply, extending("responses", answer)))
    else:
        send(answer, reply)


# --- DescribeTopicPartitions ---


def _true_operations(access: Access, ctx: RequestContext, request: DescribeTopicPartitionsRequest, answer: Any) -> None:
    permissions = access.of(ctx)
    for topic in answer.topics:
        if topic.error_code == ErrorCode.NONE:
            topic.topic_authorized_operations &= permissions.operations(TOPIC, topic.name)


_DESCRIBE_EACH: Final = EachOne(ApiKey.DESCRIBE_TOPIC_PARTITIONS, AclOperation.DESCRIBE, TOPIC, change=_true_operations)


def describe_topic_partitions(
    access: Access, route: Route, ctx: RequestContext, request: DescribeTopicPartitionsRequest, reply: Reply
) -> None:
    """Check DESCRIBE on each topic; a request for all topics gets those that the client may describe."""
    cursor = request.cursor
    if request.topics:
        if cursor is not None:  # earlier pages have reported the refusals
            request = changed(request, topics=[each for each in request.topics if each.name >= cursor.topic_name])
        if not request.topics:
            reply(DescribeTopicPartitionsResponse())
            return
        _DESCRIBE_EACH(access, route, ctx, request, reply)
        return
    shown = describable(access.of(ctx), access.image.topics)
    if not shown:
        reply(DescribeTopicPartitionsResponse())
        return
    asked = changed(request, topics=[TopicRequest(name=name) for name in shown])
    _DESCRIBE_EACH(access, route, ctx, asked, reply)


def describable(permissions: Permissions, names: Any) -> list[str]:
    """Return those of the topics that a client may describe."""
    return [name for name in names if permissions.allows(AclOperation.DESCRIBE, TOPIC, name)]
