"""OffsetCommit (key 8): store offsets of a group; answered when they are replicated.

Versions 2–10. A commit is a produce to ``__consumer_offsets`` with acks=-1, and waits in the Produce purgatory. Unknown
partitions and too long metadata are refused one by one; what the coordinator refuses is refused for all others.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.groups import Groups
from purgatorio.broker.group.offsets import CommittedOffset
from purgatorio.broker.layers.access.guards.groups import offset_commit as guard
from purgatorio.broker.metadata.image import ClusterImage, Topic
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.consumer_offsets import NO_EXPIRY
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
)
from purgatorio.protocol.messages.txn_offset_commit import TxnOffsetCommitRequestTopic
from purgatorio.protocol.parts import changed, failed

TOPIC_ID_VERSION: Final = 10
"""The first version with topic ids instead of names."""
_LATEST_MS: Final = (1 << 63) - 1


def handle(groups: Groups, ctx: RequestContext, request: OffsetCommitRequest, reply: Reply) -> None:
    """Commit the offsets of the partitions that exist."""
    if not all(topic.partitions for topic in request.topics):  # such a topic is left out, as in Kafka
        request = changed(request, topics=[topic for topic in request.topics if topic.partitions])
    response: OffsetCommitResponse = failed(ApiKey.OFFSET_COMMIT, request, ErrorCode.NONE)
    accepted, offsets = _accepted(groups, ctx, request, response)

    def done(error_code: ErrorCode) -> None:
        for answer in accepted:
            answer.error_code = error_code
        reply(response)

    if not offsets:
        reply(response)
        return
    try:
        groups.offsets.commit(
            request.group_id,
            offsets,
            done,
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            generation_or_epoch=request.generation_id_or_member_epoch,
            version=ctx.api_version,
            client=ctx.client_id or "",
        )
    except CoordinatorError as error:
        done(error.error_code)


def _accepted(
    groups: Groups, ctx: RequestContext, request: OffsetCommitRequest, response: OffsetCommitResponse
) -> tuple[list[OffsetCommitResponsePartition], list[tuple[str, int, CommittedOffset]]]:
    """Return the offsets that may be committed, with their places in the response; the others get their errors."""
    image = groups.image
    max_metadata = groups.config.offset_metadata_max_bytes
    now_ms = groups.clock.wall_ms()
    expire_ms = NO_EXPIRY
    if request.retention_time_ms >= 0:
        expire_ms = min(now_ms + request.retention_time_ms, _LATEST_MS)
    accepted: list[OffsetCommitResponsePartition] = []
    offsets: list[tuple[str, int, CommittedOffset]] = []
    for asked, answered in zip(request.topics, response.topics, strict=True):
        topic, missing = topic_of(image, asked, by_id=ctx.api_version >= TOPIC_ID_VERSION)
        for each, answer in zip(asked.partitions, answered.partitions, strict=True):
            metadata = each.committed_metadata or ""
            if topic is None or not 0 <= each.partition_index < len(topic.partitions):
                answer.error_code = missing
            elif len(metadata) > max_metadata:
                answer.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                offset = CommittedOffset(
                    each.committed_offset, each.committed_leader_epoch, metadata, now_ms, expire_ms, topic.topic_id
                )
                accepted.append(answer)
                offsets.append((topic.name, each.partition_index, offset))
    return accepted, offsets


def topic_of(
    image: ClusterImage, asked: OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic, *, by_id: bool
) -> tuple[Topic | None, ErrorCode]:
    """Return the topic if it exists, and the error code of what does not."""
    if not by_id:
        return image.topics.get(asked.name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    topic = image.topic_by_id(asked.topic_id)
    return topic, ErrorCode.UNKNOWN_TOPIC_ID if topic is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


API: Final = ApiHandler(
    key=ApiKey.OFFSET_COMMIT,
    min_version=2,
    max_version=10,
    needs=guard,
    bind=lambda services: partial(handle, services.groups),
)
