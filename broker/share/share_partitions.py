"""The share partitions that one broker leads: loaded when a member first fetches, dropped when none does any more.

The leader of a partition keeps what each share group has done with its records. The state is read from the share
coordinator when it is first needed, and fenced when the broker leads no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.replica.partition import Partition, PartitionError
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.broker.share.share_metrics import ShareMetrics
from purgatorio.broker.share.share_partition import SharePartition, SharePartitionState
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.share_state import SharePartitionKey

T = TypeVar("T")

MakeShare = Callable[[SharePartitionKey, Partition], SharePartition]
"""Makes a share partition whose state is still to be read."""


class SharePartitions:
    """The share partitions of one broker.

    Args:
        make: makes a share partition.
        metrics: counts the times of loads.
    """

    def __init__(self, replicas: ReplicaManager, make: MakeShare, metrics: ShareMetrics) -> None:
        self._make = make
        self._metrics = metrics
        self._shares: dict[SharePartitionKey, SharePartition] = {}
        self._failed: dict[SharePartitionKey, ErrorCode] = {}
        self._of_partition: dict[TopicPartition, dict[SharePartitionKey, None]] = {}
        self._of_group: dict[str, dict[SharePartitionKey, None]] = {}
        replicas.add_leadership_listener(self)

    def __len__(self) -> int:
        return len(self._shares)

    def __iter__(self) -> Iterator[SharePartition]:
        return iter(list(self._shares.values()))

    def known(self, key: SharePartitionKey) -> SharePartition | None:
        """Return a share partition that has been asked for before."""
        return self._shares.get(key)

    def of_group(self, group_id: str) -> list[SharePartition]:
        """Return those of a group."""
        return [self._shares[key] for key in self._of_group.get(group_id, ())]

    def of(self, key: SharePartitionKey, replica: Partition) -> SharePartition:
        """Return a share partition; its state may be being read.

        Args:
            replica: the replica that this broker leads.

        Raises:
            PartitionError: its state could not be read, or another broker has taken over; the next call tries anew.
        """
        share = self._shares.get(key)
        if share is not None and share.leader_epoch != replica.leader_epoch:
            self._drop(share, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            share = None
        if share is None:
            share = self._shares[key] = self._make(key, replica)
            self._of_partition.setdefault(replica.tp, {})[key] = None
            self._of_group.setdefault(key.group_id, {})[key] = None
            share.load(partial(self._loaded, share, self._metrics.now_ms()))
        error_code = self._failed.get(key)
        if error_code is not None:
            self._drop(share, error_code)
            raise PartitionError(error_code, f"the state of {share.tp} could not be read: {error_code.name}")
        return share

    def _loaded(self, share: SharePartition, began_ms: int, error_code: ErrorCode) -> None:
        self._metrics.loaded(began_ms)
        if error_code and self._shares.get(share.key) is share:
            self._failed[share.key] = error_code

    def fenced(self, key: SharePartitionKey, error_code: ErrorCode) -> None:
        """Forget a share partition that was fenced by itself: its state has another leader, or another epoch."""
        share = self._shares.get(key)
        if share is not None and share.state is SharePartitionState.FENCED:
            self._drop(share, error_code)

    def drop(self, share: SharePartition) -> None:
        """Drop a share partition, if it was not dropped yet: its group has no session here any more."""
        self._drop(share, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def elected(self, tp: TopicPartition, leader_epoch: int) -> None:
        """Drop what an earlier leader epoch had."""
        self.resigned(tp)

    def resigned(self, tp: TopicPartition) -> None:
        """Fence the share partitions of a partition that this broker leads no more."""
        for key in list(self._of_partition.get(tp, ())):
            self._drop(self._shares[key], ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _drop(self, share: SharePartition, error_code: ErrorCode) -> None:
        key = share.key
        if self._shares.get(key) is not share:
            return
        del self._shares[key]
        self._failed.pop(key, None)
        _remove(self._of_partition, share.tp, key)
        _remove(self._of_group, key.group_id, key)
        share.fence(error_code)


def _remove(index: dict[T, dict[SharePartitionKey, None]], name: T, key: SharePartitionKey) -> None:
    del index[name][key]
    if not index[name]:
        del index[name]
