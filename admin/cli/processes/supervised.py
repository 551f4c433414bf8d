"""One broker's process, as its supervisor has it."""

from __future__ import annotations

import asyncio
import itertools
import signal
from collections.abc import Callable, Sequence
from typing import Any, Final

from purgatorio.admin.cli.processes.connection import MessageConnection, connect
from purgatorio.admin.cli.processes.forking import GONE, Forked, Nursery, NurseryEnded
from purgatorio.admin.cli.serving import first_of
from purgatorio.admin.web.forwarding import ForwardedAnswer, ForwardedRequest, Unreachable
from purgatorio.broker.config import ClusterConfig
from purgatorio.broker.metadata.embedded import EmbeddedStore
from purgatorio.broker.metadata.image import Endpoint
from purgatorio.broker.metadata.served import Message, StoreConnection
from purgatorio.broker.node.member import Ports, close, open_ports
from purgatorio.broker.server.listening import hold
from purgatorio.broker.time.system_clock import SystemClock
from purgatorio.logger import get_logger
from purgatorio.purgatory.clock import time_limit
from purgatorio.unpatched import plain_socket

logger = get_logger(__name__)

STOP_GRACE_MS: Final = 5_000
"""From the brokers' own time to stop (shutdown.grace.ms) to the end of a process by force."""


class ProcessFailed(Exception):
    """A broker's process did not start; the message says why."""


class Supervised:
    """One broker's process, which may be started again after its end; its ports stay this process's until `close`.

    Args:
        number: the broker's number in the cluster, from 0.
        config: the cluster's settings, as the process gets them.
        store: the cluster's metadata.
        secret: that of the cluster's brokers.
        nursery: starts the process.
        when_ended: called with the process's exit status after its end.
        records_requests: whether its broker keeps the last requests of clients.

    Attributes:
        broker_id: the broker's id.
        endpoints: what the broker advertises to clients.
        admin_address: the host and port of the process's own admin HTTP.
        process: the process that runs, or ran last.
        is_paused: whether it was made to stand still.
        is_ending: whether the supervisor has asked it to end, or killed it.
    """

    def __init__(
        self,
        number: int,
        config: ClusterConfig,
        store: EmbeddedStore,
        secret: bytes,
        nursery: Nursery,
        when_ended: Callable[[Supervised, int], object],
        *,
        records_requests: bool = False,
    ) -> None:
        self.number = number
        self.broker_id = config.broker.broker_id + number
        self.endpoints: list[Endpoint] = []
        self.admin_address = "", 0
        self.process: Forked | None = None
        self.is_paused = False
        self.is_ending = False
        self._config, self._store, self._secret, self._when_ended = config, store, secret, when_ended
        self._nursery = nursery
        self._records_requests = records_requests
        self._clock = SystemClock()
        self._ports: Ports | None = None
        self._started: asyncio.Future[Message] | None = None
        self._asked: dict[int, asyncio.Future[ForwardedAnswer]] = {}
        self._numbers = itertools.count(1)
        self._silent_since_ms: int | None = None

    @property
    def pid(self) -> int:
        """The id of the process that runs, or ran last; 0 before the first."""
        return 0 if self.process is None else self.process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process runs."""
        return self.process is not None and self.process.returncode is None

    @property
    def trouble(self) -> str:
        """The trouble of the process, as the end of a sentence; empty if it is well."""
        if self.process is None:
            return "has not started"
        if self.process.returncode is not None:
            return f"has ended: {ending(self.process.returncode)}"
        if self.is_paused:
            return "stands still (SIGSTOP)"
        if self._silent_since_ms is not None:
            return f"has not answered for {(self._clock.now_ms() - self._silent_since_ms) / 1000:.0f} s"
        return ""

    # --- its life ---

    async def start(self, admin_token: str | None) -> None:
        """Start the process; returns when its broker answers clients.

        Args:
            admin_token: what the process's admin HTTP asks for.

        Raises:
            ProcessFailed: it ended before that.
        """
        loop = asyncio.get_running_loop()
        try:
            if self._ports is None:
                self._ports = await open_ports(self._config.broker_config(self.number))
        except OSError as error:
            raise ProcessFailed(f"broker {self.broker_id}: {error}") from None
        ours, theirs = plain_socket().socketpair()
        self._started = loop.create_future()
        self.is_paused = self.is_ending = False
        self._silent_since_ms = None
        try:
            with theirs:
                self.process = await self._nursery.fork(theirs, itertools.chain.from_iterable(self._ports.values()))
        except NurseryEnded as error:
            ours.close()
            raise ProcessFailed(f"broker {self.broker_id}: {error}") from None
        serving: list[StoreConnection] = []
        self._connection = connection = await connect(ours, lambda message: self._receive(serving, message))
        connection.send(["begin", self._begin(admin_token, self._ports)])
        serving.append(StoreConnection(self._store, connection.send))
        connection.when_slow = lambda is_slow: serving[0].pause() if is_slow else serving[0].resume()
        self._end = loop.create_task(self._ended(connection, serving[0]), name=f"process of broker {self.broker_id}")
        await first_of(asyncio.wait([self._started]), asyncio.wait([self._end]))
        match (
            self._started.result()
            if self._started.done()
            else ["failed", f"its process has ended: {ending(await self.ended())}"]
        ):
            case ["started", endpoints, [host, port]]:
                self.endpoints = [Endpoint(*each) for each in endpoints]
                self.admin_address = host, port
            case ["failed", reason]:
                await self._end
                raise ProcessFailed(f"broker {self.broker_id}: {reason}")

    def _begin(self, admin_token: str | None, ports: Ports) -> dict[str, Any]:
        port = self._config.admin_port and self._config.admin_port + 1 + self.number
        config = self._config.model_copy(update={"admin_port": port, "admin_token": admin_token})
        return {
            "number": self.number,
            "config": config.model_dump(exclude_unset=True),
            "secret": self._secret.hex(),
            "sockets": {name: len(sockets) for name, sockets in ports.items()},
            "records_requests": self._records_requests,
        }

    def _receive(self, serving: Sequence[StoreConnection], message: Message) -> None:
        match message:
            case ["started" | "failed", *_]:
                if self._started is not None and not self._started.done():
                    self._started.set_result(message)
            case ["told", number, status, media_type, body]:
                self._silent_since_ms = None
                if (waiting := self._asked.pop(number, None)) is not None and not waiting.done():
                    waiting.set_result(ForwardedAnswer(status, media_type, body))
            case _:
                serving[0].receive(message)

    async def _ended(self, connection: MessageConnection, serving: StoreConnection) -> None:
        """Wait for the end of the process; then its broker is fenced at once."""
        assert self.process is not None
        process = self.process
        await first_of(process.wait(), self._nursery.lost.wait())
        if process.returncode is None:  # the nursery does not report its end any more, but the connection closes by it
            await connection.closed
            process.end(GONE)
        status = await process.wait()
        if self._ports is not None:  # clients are refused, and no other process takes the ports for this broker's
            self._ports = {name: hold(sockets) for name, sockets in self._ports.items()}
        connection.close()
        await connection.closed
        serving.close()
        serving.end_leases()
        asked, self._asked = self._asked, {}
        for waiting in asked.values():
            if not waiting.done():
                waiting.set_exception(Unreachable(self._why(), was_asked=True))
        self._when_ended(self, status)

    async def ended(self) -> int:
        """Wait for the end of the process; returns its exit status, negative for the signal that ended it."""
        await asyncio.shield(self._end)
        status = self.process.returncode if self.process is not None else None
        assert status is not None
        return status

    def close(self) -> None:
        """Free the ports of a broker that is not to be started again."""
        if self._ports is not None:
            close(self._ports)
            self._ports = None

    async def stop(self) -> None:
        """Stop the broker in good order; end the process by force if it does not end in time."""
        if self.process is None or not self.is_running:
            return
        self.is_ending = True
        self.process.send_signal(signal.SIGTERM)
        self.resume()
        try:
            async with time_limit(self._clock, self._config.broker.shutdown_grace_ms + STOP_GRACE_MS):
                await asyncio.shield(self._end)
        except TimeoutError:
            logger.warning("a broker's process did not stop, and is ended by force", broker=self.broker_id)
            await self.kill()

    async def kill(self) -> None:
        """End the process with SIGKILL."""
        assert self.process is not None
        self.is_ending = True
        self.process.send_signal(signal.SIGKILL)
        await asyncio.shield(self._end)

    def pause(self) -> None:
        """Let the process stand still (SIGSTOP)."""
        assert self.process is not None
        self.is_paused = True
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let the process go on (SIGCONT)."""
        self.is_paused = False
        if self.process is not None and self.is_running:
            self.process.send_signal(signal.SIGCONT)

    # --- what it is asked ---

    async def ask(self, asked: ForwardedRequest) -> ForwardedAnswer:
        """Return the answer of the process's admin HTTP.

        Raises:
            Unreachable: it does not run, stands still, or does not answer in time.
        """
        if not self.endpoints or not self.is_running or self.is_paused:
            raise Unreachable(self._why())
        number = next(self._numbers)
        waiting: asyncio.Future[ForwardedAnswer] = asyncio.get_running_loop().create_future()
        self._asked[number] = waiting
        asked_ms = self._clock.now_ms()
        self._connection.send(["ask", number, *asked])
        try:
            async with time_limit(self._clock, asked.limit_ms):
                return await waiting
        except TimeoutError:
            if self._silent_since_ms is None:
                self._silent_since_ms = asked_ms
            raise Unreachable(self._why(), was_asked=True) from None
        finally:
            self._asked.pop(number, None)

    def _why(self) -> str:
        return f"broker {self.broker_id} cannot be asked: its process {self.pid} {self.trouble or 'is starting'}"


def ending(status: int) -> str:
    """Return an exit status in words."""
    return signal.Signals(-status).name if status < 0 else f"exit status {status}"
