"""DescribeShareGroupOffsets (key 90): how far share groups have come, and how much is left (KIP-932).

Versions 0–1; v1 adds the lag: the records from the start offset to the high watermark that are neither acknowledged nor
given up (KIP-1226). Start offsets come from the share coordinators, high watermarks from the partitions' leaders. An
unknown offset is no error, as in OffsetFetch: it is −1, also of a group that does not exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from purgatorio.broker.api.answers import MAX_ANSWER_BYTES, NO_ROOM, PIECE_BYTES
from purgatorio.broker.api.registry import ApiHandler
from purgatorio.broker.coordinator.errors import CoordinatorError
from purgatorio.broker.group.groups import Groups
from purgatorio.broker.group.share.offsets import StartOffset, TopicStarts
from purgatorio.broker.layers.access.guards.share_groups import describe_share_group_offsets as guard
from purgatorio.broker.routing.request import Reply, RequestContext
from purgatorio.broker.time.long_work import Steps
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
    without_repeats,
)
from purgatorio.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequestGroup as AskedGroup,
)
from purgatorio.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsResponseGroup as AnsweredGroup,
)

CHUNK: Final = 200
"""The most topics and partitions, together, of one turn: some milliseconds."""


def handle(groups: Groups, ctx: RequestContext, request: DescribeShareGroupOffsetsRequest, reply: Reply) -> None:
    """Describe each group once."""
    _Description(groups, ctx, without_repeats(request.groups), reply).go_on()


class _Description:
    """An answer that is made of chunks, each in a turn of the event loop, while the client's connection is muted."""

    def __init__(self, groups: Groups, ctx: RequestContext, asked: Sequence[AskedGroup], reply: Reply) -> None:
        self._groups = groups
        self._session = ctx.session
        self._channel = ctx.session.channel
        self._reply = reply
        self._answers: list[AnsweredGroup] = []
        self._chunks = self._chunks_of(asked)
        self._channel.mute()

    def go_on(self) -> None:
        """Ask for the next chunk, or reply."""
        chunk = next(self._chunks, None)
        if chunk is None or self._session.channel is not self._channel:  # the connection is lost
            self._channel.unmute()
            self._reply(DescribeShareGroupOffsetsResponse(groups=self._answers))
            return
        answer, topics = chunk
        try:
            self._groups.share.offsets.describe(answer.group_id, topics, partial(self._described, answer))
        except CoordinatorError as error:
            answer.error_code, answer.error_message, answer.topics = error.error_code, str(error), []
            self._described(answer, [])

    def _described(self, answer: AnsweredGroup, topics: list[TopicStarts]) -> None:
        for starts in topics:
            if not answer.topics or answer.topics[-1].topic_name != starts.name:
                answer.topics.append(
                    DescribeShareGroupOffsetsResponseTopic(
                        topic_name=starts.name, topic_id=starts.topic_id, partitions=[]
                    )
                )
            answer.topics[-1].partitions += map(_partition, starts.partitions)
        self._groups.listings.begin(self._turn())

    def _turn(self) -> Steps:
        yield 0
        self.go_on()

    def _chunks_of(self, asked: Sequence[AskedGroup]) -> Iterator[tuple[AnsweredGroup, list[tuple[str, list[int]]]]]:
        """Yield the requested partitions, some at a time, with the answers that they belong to."""
        room = MAX_ANSWER_BYTES // PIECE_BYTES
        for group in asked:
            answer = AnsweredGroup(group_id=group.group_id, topics=[])
            self._answers.append(answer)
            room -= 1
            if room <= 0:
                answer.error_code = NO_ROOM
                continue
            if group.topics is None:
                try:
                    named = self._groups.share.offsets.initialized(group.group_id)
                except CoordinatorError as error:
                    answer.error_code, answer.error_message = error.error_code, str(error)
                    continue
            else:
                named = [(each.topic_name, each.partitions) for each in group.topics]
            for chunk in _cut(named):
                if answer.error_code:
                    break
                room -= sum(1 + len(numbers) for _, numbers in chunk)
                yield answer, chunk


def _cut(topics: Iterable[tuple[str, list[int]]]) -> Iterator[list[tuple[str, list[int]]]]:
    """Yield topics with their partitions, up to `CHUNK` of both together."""
    chunk: list[tuple[str, list[int]]] = []
    count = 0
    for name, numbers in topics:
        for start in range(0, max(1, len(numbers)), CHUNK):
            part = numbers[start : start + CHUNK]
            if count + 1 + len(part) > CHUNK and chunk:
                yield chunk
                chunk, count = [], 0
            chunk.append((name, part))
            count += 1 + len(part)
    yield chunk


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
