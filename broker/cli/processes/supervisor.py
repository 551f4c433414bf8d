"""The supervisor: it holds the cluster's metadata, starts a process for each broker, and ends with them.

The processes inherit one end of a pair of sockets each; so they know when the supervisor has ended, and nobody else can
ask it for metadata. What the brokers need to know of each other (the secret by which they connect) goes that way, too.
"""

from __future__ import annotations

import asyncio
import base64
import secrets
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

from purgatorio.broker.cli.processes.connection import MessageConnection, connect
from purgatorio.broker.cli.serving import first_of
from purgatorio.broker.config import ClusterConfig
from purgatorio.broker.config.authentication import first_credentials
from purgatorio.broker.metadata.embedded import EmbeddedStore
from purgatorio.broker.metadata.image import Endpoint
from purgatorio.broker.metadata.served import Message, StoreConnection
from purgatorio.broker.time.clock import RunningClock, SystemClock, time_limit
from purgatorio.logger import get_logger

logger = get_logger(__name__)

SESSION_TIMEOUT_MS: Final = 3_000
"""broker.session.timeout.ms of brokers in processes of their own, unless it is set. The supervisor notices at once that
a process has ended; the timeout is for one that hangs, and must be longer than a busy machine lets a process wait."""
STOP_GRACE_MS: Final = 5_000
"""From the brokers' own time to stop (shutdown.grace.ms) to the end of a process by force."""
PROGRAM: Final = "purgatorio.broker.cli.processes.broker_process"


class ProcessFailed(Exception):
    """A broker's process did not start; the message says why."""


class Supervised:
    """One broker's process, which may be started again after its end.

    Attributes:
        broker_id: the broker's id.
        endpoints: what the broker advertises to clients.
        page_url: the page of the process.
        process: the process that runs, or ran last.
    """

    def __init__(self, number: int, config: ClusterConfig, store: EmbeddedStore, secret: bytes) -> None:
        self.number = number
        self.broker_id = config.broker.broker_id + number
        self.endpoints: list[Endpoint] = []
        self.page_url = ""
        self.process: asyncio.subprocess.Process | None = None
        self._config, self._store, self._secret = config, store, secret
        self._ports: dict[str, int] | None = None
        self._answer: asyncio.Future[Message] | None = None

    @property
    def pid(self) -> int:
        """The id of the process that runs, or ran last; 0 before the first."""
        return 0 if self.process is None else self.process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process runs."""
        return self.process is not None and self.process.returncode is None

    async def start(self) -> None:
        """Start the process; returns when its broker answers clients.

        Raises:
            ProcessFailed: it ended before that.
        """
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        self._answer = loop.create_future()
        with theirs:
            # In a session of its own, so that Ctrl-C reaches the supervisor alone, which stops the brokers in order.
            self.process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", PROGRAM, str(theirs.fileno()), pass_fds=[theirs.fileno()], start_new_session=True
            )
        serving: list[StoreConnection] = []
        self._connection = connection = await connect(ours, lambda message: self._receive(serving, message))
        connection.send(["begin", self._begin()])
        serving.append(StoreConnection(self._store, connection.send))
        connection.when_slow = lambda is_slow: serving[0].pause() if is_slow else serving[0].resume()
        self._end = loop.create_task(self._ended(connection, serving[0]), name=f"process of broker {self.broker_id}")
        await first_of(asyncio.wait([self._answer]), asyncio.wait([self._end]))
        match self._answer.result() if self._answer.done() else ["failed", told(await self.ended())]:
            case ["started", endpoints, page_url, dict(ports)]:
                self.endpoints = [Endpoint(*each) for each in endpoints]
                self.page_url, self._ports = page_url, ports
            case ["failed", reason]:
                await self._end
                raise ProcessFailed(f"broker {self.broker_id}: {reason}")

    def _begin(self) -> dict[str, Any]:
        config = self._config.model_dump_json(exclude_unset=True)
        return {"number": self.number, "config": config, "secret": self._secret.hex(), "ports": self._ports}

    def _receive(self, serving: Sequence[StoreConnection], message: Message) -> None:
        if message[0] in ("started", "failed") and self._answer is not None and not self._answer.done():
            self._answer.set_result(message)
        else:
            serving[0].receive(message)

    async def _ended(self, connection: MessageConnection, serving: StoreConnection) -> None:
        """Wait for the end of the process; then its broker is fenced at once."""
        assert self.process is not None
        await self.process.wait()
        connection.close()
        await connection.closed
        serving.close()
        serving.end_leases()

    async def ended(self) -> int:
        """Wait for the end of the process; returns its exit status, negative for the signal that ended it."""
        await asyncio.shield(self._end)
        status = self.process.returncode if self.process is not None else None
        assert status is not None
        return status

    async def stop(self) -> None:
        """Stop the broker in good order; end the process by force if it does not end in time."""
        if self.process is None or not self.is_running:
            return
        self.process.terminate()
        try:
            async with time_limit(SystemClock(), self._config.broker.shutdown_grace_ms + STOP_GRACE_MS):
                await asyncio.shield(self._end)
        except TimeoutError:
            logger.warning("a broker's process did not stop, and is ended by force", broker=self.broker_id)
            self.process.kill()
            await self._end


class Supervisor:
    """A cluster of processes.

    Args:
        config: the cluster's settings.
        restart: whether a process that ends by itself is started again.

    Attributes:
        brokers: the brokers' processes.
        failed: called with a broker's id and its process's exit status when that ended by itself.
    """

    def __init__(self, config: ClusterConfig, *, restart: bool = False) -> None:
        if "broker_session_timeout_ms" not in config.broker.model_fields_set:
            broker = config.broker.model_copy(update={"broker_session_timeout_ms": SESSION_TIMEOUT_MS})
            config = config.model_copy(update={"broker": broker})
        self._restart = restart
        self._clock = RunningClock(SystemClock())
        self.store = EmbeddedStore(
            base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("="),
            asyncio.get_running_loop().call_soon,
            self._clock,
            0,
            first_credentials(config.broker, secrets.token_bytes),
        )
        secret = secrets.token_bytes()
        self.brokers = [Supervised(number, config, self.store, secret) for number in range(config.brokers)]
        self.failed: Callable[[int, int], None] = lambda broker_id, status: None
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start all processes at once; returns when all brokers answer clients.

        Raises:
            ProcessFailed: one did not; the others are stopped.
        """
        self._clock.beat()
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._clock.run()), loop.create_task(self.store.run())]
        outcomes = await asyncio.gather(*(each.start() for each in self.brokers), return_exceptions=True)
        failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        if failures:
            await self.stop()
            raise failures[0]
        self._tasks += [loop.create_task(self._watch(each)) for each in self.brokers]

    async def stop(self) -> None:
        """Stop all brokers in good order, all at once; no process is left."""
        tasks, self._tasks = self._tasks, []
        for task in tasks[2:]:
            task.cancel()
        await asyncio.gather(*(each.stop() for each in self.brokers))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch(self, supervised: Supervised) -> None:
        """Tell of the end of a process, and start it again if that is asked for."""
        while True:
            status = await supervised.ended()
            logger.error("a broker's process has ended", broker=supervised.broker_id, status=told(status))
            self.failed(supervised.broker_id, status)
            if not self._restart:
                return
            try:
                await supervised.start()
            except ProcessFailed as error:
                logger.error("a broker's process cannot be started again", reason=str(error))
                return


def told(status: int) -> str:
    """Return an exit status in words."""
    return f"ended by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
