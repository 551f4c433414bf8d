"""What the admin HTTP asks of a cluster: nothing but what is named here, so that tests can show it anything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from purgatorio.broker.clock import Clock
from purgatorio.broker.metadata.controller import ElectionResult
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.metrics.prometheus import BrokerView, PartitionView
from purgatorio.broker.operator import Member, OperatedBroker, OperatedCluster
from purgatorio.broker.purgatory import (
    DelayedOperation,
    FinishedOperation,
    LevelSnapshot,
    ParkedOperation,
    WatchListSnapshot,
)


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


class LifecycleView(Protocol):
    """A broker's membership."""

    def has_lease(self) -> bool:
        """Whether nobody can have taken the broker for dead yet."""
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
    def partitions(self) -> Iterable[PartitionView]:
        """Its replicas."""
        ...

    @property
    def lifecycle(self) -> LifecycleView:
        """Its membership."""
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
        """Those of this process that run."""
        ...


class ControlView(Protocol):
    """What an operator may do to a cluster; see `broker.operator.ClusterControl`, which also says what it raises."""

    @property
    def image(self) -> ClusterImage:
        """The newest metadata."""
        ...

    @property
    def members(self) -> Sequence[Member]:
        """All brokers of this process, running or not."""
        ...

    async def stop_broker(self, broker_id: int, *, force: bool) -> None:
        """Stop a broker in good order."""
        ...

    async def kill_broker(self, broker_id: int) -> None:
        """End a broker without a word."""
        ...

    async def start_broker(self, broker_id: int) -> None:
        """Start a broker."""
        ...

    async def restart_brokers(self) -> None:
        """Restart all brokers in turn."""
        ...

    async def elect_leaders(
        self, topic: str | None, partition: int | None, *, unclean: bool
    ) -> Sequence[ElectionResult]:
        """Elect leaders."""
        ...


class AdministeredBroker(ShownBroker, OperatedBroker, Protocol):
    """A broker that is shown and operated."""


class AdministeredCluster(ClusterView, OperatedCluster, Protocol):
    """A cluster that is shown and operated."""

    @property
    def brokers(self) -> Sequence[AdministeredBroker]:
        """Those of this process that run."""
        ...
