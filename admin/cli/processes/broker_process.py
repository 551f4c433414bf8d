"""The process of one broker, which the nursery forks for the supervisor.

The supervisor's first message is `begin`, with what the process needs to know; then comes the cluster's image. The
process answers `started` with its broker's addresses, or `failed` with a sentence. It ends when a signal stops it, and
at once when the supervisor has ended.
"""

from __future__ import annotations

import asyncio
import ctypes
import itertools
import signal
import socket
import sys
from collections.abc import Sequence
from typing import Any, Final

from purgatorio.admin.cli.logging_setup import configure_logging
from purgatorio.admin.cli.processes.connection import MessageConnection, connect
from purgatorio.admin.cli.serving import THREAD_SWITCH_SECONDS, first_of, stop_on_signals
from purgatorio.admin.cluster import Cluster
from purgatorio.admin.web.forwarding import ForwardedAnswer, ForwardedRequest, ask
from purgatorio.admin.web.server import AdminServer
from purgatorio.broker.config import ClusterConfig
from purgatorio.broker.metadata.served import Message, ServedStore
from purgatorio.broker.node.broker_maker import TierUnusable
from purgatorio.broker.node.member import ProcessMember
from purgatorio.broker.server import open_files
from purgatorio.broker.time.event_loop import loop_factory
from purgatorio.broker.time.garbage import GarbageTuning
from purgatorio.broker.time.movable_clock import MovableClock
from purgatorio.logger import get_logger

logger = get_logger(__name__)

EXIT_STOPPED: Final = 0
EXIT_FAILED: Final = 1
EXIT_ALONE: Final = 3
"""The exit code of a process whose supervisor has ended."""
PR_SET_PDEATHSIG: Final = 1
"""prctl(2): the signal that a process gets when its parent ends."""


class BrokerProcess:
    """Runs a broker in a process of its own.

    Args:
        sock: the end of the pair that the supervisor does not have.
        listening: the sockets of all listeners, one after the other; `begin` has the number of each.
    """

    def __init__(self, sock: socket.socket, listening: Sequence[socket.socket]) -> None:
        self._sock = sock
        self._listening = listening
        self._begin: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._has_image = asyncio.Event()
        self._connection: MessageConnection | None = None
        self._admin: AdminServer | None = None
        self._answering: set[asyncio.Task[None]] = set()
        self._store = ServedStore(self._send, asyncio.get_running_loop().call_soon)

    async def run(self) -> int:
        """Run the broker until a signal stops the process, or the supervisor ends; returns the exit code."""
        stop = asyncio.Event()
        stop_on_signals(stop)
        self._connection = connection = await connect(self._sock, self._receive)
        alone = connection.closed
        await first_of(asyncio.wait([alone]), self._has_image.wait())
        if not self._has_image.is_set():
            return EXIT_ALONE
        begin = self._begin.result()
        config = ClusterConfig(**begin["config"])
        configure_logging(config.log_format, config.log_level)
        sockets = iter(self._listening)
        ports = {name: list(itertools.islice(sockets, count)) for name, count in begin["sockets"].items()}
        member = ProcessMember(begin["number"], self._store, bytes.fromhex(begin["secret"]), ports)
        try:
            cluster = Cluster(config, MovableClock(), garbage=GarbageTuning(shares_memory=True), member=member)
            self._admin = cluster.admin
            if begin["records_requests"]:
                cluster.faults.record_requests()  # for the report of a failed test
            await cluster.start()
        except (OSError, TierUnusable) as error:
            connection.send(["failed", str(error)])
            connection.close()
            return EXIT_FAILED
        try:
            (broker,) = cluster.brokers
            connection.send(["started", [list(each) for each in broker.endpoints], cluster.admin.address])
            await first_of(stop.wait(), cluster.failed(), asyncio.wait([alone]))
            if alone.done():
                # Without the store it cannot unregister; the others elect leaders when its lease has run out.
                logger.error("the supervisor has ended, and this broker with it", broker=broker.broker_id)
                await cluster.kill_broker(broker.broker_id)
                return EXIT_ALONE
        finally:
            for task in list(self._answering):
                task.cancel()
            await cluster.stop()
        return EXIT_STOPPED

    def _send(self, message: Message) -> None:
        assert self._connection is not None, "the store is asked once it has sent its image"
        self._connection.send(message)

    def _receive(self, message: Message) -> None:
        if message[0] == "begin":
            self._begin.set_result(message[1])
            return
        if message[0] == "ask":
            _, number, *asked = message
            task = asyncio.get_running_loop().create_task(
                self._answer(number, ForwardedRequest(*asked)), name="admin request"
            )
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)
            return
        self._store.receive(message)
        self._has_image.set()

    async def _answer(self, number: int, asked: ForwardedRequest) -> None:
        """Answer a request of the supervisor's admin HTTP, which has at most `http_server.MAX_CONNECTIONS` of them."""
        app = None if self._admin is None else self._admin.app
        reply = ForwardedAnswer(503, "application/json", '{"error": "the broker has not started yet"}')
        if app is not None:
            try:
                reply = await ask(app, asked)
            except Exception:
                logger.exception("a request of the admin HTTP failed")
                reply = ForwardedAnswer(
                    500, "application/json", '{"error": "internal error; the broker\'s log says more"}'
                )
        self._send(["told", number, *reply])


def _go_on_without_parent() -> None:
    """Let the process go on when the supervisor, and so the nursery, has ended: if it stands still it would stay."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGCONT)


def load() -> None:
    """Import what is imported late elsewhere, so that all processes share it."""
    AdminServer.load()


def run(sock: socket.socket, listening: Sequence[socket.socket]) -> int:
    """Run the process over its end of the supervisor's pair of sockets; returns its exit code."""
    _go_on_without_parent()
    open_files.raise_limit()
    sys.setswitchinterval(THREAD_SWITCH_SECONDS)

    async def broker() -> int:
        return await BrokerProcess(sock, listening).run()

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(broker())
