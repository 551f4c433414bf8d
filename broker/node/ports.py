"""The ports of a broker that runs in another process, opened by the one that starts it."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence

from purgatorio.broker.config import BrokerConfig
from purgatorio.broker.config.listeners import brokers_own, listener_configs
from purgatorio.broker.config.room_settings import connection_limits
from purgatorio.broker.server.listening import open_sockets

Ports = Mapping[str, Sequence[socket.socket]]
"""Sockets by the name of their listener, which may have several addresses."""


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
