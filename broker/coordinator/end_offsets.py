"""The ends of partitions' logs, asked of their leaders: what the lag of a share group is measured by (KIP-1226)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from purgatorio.broker.causes.kinds import END_OFFSET
from purgatorio.broker.coordinator.broker_calls import Answer, BrokerCalls, Call, CallKind, Retries
from purgatorio.broker.log.topic_partition import TopicPartition, by_topic
from purgatorio.broker.replica.partition import PartitionError
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.broker.routing.passing_errors import END_OFFSETS
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

LATEST: Final = -1
"""The timestamp that asks for the high watermark."""
REQUEST_VERSION: Final = 9
"""The version of the requests: the last one without a time limit for tiered storage."""
MAX_PARTITIONS: Final = 1_000
"""The most partitions of one request: about 10 ms of a leader's time."""
MAX_TRIES: Final = 5
"""How often a partition is asked for, at most."""
RETRY_MS: Final = 100
"""From an attempt that failed to the next."""


class EndOffset(NamedTuple):
    """The end of one partition's log, as consumers see it: its high watermark; −1 with an error."""

    error_code: ErrorCode
    offset: int = -1


Found = Callable[[dict[TopicPartition, EndOffset]], None]
"""Receives the end of each partition's log that was asked for."""

FindEndOffsets = Callable[[Iterable[TopicPartition], Found], None]
"""See `EndOffsets.find`."""


class _Search:
    """One call of `EndOffsets.find`."""

    def __init__(self, found: Found, left: int) -> None:
        self.ends: dict[TopicPartition, EndOffset] = {}
        self.found = found
        self.left = left


class _Question(Call):
    """The end of one partition's log."""

    __slots__ = ("search",)

    def __init__(self, kind: EndOffsets, tp: TopicPartition, search: _Search) -> None:
        super().__init__(kind, tp, tp)
        self.search = search


class EndOffsets(CallKind[_Question]):
    """Finds the ends of logs, on this broker and on others. The questions of one search are asked again together."""

    row = END_OFFSET
    api_key = ApiKey.LIST_OFFSETS
    version = REQUEST_VERSION
    passing = END_OFFSETS
    retries = Retries(RETRY_MS, RETRY_MS, times=MAX_TRIES - 1)
    max_ids = max_here = MAX_PARTITIONS

    def __init__(self, calls: BrokerCalls, replicas: ReplicaManager) -> None:
        self._calls = calls
        self._replicas = replicas

    def find(self, partitions: Iterable[TopicPartition], found: Found) -> None:
        """Call `found` once, now or later, with the end of each partition's log, or its error."""
        wanted = dict.fromkeys(partitions)
        if not wanted:
            found({})
            return
        search = _Search(found, len(wanted))
        self._calls.make([_Question(self, tp, search) for tp in wanted])

    def without_leader(self, call: _Question, *, exists: bool) -> Answer:
        """A partition that does not exist is not waited for."""
        return super().without_leader(call, exists=True) if exists else Answer(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def here(self, calls: list[_Question], answered: Callable[[_Question, Answer], None]) -> None:
        """Answer with the end of a log that this broker leads."""
        (call,) = calls
        try:
            partition = self._replicas.lookup.find(call.tp)
            partition.check_leader(-1)
        except PartitionError as error:
            answered(call, Answer(error.error_code))
            return
        is_late = partition.high_watermark < partition.leader_epoch_start_offset
        answered(call, Answer(ErrorCode.OFFSET_NOT_AVAILABLE) if is_late else Answer(value=partition.high_watermark))

    def request(self, calls: Mapping[TopicPartition, list[_Question]]) -> ListOffsetsRequest:
        """Ask for high watermarks."""
        return ListOffsetsRequest(
            topics=[
                ListOffsetsTopic(
                    name=name,
                    partitions=[ListOffsetsPartition(partition_index=each, timestamp=LATEST) for each in numbers],
                )
                for name, numbers in by_topic(calls).items()
            ]
        )

    def answers(
        self, response: ListOffsetsResponse, calls: Mapping[TopicPartition, list[_Question]]
    ) -> dict[TopicPartition, Answer]:
        """Return the high watermarks."""
        return {
            TopicPartition(topic.name, each.partition_index): Answer(
                ErrorCode.known(each.error_code), value=each.offset
            )
            for topic in response.topics
            for each in topic.partitions
        }

    def waits_with(self, call: _Question) -> _Search:
        """Partitions wait together with others of their search."""
        return call.search

    def named(self, call: _Question) -> str:
        """Return a question in words."""
        return "the question for the end of the log"

    def ended(self, call: _Question, answer: Answer) -> None:
        """Note an end; answer the search with the last one."""
        search = call.search
        code = answer.error_code
        search.ends[call.tp] = EndOffset(code) if code else EndOffset(code, answer.value)
        search.left -= 1
        if not search.left:
            search.found(search.ends)
