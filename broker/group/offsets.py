"""What groups have committed."""

from __future__ import annotations

from typing import NamedTuple

from purgatorio.protocol.consumer_offsets import NO_EXPIRY
from purgatorio.protocol.primitives import ZERO_UUID


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
    expire_ms: int = NO_EXPIRY
    topic_id: bytes = ZERO_UUID

    def is_of(self, topic_id: bytes) -> bool:
        """Return whether it belongs to the topic with this id; not to an earlier topic of the same name."""
        return self.topic_id == topic_id or ZERO_UUID in (self.topic_id, topic_id)


GroupOffsets = dict[str, dict[int, CommittedOffset]]
"""The committed offsets of one group, by topic, then by partition; only what is replicated."""


class OffsetChange(NamedTuple):
    """A committed offset as a record of it says; None: it is deleted."""

    group_id: str
    topic: str
    partition: int
    committed: CommittedOffset | None
