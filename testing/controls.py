"""What a test does to its cluster, in the cluster's own event loop; `Kafka` does it from any thread."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from purgatorio.broker.causes.words import in_words
from purgatorio.broker.cluster import BrokerStateError, Cluster
from purgatorio.broker.config import ClusterConfig
from purgatorio.broker.config.room_settings import topic_settings
from purgatorio.broker.layers.faults import AnyFault, AnyLive
from purgatorio.broker.layers.faults.names import nearest
from purgatorio.broker.log.config import TOPIC_CONFIGS
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.acls import AclBinding
from purgatorio.broker.metadata.controller import NewTopic, create_topics
from purgatorio.broker.metadata.image import NO_LEADER
from purgatorio.broker.metadata.store import decide
from purgatorio.broker.node.broker import Broker
from purgatorio.broker.operations.brokers import ChangeFollower, KillBroker, StartBroker, StopBroker
from purgatorio.broker.operations.control.access import add_acls
from purgatorio.broker.operations.control.clock_control import ClockControl, EndedOperation
from purgatorio.broker.operations.control.cluster_control import ClusterControl
from purgatorio.broker.operations.declare import Operation
from purgatorio.broker.operations.errors import OperationRefused
from purgatorio.broker.operations.operator import Operator
from purgatorio.broker.purgatory import ParkedOperation
from purgatorio.broker.replica.partition import Partition
from purgatorio.broker.replica.results import AppendResult
from purgatorio.broker.time.movable_clock import MovableClock
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.record import Record as WireRecord
from purgatorio.protocol.records import build_batch
from purgatorio.testing.group_controls import GroupControls, watches
from purgatorio.testing.records import check_isolation_level, ends_transactions, read_records
from purgatorio.testing.timeline import Timeline
from purgatorio.testing.values import Advanced, Ended, IsolationLevel, Parked, Record

T = TypeVar("T")

POLL_SECONDS: Final = 0.001
"""The time between two looks at a condition that no event of the broker announces."""
PRODUCE_TIMEOUT_MS: Final = 10_000
COMMIT_PATIENCE_SECONDS: Final = 0.1
"""The longest wait for followers that have yet to fetch what was acknowledged; a fetch takes them some milliseconds."""
MARKER_PATIENCE_SECONDS: Final = 1.0
"""The longest wait for the end markers of transactions, which the coordinator sends to the partitions' leaders."""

HIDDEN: Final = ("Heartbeat", "TransactionTimeout")
"""Purgatories of which nothing is told unless it is asked for: each member and each transaction waits there."""
MADE_LATE: Final = ("Fault", "Throttled")
"""Purgatories that brokers make when the first operation needs them."""


class Controls:
    """Controls of a running cluster. All methods run in its event loop; what `Kafka` promises of each holds here.

    Args:
        cluster: the cluster, on a clock that can be moved.
        topics: topics to create at the start, with their numbers of partitions.
        rules: fault rules from the start on.
        access: access control lists from the start on.

    Attributes:
        timeline: the last changes of leaders and in-sync replicas.
        groups: reads groups.
        operator: does what is declared in `purgatorio.broker.operations`.
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
        controls._begin()
        try:
            await controls._fill()
        except BaseException:
            await controls.end()
            raise
        return controls

    def _begin(self) -> None:
        """Begin with new brokers: follow their metadata, and put them under the rules."""
        self.timeline.follow(self.cluster.store)
        self.faults_at_start = [self.cluster.faults.add(rule) for rule in self._rules]

    async def _fill(self) -> None:
        """Make the topics and ACLs that the test's cluster begins with."""
        for name, partitions in self._topics.items():
            await self.topic(name, partitions, -1, {})
        if self._access:
            await self.asked(add_acls(self.operator.cluster, self._access))

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
            await self.until(lambda: self.cluster.leadership.all_in_sync(topic))

    async def reset(self) -> None:
        """Make the cluster as it was after `start`."""
        self.clock.set_wall()
        await self.cluster.reset()
        await self._fill()

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

    async def do(self, operation: Operation) -> dict[str, Any]:
        """Do an operation, and return its answer."""
        return await self.asked(operation.run(self.operator))

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
        for config in configs:
            if config not in TOPIC_CONFIGS:
                hint = nearest(config, (*TOPIC_CONFIGS, "partitions", "replicas"))
                raise ValueError(f"topic {name!r} was not created: there is no topic config {config!r}{hint}")
        broker = self._any_broker()
        new = NewTopic(name, partitions, replicas, configs=dict(configs))
        settings = topic_settings(broker.config)
        (result,) = await decide(
            broker.store, lambda image: create_topics(image, [new], settings=settings, rng=self._rng)
        )
        if result.error:
            raise ValueError(f"topic {name!r} was not created: {result.message or result.error.name}")
        await self.until(lambda: all(_knows_leaders(each, name) for each in self.cluster.network.brokers))

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
        leader = self.leader(topic, partition)
        at_ms = self.cluster.clock.wall_ms() if timestamp_ms is None else timestamp_ms
        pairs = tuple(headers.items())
        records = [WireRecord(nth, at_ms, key, value, pairs) for nth, value in enumerate(values)]
        tp = TopicPartition(topic, partition)
        answer: asyncio.Future[AppendResult] = asyncio.get_running_loop().create_future()
        leader.replicas.append(
            [(tp, build_batch(records))],
            acks=-1,
            timeout_ms=PRODUCE_TIMEOUT_MS,
            done=lambda results: None if answer.done() else answer.set_result(results[0]),
            client="purgatorio.testing",
        )
        result = await answer
        if result.error_code == ErrorCode.REQUEST_TIMED_OUT:
            raise TimeoutError(f"{tp}: the in-sync replicas do not have the records; see parked()")
        if result.error_code:
            raise ValueError(f"{tp}: {result.error_message or result.error_code.name}")
        return result.base_offset

    async def records(self, topic: str, partition: int | None, isolation_level: IsolationLevel) -> list[Record]:
        """Return the committed records of a topic, by partition and offset.

        Records that were acknowledged before followers have them (acks=1) are committed a moment later, and so are
        transactions whose end was acknowledged before its markers are written: it waits so long, unless a follower is
        held, and at most `COMMIT_PATIENCE_SECONDS` and `MARKER_PATIENCE_SECONDS`.
        """
        check_isolation_level(isolation_level)
        partitions = range(self._partition_count(topic)) if partition is None else (partition,)
        if not any(broker.gate.held for broker in self.cluster.brokers):
            if isolation_level == "read_committed":
                await self._until(lambda: not ends_transactions(self.cluster), MARKER_PATIENCE_SECONDS)
            await self._until(
                lambda: all(_all_committed(self._led(topic, index)) for index in partitions), COMMIT_PATIENCE_SECONDS
            )
        return [each for index in partitions for each in read_records(self._led(topic, index), isolation_level)]

    async def _until(self, true: Callable[[], object], patience_seconds: float) -> None:
        """Wait until a condition is true, or for so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_seconds):
                await self.until(true)

    def _led(self, topic: str, partition: int) -> Partition:
        replica = self.leader(topic, partition).replica(TopicPartition(topic, partition))
        assert replica is not None, "a leader has a replica"
        return replica

    # --- what waits ---

    def _check_purgatory(self, name: str) -> None:
        known = dict.fromkeys(each.name for broker in self.cluster.brokers for each in broker.purgatories)
        known |= dict.fromkeys(MADE_LATE)
        if name not in known and len(known) > 1:
            hint = nearest(name, known) or f", only {', '.join(known)}"
            raise ValueError(f"there is no purgatory {name!r}{hint}")

    def parked(
        self,
        api: str | None = None,
        topic: str | None = None,
        client: str | None = None,
        group: str | None = None,
    ) -> list[Parked]:
        """Return what waits in the brokers' purgatories, oldest first in each; heartbeats only if asked for."""
        if api is not None:
            self._check_purgatory(api)
        found = []
        clients = set() if group is None else self.groups.client_ids(group)
        for broker in self.cluster.brokers:
            for purgatory in broker.purgatories:
                if purgatory.name != api and (api is not None or purgatory.name in HIDDEN):
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
        await self.until(lambda: self.parked(api, topic, client, group))
        return self.parked(api, topic, client, group)

    def clients(self) -> list[str]:
        """Return the client ids that are connected; a connection that has not told its id is named by its address."""
        found = {
            each.client_id or f"a connection from {each.peer}"
            for broker in self.cluster.brokers
            for listener in broker.listeners.values()
            for each in listener.connections()
        }
        return sorted(name for name in found if not is_broker(name))

    async def clients_gone(self, except_for: Collection[str], patience_seconds: float) -> list[str]:
        """Return the client ids that are still connected after a while; at once when there are no others than these."""
        loop = asyncio.get_running_loop()
        give_up = loop.time() + patience_seconds
        while left := [name for name in self.clients() if name not in except_for]:
            if loop.time() > give_up:
                return left
            await asyncio.sleep(POLL_SECONDS)
        return []

    async def until(self, holds: Callable[[], object]) -> None:
        """Wait until a condition holds."""
        while not holds():  # noqa: ASYNC110 - no one event tells that any condition holds
            await asyncio.sleep(POLL_SECONDS)

    # --- brokers ---

    async def until_known(self, broker_id: int) -> None:
        """Wait until all brokers that reach the metadata know a broker."""
        await self.until(lambda: all(broker_id in each.image.brokers for each in self.cluster.network.brokers))

    def leader(self, topic: str, partition: int) -> Broker:
        """Return the broker that leads a partition."""
        if not 0 <= partition < self._partition_count(topic):
            raise ValueError(f"topic {topic!r} has no partition {partition}")
        state = self._any_broker().image.partition(topic, partition)
        for broker in self.cluster.brokers:
            if state is not None and broker.broker_id == state.leader:
                return broker
        raise ValueError(f"{topic}-{partition} has no leader now")

    def fault_rules(self) -> tuple[Sequence[AnyLive], Sequence[AnyLive]]:
        """Return the fault rules, and those of them that are from the start on."""
        return self.cluster.faults.rules, self.faults_at_start

    def leader_id(self, topic: str, partition: int) -> int:
        """Return the id of the broker that leads a partition."""
        return self.leader(topic, partition).broker_id

    def running(self) -> list[int]:
        """Return the ids of the running brokers."""
        return [each.broker_id for each in self.cluster.brokers]

    @property
    def bootstrap(self) -> str:
        """The brokers' addresses, with commas between."""
        return self.cluster.bootstrap

    def _any_broker(self) -> Broker:
        brokers = [each for each in self.cluster.brokers if self.cluster.network.reaches_store(each.broker_id)]
        if not brokers:
            raise ValueError("no broker is running")
        return max(brokers, key=lambda each: each.image.version)

    def _partition_count(self, topic: str) -> int:
        known = self._any_broker().image.topics
        if topic not in known:
            raise ValueError(f"there is no topic {topic!r}, only {', '.join(sorted(known)) or 'none'}")
        return len(known[topic].partitions)


@contextlib.contextmanager
def _refused_as_value_error() -> Iterator[None]:
    """Raise a refusal as ValueError, as all controls of a test do; its kinds are for the admin HTTP."""
    try:
        yield
    except OperationRefused as error:
        raise ValueError(str(error)) from None


def _all_committed(replica: Partition) -> bool:
    return replica.high_watermark >= replica.log.log_end_offset


def _knows_leaders(broker: Broker, name: str) -> bool:
    """Return whether a broker knows the leaders of a topic, and has the replicas that it shall have."""
    topic = broker.image.topics.get(name)
    return (
        topic is not None
        and all(state.leader != NO_LEADER for state in topic.partitions)
        and broker.replicas.is_current
    )


def _names_topic(topic: str, keys: Sequence[Hashable]) -> bool:
    return any(topic in (str(key), getattr(key, "topic", None)) for key in keys)


def is_broker(client: str) -> bool:
    """Return whether a client id is that of a connection between brokers (see `Broker`)."""
    return re.fullmatch(r"broker-\d+-[a-z]+", client) is not None


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
