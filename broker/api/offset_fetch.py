"""OffsetFetch (key 9): the offsets that groups have committed. Versions 1–10.

Only replicated offsets are told. An unknown group or partition is no error: its offset is -1. Versions 1 to 7 ask for
one group, and have the group's error in each partition too: aiokafka 0.14 looks for it there alone, version 1 has no
other place.

With `require_stable` (from version 7 on) a partition whose offset an open transaction may change has the error
UNSTABLE_OFFSET_COMMIT, and the consumer asks again (KIP-447). The transaction may change it from the moment at which
the leader's log has its record. A commit outside of transactions that waits for the replicas is no such reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.groups import Groups
from purgatorio.broker.group.offsets import CommittedOffset
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.request import Reply, RequestContext
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from purgatorio.protocol.primitives import ZERO_UUID

GROUPS_VERSION: Final = 8
"""The first version that asks for several groups."""
TOPIC_ID_VERSION: Final = 10
"""The first version with topic ids instead of names."""

_NOTHING: Final = CommittedOffset(-1, -1, "", -1)


def handle(groups: Groups, ctx: RequestContext, request: OffsetFetchRequest, reply: Reply) -> None:
    """Answer with the committed offsets of each group."""
    if ctx.api_version < GROUPS_VERSION:
        only = _only_group(request)
        try:
            reply(_single(_fetch(groups, only, by_id=False, require_stable=request.require_stable)))
        except CoordinatorError as error:
            reply(_single(_failed(only, error.error_code)))
        return
    by_id = ctx.api_version >= TOPIC_ID_VERSION
    answers = []
    for group in request.groups:
        try:
            answers.append(_fetch(groups, group, by_id=by_id, require_stable=request.require_stable))
        except CoordinatorError as error:
            answers.append(OffsetFetchResponseGroup(group_id=group.group_id, error_code=error.error_code))
    reply(OffsetFetchResponse(groups=answers))


def _fetch(
    groups: Groups, asked: OffsetFetchRequestGroup, *, by_id: bool, require_stable: bool
) -> OffsetFetchResponseGroup:
    """Return the offsets of one group.

    Raises:
        CoordinatorError: they cannot be read now, or not by this member.
    """
    of_group = groups.offsets.offsets_of(asked.group_id, asked.member_id, asked.member_epoch)
    unstable = groups.offsets.unstable_of(asked.group_id) if require_stable else {}
    topics = []
    for topic in _asked_topics(groups.image, asked, [*of_group, *unstable], by_id):
        kept = of_group.get(topic.name, {})
        open_ones = unstable.get(topic.name, ())
        if topic.partitions is None:
            stable = [_partition(index, each, topic) for index, each in kept.items() if each.is_of(topic.topic_id)]
            partitions = [each for each in stable if each.partition_index not in open_ones]
            partitions += [_unstable(index, topic) for index in open_ones]
        else:
            partitions = [
                _unstable(index, topic) if index in open_ones else _partition(index, kept.get(index, _NOTHING), topic)
                for index in topic.partitions
            ]
        if partitions or topic.partitions is not None:
            topics.append(OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=partitions))
    return OffsetFetchResponseGroup(group_id=asked.group_id, topics=topics)


class _AskedTopic(NamedTuple):
    """A topic that a group's offsets are asked of; all partitions if these are None."""

    name: str
    topic_id: bytes
    partitions: Sequence[int] | None
    error_code: ErrorCode = ErrorCode.NONE


def _asked_topics(
    image: ClusterImage, asked: OffsetFetchRequestGroup, names: Iterable[str], by_id: bool
) -> list[_AskedTopic]:
    """Return the topics that are asked of; with null topics those of `names`, if they can be named."""
    if asked.topics is None:
        known = [(name, image.topics.get(name)) for name in dict.fromkeys(names)]
        return [
            _AskedTopic(name, ZERO_UUID if topic is None else topic.topic_id, None)
            for name, topic in known
            if topic is not None or not by_id
        ]
    topics = []
    for each in asked.topics:
        topic = image.topic_by_id(each.topic_id) if by_id else image.topics.get(each.name)
        if topic is not None:
            topics.append(_AskedTopic(topic.name, topic.topic_id, each.partition_indexes))
        else:
            code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.NONE
            topics.append(_AskedTopic(each.name, each.topic_id, each.partition_indexes, code))
    return topics


def _partition(index: int, committed: CommittedOffset, topic: _AskedTopic) -> OffsetFetchResponsePartitions:
    """Return the answer for one partition; the offset of an earlier topic of the same name does not count."""
    if not committed.is_of(topic.topic_id):
        committed = _NOTHING
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        error_code=topic.error_code,
    )


def _unstable(index: int, topic: _AskedTopic) -> OffsetFetchResponsePartitions:
    """Return the answer for a partition whose offset an open transaction may change."""
    answer = _partition(index, _NOTHING, topic)
    answer.error_code = answer.error_code or ErrorCode.UNSTABLE_OFFSET_COMMIT
    return answer


def _only_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    """Return the group of a request before version 8, in the form of later versions."""
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=each.name, partition_indexes=each.partition_indexes)
            for each in request.topics
        ]
    return OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)


def _single(group: OffsetFetchResponseGroup) -> OffsetFetchResponse:
    """Return the response in the form of versions before 8."""
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=each.partition_index,
                        committed_offset=each.committed_offset,
                        committed_leader_epoch=each.committed_leader_epoch,
                        metadata=each.metadata,
                        error_code=each.error_code,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )


def _failed(asked: OffsetFetchRequestGroup, error_code: ErrorCode) -> OffsetFetchResponseGroup:
    """Return a group's error for versions before 8, also in each of its partitions."""
    topics = [
        OffsetFetchResponseTopics(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                OffsetFetchResponsePartitions(
                    partition_index=index, committed_offset=-1, metadata="", error_code=error_code
                )
                for index in topic.partition_indexes
            ],
        )
        for topic in asked.topics or ()
    ]
    return OffsetFetchResponseGroup(group_id=asked.group_id, topics=topics, error_code=error_code)


def error_response(request: OffsetFetchRequest, error_code: ErrorCode) -> OffsetFetchResponse:
    """Return the response with `error_code` for every group, in the form of all versions."""
    response = _single(_failed(_only_group(request), error_code))
    response.groups = [
        OffsetFetchResponseGroup(group_id=group.group_id, error_code=error_code) for group in request.groups
    ]
    return response


API: Final = ApiHandler(
    key=ApiKey.OFFSET_FETCH,
    min_version=1,
    max_version=10,
    bind=lambda services: partial(handle, services.groups),
    error_response=error_response,
)
