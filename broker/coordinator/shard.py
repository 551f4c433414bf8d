"""One partition of a coordinator's topic that this broker leads, with the state that its records make."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.protocol.end_marker import EndMarker
from purgatorio.protocol.records import BatchHeader


class ShardState(Enum):
    """Whether a shard answers requests."""

    LOADING = "loading"
    ACTIVE = "active"
    UNLOADED = "unloaded"


class Shard:
    """The state of one partition, made from its records. Each leader epoch has a shard of its own.

    Attributes:
        leader_epoch: the leader epoch of this broker, which is the coordinator's epoch in transaction markers.
        state: a shard is loaded once, then active, then unloaded; it is never loaded again.
        unsure: what is to be called once all that is appended is committed: for each append whose client got an error
            although the records are in the log. `CoordinatorLog` alone uses it.
        is_awaited: whether the commit of some of them is being waited for.
    """

    __slots__ = ("is_awaited", "leader_epoch", "state", "tp", "unsure")

    def __init__(self, tp: TopicPartition, leader_epoch: int) -> None:
        self.tp = tp
        self.leader_epoch = leader_epoch
        self.state = ShardState.LOADING
        self.unsure: list[Callable[[], None]] = []
        self.is_awaited = False

    def replay(self, batch: BatchHeader, key: bytes | None, value: bytes | None) -> int:
        """Apply a record of this batch, in the log's order; returns as how many records it counts.

        Raises:
            DecodeError: the record is malformed; it is logged and skipped.
        """
        raise NotImplementedError

    def replay_end(self, batch: BatchHeader, marker: EndMarker) -> None:
        """Apply the marker that ends the transaction of the batch's producer."""
        raise NotImplementedError

    @property
    def is_active(self) -> bool:
        """Whether this broker may still change the state: it is loaded, and has not lost the partition."""
        return self.state is ShardState.ACTIVE

    @property
    def is_kept(self) -> bool:
        """Whether this broker has not lost the partition; also before requests come."""
        return self.state is not ShardState.UNLOADED
