"""The supervisor: it holds the cluster's metadata, starts a process for each broker, and ends with them.

The processes inherit one end of a pair of sockets each; so they know when the supervisor has ended, and no other
process can ask it for metadata. The brokers' shared secret goes that way, too, and so do the requests that the
supervisor's admin HTTP passes on.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Coroutine, Sequence
from typing import Any, Final

from purgatorio.admin.cli.processes.forking import Nursery
from purgatorio.admin.cli.processes.supervised import ProcessFailed, Supervised, ending
from purgatorio.admin.operations import brokers
from purgatorio.admin.operations.control.cluster_control import KnownBroker
from purgatorio.admin.operations.declare import Answer, Operation
from purgatorio.admin.operations.reading.members import read_member
from purgatorio.admin.web.forwarding import ForwardedAnswer, ForwardedRequest
from purgatorio.admin.web.server import shown_host
from purgatorio.broker.cluster.errors import OperationRefused
from purgatorio.broker.config import ClusterConfig
from purgatorio.broker.config.authentication import first_credentials
from purgatorio.broker.metadata.embedded import EmbeddedStore
from purgatorio.broker.node.broker_maker import new_cluster_id
from purgatorio.broker.time.running_clock import RunningClock
from purgatorio.broker.time.system_clock import SystemClock
from purgatorio.logger import get_logger
from purgatorio.purgatory.clock import Clock

logger = get_logger(__name__)

SESSION_TIMEOUT_MS: Final = 3_000
"""broker.session.timeout.ms of brokers in processes of their own, unless it is set. The supervisor notices at once that
a process has ended; the timeout is for one that hangs, and must be longer than a busy machine lets a process wait."""


class Supervisor:
    """A cluster of processes; the `BrokerProcesses` of its admin HTTP.

    Args:
        config: the cluster's settings.
        restart: whether a process that ends by itself is started again.
        nursery: starts the processes; it ends with the supervisor. None: a new one.
        records_requests: whether the brokers keep the last requests of clients, for the report of a failed test.

    Attributes:
        brokers: the brokers' processes, by ascending id.
        clock: the supervisor's clock.
    """

    def __init__(
        self,
        config: ClusterConfig,
        *,
        restart: bool = False,
        nursery: Nursery | None = None,
        records_requests: bool = False,
    ) -> None:
        if "broker_session_timeout_ms" not in config.broker.model_fields_set:
            broker = config.broker.model_copy(update={"broker_session_timeout_ms": SESSION_TIMEOUT_MS})
            config = config.model_copy(update={"broker": broker})
        self._restart = restart
        self.clock: Clock = SystemClock()
        self._lease_clock = RunningClock(self.clock)
        self.store = EmbeddedStore(
            new_cluster_id(secrets.token_bytes),
            asyncio.get_running_loop().call_soon,
            self._lease_clock,
            0,
            first_credentials(config.broker, secrets.token_bytes),
        )
        secret = secrets.token_bytes()
        numbers = range(config.brokers)
        self._nursery = nursery or Nursery()
        self.brokers = [
            Supervised(
                number, config, self.store, secret, self._nursery, self._ended, records_requests=records_requests
            )
            for number in numbers
        ]
        self._by_id = {each.broker_id: each for each in self.brokers}
        self._admin_token: str | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, admin_token: str | None) -> None:
        """Start all processes at once; returns when all brokers answer clients.

        Args:
            admin_token: what the processes' own admin HTTP asks for.

        Raises:
            ProcessFailed: one did not; the others are stopped.
        """
        self._admin_token = admin_token
        self._lease_clock.beat()
        self._run(self._lease_clock.run())
        self._run(self.store.run())
        outcomes = await asyncio.gather(*(each.start(admin_token) for each in self.brokers), return_exceptions=True)
        failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        if failures:
            await self.stop()
            raise failures[0]

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """Stop all brokers in good order, all at once; no process is left."""
        self._restart = False
        await asyncio.gather(*(each.stop() for each in self.brokers))
        for each in self.brokers:
            each.close()
        await self._nursery.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def lost_nursery(self) -> None:
        """Wait until no broker can be started any more, and raise ProcessFailed then; the brokers go on."""
        await self._nursery.lost.wait()
        raise ProcessFailed(f"the process {self._nursery.pid} that starts brokers has ended, and the cluster with it")

    def _ended(self, supervised: Supervised, status: int) -> None:
        """Log the end of a process, unless it was asked for; start it again if that is wanted."""
        if supervised.is_ending or not supervised.endpoints:
            return
        logger.error("a broker's process has ended", broker=supervised.broker_id, status=ending(status))
        if self._restart:
            self._run(self._start_again(supervised))

    async def _start_again(self, supervised: Supervised) -> None:
        try:
            await supervised.start(self._admin_token)
        except ProcessFailed as error:
            logger.error("a broker's process cannot be started again", reason=str(error))

    # --- what the admin HTTP asks for ---

    @property
    def broker_ids(self) -> Sequence[int]:
        """The ids of all brokers, ascending."""
        return list(self._by_id)

    @property
    def own_ids(self) -> Sequence[int]:
        """The ids of all brokers: they end with their supervisor."""
        return self.broker_ids

    @property
    def active_and_fenced(self) -> tuple[int, int]:
        """How many registered brokers hold leases, and how many do not; none that lives need have fenced these."""
        image = self.store.image
        active = len(image.live_brokers) - len(self.store.lost_leases())
        return active, len(image.brokers) - active

    @property
    def targets(self) -> dict[int, str]:
        """Where the own admin HTTP of each process is, or was when it ran."""
        started = (each for each in self.brokers if each.endpoints)
        return {
            each.broker_id: f"http://{shown_host(each.admin_address[0])}:{each.admin_address[1]}" for each in started
        }

    async def ask(self, broker_id: int, asked: ForwardedRequest) -> ForwardedAnswer:
        """Return a process's answer; raise Unreachable if it does not answer."""
        return await self._by_id[broker_id].ask(asked)

    def row(self, broker_id: int, known: Answer | None) -> Answer:
        """Return the row of a broker in the list of brokers."""
        each = self._by_id[broker_id]
        if known is None:
            address = (each.endpoints[0].host, each.endpoints[0].port) if each.endpoints else None
            member = KnownBroker(broker_id, "running" if each.is_running else "stopped", address)
            known = {**read_member(member, None, self.store.image, paused=each.is_paused)}
        return {**known, "process": {"id": each.pid, "trouble": each.trouble}}

    async def control(self, operation: type[Operation], broker_id: int | None) -> Answer:
        """Do what an operation does to the process of a broker, or to all of them."""
        if broker_id is None:  # ResumeBrokers
            for each in self.brokers:
                each.resume()
            return self._network()
        each = self._by_id[broker_id]
        if operation is brokers.StartBroker:
            return await self._start(each)
        if not each.is_running:
            raise OperationRefused(f"broker {broker_id} is not running: its process {each.trouble}")
        if operation is brokers.StopBroker:
            await each.stop()
            return {"broker": broker_id, "state": "stopped"}
        if operation is brokers.KillBroker:
            await each.kill()
            return {"broker": broker_id, "state": "killed"}
        (each.pause if operation is brokers.PauseBroker else each.resume)()
        return self._network()

    async def _start(self, each: Supervised) -> Answer:
        if each.is_running:
            raise OperationRefused(f"broker {each.broker_id} is already running")
        try:
            await each.start(self._admin_token)
        except ProcessFailed as error:
            raise OperationRefused(f"it cannot be started: {error}") from None
        return {"broker": each.broker_id, "state": "running"}

    def _network(self) -> Answer:
        return {"paused": [each.broker_id for each in self.brokers if each.is_paused], "groups": []}
