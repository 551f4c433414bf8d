"""Controls of a test's cluster, in the cluster's own event loop; `Kafka` uses them from any thread."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Collection, Hashable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from purgatorio.admin.cluster import Cluster
from purgatorio.admin.operations import loading
from purgatorio.admin.operations.brokers import ChangeFollower, KillBroker, StartBroker, StopBroker
from purgatorio.admin.operations.control import topic_control
from purgatorio.admin.operations.control.access import add_acls
from purgatorio.admin.operations.control.clock_control import ClockControl, EndedOperation
from purgatorio.admin.operations.control.cluster_control import ClusterControl
from purgatorio.admin.operations.declare import Operation
from purgatorio.admin.operations.operator import Operator
from purgatorio.admin.operations.reading.records import check_isolation_level
from purgatorio.admin.operations.reading.report import connected_clients
from purgatorio.broker.causes.kinds import KINDS, why_unknown
from purgatorio.broker.causes.words import in_words
from purgatorio.broker.cluster.cluster import BrokerCluster, BrokerStateError, Contents
from purgatorio.broker.cluster.decisions import when_led
from purgatorio.broker.cluster.errors import OperationRefused
from purgatorio.broker.config import ClusterConfig
from purgatorio.broker.layers.faults import AnyFault, AnyLive
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.acls import AclBinding
from purgatorio.broker.node.broker import Broker
from purgatorio.broker.replica.partition import Partition
from purgatorio.broker.time.movable_clock import MovableClock
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.record import Record as WireRecord
from purgatorio.protocol.records import build_batch
from purgatorio.purgatory import ParkedOperation
from purgatorio.testing.group_controls import GroupControls, watches
from purgatorio.testing.records import read_records
from purgatorio.testing.timeline import Timeline
from purgatorio.testing.values import Advanced, Ended, IsolationLevel, Parked, Record
from purgatorio.testing.waiting import first

T = TypeVar("T")


class Controls(Contents):
    """Controls of a running cluster. All methods run in its event loop; what `Kafka` promises of each holds here.

    Args:
        cluster: the cluster, on a clock that can be moved.
        topics: topics to create at the start, with their numbers of partitions.
        rules: fault rules from the start on.
        access: access control lists from the start on.

    Attributes:
        timeline: the last changes of leaders and in-sync replicas.
        groups: reads groups.
        operator: does what is declared in `purgatorio.admin.operations`.
        faults_at_start: the rules with which the cluster began, as they are at work now.
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
        self._topics = topics or {}
        self._rng = random.Random()
        self.timeline = Timeline(clock)
        self._rules = rules
        self._access = access
        self.operator = Operator(cluster, ClusterControl(cluster))
        self.faults_at_start: list[AnyLive] = []
        cluster.when_renewed = self._begin
        cluster.beginning = self
        self.clock = clock
        self.groups = GroupControls(cluster)
        self._starting_admin = asyncio.Lock()
        self._has_admin = False

    @classmethod
    async def start(
        cls,
        config: ClusterConfig,
        topics: Mapping[str, int],
        rules: Sequence[AnyFault] = (),
        access: Sequence[AclBinding] = (),
    ) -> Controls:
        """Start a cluster, and make what it begins with; an OSError if a broker cannot listen."""
        clock = MovableClock()
        controls = cls(Cluster(config, clock, admin=False), clock, topics, rules, access)
        controls.cluster.faults.record_requests()
        await controls.cluster.start()
        return controls

    def _begin(self) -> None:
        """Begin with new brokers: follow their metadata, and put them under the rules."""
        self.timeline.follow(self.cluster.store)
        self.faults_at_start = [self.cluster.faults.add(rule) for rule in self._rules]

    @property
    def is_empty(self) -> bool:
        """Whether it begins without topics and ACLs, too."""
        return not self._topics and not self._access

    async def create(self, cluster: BrokerCluster) -> None:
        """Make the topics and ACLs that it begins with."""
        for name, partitions in self._topics.items():
            await self.topic(name, partitions, -1, {})
        if self._access:
            await self.asked(add_acls(cluster, self._access))

    async def admin_url(self) -> str:
        """Return the URL of the admin HTTP, which is started if it was not yet.

        It is not started with the cluster: few tests need it, and it takes longer than the brokers.
        """
        async with self._starting_admin:
            if not self._has_admin:
                await self.cluster.start_admin()
                self._has_admin = True
        return self.cluster.admin_url

    async def until_in_sync(self, topic: str) -> None:
        """Wait until all replicas of a topic are in sync; a ValueError if there is no such topic."""
        with _refused_as_value_error():
            await first(lambda: self.cluster.leadership.all_in_sync(topic))

    async def reset(self) -> None:
        """Make the cluster as it was after `start`."""
        self.clock.set_wall()
        await self.cluster.reset()

    async def advance(self, seconds: float, *, sessions: bool) -> Advanced:
        """Move the clock; return what ended by it. See `KafkaClock.advance`, which says what is a ValueError."""
        known = self.timeline.total
        ended = await ClockControl(self.cluster).advance(seconds, sessions=sessions)
        changes = tuple(f"{each.partition}: {each.what}" for each in self.timeline.since(known))
        return Advanced(seconds, tuple(map(_ended, ended)), changes)

    def now(self) -> float:
        """Return the brokers' time in seconds since 1970."""
        return self.clock.wall_ms() / 1000

    def freeze(self) -> None:
        """Stop the brokers' time."""
        self.clock.freeze()

    def unfreeze(self) -> None:
        """Let the brokers' time go on."""
        self.clock.unfreeze()

    @staticmethod
    def load(operation: Operation) -> None:
        """Import what an operation imports when it is done: in the caller's thread, so that the brokers go on."""
        loading.load([type(operation)])

    async def do(self, operation: Operation) -> dict[str, Any]:
        """Do an operation, and return its answer."""
        return await self.asked(when_led(partial(operation.run, self.operator)))

    async def change_broker(self, operation: ChangeFollower | KillBroker | StartBroker | StopBroker) -> None:
        """Do an operation on a broker; a BrokerStateError if there is none of that id, or the cluster refuses it."""
        if operation.id not in self.cluster.broker_ids:
            self.cluster.broker(operation.id)
        try:
            await operation.run(self.operator)
        except BrokerStateError:
            raise
        except OperationRefused as error:
            raise BrokerStateError(str(error)) from None

    async def asked(self, change: Awaitable[T]) -> T:
        """Return what a change of the cluster returns; a ValueError with the cluster's sentence if it is refused."""
        with _refused_as_value_error():
            return await change

    async def end(self) -> None:
        """End the cluster at once, as a crash would: nothing is answered, nothing drained."""
        for broker_id in [each.broker_id for each in self.cluster.brokers]:
            await self.cluster.kill_broker(broker_id)
        await self.cluster.stop()

    # --- topics and records ---

    async def topic(self, name: str, partitions: int, replicas: int, configs: Mapping[str, str]) -> None:
        """Create a topic; return when each partition has a leader that all running brokers know."""
        await self.asked(topic_control.create(self.cluster, name, partitions, replicas, configs, self._rng))

    async def produce(
        self,
        topic: str,
        values: Sequence[bytes | None],
        key: bytes | None,
        partition: int,
        headers: Mapping[str, bytes],
        timestamp_ms: int | None,
    ) -> int:
        """Append records to a partition with acks=all; return the offset of the first."""
        at_ms = self.cluster.clock.wall_ms() if timestamp_ms is None else timestamp_ms
        pairs = tuple(headers.items())
        batch = build_batch([WireRecord(nth, at_ms, key, value, pairs) for nth, value in enumerate(values)])
        tp = TopicPartition(topic, partition)
        append = partial(topic_control.append, self.cluster, [(tp, batch)], client="purgatorio.testing")
        (result,) = await self.asked(when_led(append))
        if result.error_code == ErrorCode.REQUEST_TIMED_OUT:
            raise TimeoutError(f"{tp}: the in-sync replicas do not have the records; see parked()")
        if result.error_code:
            raise ValueError(f"{tp}: {result.error_message or result.error_code.name}")
        return result.base_offset

    async def records(self, topic: str, partition: int | None, isolation_level: IsolationLevel) -> list[Record]:
        """Return the committed records of a topic, by partition and offset.

        It waits a moment for what clients were acknowledged, see `topic_control.until_committed`.
        """
        check_isolation_level(isolation_level)

        async def led() -> list[Partition]:
            count = topic_control.partition_count(self.cluster, topic)
            partitions = range(count) if partition is None else (partition,)
            await topic_control.until_committed(self.cluster, topic, partitions, isolation_level)
            return [topic_control.led(self.cluster, topic, index) for index in partitions]

        replicas = await self.asked(when_led(led))
        return [each for replica in replicas for each in read_records(replica, isolation_level)]

    # --- what waits ---

    def parked(
        self,
        api: str | None = None,
        topic: str | None = None,
        client: str | None = None,
        group: str | None = None,
    ) -> list[Parked]:
        """Return what waits in the brokers' purgatories, oldest first in each; heartbeats only if asked for."""
        if api is not None and (why := why_unknown(api)):
            raise ValueError(why)
        found = []
        clients = set() if group is None else self.groups.client_ids(group)
        for broker in self.cluster.brokers:
            for purgatory in broker.purgatories:
                if purgatory.name != api and (api is not None or KINDS[purgatory.name].is_idle):
                    continue
                now_ms = purgatory.now_ms()
                found += [
                    _shown(broker, each, now_ms)
                    for each in purgatory.operations(limit=1_000)
                    if (group is None or each.client in clients or watches(group, each.keys))
                    and (client is None or each.client == client)
                    and (topic is None or _names_topic(topic, each.keys))
                ]
        return found

    async def until_parked(
        self, api: str | None = None, topic: str | None = None, client: str | None = None, group: str | None = None
    ) -> list[Parked]:
        """Wait until something of that description waits; return it."""
        return await first(lambda: self.parked(api, topic, client, group))

    def clients(self) -> list[str]:
        """Return the client ids that are connected; a connection without a client id yet is named by its address."""
        return connected_clients(self.cluster)

    async def clients_gone(self, except_for: Collection[str], patience_seconds: float) -> list[str]:
        """Return the client ids that are still connected after a while; at once when there are no others than these."""
        loop = asyncio.get_running_loop()
        give_up, allowed = loop.time() + patience_seconds, set(except_for)
        left = await first(self.clients, lambda names: allowed.issuperset(names) or loop.time() > give_up)
        return [name for name in left if name not in allowed]

    # --- brokers ---

    async def until_known(self, broker_id: int) -> None:
        """Wait until all brokers that reach the metadata know a broker."""
        await first(lambda: all(broker_id in each.image.brokers for each in self.cluster.network.brokers))

    def fault_rules(self) -> tuple[Sequence[AnyLive], Sequence[AnyLive]]:
        """Return the fault rules, and those of them that are from the start on."""
        return self.cluster.faults.rules, self.faults_at_start

    async def leader_id(self, topic: str, partition: int) -> int:
        """Return the id of the broker that leads a partition."""

        async def led() -> int:
            return topic_control.leader(self.cluster, topic, partition).broker_id

        return await self.asked(when_led(led))

    def running(self) -> list[int]:
        """Return the ids of the running brokers."""
        return [each.broker_id for each in self.cluster.brokers]

    @property
    def bootstrap(self) -> str:
        """The brokers' addresses, with commas between."""
        return self.cluster.bootstrap


@contextlib.contextmanager
def _refused_as_value_error() -> Iterator[None]:
    """Raise a refusal as ValueError, as all controls of a test do; its kinds are for the admin HTTP."""
    try:
        yield
    except OperationRefused as error:
        raise ValueError(str(error)) from None


def _names_topic(topic: str, keys: Sequence[Hashable]) -> bool:
    return any(topic in (str(key), getattr(key, "topic", None)) for key in keys)


def _shown(broker: Broker, operation: ParkedOperation, now_ms: int) -> Parked:
    return Parked(
        broker.broker_id,
        operation.id,
        operation.purgatory,
        operation.client,
        tuple(map(str, operation.keys)),
        in_words(operation.causes),
        tuple(operation.causes),
        now_ms - operation.parked_ms,
        operation.deadline_ms - now_ms,
    )


def _ended(ended: EndedOperation) -> Ended:
    operation = ended.operation
    return Ended(
        ended.broker_id,
        operation.purgatory,
        operation.client,
        tuple(map(str, operation.keys)),
        in_words(operation.causes),
        tuple(operation.causes),
        operation.done_ms - operation.parked_ms,
    )
