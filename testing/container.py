"""A cluster in a container, for test suites that run everything they need by testcontainers; needs a container engine.

::

    with PurgatorioContainer("registry.example.com/purgatorio") as kafka:
        Producer({"bootstrap.servers": kafka.bootstrap})

The image is the one of the repository's Dockerfile; none is published. Where Python is at hand, `cluster` is quicker.
"""

from __future__ import annotations

import socket
from importlib import import_module
from typing import Any, Final, Self

IMAGE: Final = "purgatorio"
READY_TIMEOUT_SECONDS: Final = 60
PORT_ATTEMPTS: Final = 50


class PurgatorioContainer:
    """A container with a cluster, a context manager.

    Its ports are the same inside and outside: brokers advertise their addresses, which must lead into the container.

    Args:
        image: the image's name.
        brokers: how many.
        host: the host by which clients reach the container engine's ports.
        args: further arguments of ``purgatorio cluster``: ``"--seed-topic", "orders:6"``.

    Attributes:
        command: the command that the container runs.
    """

    def __init__(self, image: str = IMAGE, *args: str, brokers: int = 3, host: str = "127.0.0.1") -> None:
        first = free_ports(brokers + 1)
        self._image = image
        self._container: Any = None
        self._host = host
        self._ports = range(first, first + brokers)
        self._admin_port = first + brokers
        listen = ["--host", "0.0.0.0", "--advertised-host", host, "--port", str(first)]
        # The admin HTTP asks for no token: like the brokers', its port is one of this machine that others may not know.
        admin = ["--admin-port", str(self._admin_port), "--set", "admin.auth=none"]
        self.command = ["purgatorio", "cluster", "--brokers", str(brokers), *listen, *admin, *args]

    @property
    def bootstrap(self) -> str:
        """The brokers' addresses, for a client's `bootstrap.servers`."""
        return ",".join(f"{self._host}:{port}" for port in self._ports)

    @property
    def admin_url(self) -> str:
        """The URL of the page and of the HTTP API."""
        return f"http://{self._host}:{self._admin_port}"

    def start(self) -> Self:
        """Start it; return when the brokers are ready.

        Raises:
            ImportError: testcontainers is not installed.
        """
        try:
            container_class = import_module("testcontainers.core.container").DockerContainer
        except ModuleNotFoundError as error:
            from purgatorio import extras

            needed = extras.install("testcontainers")
            raise ImportError(f"PurgatorioContainer needs testcontainers: {needed}") from error
        container = container_class(self._image).with_command(self.command)
        for port in (*self._ports, self._admin_port):
            container.with_bind_ports(port, port)
        strategies = import_module("testcontainers.core.wait_strategies")
        ready = strategies.HttpWaitStrategy(self._admin_port, "/readyz").for_status_code(200)
        container.waiting_for(ready.with_startup_timeout(READY_TIMEOUT_SECONDS))
        self._container = container.start()
        return self

    def stop(self) -> None:
        """End it. May be called again."""
        container, self._container = self._container, None
        if container is not None:
            container.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.stop()


def free_ports(count: int) -> int:
    """Return the first of so many ports in a row that are free now.

    Raises:
        OSError: there is no such row.
    """
    for _ in range(PORT_ATTEMPTS):
        with socket.create_server(("127.0.0.1", 0)) as found:
            first = int(found.getsockname()[1])
        if first + count < 2**16 and all(_is_free(port) for port in range(first, first + count)):
            return first
    raise OSError(f"there are no {count} free ports in a row")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
