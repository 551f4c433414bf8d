"""The ends of partitions' logs, asked of their leaders: what the lag of a share group is measured by (KIP-1226)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

from purgatorio.broker.coordinator.ask_broker import AskBroker
from purgatorio.broker.log.topic_partition import TopicPartition, by_topic
from purgatorio.broker.metadata.image import NO_LEADER, ClusterImage
from purgatorio.broker.replica.partition import PartitionError
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from purgatorio.purgatory import Timer

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

_PASSING: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
    }
)


class EndOffset(NamedTuple):
    """The end of one partition's log, as consumers see it: its high watermark; −1 with an error."""

    error_code: ErrorCode
    offset: int = -1


Found = Callable[[dict[TopicPartition, EndOffset]], None]
"""Receives the end of each partition's log that was asked for."""

FindEndOffsets = Callable[[Iterable[TopicPartition], Found], None]
"""See `EndOffsets.find`."""


class EndOffsets:
    """Finds the ends of logs, on this broker and on others.

    Args:
        timer: when a leader is asked again.
    """

    def __init__(
        self, replicas: ReplicaManager, *, image: Callable[[], ClusterImage], ask: AskBroker, timer: Timer
    ) -> None:
        self._replicas = replicas
        self._image = image
        self._ask = ask
        self._timer = timer

    def find(self, partitions: Iterable[TopicPartition], found: Found) -> None:
        """Call `found` once, now or later, with the end of each partition's log, or its error."""
        _Search(self, dict.fromkeys(partitions), found).begin()

    def of_leader(self, tp: TopicPartition) -> int | None:
        """Return the broker to ask for a partition: None if it does not exist, `NO_LEADER` if it has no leader."""
        state = self._image().partition(*tp)
        return None if state is None else state.leader

    def local(self, tp: TopicPartition) -> EndOffset:
        """Return the end of a log that this broker leads."""
        try:
            partition = self._replicas.lookup.find(tp)
            partition.check_leader(-1)
        except PartitionError as error:
            return EndOffset(error.error_code)
        if partition.high_watermark < partition.leader_epoch_start_offset:
            return EndOffset(ErrorCode.OFFSET_NOT_AVAILABLE)
        return EndOffset(ErrorCode.NONE, partition.high_watermark)

    def is_here(self, broker_id: int) -> bool:
        """Return whether this is the broker."""
        return broker_id == self._replicas.broker_id

    def ask(self, broker_id: int, partitions: Sequence[TopicPartition], done: Found) -> None:
        """Ask another broker."""
        topics = [
            ListOffsetsTopic(
                name=name,
                partitions=[ListOffsetsPartition(partition_index=each, timestamp=LATEST) for each in numbers],
            )
            for name, numbers in by_topic(partitions).items()
        ]

        def answered(response: ListOffsetsResponse | None, error: Exception | None) -> None:
            done(dict.fromkeys(partitions, EndOffset(ErrorCode.NETWORK_EXCEPTION)) | _read(response))

        self._ask(broker_id, ApiKey.LIST_OFFSETS, REQUEST_VERSION, ListOffsetsRequest(topics=topics), answered)

    def again(self, search: Callable[[], None]) -> None:
        """Call `search` after a while."""
        self._timer.call_later(RETRY_MS, search)


class _Search:
    """One call of `EndOffsets.find`."""

    def __init__(self, owner: EndOffsets, missing: dict[TopicPartition, None], found: Found) -> None:
        self._owner = owner
        self._missing = missing
        self._found = found
        self._ends: dict[TopicPartition, EndOffset] = {}
        self._tries = 0
        self._waiting = 0

    def begin(self) -> None:
        """Ask for the ends that are missing."""
        self._tries += 1
        of_brokers: dict[int, list[TopicPartition]] = {}
        for tp in self._missing:
            leader = self._owner.of_leader(tp)
            if leader is None:
                self._ends[tp] = EndOffset(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            elif leader == NO_LEADER:
                self._ends[tp] = EndOffset(ErrorCode.LEADER_NOT_AVAILABLE)
            elif self._owner.is_here(leader):
                self._ends[tp] = self._owner.local(tp)
            else:
                of_brokers.setdefault(leader, []).append(tp)
        chunks = [
            (broker_id, partitions[start : start + MAX_PARTITIONS])
            for broker_id, partitions in of_brokers.items()
            for start in range(0, len(partitions), MAX_PARTITIONS)
        ]
        self._waiting = len(chunks) + 1
        for broker_id, chunk in chunks:
            self._owner.ask(broker_id, chunk, self._told)
        self._told({})

    def _told(self, ends: dict[TopicPartition, EndOffset]) -> None:
        self._ends.update(ends)
        self._waiting -= 1
        if self._waiting:
            return
        self._missing = {tp: None for tp, end in self._ends.items() if end.error_code in _PASSING}
        if self._missing and self._tries < MAX_TRIES:
            self._owner.again(partial(self.begin))
        else:
            self._found(self._ends)


def _read(response: ListOffsetsResponse | None) -> dict[TopicPartition, EndOffset]:
    if response is None:
        return {}
    return {
        TopicPartition(topic.name, each.partition_index): EndOffset(ErrorCode.known(each.error_code), each.offset)
        for topic in response.topics
        for each in topic.partitions
    }
