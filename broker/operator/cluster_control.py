"""What an operator does to a running cluster: stop, kill and start brokers, restart them in turn, elect leaders.

The cluster does what it is told; here is decided whether it should be. Logs are in memory, so a broker that stops takes
its replicas with it: nobody stops the last one that has everything by mistake, and a rolling restart lets each broker
fetch everything again before the next one goes.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from purgatorio.broker.config import BrokerConfig
from purgatorio.broker.config.topics import topic_settings
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.controller import (
    ElectionResult,
    ElectionType,
    elect_leaders,
    unregister_broker,
)
from purgatorio.broker.metadata.image import NO_LEADER, ClusterImage, PartitionState
from purgatorio.broker.metadata.store import MetadataStore, StoreError
from purgatorio.logger import get_logger
from purgatorio.protocol.errors import ErrorCode

RESTART_TIME_LIMIT_MS: Final = 60_000
"""Time that a rolling restart gives each broker to get everything again; the logs of a process fit into its memory."""
IN_SYNC_POLL_MS: Final = 20
ELECTION_TIME_LIMIT_MS: Final = 5_000
"""Time that the metadata store has for an election; in one process it takes a few turns of the event loop."""
PARTITIONS_NAMED: Final = 10
"""Partitions that a sentence names at most."""

logger = get_logger(__name__)

State = Literal["running", "stopping", "starting", "stopped"]


class OperationRefused(Exception):
    """The cluster is not in a state in which this can be done; nothing was changed but what the sentence says."""


class NotThere(OperationRefused):
    """There is no such broker, topic or partition."""


class ClusterUnavailable(OperationRefused):
    """Nobody can do it at the moment: no broker runs, or the metadata store does not answer."""


class NotInSync(OperationRefused):
    """Replicas were not in sync within the time limit.

    Attributes:
        partitions: those that lack one.
    """

    def __init__(self, partitions: Sequence[TopicPartition], time_limit_ms: int) -> None:
        super().__init__(f"not fully in sync after {time_limit_ms / 1000:g} s: {named(partitions)}")
        self.partitions = tuple(partitions)


def named(partitions: Sequence[TopicPartition]) -> str:
    """Partitions as part of a sentence: the first `PARTITIONS_NAMED`, and how many more."""
    first = ", ".join(map(str, partitions[:PARTITIONS_NAMED]))
    further = len(partitions) - PARTITIONS_NAMED
    return first if further <= 0 else f"{first} and {further} more"


def _partitions(image: ClusterImage) -> Iterable[tuple[TopicPartition, PartitionState]]:
    for topic in image.topics.values():
        for index, state in enumerate(topic.partitions):
            yield TopicPartition(topic.name, index), state


# --- restarting in turn ---


class Restartable(Protocol):
    """Brokers that can be restarted."""

    @property
    def broker_ids(self) -> Sequence[int]:
        """All of them."""
        ...

    @property
    def image(self) -> ClusterImage:
        """The newest metadata there are: those of a broker that has just started, at least."""
        ...

    def stop_broker(self, broker_id: int) -> Awaitable[None]:
        """Stop a broker in good order."""
        ...

    def start_broker(self, broker_id: int) -> Awaitable[None]:
        """Start a broker; when that is done it is registered."""
        ...


def not_in_sync(image: ClusterImage) -> list[TopicPartition]:
    """The partitions with a replica that is not in sync, or whose broker does not live."""
    return [
        tp
        for tp, state in _partitions(image)
        if not set(state.replicas)
        <= {incarnation.broker_id for incarnation in state.isr if image.is_alive(incarnation)}
    ]


async def wait_until_in_sync(cluster: Restartable, time_limit_ms: int) -> None:
    """Wait until every partition has its full in-sync set.

    Raises:
        NotInSync: it takes longer.
    """
    now = asyncio.get_running_loop().time
    deadline = now() + time_limit_ms / 1000
    image: ClusterImage | None = None
    missing: list[TopicPartition] = []
    while True:
        if cluster.image is not image:
            image = cluster.image
            missing = not_in_sync(image)
        if not missing:
            return
        if now() >= deadline:
            raise NotInSync(missing, time_limit_ms)
        await asyncio.sleep(IN_SYNC_POLL_MS / 1000)


async def rolling_restart(
    cluster: Restartable,
    *,
    time_limit_ms: int = RESTART_TIME_LIMIT_MS,
    wait: Callable[[Restartable, int], Awaitable[None]] = wait_until_in_sync,
) -> None:
    """Stop and start one broker after the other, each when every partition has its full in-sync set (again).

    Args:
        cluster: whose brokers.
        time_limit_ms: how long each wait for the full in-sync set may take.
        wait: that wait.

    Raises:
        NotInSync: a wait took too long; the brokers that follow were not touched.
    """
    await wait(cluster, time_limit_ms)
    for broker_id in cluster.broker_ids:
        await cluster.stop_broker(broker_id)
        await cluster.start_broker(broker_id)
        await wait(cluster, time_limit_ms)


# --- one at a time ---


class OperatedBroker(Protocol):
    """A running broker, as far as an operator is concerned."""

    @property
    def broker_id(self) -> int:
        """Its id."""
        ...

    @property
    def address(self) -> tuple[str, int]:
        """Host and port, as clients are told them."""
        ...

    @property
    def config(self) -> BrokerConfig:
        """Its settings."""
        ...

    @property
    def store(self) -> MetadataStore:
        """Its access to the metadata."""
        ...


class OperatedCluster(Protocol):
    """Brokers of one process that can be stopped, killed and started one by one."""

    @property
    def cluster_id(self) -> str:
        """The name that they share."""
        ...

    @property
    def broker_ids(self) -> Sequence[int]:
        """All of them, running or not."""
        ...

    @property
    def brokers(self) -> Sequence[OperatedBroker]:
        """Those that run."""
        ...

    async def stop_broker(self, broker_id: int) -> None:
        """Stop a running broker in good order."""
        ...

    async def kill_broker(self, broker_id: int) -> None:
        """End a running broker without a word."""
        ...

    async def start_broker(self, broker_id: int) -> None:
        """Start a broker that does not run.

        Raises:
            OSError: its port is taken.
        """
        ...


@dataclass(frozen=True, slots=True)
class Member:
    """A broker of this process, running or not.

    Attributes:
        address: host and port, the last ones of a broker that does not run; None if it never ran.
    """

    broker_id: int
    state: State
    address: tuple[str, int] | None


@dataclass(frozen=True, slots=True)
class _Change:
    """A broker that is being stopped, killed or started; the task ends with it, whoever waits for it."""

    state: State
    doing: str
    task: asyncio.Task[None]


class ClusterControl:
    """Stops, kills and starts the brokers of a cluster, and elects leaders.

    Args:
        cluster: whose brokers.
        restart_time_limit_ms: see `rolling_restart`.
    """

    def __init__(self, cluster: OperatedCluster, *, restart_time_limit_ms: int = RESTART_TIME_LIMIT_MS) -> None:
        self._cluster = cluster
        self._restart_time_limit_ms = restart_time_limit_ms
        self._changes: dict[int, _Change] = {}
        self._addresses: dict[int, tuple[str, int]] = {}
        self._image = ClusterImage(version=-1, cluster_id=cluster.cluster_id)
        self._restarting = False
        self._look()

    @property
    def broker_ids(self) -> Sequence[int]:
        """All brokers, running or not."""
        return self._cluster.broker_ids

    @property
    def image(self) -> ClusterImage:
        """The newest metadata that a broker of this process has seen; while none runs, those that the last one saw."""
        self._look()
        return self._image

    @property
    def members(self) -> list[Member]:
        """All brokers, in the order of their ids."""
        self._look()
        states: dict[int, State] = {broker.broker_id: "running" for broker in self._cluster.brokers}
        states |= {broker_id: change.state for broker_id, change in self._changes.items()}
        return [Member(id_, states.get(id_, "stopped"), self._addresses.get(id_)) for id_ in self.broker_ids]

    def _look(self) -> None:
        """Remember what is known while a broker runs."""
        for broker in self._cluster.brokers:
            self._addresses[broker.broker_id] = broker.address
            self._see(broker.store.image)

    def _see(self, image: ClusterImage) -> None:
        if image.version > self._image.version:
            self._image = image

    # --- one broker ---

    async def stop_broker(self, broker_id: int, *, force: bool = False) -> None:
        """Stop a broker in good order; its records are gone with it.

        Args:
            broker_id: which one.
            force: stop it even if partitions go offline, and lose their records, by that.

        Raises:
            OperationRefused: it does not run, or is the last in-sync replica of a partition.
        """
        broker = self._running(broker_id)
        if not force:
            lost = self._last_in_sync(broker)
            if lost:
                raise OperationRefused(
                    f"broker {broker_id} is the last in-sync replica of {named(lost)}, which would go offline and lose "
                    "all records; it is stopped only by force"
                )
        await self._change(broker, "stopping", "being stopped", self._cluster.stop_broker)

    async def kill_broker(self, broker_id: int) -> None:
        """End a broker without a word, whatever is lost by it; the others learn of it when its lease runs out.

        Raises:
            OperationRefused: it does not run.
        """
        await self._change(self._running(broker_id), "stopping", "being killed", self._cluster.kill_broker)

    async def start_broker(self, broker_id: int) -> None:
        """Start a broker, with empty logs, where it was before; returns when it is registered.

        Raises:
            OperationRefused: it runs already, or its port is taken.
        """
        self._known(broker_id)
        if any(broker.broker_id == broker_id for broker in self._cluster.brokers):
            raise OperationRefused(f"broker {broker_id} is running already")
        try:
            await self._run(broker_id, "starting", "being started", self._cluster.start_broker(broker_id))
        except OSError as error:
            raise OperationRefused(f"broker {broker_id} cannot be started: {self._why(broker_id, error)}") from error

    def _why(self, broker_id: int, error: OSError) -> str:
        if error.errno == errno.EADDRINUSE and broker_id in self._addresses:
            return f"port {self._addresses[broker_id][1]} is in use"
        return os.strerror(error.errno).lower() if error.errno else str(error)

    def _known(self, broker_id: int) -> None:
        """Raise OperationRefused unless there is this broker and nothing is being done to it."""
        if broker_id not in self.broker_ids:
            raise NotThere(f"there is no broker {broker_id}, only {', '.join(map(str, self.broker_ids))}")
        change = self._changes.get(broker_id)
        if change is not None:
            raise OperationRefused(f"broker {broker_id} is {change.doing}")

    def _running(self, broker_id: int) -> OperatedBroker:
        self._known(broker_id)
        for broker in self._cluster.brokers:
            if broker.broker_id == broker_id:
                return broker
        raise OperationRefused(f"broker {broker_id} is not running")

    def _last_in_sync(self, broker: OperatedBroker) -> list[TopicPartition]:
        """The partitions that nobody could lead any more, if this broker left as well as those that are leaving."""
        before = after = self.image
        leaving = [broker_id for broker_id, change in self._changes.items() if change.state == "stopping"]
        settings = topic_settings(broker.config)
        for broker_id in (*leaving, broker.broker_id):
            registration = after.brokers.get(broker_id)
            if registration is not None:
                after, _ = unregister_broker(after, broker_id, registration.broker_epoch, settings=settings)
        return [tp for tp, state in _partitions(before) if _is_lost(state, after.partition(*tp))]

    async def _change(
        self,
        broker: OperatedBroker,
        state: State,
        doing: str,
        change: Callable[[int], Awaitable[None]],
    ) -> None:
        try:
            await self._run(broker.broker_id, state, doing, change(broker.broker_id))
        finally:
            self._see(broker.store.image)

    async def _run(self, broker_id: int, state: State, doing: str, change: Awaitable[None]) -> None:
        """Do something to a broker, to the end, even if whoever asked for it is gone: half of it would be neither."""

        async def run() -> None:
            try:
                await change
            finally:
                del self._changes[broker_id]

        self._look()
        task = asyncio.create_task(run(), name=f"broker {broker_id} {doing}")
        self._changes[broker_id] = _Change(state, doing, task)
        await asyncio.shield(task)

    async def close(self) -> None:
        """Wait until nothing is being done to any broker."""
        await asyncio.gather(*(change.task for change in self._changes.values()), return_exceptions=True)

    # --- all of them ---

    async def restart_brokers(self) -> None:
        """Restart the brokers in turn, without losing anything; see `rolling_restart`.

        Raises:
            OperationRefused: a broker does not run, a partition would lose its last in-sync replica, a restart is under
                way already, or a broker cannot be started again; brokers that had their turn have been restarted.
            NotInSync: replicas took too long to get everything again.
        """
        if self._restarting:
            raise OperationRefused("the brokers are being restarted already")
        down = [str(member.broker_id) for member in self.members if member.state != "running"]
        if down:
            raise OperationRefused(f"not all brokers are running: start {', '.join(down)} first")
        single = [tp for tp, state in _partitions(self.image) if len(state.replicas) == 1]
        if single:
            raise OperationRefused(f"there is one replica only, whose records a restart would lose, of {named(single)}")
        self._restarting = True
        try:
            await rolling_restart(self, time_limit_ms=self._restart_time_limit_ms)
        finally:
            self._restarting = False

    async def elect_leaders(
        self, topic: str | None = None, partition: int | None = None, *, unclean: bool = False
    ) -> list[ElectionResult]:
        """Elect the preferred leaders, or, uncleanly, leaders of partitions that have none.

        Args:
            topic: of which topic's partitions; None: of all topics'.
            partition: of this one only.
            unclean: let a replica lead that may lack acknowledged records, where no other one lives.

        Returns:
            A result for the partition that is named; otherwise for those that needed an election.

        Raises:
            NotThere: there is no such topic or partition.
            ClusterUnavailable: no broker runs, or its metadata store does not do it in time.
        """
        self._check_partition(topic, partition)
        broker = next((b for b in self._cluster.brokers if b.broker_id not in self._changes), None)
        if broker is None:
            raise ClusterUnavailable("no broker is running")
        election = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED
        settings = topic_settings(broker.config)

        def decide(image: ClusterImage) -> tuple[ClusterImage, tuple[ElectionResult, ...]]:
            of_topic = [tp for tp, _ in _partitions(image) if topic in (None, tp.topic)]
            wanted = [tp for tp in of_topic if partition in (None, tp.partition)]
            return elect_leaders(image, wanted, election, settings=settings)

        answer: asyncio.Future[tuple[ElectionResult, ...]] = asyncio.get_running_loop().create_future()
        broker.store.submit(
            decide,
            lambda results: None if answer.done() else answer.set_result(results),
            lambda error: None if answer.done() else answer.set_exception(error),
        )
        try:
            async with asyncio.timeout(ELECTION_TIME_LIMIT_MS / 1000):
                results = await answer
        except TimeoutError:
            raise ClusterUnavailable("the metadata store does not answer; leaders may be elected yet") from None
        except StoreError as error:
            raise ClusterUnavailable(f"no leader was elected: {error}") from error
        if unclean:
            _log_unclean(results)
        return [r for r in results if partition is not None or r.error != ErrorCode.ELECTION_NOT_NEEDED]

    def _check_partition(self, topic: str | None, partition: int | None) -> None:
        if topic is None:
            if partition is not None:
                raise OperationRefused("a partition was named without its topic")
        elif topic not in self.image.topics:
            raise NotThere(f"there is no topic {topic}")
        elif partition is not None and self.image.partition(topic, partition) is None:
            raise NotThere(f"topic {topic} has no partition {partition}")


def _is_lost(before: PartitionState, after: PartitionState | None) -> bool:
    """Whether a partition goes offline, or loses the last replica that could have led it again."""
    if after is None:
        return False
    goes_offline = before.leader != NO_LEADER and after.leader == NO_LEADER
    return goes_offline or (bool(before.isr + before.elr) and not after.isr + after.elr)


def _log_unclean(results: Iterable[ElectionResult]) -> None:
    for result in results:
        if result.error == ErrorCode.NONE and result.state is not None:
            logger.warning(
                "leader elected uncleanly: acknowledged records may be lost",
                partition=f"{result.topic}-{result.partition}",
                leader=result.state.leader,
                leader_epoch=result.state.leader_epoch,
            )
