"""Paused brokers and network partitions.

The admin HTTP belongs to no broker, and is beyond both: what is cut here can be healed there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from purgatorio.broker.cluster.errors import OperationRefused, no_broker
from purgatorio.broker.metadata.embedded import DirectLink
from purgatorio.broker.node.broker import Broker
from purgatorio.broker.server.listener import Listener


class NetworkedCluster(Protocol):
    """The brokers of one process, and their links."""

    @property
    def broker_ids(self) -> Sequence[int]:
        """The ids of all brokers, running or not."""

    @property
    def brokers(self) -> Sequence[Broker]:
        """The running brokers."""

    def store_link(self, broker_id: int) -> DirectLink:
        """The link between a running broker and the metadata store."""


class Network:
    """Decides which brokers of a cluster reach each other, their clients and the metadata store."""

    def __init__(self, cluster: NetworkedCluster) -> None:
        self._cluster = cluster
        self._paused: set[int] = set()
        self._groups: list[frozenset[int]] = []
        self._clients_wait = False

    @property
    def paused(self) -> list[int]:
        """The ids of the brokers that stand still."""
        return sorted(self._paused)

    def cut_off_from(self, broker_id: int) -> list[int]:
        """Return the brokers that a broker does not reach because the network is partitioned."""
        if not any(broker_id in group for group in self._groups):
            return []
        return sorted(each for group in self._groups if broker_id not in group for each in group)

    @property
    def groups(self) -> list[list[int]]:
        """The groups of brokers between which the network is cut; empty when it is not."""
        return [sorted(group) for group in self._groups]

    def state(self) -> dict[str, list[Any]]:
        """Return the brokers that stand still, and the groups between which the network is cut."""
        return {"paused": self.paused, "groups": self.groups}

    @property
    def brokers(self) -> list[Broker]:
        """The running brokers that reach the metadata store."""
        return [each for each in self._cluster.brokers if self.reaches_store(each.broker_id)]

    def reaches_store(self, broker_id: int) -> bool:
        """Return whether a broker is not held off from the metadata store."""
        group = next((each for each in self._groups if broker_id in each), None)
        return broker_id not in self._paused and (group is None or group == self._majority)

    @property
    def _majority(self) -> frozenset[int]:
        """The largest group, of equal ones the first: it keeps the metadata store."""
        return max(self._groups, key=len, default=frozenset())

    def pause(self, broker_id: int) -> None:
        """Have a broker stand still until `resume`, as SIGSTOP does to a process.

        Its connections stay open, new ones are accepted, and nothing is read or answered; it sends no heartbeat, so the
        others fence it when its lease runs out. One thing differs from SIGSTOP: the broker's own timeouts run on, and
        their answers are sent when it goes on.

        Raises:
            NotThere: there is none of that id.
            OperationRefused: it does not run.
        """
        self._known(broker_id)
        if all(broker.broker_id != broker_id for broker in self._cluster.brokers):
            raise OperationRefused(f"broker {broker_id} is not running")
        self._paused.add(broker_id)
        self.apply()

    def resume(self, broker_id: int | None) -> None:
        """Let a broker that stands still, or all of them (None), go on.

        Raises:
            NotThere: there is none of that id.
        """
        if broker_id is not None:
            self._known(broker_id)
        self._paused -= {broker_id} if broker_id is not None else set(self._paused)
        self.apply()

    def partition(self, groups: Sequence[Sequence[int]]) -> None:
        """Cut the network between groups of brokers until `heal`: packets are lost, and no connection is closed.

        The largest group, of equal ones the first, keeps the metadata store; brokers of other groups lose their leases,
        and are fenced. Clients and brokers that are in no group reach all brokers.

        Raises:
            ValueError: there are fewer than two groups, or a broker is in two.
            NotThere: there is no broker of that id.
        """
        named = [broker_id for group in groups for broker_id in group]
        if len(groups) < 2 or not all(groups):
            raise ValueError("name at least two groups of brokers: partition([1], [2, 3])")
        if len(named) != len(set(named)):
            raise ValueError(f"a broker can be in one group only: {', '.join(map(str, groups))}")
        for broker_id in named:
            self._known(broker_id)
        self._groups = [frozenset(group) for group in groups]
        self.apply()

    def _known(self, broker_id: int) -> None:
        known = self._cluster.broker_ids
        if broker_id not in known:
            raise no_broker(broker_id, known)

    def heal(self) -> None:
        """End a partition."""
        self._groups = []
        self.apply()

    def forget(self, broker_id: int) -> None:
        """Note that a paused broker has ended: the next one of that id goes."""
        self._paused.discard(broker_id)

    def keep_waiting(self, clients_wait: bool) -> None:
        """Hold all connections to the brokers, or let them go on: the cluster gets its first contents meanwhile."""
        self._clients_wait = clients_wait
        self.apply()

    def clear(self) -> None:
        """Note that all brokers are new ones, and nothing is cut."""
        self._paused.clear()
        self._groups = []

    def apply(self) -> None:
        """Hold and release the connections of the running brokers; call it when one has been started."""
        for broker in self._cluster.brokers:
            own = broker.broker_id
            stands = own in self._paused
            broker.peer_network.cut(self._cluster.broker_ids if stands else self.cut_off_from(own))
            for listener in broker.listeners.values():
                _hold(listener, stands or self._clients_wait)
            link = self._cluster.store_link(own)
            if self.reaches_store(own):
                link.release()
            else:
                link.hold()


def _hold(listener: Listener, holds: bool) -> None:
    if holds:
        listener.hold()
    else:
        listener.release()
