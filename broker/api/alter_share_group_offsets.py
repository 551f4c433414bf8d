"""AlterShareGroupOffsets (key 91): where a share group without members goes on (KIP-932). Version 0.

The group need not exist. Its epoch grows, so that leaders which still work with the states before are fenced. Answered
when the share coordinators have the new states.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.groups import Groups
from purgatorio.broker.layers.access.guards.share_groups import alter_share_group_offsets as guard
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from purgatorio.protocol.parts import failed
from purgatorio.protocol.primitives import ZERO_UUID
from purgatorio.protocol.share_state import NO_START_OFFSET


def handle(groups: Groups, ctx: RequestContext, request: AlterShareGroupOffsetsRequest, reply: Reply) -> None:
    """Alter the offsets of the partitions that exist."""
    image = groups.image
    starts: dict[str, dict[int, int]] = {}
    topics: list[AlterShareGroupOffsetsResponseTopic] = []
    for topic in request.topics:
        known = image.topics.get(topic.topic_name)
        answered = AlterShareGroupOffsetsResponseTopic(
            topic_name=topic.topic_name, topic_id=ZERO_UUID if known is None else known.topic_id
        )
        topics.append(answered)
        for each in topic.partitions:
            error_code = _mistake(image, topic.topic_name, each.partition_index, each.start_offset)
            answered.partitions.append(_partition(each.partition_index, error_code))
            if not error_code:
                starts.setdefault(topic.topic_name, {})[each.partition_index] = each.start_offset

    def done(failures: Mapping[TopicPartition, ErrorCode]) -> None:
        for answered in topics:
            answered.partitions = [
                _partition(each.partition_index, error_code)
                if (error_code := failures.get(TopicPartition(answered.topic_name, each.partition_index)))
                else each
                for each in answered.partitions
            ]
        reply(AlterShareGroupOffsetsResponse(responses=topics))

    try:
        groups.share.offsets.alter(request.group_id, starts, done)
    except CoordinatorError as error:
        response: AlterShareGroupOffsetsResponse = failed(ApiKey.ALTER_SHARE_GROUP_OFFSETS, request, error.error_code)
        response.error_message = str(error)
        reply(response)


def _mistake(image: ClusterImage, topic: str, partition: int, start_offset: int) -> ErrorCode:
    if image.partition(topic, partition) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.INVALID_REQUEST if start_offset < NO_START_OFFSET else ErrorCode.NONE


def _partition(number: int, error_code: ErrorCode) -> AlterShareGroupOffsetsResponsePartition:
    message = error_code.name if error_code else None
    return AlterShareGroupOffsetsResponsePartition(partition_index=number, error_code=error_code, error_message=message)


API: Final = ApiHandler(
    key=ApiKey.ALTER_SHARE_GROUP_OFFSETS,
    min_version=0,
    max_version=0,
    needs=guard,
    bind=lambda services: partial(handle, services.groups),
)
