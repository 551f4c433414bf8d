"""The parts of a cluster that the admin HTTP uses, as interfaces: the tests implement them as well."""

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
    """Holds a broker's follower fetches back (`FollowerGate`)."""

    delay_ms: int
    """How long each fetch that acknowledges records waits."""

    @property
    def held(self) -> bool:
        """Whether no fetch is sent at all."""
        ...

    def hold(self) -> None:
        """Hold all fetches until `release`."""
        ...

    def release(self) -> None:
        """Let the broker fetch again."""
        ...


class ShownPurgatory(Protocol):
    """A purgatory whose operations can be listed and expired."""

    @property
    def name(self) -> str:
        """Kafka's name for the purgatory: Produce, Fetch …"""
        ...

    @property
    def watched(self) -> int:
        """Entries in its watch lists (PurgatorySize)."""
        ...

    @property
    def num_delayed(self) -> int:
        """Parked operations (NumDelayedOperations)."""
        ...

    def operations(self, limit: int) -> Sequence[ParkedOperation]:
        """The operations that have been parked longest."""
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
    """A broker's finished operations."""

    @property
    def total(self) -> int:
        """The number of all operations that have ever ended."""
        ...

    def last(self, count: int) -> Sequence[FinishedOperation]:
        """The newest operations, newest first."""
        ...


class LifecycleView(Protocol):
    """A broker's membership."""

    def has_lease(self) -> bool:
        """Whether the lease has certainly not expired."""
        ...


class ShownBroker(BrokerView, Protocol):
    """A broker."""

    @property
    def broker_id(self) -> int:
        """The broker's id."""
        ...

    @property
    def address(self) -> tuple[str, int]:
        """The host and port that Metadata responses contain."""
        ...

    @property
    def purgatories(self) -> Iterable[ShownPurgatory]:
        """The purgatories of its operations."""
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
        """Its finished operations."""
        ...

    @property
    def gate(self) -> GateView:
        """Holds its follower fetches back."""
        ...


class ClusterView(Protocol):
    """The brokers of a cluster that are in this process."""

    @property
    def cluster_id(self) -> str:
        """The cluster's id."""
        ...

    @property
    def clock(self) -> Clock:
        """The clock of all brokers."""
        ...

    @property
    def brokers(self) -> Sequence[ShownBroker]:
        """Those of this process that run."""
        ...


class ControlView(Protocol):
    """Changes a cluster for an operator; see `broker.operator.ClusterControl`, also for errors."""

    @property
    def image(self) -> ClusterImage:
        """The newest metadata image."""
        ...

    @property
    def members(self) -> Sequence[Member]:
        """All brokers of this process, running or not."""
        ...

    async def stop_broker(self, broker_id: int, *, force: bool) -> None:
        """Stop a broker in good order."""
        ...

    async def kill_broker(self, broker_id: int) -> None:
        """End a broker without unregistering it."""
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
