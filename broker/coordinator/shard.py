"""One partition of a coordinator's topic that this broker leads, with the state that its records make."""

from __future__ import annotations

from enum import Enum

from purgatorio.broker.log.topic_partition import TopicPartition


class ShardState(Enum):
    """Whether a shard answers requests."""

    LOADING = "loading"
    ACTIVE = "active"
    UNLOADED = "unloaded"


class Shard:
    """The state of one partition, made from its records. Each leader epoch has a shard of its own.

    Attributes:
        tp: the partition.
        leader_epoch: the leader epoch of this broker, which is the coordinator's epoch in transaction markers.
        state: a shard is loaded once, then active, then unloaded; it is never loaded again.
    """

    __slots__ = ("leader_epoch", "state", "tp")

    def __init__(self, tp: TopicPartition, leader_epoch: int) -> None:
        self.tp = tp
        self.leader_epoch = leader_epoch
        self.state = ShardState.LOADING

    @property
    def is_active(self) -> bool:
        """Whether this broker may still change the state: it is loaded, and has not lost the partition."""
        return self.state is ShardState.ACTIVE
