"""The parts of a cluster that the admin HTTP uses, as interfaces: the tests implement them as well."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from purgatorio.broker.delays.finished import FinishedOperations
from purgatorio.broker.group.groups import Groups
from purgatorio.broker.layers.faults import Faults
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metrics.loop_lag import LoopLag
from purgatorio.broker.metrics.views import BrokerView, PartitionView
from purgatorio.broker.node.coordinators import Coordinators
from purgatorio.broker.operator import OperatedBroker, OperatedCluster
from purgatorio.broker.operator.leadership import Leadership
from purgatorio.broker.operator.network import Network
from purgatorio.broker.operator.snapshots import Snapshot
from purgatorio.broker.purgatory import Purgatory
from purgatorio.broker.replica.following.follower import FollowerGate
from purgatorio.broker.replica.replica_manager import ReplicaManager
from purgatorio.broker.server.listener import Listener
from purgatorio.broker.time.clock import Clock, RunningClock
from purgatorio.broker.time.movable_clock import MemberClock
from purgatorio.broker.txn.transactions import Transactions


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
    def purgatories(self) -> Iterable[Purgatory[Any]]:
        """The purgatories of its operations."""
        ...

    @property
    def partitions(self) -> Iterable[PartitionView]:
        """Its replicas."""
        ...

    def replica(self, tp: TopicPartition) -> PartitionView | None:
        """Its replica of a partition; None if it has none."""
        ...

    @property
    def replicas(self) -> ReplicaManager:
        """What appends to its replicas and reads from them."""
        ...

    @property
    def groups(self) -> Groups:
        """The groups that it coordinates."""
        ...

    @property
    def transactions(self) -> Transactions:
        """The transactional ids that it coordinates."""
        ...

    @property
    def coordinators(self) -> Coordinators:
        """Its coordinators, and the end markers of transactions."""
        ...

    @property
    def lifecycle(self) -> LifecycleView:
        """Its membership."""
        ...

    @property
    def finished(self) -> FinishedOperations:
        """Its finished operations."""
        ...

    @property
    def listeners(self) -> Mapping[str, Listener]:
        """Its listeners by name."""
        ...

    @property
    def gate(self) -> FollowerGate:
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
    def loop_lag(self) -> LoopLag:
        """How late this process's event loop is."""
        ...

    @property
    def lease_clock(self) -> RunningClock:
        """The clock of leases."""
        ...

    @property
    def member_clock(self) -> MemberClock:
        """The clock of groups' members."""
        ...

    @property
    def faults(self) -> Faults:
        """The fault rules."""
        ...

    @property
    def network(self) -> Network:
        """Lets brokers stand still, and cuts them off from each other."""
        ...

    @property
    def leadership(self) -> Leadership:
        """Moves leaders and coordinators."""
        ...

    def snapshot(self) -> Snapshot:
        """What the cluster has now."""
        ...

    async def restore(self, snapshot: Snapshot) -> None:
        """Make the cluster as it was at a snapshot."""
        ...

    @property
    def brokers(self) -> Sequence[ShownBroker]:
        """Those of this process that run."""
        ...


class AdministeredBroker(ShownBroker, OperatedBroker, Protocol):
    """A broker that is shown and operated."""


class AdministeredCluster(ClusterView, OperatedCluster, Protocol):
    """A cluster that is shown and operated."""

    @property
    def brokers(self) -> Sequence[AdministeredBroker]:
        """Those of this process that run."""
        ...
