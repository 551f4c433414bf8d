"""DescribeShareGroupOffsets (key 90): how far share groups have come, and how much is left (KIP-932).

Versions 0–1; v1 adds the lag: the records from the start offset to the high watermark that are neither acknowledged nor
given up (KIP-1226). The share coordinators tell the start offsets, the leaders their high watermarks. What is not known
is no error, as in OffsetFetch: the offset is −1, also of a group that does not exist.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.groups import Groups
from purgatorio.broker.group.share.offsets import StartOffset, TopicStarts
from purgatorio.broker.layers.access.guards.share_groups import describe_share_group_offsets as guard
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)


def handle(groups: Groups, ctx: RequestContext, request: DescribeShareGroupOffsetsRequest, reply: Reply) -> None:
    """Describe each group independently of the others."""
    answers = [DescribeShareGroupOffsetsResponseGroup(group_id=asked.group_id, topics=[]) for asked in request.groups]
    waiting = len(answers) + 1

    def done(answer: DescribeShareGroupOffsetsResponseGroup | None, topics: list[TopicStarts]) -> None:
        nonlocal waiting
        if answer is not None:
            answer.topics = [_topic(each) for each in topics]
        waiting -= 1
        if not waiting:
            reply(DescribeShareGroupOffsetsResponse(groups=answers))

    for asked, answer in zip(request.groups, answers, strict=True):
        topics = None if asked.topics is None else [(each.topic_name, each.partitions) for each in asked.topics]
        try:
            groups.share.offsets.describe(asked.group_id, topics, partial(done, answer))
        except CoordinatorError as error:
            answer.error_code, answer.error_message = error.error_code, str(error)
            done(None, [])
    done(None, [])


def _topic(starts: TopicStarts) -> DescribeShareGroupOffsetsResponseTopic:
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=starts.name, topic_id=starts.topic_id, partitions=[_partition(each) for each in starts.partitions]
    )


def _partition(start: StartOffset) -> DescribeShareGroupOffsetsResponsePartition:
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=start.partition,
        start_offset=start.start_offset,
        leader_epoch=start.leader_epoch,
        lag=start.lag,
        error_code=start.error_code,
        error_message=f"the end of the log is not known: {start.error_code.name}" if start.error_code else None,
    )


API: Final = ApiHandler(
    key=ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
    min_version=0,
    max_version=1,
    needs=guard,
    bind=lambda services: partial(handle, services.groups),
)
