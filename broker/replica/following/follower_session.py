"""A follower's side of its fetch session with one leader (KIP-227): the partitions that the leader knows or lacks."""

# compiled: docs/compiled.md

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from purgatorio.broker.replica.fetching.fetch_session import next_epoch
from purgatorio.broker.replica.partition import Partition
from purgatorio.protocol.messages.fetch import (
    INITIAL_EPOCH,
    NO_SESSION,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)

PartitionKey = tuple[bytes, int]
"""A topic id and a partition's index."""


class NamedPartition(NamedTuple):
    """A partition that a request of the session has named, and the leader epoch in which it did."""

    partition: Partition
    leader_epoch: int


def key_of(partition: Partition) -> PartitionKey:
    """Return what a session knows a partition by."""
    return partition.topic_id, partition.tp.partition


class FollowerSession:
    """Names all partitions in a full request, then only those that were altered since they were named.

    Altered are the offset, leader epoch, last fetched epoch and log start offset: appends and truncations alter them,
    and images. Without a session, each request is full.

    Args:
        partition_max_bytes: the most bytes of each partition in a response.
    """

    def __init__(self, partition_max_bytes: int) -> None:
        self._partition_max_bytes = partition_max_bytes
        self.reset()

    def reset(self) -> None:
        """Begin again with a full request: the leader refused the session, or the connection is lost."""
        self._session_id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._named: dict[PartitionKey, NamedPartition] = {}
        self._altered: dict[PartitionKey, Partition] = {}
        self._forgotten: dict[PartitionKey, None] = {}

    @property
    def is_open(self) -> bool:
        """Whether the leader keeps a session for this follower."""
        return self._session_id != NO_SESSION

    @property
    def named(self) -> Mapping[PartitionKey, NamedPartition]:
        """The partitions that the response may name."""
        return self._named

    def is_current(self, partition: Partition) -> bool:
        """Return whether the leader knows this replica in its present leader epoch."""
        named = self._named.get(key_of(partition))
        return named is not None and named.partition is partition and named.leader_epoch == partition.leader_epoch

    def alter(self, partition: Partition) -> None:
        """Name a partition in the next request: it is new, or what the leader knows of it is outdated."""
        key = key_of(partition)
        self._altered[key] = partition
        self._forgotten.pop(key, None)

    def forget(self, partition: Partition) -> None:
        """Let the leader forget a partition with the next request."""
        key = key_of(partition)
        self._altered.pop(key, None)
        if self._named.pop(key, None) is not None:
            self._forgotten[key] = None

    @property
    def is_empty(self) -> bool:
        """Whether the next request of the session would leave it without partitions."""
        return not self._named and not self._altered

    def fill_in(self, request: FetchRequest, ready: Iterable[Partition]) -> None:
        """Put partitions, session id and epoch into the next request.

        Args:
            request: the request to fill in.
            ready: all partitions to fetch, for a full request.
        """
        named, self._altered = self._altered, {}
        forgotten, self._forgotten = self._forgotten, {}
        if self.is_open:
            request.forgotten_topics_data = _forgotten_topics(forgotten)
        else:
            named = {key_of(partition): partition for partition in ready}
            self._named = {}
        for key, partition in named.items():
            self._named[key] = NamedPartition(partition, partition.leader_epoch)
        request.session_id, request.session_epoch = self._session_id, self._epoch
        request.topics = self._topics(named.values())

    def _topics(self, partitions: Iterable[Partition]) -> list[FetchTopic]:
        topics: dict[bytes, FetchTopic] = {}
        for partition in partitions:
            topic = topics.get(partition.topic_id)
            if topic is None:
                topic = topics[partition.topic_id] = FetchTopic(topic_id=partition.topic_id, partitions=[])
            log = partition.log
            topic.partitions.append(
                FetchPartition(
                    partition=partition.tp.partition,
                    current_leader_epoch=partition.leader_epoch,
                    fetch_offset=log.log_end_offset,
                    last_fetched_epoch=log.epochs.latest_epoch,
                    log_start_offset=log.log_start_offset,
                    partition_max_bytes=self._partition_max_bytes,
                )
            )
        return list(topics.values())

    def answered(self, session_id: int) -> None:
        """Take the session id of a response that was applied: the same, a new one, or 0: the leader keeps none."""
        if session_id == NO_SESSION:
            self.reset()
        else:
            self._session_id = session_id
            self._epoch = next_epoch(self._epoch)


def _forgotten_topics(forgotten: Iterable[PartitionKey]) -> list[ForgottenTopic]:
    topics: dict[bytes, ForgottenTopic] = {}
    for topic_id, index in forgotten:
        topic = topics.setdefault(topic_id, ForgottenTopic(topic_id=topic_id, partitions=[]))
        topic.partitions.append(index)
    return list(topics.values())
