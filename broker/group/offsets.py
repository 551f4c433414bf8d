"""The committed offsets of one group."""

from __future__ import annotations

from typing import NamedTuple

from purgatorio.broker.log.topic_partition import TopicPartition


class CommittedOffset(NamedTuple):
    """What a group has committed for one partition.

    Attributes:
        offset: the offset of the next record to consume.
        leader_epoch: the leader epoch of the last consumed record (KIP-320); -1 if the client has not given it.
        metadata: the client's own note.
        commit_ms: the wall time of the commit.
        expire_ms: the wall time at which it expires whatever the retention; -1: by the retention.
        topic_id: the topic that it belongs to; all zero if unknown.
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int
    topic_id: bytes


class GroupOffsets:
    """The committed offsets of one group, by partition; only what is replicated."""

    __slots__ = ("committed",)

    def __init__(self) -> None:
        self.committed: dict[TopicPartition, CommittedOffset] = {}
