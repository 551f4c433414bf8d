"""The membership of a process's one broker in a cluster of several processes, and the ports that it gets from there."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from typing import ClassVar

from purgatorio.broker.config import BrokerConfig, ClusterConfig
from purgatorio.broker.config.by_room import connection_limits
from purgatorio.broker.config.listeners import brokers_own, listener_configs
from purgatorio.broker.metadata.served import ServedStore
from purgatorio.broker.server.listening import open_sockets
from purgatorio.late import dataclass

Ports = Mapping[str, Sequence[socket.socket]]
"""Sockets by the name of their listener, which may have several addresses."""


@dataclass(frozen=True, slots=True)
class ProcessMember:
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


async def open_ports(config: BrokerConfig) -> Ports:
    """Return sockets that listen as a broker's listeners would, for `Broker.start`.

    Raises:
        OSError: a port is in use, or the host is not an address of this machine; no socket is left open.
    """
    opened: dict[str, Sequence[socket.socket]] = {}
    try:
        for each in (*listener_configs(config), *brokers_own(config)):
            opened[each.name] = await open_sockets(each.host, each.port, connection_limits(config).accept_backlog)
    except OSError:
        close(opened)
        raise
    return opened


def close(ports: Ports) -> None:
    """Free the ports, as far as this process has them."""
    for sockets in ports.values():
        for each in sockets:
            each.close()
