"""Runs the admin HTTP in the brokers' event loop: uvicorn, but without its signal handlers and logging."""

from __future__ import annotations

import asyncio
import errno
import importlib
import ipaddress
import socket
from typing import TYPE_CHECKING, Final

from purgatorio.broker.operator import ClusterControl
from purgatorio.logger import get_logger

if TYPE_CHECKING:
    from purgatorio.broker.web.http_server import HttpServer
    from purgatorio.broker.web.views import AdministeredCluster

_log = get_logger(__name__)

ACCEPT_BACKLOG: Final = 128
_THIS_MACHINE: Final = ("0.0.0.0", "::", "127.0.0.1")


class AdminServer:
    """The admin HTTP of a cluster. It can be started again after it was stopped.

    Args:
        cluster: the cluster that is shown and operated.
        metrics_per_partition: whether /metrics has series for each partition, not only for each topic.
    """

    def __init__(self, cluster: AdministeredCluster, *, metrics_per_partition: bool = False) -> None:
        self._cluster = cluster
        self._metrics_per_partition = metrics_per_partition
        self._address: tuple[str, int] | None = None
        self._server: HttpServer | None = None
        self._serving: asyncio.Task[None] | None = None
        self._control: ClusterControl | None = None

    @property
    def address(self) -> tuple[str, int]:
        """The host and port on which the server listens, or did before it was stopped.

        Raises:
            RuntimeError: before `start`.
        """
        if self._address is None:
            raise RuntimeError("the admin HTTP was not started")
        return self._address

    @property
    def url(self) -> str:
        """The URL of the page for a browser on this machine, without a slash at the end.

        Raises:
            RuntimeError: before `start`.
        """
        host, port = self.address
        shown = "localhost" if host in _THIS_MACHINE else f"[{host}]" if ":" in host else host
        return f"http://{shown}:{port}"

    @staticmethod
    def load() -> None:
        """Import the web framework, which takes some 0.1 s: better before the brokers run on the same event loop."""
        importlib.import_module("purgatorio.broker.web.app")
        importlib.import_module("purgatorio.broker.web.http_server")

    async def start(self, host: str, port: int) -> None:
        """Listen, and return when requests are answered.

        Args:
            host: an address or a name; the server listens on all addresses of a name.
            port: 0 takes any free port; `address` tells which.

        Raises:
            OSError: the address cannot be listened on.
            RuntimeError: the server is running.
        """
        if self._serving is not None:
            raise RuntimeError("the admin HTTP is running")
        # Not at the top: a command's help must not wait for the web framework.
        from purgatorio.broker.web.app import create_app
        from purgatorio.broker.web.http_server import HttpServer

        sockets = await _listen(host, port)
        self._address = sockets[0].getsockname()[:2]
        _warn_if_others_reach_it(sockets)
        self._control = ClusterControl(self._cluster)  # it remembers the addresses of the brokers, which they have now
        app = create_app(
            self._cluster, self._control, allowed_host=host, metrics_per_partition=self._metrics_per_partition
        )
        self._server = server = HttpServer(app, self._cluster.clock)
        self._serving = asyncio.create_task(server.serve(sockets), name="admin http")
        listening = asyncio.create_task(server.listening.wait())
        try:
            await asyncio.wait([self._serving, listening], return_when=asyncio.FIRST_COMPLETED)
        finally:
            listening.cancel()
        if not server.listening.is_set():
            serving, self._serving = self._serving, None
            await serving

    async def stop(self) -> None:
        """Close the port and all connections, within a second of the clock; do nothing if it is not running.

        Waits for a broker that is being stopped or started on request.
        """
        if self._serving is None or self._server is None or self._control is None:
            return
        serving, self._serving = self._serving, None
        self._server.stop()
        await serving
        await self._control.close()


def _warn_if_others_reach_it(sockets: list[socket.socket]) -> None:
    """Warn if other machines may reach the server: every client of it may stop brokers."""
    addresses = [str(opened.getsockname()[0]) for opened in sockets]
    exposed = [address for address in addresses if not ipaddress.ip_address(address.partition("%")[0]).is_loopback]
    if exposed:
        _log.warning(
            "the admin HTTP has no users and listens beyond this machine: each client may stop brokers",
            addresses=", ".join(exposed),
            remedy="--admin-host 127.0.0.1, or let only trusted machines reach it",
        )


async def _listen(host: str, port: int) -> list[socket.socket]:
    """Open sockets that listen on every address of `host`, all on the same port.

    Raises:
        OSError: an address cannot be listened on; no socket is left open.
    """
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    not_here: OSError | None = None
    try:
        for family, address in dict.fromkeys((family, str(address[0])) for family, _, _, _, address in found):
            try:
                sockets.append(socket.create_server((address, port), family=family, backlog=ACCEPT_BACKLOG))
            except OSError as error:
                # A name may have an address that the machine lacks: localhost is ::1 too, even if there is no IPv6.
                if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                    raise
                not_here = error
            else:
                port = sockets[0].getsockname()[1]
        if not_here is not None and not sockets:
            raise not_here
    except OSError:
        for opened in sockets:
            opened.close()
        raise
    return sockets
