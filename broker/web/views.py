"""What the admin HTTP asks of a cluster: nothing but what is named here, so that tests can show it anything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from broker.clock import Clock
from broker.collector import BrokerView, PartitionView
from broker.purgatory import DelayedOperation, FinishedOperation, LevelSnapshot, ParkedOperation, WatchListSnapshot


class GateView(Protocol):
    """Holds a broker's follower fetches back."""

    delay_ms: int
    """How long each fetch waits."""

    @property
    def held(self) -> bool:
        """Whether no fetch is sent at all."""
        ...

    def hold(self) -> None:
        """Send no fetch until `release`."""
        ...

    def release(self) -> None:
        """Fetch again."""
        ...


class ShownPurgatory(Protocol):
    """A purgatory whose operations can be seen, and expired."""

    @property
    def name(self) -> str:
        """Kafka's name for it: Produce, Fetch …"""
        ...

    @property
    def watched(self) -> int:
        """Entries in its watch lists (PurgatorySize)."""
        ...

    @property
    def num_delayed(self) -> int:
        """Operations that wait (NumDelayedOperations)."""
        ...

    def operations(self, limit: int) -> Sequence[ParkedOperation]:
        """The operations that have waited longest."""
        ...

    def watch_lists(self, limit: int) -> Sequence[WatchListSnapshot]:
        """The oldest watch lists."""
        ...

    def wheel(self) -> Sequence[LevelSnapshot]:
        """The timing wheel, finest level first."""
        ...

    def find(self, operation_id: int) -> DelayedOperation | None:
        """A parked operation."""
        ...


class FinishedView(Protocol):
    """What became of a broker's operations."""

    @property
    def total(self) -> int:
        """All that have ever ended."""
        ...

    def last(self, count: int) -> Sequence[FinishedOperation]:
        """The newest, newest first."""
        ...


class ShownPartition(PartitionView, Protocol):
    """A replica, with its role."""

    @property
    def leader(self) -> int:
        """The broker that leads, as far as this replica knows; -1 for none."""
        ...

    @property
    def leader_epoch(self) -> int:
        """How often the leader has changed."""
        ...


class ShownBroker(BrokerView, Protocol):
    """A broker."""

    @property
    def broker_id(self) -> int:
        """Its id."""
        ...

    @property
    def address(self) -> tuple[str, int]:
        """Host and port, as clients are told them."""
        ...

    @property
    def purgatories(self) -> Iterable[ShownPurgatory]:
        """Where its operations wait."""
        ...

    @property
    def partitions(self) -> Iterable[ShownPartition]:
        """Its replicas."""
        ...

    @property
    def finished(self) -> FinishedView:
        """What became of its operations."""
        ...

    @property
    def gate(self) -> GateView:
        """Holds its follower fetches back."""
        ...


class ClusterView(Protocol):
    """Brokers that run together."""

    @property
    def cluster_id(self) -> str:
        """The name that they share."""
        ...

    @property
    def clock(self) -> Clock:
        """Their time."""
        ...

    @property
    def brokers(self) -> Sequence[ShownBroker]:
        """All of this process."""
        ...
