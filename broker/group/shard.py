"""One partition of ``__consumer_offsets`` that this broker leads, with the groups that it keeps."""

from __future__ import annotations

from enum import Enum

from purgatorio.broker.group.group import Group
from purgatorio.broker.group.offsets import ShardOffsets
from purgatorio.broker.log.topic_partition import TopicPartition


class ShardState(Enum):
    """Whether a shard answers requests."""

    LOADING = "loading"
    ACTIVE = "active"
    UNLOADED = "unloaded"


class GroupShard:
    """The groups of one partition, made from its records. Each leader epoch has a shard of its own.

    The state is that of the log's end: records change it when they are appended, and answers leave when they are
    committed. Committed offsets are different: a client must never see one that could be lost, so they are applied when
    they are committed.

    Attributes:
        tp: the partition.
        leader_epoch: the leader epoch of this broker.
        state: a shard is loaded once, then active, then unloaded; it is never loaded again.
        groups: the groups by id.
        offsets: the committed offsets of the groups; a group without members may have only these, and no `Group`.
        deleting: the groups whose offsets are being deleted, which takes several steps.
    """

    __slots__ = ("deleting", "groups", "leader_epoch", "offsets", "state", "tp")

    def __init__(self, tp: TopicPartition, leader_epoch: int) -> None:
        self.tp = tp
        self.leader_epoch = leader_epoch
        self.state = ShardState.LOADING
        self.groups: dict[str, Group] = {}
        self.offsets = ShardOffsets()
        self.deleting: dict[str, None] = {}

    @property
    def is_active(self) -> bool:
        """Whether this broker may still change the groups: it is loaded, and has not lost the partition."""
        return self.state is ShardState.ACTIVE
