"""A cluster in the test's own process: operations are done in its event loop, without JSON."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeVar

from purgatorio.admin.cluster import Cluster
from purgatorio.admin.operations import loading
from purgatorio.admin.operations.control.cluster_control import ClusterControl
from purgatorio.admin.operations.declare import Answer, Operation, Readable
from purgatorio.admin.operations.operator import Operator
from purgatorio.broker.cluster.cluster import BrokerCluster, Contents
from purgatorio.broker.cluster.decisions import when_led
from purgatorio.broker.cluster.errors import OperationRefused, TimedOut
from purgatorio.broker.config import ClusterConfig
from purgatorio.broker.layers.faults import AnyFault, AnyLive
from purgatorio.broker.metadata.acls import AclBinding
from purgatorio.broker.time.movable_clock import MovableClock
from purgatorio.testing.timeline import Timeline

R = TypeVar("R")


class InLoop(Contents):
    """Does operations on a running cluster. All methods run in its event loop.

    Args:
        cluster: the cluster, on a clock that can be moved.
        topics: topics to create at the start, with their numbers of partitions.
        rules: fault rules from the start on.
        access: access control lists from the start on.

    Attributes:
        timeline: the last changes of leaders and in-sync replicas.
    """

    def __init__(
        self,
        cluster: Cluster,
        clock: MovableClock,
        topics: Mapping[str, int] | None = None,
        rules: Sequence[AnyFault] = (),
        access: Sequence[AclBinding] = (),
    ) -> None:
        self.cluster = cluster
        self.timeline = Timeline(clock)
        self._topics, self._rules, self._access = topics or {}, rules, access
        self._operator = Operator(cluster, ClusterControl(cluster))
        self._faults_at_start: list[AnyLive] = []
        cluster.when_renewed = self._begin
        cluster.beginning = self
        self._starting_admin = asyncio.Lock()
        self._has_admin = False

    @classmethod
    async def start(
        cls,
        config: ClusterConfig,
        topics: Mapping[str, int],
        rules: Sequence[AnyFault] = (),
        access: Sequence[AclBinding] = (),
    ) -> InLoop:
        """Start a cluster, and make what it begins with; an OSError if a broker cannot listen."""
        clock = MovableClock()
        backend = cls(Cluster(config, clock, admin=False), clock, topics, rules, access)
        backend.cluster.faults.record_requests()
        await backend.cluster.start()
        return backend

    def _begin(self) -> None:
        """Begin with new brokers: follow their metadata, and put them under the rules."""
        self.timeline.follow(self.cluster.store)
        self._faults_at_start = [self.cluster.faults.add(rule) for rule in self._rules]

    @property
    def is_empty(self) -> bool:
        """Whether it begins without topics and ACLs, too."""
        return not self._topics and not self._access

    async def create(self, cluster: BrokerCluster) -> None:
        """Make the topics and ACLs that it begins with."""
        if self._topics:
            from purgatorio.admin.operations.topics import CreateTopic

            for name, partitions in self._topics.items():
                await self.ask(CreateTopic(name, partitions))
        if self._access:
            from purgatorio.admin.operations.control.access import add_acls

            with refused_as_value_error():
                await add_acls(cluster, self._access)

    async def end(self) -> None:
        """End the cluster at once, as a crash would: nothing is answered, nothing drained."""
        for broker_id in [each.broker_id for each in self.cluster.brokers]:
            await self.cluster.kill_broker(broker_id)
        await self.cluster.stop()

    @staticmethod
    def load(operations: Iterable[type[Operation]]) -> None:
        """Import what operations import when they are done: in the caller's thread, so that the brokers go on."""
        loading.load(operations)

    async def ask(self, operation: Operation) -> Answer:
        """Do an operation, and return its answer; raises as `Backend.ask`."""
        return await _done(partial(operation.run, self._operator))

    async def read(self, operation: Readable[R]) -> list[R]:
        """Return what an operation reads, as it is at one moment; raises as `ask`."""

        async def read() -> list[R]:
            return list(await operation.read(self._operator))

        return await _done(read)

    @property
    def bootstrap(self) -> str:
        """The brokers' addresses, with commas between."""
        return self.cluster.bootstrap

    async def admin_url(self) -> str:
        """Return the URL of the admin HTTP, which is started if it was not yet.

        It is not started with the cluster: few tests need it, and it takes longer than the brokers.
        """
        async with self._starting_admin:
            if not self._has_admin:
                await self.cluster.start_admin()
                self._has_admin = True
        return self.cluster.admin_url

    def fault_rules(self) -> tuple[Sequence[AnyLive], Sequence[AnyLive]]:
        """Return the fault rules, and those of them that are from the start on."""
        return self.cluster.faults.rules, self._faults_at_start


async def _done(do: Callable[[], Awaitable[R]]) -> R:
    with refused_as_value_error():
        return await when_led(do)


@contextlib.contextmanager
def refused_as_value_error() -> Iterator[None]:
    """Raise a refusal as ValueError, as all controls of a test do; its kinds are for the admin HTTP."""
    try:
        yield
    except TimedOut as error:
        raise TimeoutError(str(error)) from None
    except OperationRefused as error:
        raise ValueError(str(error)) from None
