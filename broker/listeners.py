"""The listeners of one broker: they answer the same APIs, and share the memory for requests."""

from __future__ import annotations

import socket
from typing import Final

from purgatorio.broker.clock import Clock
from purgatorio.broker.config import BrokerConfig
from purgatorio.broker.config.limits import connection_limits
from purgatorio.broker.metadata.image import Endpoint
from purgatorio.broker.request import Routes
from purgatorio.broker.server.listener import Listener
from purgatorio.broker.server.observer import ServerObserver
from purgatorio.broker.server.request_memory import RequestMemory

PLAINTEXT: Final = "PLAINTEXT"
"""The name of the listener that every broker has; there is no other yet."""
INTER_BROKER_LISTENER: Final = PLAINTEXT
"""The listener that other brokers connect to (Kafka: inter.broker.listener.name)."""


class BrokerListeners:
    """Starts and stops the listeners of one broker together.

    Args:
        config: the broker's configs.
        routes: the handlers of the APIs.
        clock: the source of time.
        observer: is told of connections and requests.
        memory: where the bytes of all requests are counted.

    Attributes:
        by_name: the listeners.
    """

    def __init__(
        self,
        config: BrokerConfig,
        routes: Routes,
        *,
        clock: Clock,
        observer: ServerObserver,
        memory: RequestMemory,
    ) -> None:
        self._config = config
        limits = connection_limits(config)
        self.by_name: dict[str, Listener] = {
            name: Listener(routes, limits, clock, name=name, observer=observer, memory=memory) for name in (PLAINTEXT,)
        }

    async def start(self, listening: socket.socket | None) -> tuple[Endpoint, ...]:
        """Start the listeners; returns their advertised endpoints.

        Args:
            listening: see `Listener.start`, for the listener PLAINTEXT.

        Raises:
            OSError: a port is in use, or the host is not an address of this machine.
        """
        host, port = self._config.advertised
        endpoints = []
        for name, listener in self.by_name.items():
            await listener.start(self._config.host, self._config.port, listening if name == PLAINTEXT else None)
            endpoints.append(Endpoint(name, host, port or listener.address[1]))
        return tuple(endpoints)

    def allow_connections(self, most: int, most_per_ip: int) -> None:
        """Accept no connection beyond these numbers, in total and from one address, at each listener."""
        for listener in self.by_name.values():
            listener.allow_connections(most, most_per_ip)

    def stop_accepting(self) -> None:
        """Accept no more connections."""
        for listener in self.by_name.values():
            listener.stop_accepting()

    async def drain(self, grace_ms: int) -> None:
        """Close all connections, each when its requests are answered, and after `grace_ms` at the latest."""
        for listener in self.by_name.values():
            await listener.drain(grace_ms)

    def abort(self) -> None:
        """Close all connections at once."""
        for listener in self.by_name.values():
            listener.abort()
