"""Runs the admin HTTP in the brokers' event loop: uvicorn, but without its signal handlers and logging.

The web framework takes 0.1 s of CPU to import. In a program that does so before it starts the brokers (`load`),
requests are answered at once. In any other one a plain listening socket stands for the server until the first client
comes; then the framework is imported in a thread, so that no Kafka client waits for it.
"""

from __future__ import annotations

import asyncio
import importlib
import ipaddress
import secrets
import socket
import sys
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from purgatorio.admin.operations.control.cluster_control import ClusterControl
from purgatorio.broker.cluster.cluster import BrokerCluster
from purgatorio.broker.server.listening import can_watch_sockets, open_sockets
from purgatorio.logger import get_logger
from purgatorio.purgatory.clock import Clock

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from purgatorio.admin.learn.lessons import SceneLessons
    from purgatorio.admin.web.http_server import HttpServer
    from purgatorio.admin.web.tokens import AdminTokens

_log = get_logger(__name__)

ACCEPT_BACKLOG: Final = 128
OWN_PATH: Final = "/broker"
"""Where the admin HTTP of a host has its own broker alone, beside what it shows of all."""
TOKEN_BYTES: Final = 24
"""Random bytes of a token that the server makes."""
_FRAMEWORK: Final = ("purgatorio.admin.web.app", "purgatorio.admin.web.http_server")
_THIS_MACHINE: Final = ("0.0.0.0", "::", "127.0.0.1")


class HttpService(ABC):
    """An admin HTTP. It can be started again after it was stopped.

    Args:
        clock: measures how long requests take to come.
        token: what requests need that may change something. None: beyond this machine the server makes one.
        read_token: what requests need that only read; None: the other one.
        open_to_all: whether requests need no token even beyond this machine.

    Attributes:
        app: the application without its guards, for requests that were checked elsewhere; None before `start`.
    """

    def __init__(
        self, clock: Clock, *, token: str | None = None, read_token: str | None = None, open_to_all: bool = False
    ) -> None:
        self._clock = clock
        self._token = token
        self._made_token = False
        self._read_token = read_token
        self._open_to_all = open_to_all
        self.app: ASGIApp | None = None
        self._address: tuple[str, int] | None = None
        self._server: HttpServer | None = None
        self._serving: asyncio.Task[None] | None = None
        self._is_listening = asyncio.Event()
        self._waiting: list[socket.socket] = []
        """The sockets on which no client has come yet."""

    @abstractmethod
    def _create_app(self, host: str, tokens: AdminTokens | None) -> ASGIApp:
        """Return the application, which the server begins to serve."""

    @abstractmethod
    async def _close_app(self) -> None:
        """Wait for what the application has begun."""

    @property
    def token(self) -> str | None:
        """The token of requests that may change something; None if they need none."""
        return self._token

    @property
    def made_token(self) -> str | None:
        """The token if the server made it; None if it was set, or if requests need none."""
        return self._token if self._made_token else None

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
        return f"http://{shown_host(host)}:{port}"

    @property
    def page_url(self) -> str:
        """The URL with which a browser on this machine opens the page. It has the token if the server made it.

        A token that was set is a secret of its owner: it does not belong on a terminal or in a log.

        Raises:
            RuntimeError: before `start`.
        """
        return f"{self.url}/?token={quote(self._token)}" if self._token and self._made_token else f"{self.url}/"

    @staticmethod
    def load() -> None:
        """Import the web framework, and what operations import when they are done."""
        for name in _FRAMEWORK:
            importlib.import_module(name)
        from purgatorio.admin.operations import loading, table

        loading.load(table.OPERATIONS)

    async def start(self, host: str, port: int) -> None:
        """Listen. Requests are answered from now on if the framework is loaded, else as soon as the first client comes.

        Args:
            host: an address or a name; the server listens on all addresses of a name.
            port: 0 takes any free port; `address` has it afterwards.

        Raises:
            OSError: the address cannot be listened on.
            RuntimeError: the server is running.
        """
        if self._serving is not None:
            raise RuntimeError("the admin HTTP is running")
        sockets = await open_sockets(host, port, ACCEPT_BACKLOG)
        self._address = sockets[0].getsockname()[:2]
        self._settle_token(sockets)
        if not _is_loaded() and can_watch_sockets(asyncio.get_running_loop()):
            self._waiting = sockets
            self._serving = asyncio.create_task(self._serve_later(sockets, host), name="admin http")
            return
        self._serving = serving = asyncio.create_task(self._serve(sockets, host), name="admin http")
        listening = asyncio.create_task(self._is_listening.wait())
        try:
            await asyncio.wait([serving, listening], return_when=asyncio.FIRST_COMPLETED)
        finally:
            listening.cancel()
        if not self._is_listening.is_set():
            self._serving = None
            await serving

    async def _serve_later(self, sockets: list[socket.socket], host: str) -> None:
        """Wait for the first client, import the framework while the brokers go on, and serve."""
        await _first_client(sockets)
        try:
            await asyncio.to_thread(self.load)
        except Exception:
            _log.exception("the admin HTTP cannot be started, and refuses its clients")
            for each in sockets:
                each.close()
            return
        self._waiting = []
        await self._serve(sockets, host)

    async def _serve(self, sockets: list[socket.socket], host: str) -> None:
        # Not at the top: a command's help must not wait for the web framework.
        from purgatorio.admin.web.http_server import HttpServer

        self._server = HttpServer(self._create_app(host, self._tokens()), self._clock, self._is_listening)
        await self._server.serve(sockets)

    def _tokens(self) -> AdminTokens | None:
        from purgatorio.admin.web.tokens import AdminTokens

        return None if self._open_to_all or self._token is None else AdminTokens(self._token, self._read_token)

    def _settle_token(self, sockets: list[socket.socket]) -> None:
        """Make a token if there must be one: requests need none only from this machine, or if that was asked for."""
        exposed = _exposed(sockets)
        if self._open_to_all:
            if exposed:
                _log.warning(
                    "the admin HTTP asks for no token and listens beyond this machine: each client may stop brokers",
                    addresses=", ".join(exposed),
                    remedy="set admin_auth=token, or let only trusted machines reach it",
                )
        elif exposed and self._token is None:
            self._token = secrets.token_urlsafe(TOKEN_BYTES)
            self._made_token = True

    async def stop(self) -> None:
        """Close the port and all connections, within a second of the clock; do nothing if it is not running.

        Waits for a broker that is being stopped or started on request.
        """
        if self._serving is None:
            return
        serving, self._serving = self._serving, None
        server, self._server = self._server, None
        self._is_listening.clear()
        if server is None:
            serving.cancel()
            await asyncio.wait([serving])
            for each in self._waiting:
                each.close()
            self._waiting = []
            return
        server.stop()
        await serving
        await self._close_app()


class AdminServer(HttpService):
    """The admin HTTP of the brokers of this process.

    Args:
        cluster: the cluster that is shown and operated.
        metrics_per_partition: whether /metrics has series for each partition, not only for each topic.
        tokens: as for `HttpService`.

    Attributes:
        learns: whether the page offers scenes, from the next `start` on.
    """

    def __init__(self, cluster: BrokerCluster, *, metrics_per_partition: bool = False, **tokens: Any) -> None:
        super().__init__(cluster.clock, **tokens)
        self._cluster = cluster
        self.learns = False
        self._lessons: SceneLessons | None = None
        self._metrics_per_partition = metrics_per_partition
        self._control: ClusterControl | None = None

    def _create_app(self, host: str, tokens: AdminTokens | None) -> ASGIApp:
        from purgatorio.admin.web.app import create_app, guarded

        self._control = ClusterControl(self._cluster)  # it remembers the addresses of the brokers, which they have now
        if self.learns:
            from purgatorio.admin.learn.lessons import SceneLessons

            self._lessons = SceneLessons()
        self.app = create_app(
            self._cluster,
            self._control,
            allowed_host=host,
            metrics_per_partition=self._metrics_per_partition,
            lessons=self._lessons,
        )
        return guarded(self.app, host, tokens)

    def below(self, host: str, asked_as: str) -> ASGIApp:
        """Return the guarded application for another server, which has it below `OWN_PATH`; `stop` ends it.

        Args:
            host: the configured host.
            asked_as: the broker and the address that brokers of other hosts mean when they ask (`ProofGuard`).
        """
        from purgatorio.admin.web.app import guarded
        from purgatorio.admin.web.proofs import ProofGuard, Proofs

        tokens, token = self._tokens(), self._token
        self._create_app(host, tokens)
        app = _without_own_path(self.app)
        if token is None:
            return guarded(app, host, tokens)
        return guarded(app, host, tokens, lambda others: ProofGuard(app, others, Proofs(token, asked_as), self._clock))

    async def stop(self) -> None:
        """Close the port and all connections, and wait for what was begun; do nothing if nothing runs."""
        is_below = self._serving is None and self.app is not None
        await super().stop()
        if is_below:
            await self._close_app()

    async def _close_app(self) -> None:
        if self._lessons is not None:
            await self._lessons.close()
        if self._control is not None:
            await self._control.close()


def _without_own_path(app: ASGIApp | None) -> ASGIApp:
    assert app is not None

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "path": scope["path"].removeprefix(OWN_PATH) or "/"}, receive, send)

    return answer


def _is_loaded() -> bool:
    return all(name in sys.modules for name in _FRAMEWORK)


async def _first_client(sockets: list[socket.socket]) -> None:
    """Wait until a client connects to one of the sockets, and do not accept it."""
    loop = asyncio.get_running_loop()
    came = asyncio.Event()
    for each in sockets:
        loop.add_reader(each.fileno(), came.set)
    try:
        await came.wait()
    finally:
        for each in sockets:
            loop.remove_reader(each.fileno())


def shown_host(host: str) -> str:
    """Return how a URL for programs on this machine names a host that is listened on."""
    return "localhost" if host in _THIS_MACHINE else f"[{host}]" if ":" in host else host


def _exposed(sockets: list[socket.socket]) -> list[str]:
    """Return the addresses at which other machines may reach the server: every client of it may stop brokers."""
    addresses = [str(opened.getsockname()[0]) for opened in sockets]
    return [address for address in addresses if not ipaddress.ip_address(address.partition("%")[0]).is_loopback]
