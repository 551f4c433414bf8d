"""Runs the admin HTTP inside the broker's event loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING

from broker.web.app import create_app

if TYPE_CHECKING:
    from broker.cluster import Cluster

STOP_GRACE_SECONDS = 1


class AdminServer:
    """The admin HTTP of a cluster; nothing is left of it after `stop`.

    Args:
        cluster: what is shown.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._socket: socket.socket | None = None
        self._stop_serving: asyncio.Event | None = None
        self._task: asyncio.Task[None] | None = None
        self._address = ("", 0)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port that are listened on."""
        return self._address

    @property
    def url(self) -> str:
        """Where a browser on this machine finds the page."""
        host, port = self._address
        shown = "localhost" if host in ("0.0.0.0", "::", "127.0.0.1") else f"[{host}]" if ":" in host else host
        return f"http://{shown}:{port}"

    async def start(self, host: str, port: int) -> None:
        """Listen; port 0 takes any free one.

        Raises:
            OSError: the address cannot be listened on.
        """
        import uvicorn

        class Server(uvicorn.Server):
            """Leaves the signals to the process that it runs in."""

            @contextlib.contextmanager
            def capture_signals(self) -> Iterator[None]:
                yield

        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = listening = socket.create_server((host, port), family=family)
        self._address = listening.getsockname()[:2]
        config = uvicorn.Config(
            create_app(self._cluster, allowed_host=host),
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            limit_concurrency=100,
            timeout_keep_alive=5,
            timeout_graceful_shutdown=STOP_GRACE_SECONDS,
        )
        self._server = server = Server(config)
        self._task = asyncio.create_task(server.serve(sockets=[listening]), name="admin http")

    async def stop(self) -> None:
        """Close the port and the connections; does nothing if it was not started."""
        if self._task is None:
            return
        task, self._task = self._task, None
        self._server.should_exit = True
        await task
        if self._socket is not None:
            self._socket.close()
