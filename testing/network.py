"""Brokers that stand still and networks that are partitioned, in the cluster's own event loop."""

from __future__ import annotations

from collections.abc import Sequence

from purgatorio.broker.broker import Broker
from purgatorio.broker.cluster import Cluster
from purgatorio.broker.server.listener import Listener


class Network:
    """Decides which brokers of a cluster reach each other, their clients and the metadata store.

    Args:
        cluster: the cluster.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._paused: set[int] = set()
        self._groups: list[frozenset[int]] = []

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
    def brokers(self) -> list[Broker]:
        """The running brokers that reach the metadata store."""
        return [each for each in self._cluster.brokers if self._reaches_store(each.broker_id)]

    def _reaches_store(self, broker_id: int) -> bool:
        group = next((each for each in self._groups if broker_id in each), None)
        return broker_id not in self._paused and (group is None or group == self._majority)

    @property
    def _majority(self) -> frozenset[int]:
        """The largest group, of equal ones the first: it keeps the metadata store."""
        return max(self._groups, key=len, default=frozenset())

    def pause(self, broker_id: int) -> None:
        """Have a running broker stand still. See `Kafka.pause`.

        Raises:
            BrokerStateError: it does not run, or there is none of that id.
        """
        self._paused.add(self._cluster.broker(broker_id).broker_id)
        self.apply()

    def resume(self, broker_id: int | None) -> None:
        """Let a broker that stands still, or all of them, go on."""
        self._paused -= {broker_id} if broker_id is not None else set(self._paused)
        self.apply()

    def partition(self, groups: Sequence[Sequence[int]]) -> None:
        """Cut the network between groups of brokers. See `Kafka.partition`.

        Raises:
            ValueError: there are fewer than two groups, a broker is in two, or there is no broker of that id.
        """
        named = [broker_id for group in groups for broker_id in group]
        if len(groups) < 2 or not all(groups):
            raise ValueError("name at least two groups of brokers: partition([1], [2, 3])")
        if len(named) != len(set(named)):
            raise ValueError(f"a broker can be in one group only: {', '.join(map(str, groups))}")
        if unknown := sorted(set(named) - set(self._cluster.broker_ids)):
            raise ValueError(f"there is no broker {unknown[0]}, only {', '.join(map(str, self._cluster.broker_ids))}")
        self._groups = [frozenset(group) for group in groups]
        self.apply()

    def heal(self) -> None:
        """End a partition."""
        self._groups = []
        self.apply()

    def forget(self, broker_id: int) -> None:
        """Note that a paused broker has ended: the next one of that id goes."""
        self._paused.discard(broker_id)

    def clear(self) -> None:
        """Note that all brokers are new ones, and nothing is cut."""
        self._paused.clear()
        self._groups = []

    def apply(self) -> None:
        """Hold and release the connections of the running brokers; call it when one has been started."""
        for broker in self._cluster.brokers:
            own = broker.broker_id
            stands = own in self._paused
            broker.wires.cut(self._cluster.broker_ids if stands else self.cut_off_from(own))
            for listener in broker.listeners.values():
                _hold(listener, stands)
            link = self._cluster.store_link(own)
            if self._reaches_store(own):
                link.release()
            else:
                link.hold()


def _hold(listener: Listener, holds: bool) -> None:
    if holds:
        listener.hold()
    else:
        listener.release()
