"""The membership of a process's one broker in a cluster of several processes."""

from __future__ import annotations

from typing import ClassVar

from purgatorio.broker.config import BrokerConfig, ClusterConfig
from purgatorio.broker.metadata.served import ServedStore
from purgatorio.broker.node.ports import Ports
from purgatorio.late import dataclass


@dataclass(frozen=True, slots=True)
class Member:
    """A broker of a cluster whose other brokers are processes of their own.

    Attributes:
        number: its number in the cluster, from 0.
        store: the cluster's metadata store.
        secret: that of the cluster's brokers.
        listening: sockets for its listeners, of the process that has started this one; None: it opens them.
    """

    number: int
    store: ServedStore
    secret: bytes
    listening: Ports | None = None
    SLOWEST_RATE: ClassVar[float] = 0.9
    """How slow this process's clock may be, by the store's, for its lease to be certain."""

    def config(self, cluster: ClusterConfig) -> BrokerConfig:
        """Return the settings of this broker."""
        return cluster.broker_config(self.number)
