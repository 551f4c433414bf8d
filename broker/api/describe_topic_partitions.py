"""DescribeTopicPartitions (key 75): describe topics page by page, with eligible leader replicas (KIP-966).

Version 0, sorted by name. A page ends after `response_partition_limit` partitions, and its cursor names the
start of the next page. Topics are never created. The last known ELR is always empty, since no election uses it; null is
allowed by the schema, but Java's AdminClient.describeTopics fails on it (kafka-clients 3.9 to 4.3).
"""

from __future__ import annotations

from functools import partial
from typing import Final

from purgatorio.broker.api.context import AdminContext
from purgatorio.broker.api.listing import TOPIC_OPERATIONS, leader_of, offline_replicas
from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.layers.access.guards.topics import describe_topic_partitions as guard
from purgatorio.broker.metadata.image import ClusterImage, Topic
from purgatorio.broker.metadata.topic_name import is_internal, topic_name_problem
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.broker.time.long_work import Steps
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from purgatorio.protocol.parts import failed

MAX_PARTITIONS_PER_PAGE: Final = 2_000
"""As many as are described at once, if one topic has them; `max.request.partition.size.limit` may be smaller."""


def handle(admin: AdminContext, ctx: RequestContext, request: DescribeTopicPartitionsRequest, reply: Reply) -> None:
    """Answer one page."""
    cursor = request.cursor
    if cursor is not None and cursor.partition_index < 0:
        reply(failed(ApiKey.DESCRIBE_TOPIC_PARTITIONS, request, ErrorCode.INVALID_REQUEST))
        return
    image = admin.store.image
    names = sorted({topic.name for topic in request.topics} or image.topics)
    first = 0
    if cursor is not None:
        names = [name for name in names if name >= cursor.topic_name]
        # If the cursor's topic was deleted since the last page, the next topic starts at its partition 0.
        first = cursor.partition_index if names[:1] == [cursor.topic_name] else 0
    limit = min(request.response_partition_limit, admin.max_partitions_per_page)
    admin.listings.begin(_page(image, names, first, limit, reply), ctx.session)


def _page(image: ClusterImage, names: list[str], first: int, limit: int, reply: Reply) -> Steps:
    """Answer a page of the topics in `names`, in steps; the first topic starts at its partition `first`."""
    response = DescribeTopicPartitionsResponse()
    left = max(1, min(limit, MAX_PARTITIONS_PER_PAGE))
    for name in names:
        topic = image.topics.get(name)
        if topic is None:
            response.topics.append(_missing(name))
            first = 0
            continue
        if left == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        end = min(first + left, len(topic.partitions))
        response.topics.append(_topic(image, topic, range(first, end)))
        if end < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=end)
            break
        left -= max(0, end - first)
        first = 0
        yield 5 + 3 * len(response.topics[-1].partitions)
    reply(response)


def _missing(name: str) -> DescribeTopicPartitionsResponseTopic:
    known = topic_name_problem(name) is None
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if known else ErrorCode.INVALID_TOPIC_EXCEPTION
    return DescribeTopicPartitionsResponseTopic(error_code=code, name=name, is_internal=is_internal(name))


def _topic(image: ClusterImage, topic: Topic, indexes: range) -> DescribeTopicPartitionsResponseTopic:
    answer = DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=is_internal(topic.name),
        topic_authorized_operations=TOPIC_OPERATIONS,
    )
    for index in indexes:
        state = topic.partitions[index]
        error_code, leader = leader_of(image, state)
        answer.partitions.append(
            DescribeTopicPartitionsResponsePartition(
                error_code=error_code,
                partition_index=index,
                leader_id=leader,
                leader_epoch=state.leader_epoch,
                replica_nodes=list(state.replicas),
                isr_nodes=list(state.isr_ids),
                eligible_leader_replicas=list(state.elr_ids),
                last_known_elr=[],
                offline_replicas=offline_replicas(image, state),
            )
        )
    return answer


API: Final = ApiHandler(
    key=ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    min_version=0,
    max_version=0,
    needs=guard,
    bind=lambda services: partial(handle, services.admin),
)
