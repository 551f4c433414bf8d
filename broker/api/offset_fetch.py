"""OffsetFetch (key 9): the offsets that groups have committed. Versions 1–10.

Only replicated offsets are returned. An unknown group or partition is no error: its offset is -1. Versions 1 to 7 ask
for one group, and have the group's error in each partition too: aiokafka 0.14 looks for it there alone, version 1 has
no other place.

With `require_stable` (from version 7 on) a partition whose offset an open transaction may change has the error
UNSTABLE_OFFSET_COMMIT, and the consumer asks again (KIP-447). The transaction may change it from the moment at which
the leader's log has its record. A commit outside of transactions that waits for the replicas is no such reason.

A long answer is made in steps, between which offsets may change; a group of which all offsets are asked for twice is
answered once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

from purgatorio.broker.api.answers import PIECE_BYTES, EntryPieces, answer_each
from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.groups import Groups
from purgatorio.broker.group.offsets import CommittedOffset
from purgatorio.broker.layers.access.guards.groups import offset_fetch as guard
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.routing.request import Reply, RequestContext
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
    without_repeats,
)
from purgatorio.protocol.parts import part_of
from purgatorio.protocol.primitives import ZERO_UUID

GROUPS_VERSION: Final = 8
"""The first version that asks for several groups."""
TOPIC_ID_VERSION: Final = 10
"""The first version with topic ids instead of names."""

_NOTHING: Final = CommittedOffset(-1, -1, "", -1)


def handle(groups: Groups, ctx: RequestContext, request: OffsetFetchRequest, reply: Reply) -> None:
    """Answer with the committed offsets of each group."""
    is_of_one = ctx.api_version < GROUPS_VERSION
    asked = [_only_group(request)] if is_of_one else without_repeats(request.groups)
    fetch = _Fetch(groups, by_id=ctx.api_version >= TOPIC_ID_VERSION, require_stable=request.require_stable)

    def answer(answers: list[OffsetFetchResponseGroup]) -> None:
        reply(_single(answers[0]) if is_of_one else OffsetFetchResponse(groups=answers))

    def make(nth: int) -> EntryPieces[OffsetFetchResponseGroup]:
        return fetch.make(asked[nth], failed)

    def refuse(nth: int, error_code: ErrorCode) -> OffsetFetchResponseGroup:
        return failed(asked[nth], error_code)

    failed = _failed if is_of_one else _refused
    answer_each(groups.listings, ctx, range(len(asked)), make, refuse, answer)


class _Fetch:
    """Reads the offsets of the groups of one request."""

    def __init__(self, groups: Groups, *, by_id: bool, require_stable: bool) -> None:
        self._groups = groups
        self._by_id = by_id
        self._require_stable = require_stable
        self._unstable: dict[str, dict[str, dict[int, None]]] = {}

    def make(
        self,
        asked: OffsetFetchRequestGroup,
        failed: Callable[[OffsetFetchRequestGroup, ErrorCode], OffsetFetchResponseGroup],
    ) -> EntryPieces[OffsetFetchResponseGroup]:
        """Make the answer for one group, with its committed offsets.

        Args:
            failed: makes the answer if they cannot be read now, or not by this member.
        """
        offsets = self._groups.offsets
        try:
            of_group = offsets.offsets_of(asked.group_id, asked.member_id, asked.member_epoch)
            unstable = self._unstable_of(asked.group_id)
        except CoordinatorError as error:
            return failed(asked, error.error_code)
        names = [*of_group, *unstable] if asked.topics is None else ()
        answer = OffsetFetchResponseGroup(group_id=asked.group_id, topics=[])
        for topic in _asked_topics(self._groups.image, asked, names, self._by_id):
            kept = of_group.get(topic.name, {})
            open_ones = unstable.get(topic.name, {})
            indexes = topic.partitions
            partitions: list[OffsetFetchResponsePartitions] = []
            for index in list(dict.fromkeys((*kept, *open_ones))) if indexes is None else indexes:
                committed = kept.get(index, _NOTHING)
                if index in open_ones:
                    partitions.append(_unstable(index, topic))
                elif indexes is not None or (committed is not _NOTHING and committed.is_of(topic.topic_id)):
                    partitions.append(_partition(index, committed, topic))
                yield PIECE_BYTES + len(committed.metadata)
            if partitions or indexes is not None:
                answer.topics.append(
                    OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=partitions)
                )
                yield PIECE_BYTES
        return answer

    def _unstable_of(self, group_id: str) -> dict[str, dict[int, None]]:
        if not self._require_stable:
            return {}
        found = self._unstable.get(group_id)
        if found is None:  # once, as the request may name the group often
            found = self._unstable[group_id] = self._groups.offsets.unstable_of(group_id)
        return found


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


def _refused(asked: OffsetFetchRequestGroup, error_code: ErrorCode) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(group_id=asked.group_id, error_code=error_code)


def _failed(asked: OffsetFetchRequestGroup, error_code: ErrorCode) -> OffsetFetchResponseGroup:
    """Return a group's error for versions before 8, also in each of its partitions."""
    topics = part_of(ApiKey.OFFSET_FETCH, "groups", "topics").refused(asked.topics or (), error_code)
    return OffsetFetchResponseGroup(group_id=asked.group_id, topics=topics, error_code=error_code)


API: Final = ApiHandler(
    key=ApiKey.OFFSET_FETCH,
    min_version=1,
    max_version=10,
    needs=guard,
    bind=lambda services: partial(handle, services.groups),
)
