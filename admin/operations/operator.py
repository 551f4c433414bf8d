"""The operator of a running cluster, which all operations are given."""

from __future__ import annotations

import random
from typing import Any, Protocol

from purgatorio.admin.operations.control.clock_control import ClockControl
from purgatorio.admin.operations.control.cluster_control import ClusterControl
from purgatorio.admin.operations.control.group_control import GroupControl
from purgatorio.admin.operations.control.hanging_transactions import HangingTransactions
from purgatorio.admin.operations.control.share_group_control import ShareGroupControl
from purgatorio.admin.operations.control.transaction_control import TransactionControl
from purgatorio.broker.causes.kinds import KINDS
from purgatorio.broker.cluster.cluster import BrokerCluster
from purgatorio.broker.cluster.errors import NotThere, OperationRefused
from purgatorio.broker.cluster.snapshots import KeptSnapshots
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.node.broker import Broker
from purgatorio.purgatory import Purgatory


class Lessons(Protocol):
    """The scenes of a cluster, and the one that is played; `purgatorio.admin.learn` has them.

    Every method but the first two raises OperationRefused with a sentence, if it cannot be done now.
    """

    def listed(self) -> dict[str, Any]:
        """Return all scenes in their order, and the state of the one that is played."""

    def described(self, name: str) -> dict[str, Any]:
        """Return a scene with its steps, as a pytest, and as a shell script; NotThere if there is none."""

    async def start(self, name: str) -> dict[str, Any]:
        """Empty the cluster, and begin a scene."""

    async def step(self, name: str, number: int | None) -> dict[str, Any]:
        """Do a step of the scene that is played; None: the next one."""

    async def stop(self, name: str) -> dict[str, Any]:
        """End the scene, and empty the cluster."""


class Operator:
    """Has all by which a cluster is operated.

    Args:
        control: stops and starts its brokers.

    Attributes:
        snapshots: those that were taken by operations.
        rng: the source of random choices: ids of topics, and where their replicas are.
        before_reset: the ids of the clients that were connected when the cluster was reset last.
        lessons: the scenes, if the cluster was started by ``purgatorio learn``; else None.
    """

    def __init__(self, cluster: BrokerCluster, control: ClusterControl) -> None:
        self.cluster = cluster
        self.control = control
        self.groups = GroupControl(cluster, lambda: control.image)
        self.share_groups = ShareGroupControl(cluster, self.groups, lambda: control.image)
        self.transactions = TransactionControl(cluster, lambda: control.image)
        self.hanging = HangingTransactions(self.transactions)
        self.clock = ClockControl(cluster)
        self.snapshots = KeptSnapshots()
        self.rng = random.Random()
        self.before_reset: frozenset[str] = frozenset()
        self.lessons: Lessons | None = None

    @property
    def image(self) -> ClusterImage:
        """The newest metadata that a broker of this process has seen."""
        return self.control.image

    def known(self, broker_id: int) -> int:
        """Return the id of a broker that exists, running or not.

        Raises:
            NotThere: there is none of that id.
        """
        known = self.control.broker_ids
        if broker_id not in known:
            raise NotThere(f"there is no such broker, only {', '.join(map(str, known))}")
        return broker_id

    def running(self, broker_id: int) -> Broker:
        """Return a running broker.

        Raises:
            NotThere: there is none of that id.
            OperationRefused: it does not run.
        """
        self.known(broker_id)
        for broker in self.cluster.brokers:
            if broker.broker_id == broker_id:
                return broker
        raise OperationRefused(f"broker {broker_id} is not running")

    def purgatory(self, broker_id: int, name: str) -> Purgatory[Any]:
        """Return a purgatory of a running broker.

        Raises:
            NotThere: there is no such broker or purgatory, or it has had no operation yet.
            OperationRefused: the broker does not run.
        """
        for purgatory in self.running(broker_id).purgatories:
            if purgatory.name == name:
                return purgatory
        if name in KINDS:
            raise NotThere(f"no operation of broker {broker_id} has been parked in {name} yet")
        raise NotThere(f"broker {broker_id} has no such purgatory, only {', '.join(KINDS)}")
