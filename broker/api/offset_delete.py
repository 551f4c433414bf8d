"""OffsetDelete (key 47): delete committed offsets of a group (KIP-496). Version 0.

Refused partition by partition for topics that members consume, and for partitions that do not exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.groups import Groups
from purgatorio.broker.layers.access.guards.groups import offset_delete as guard
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def handle(groups: Groups, ctx: RequestContext, request: OffsetDeleteRequest, reply: Reply) -> None:
    """Delete the offsets; answer when the tombstones are replicated."""
    answers: list[OffsetDeleteResponsePartition] = []
    partitions: list[tuple[str, int]] = []
    topics = []
    for topic in request.topics:
        if not topic.partitions:
            continue  # it is left out, as in Kafka
        answered = OffsetDeleteResponseTopic(name=topic.name)
        topics.append(answered)
        for each in topic.partitions:
            answer = OffsetDeleteResponsePartition(partition_index=each.partition_index)
            answered.partitions.append(answer)
            if groups.image.partition(topic.name, each.partition_index) is None:
                answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                answers.append(answer)
                partitions.append((topic.name, each.partition_index))

    def done(error_codes: Sequence[ErrorCode]) -> None:
        for answer, error_code in zip(answers, error_codes, strict=True):
            answer.error_code = error_code
        reply(OffsetDeleteResponse(topics=topics))

    try:
        groups.cleaner.delete_offsets(request.group_id, partitions, done)
    except CoordinatorError as error:
        reply(OffsetDeleteResponse(error_code=error.error_code))


API: Final = ApiHandler(
    key=ApiKey.OFFSET_DELETE,
    min_version=0,
    max_version=0,
    needs=guard,
    bind=lambda services: partial(handle, services.groups),
)
