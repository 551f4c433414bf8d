"""Changes a running cluster: stops, kills and starts brokers, restarts them in turn, elects leaders.

`ClusterControl` decides whether the cluster may do it, and lets the cluster do it. Logs are in memory, so a broker that
stops loses its replicas: the last in-sync replica of a partition is stopped only by force, and a rolling restart lets
each broker fetch its replicas again before the next one stops.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, Final, Literal

from purgatorio.broker.cluster.cluster import BrokerCluster
from purgatorio.broker.cluster.decisions import decided
from purgatorio.broker.cluster.errors import ClusterUnavailable, MayBeDone, NotThere, OperationRefused, named, no_broker
from purgatorio.broker.cluster.restart import partitions_of, rolling_restart
from purgatorio.broker.config.by_room import topic_settings
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.controller import ElectionResult, ElectionType, elect_leaders, unregister_broker
from purgatorio.broker.metadata.image import NO_LEADER, ClusterImage, PartitionState
from purgatorio.broker.node.broker import Broker
from purgatorio.late import dataclass
from purgatorio.logger import get_logger
from purgatorio.protocol.errors import ErrorCode
from purgatorio.purgatory.clock import Clock, time_limit

ELECTION_TIME_LIMIT_MS: Final = 5_000
"""Time that the metadata store has for an election; in one process it takes a few turns of the event loop."""

logger = get_logger(__name__)

State = Literal["running", "stopping", "starting", "stopped"]


@dataclass(frozen=True, slots=True)
class KnownBroker:
    """A broker of this process, running or not.

    Attributes:
        address: host and port, of a stopped broker the last ones; None if it never ran.
    """

    broker_id: int
    state: State
    address: tuple[str, int] | None


class ClusterControl:
    """Stops, kills and starts the brokers of a cluster, and elects leaders."""

    def __init__(self, cluster: BrokerCluster) -> None:
        self._cluster = cluster
        self._changes: dict[int, tuple[State, str]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._addresses: dict[int, tuple[str, int]] = {}
        self._image = ClusterImage(version=-1, cluster_id=cluster.cluster_id)
        self._restarting = False
        self._look()

    @property
    def clock(self) -> Clock:
        """The clock of all brokers."""
        return self._cluster.clock

    @property
    def broker_ids(self) -> Sequence[int]:
        """The ids of all brokers, running or not."""
        return self._cluster.broker_ids

    @property
    def image(self) -> ClusterImage:
        """The newest metadata that a broker of this process has seen; if none runs, the last ones seen."""
        self._look()
        return self._image

    @property
    def members(self) -> list[KnownBroker]:
        """All brokers by ascending id."""
        self._look()
        states: dict[int, State] = {broker.broker_id: "running" for broker in self._cluster.brokers}
        states |= {broker_id: state for broker_id, (state, _) in self._changes.items()}
        return [KnownBroker(id_, states.get(id_, "stopped"), self._addresses.get(id_)) for id_ in self.broker_ids]

    def _look(self) -> None:
        """Remember the addresses and the newest metadata of the running brokers."""
        for broker in self._cluster.brokers:
            self._addresses[broker.broker_id] = broker.address
            self._see(broker.store.image)

    def _see(self, image: ClusterImage) -> None:
        if image.version > self._image.version:
            self._image = image

    # --- one broker ---

    async def stop_broker(self, broker_id: int, *, force: bool = False) -> None:
        """Stop a broker in good order; its logs are lost.

        Args:
            force: stop it even if partitions go offline and lose their records.

        Raises:
            OperationRefused: it is not running, or it is the last in-sync replica of a partition.
        """
        broker = self._running(broker_id)
        if not force:
            lost = self._last_in_sync(broker)
            if lost:
                raise OperationRefused(
                    f"broker {broker_id} is the last in-sync replica of {named(lost)}, which would go offline and lose "
                    "all records; only --force (over HTTP: force) stops it"
                )
        await self._change(broker, "stopping", "being stopped", self._cluster.stop_broker)

    async def kill_broker(self, broker_id: int) -> None:
        """End a broker as a crash would, even if records are lost; the others notice when its lease runs out.

        Raises:
            OperationRefused: it is not running.
        """
        await self._change(self._running(broker_id), "stopping", "being killed", self._cluster.kill_broker)

    async def start_broker(self, broker_id: int) -> None:
        """Start a broker with empty logs at its former address; returns when it is registered.

        Raises:
            OperationRefused: it is running, or its port is in use.
        """
        self._known(broker_id)
        if any(broker.broker_id == broker_id for broker in self._cluster.brokers):
            raise OperationRefused(f"broker {broker_id} is already running")
        try:
            await self._run(broker_id, "starting", "being started", self._cluster.start_broker(broker_id))
        except OSError as error:
            raise OperationRefused(f"broker {broker_id} cannot be started: {self._why(broker_id, error)}") from error

    async def add_broker(self, rack: str | None) -> int:
        """Start one more broker, in this rack or the next one of the setting; return its id when it is registered.

        Raises:
            OperationRefused: a broker is being stopped or started, there are as many as there may be, or the port is in
                use.
        """
        added: list[int] = []

        async def add() -> None:
            added.append(await self._cluster.add_broker(rack))

        try:
            await self.complete(add())
        except OSError as error:
            raise OperationRefused(
                f"no broker can be added: {os.strerror(error.errno).lower() if error.errno else error}"
            ) from error
        return added[0]

    def _why(self, broker_id: int, error: OSError) -> str:
        if error.errno == errno.EADDRINUSE and broker_id in self._addresses:
            return f"port {self._addresses[broker_id][1]} is in use"
        return os.strerror(error.errno).lower() if error.errno else str(error)

    def _known(self, broker_id: int) -> None:
        """Raise OperationRefused unless the broker exists and no operation on it is under way."""
        if broker_id not in self.broker_ids:
            raise no_broker(broker_id, self.broker_ids)
        if broker_id in self._changes:
            raise OperationRefused(f"broker {broker_id} is {self._changes[broker_id][1]}")

    def _running(self, broker_id: int) -> Broker:
        self._known(broker_id)
        for broker in self._cluster.brokers:
            if broker.broker_id == broker_id:
                return broker
        raise OperationRefused(f"broker {broker_id} is not running")

    def _last_in_sync(self, broker: Broker) -> list[TopicPartition]:
        """The partitions that no broker could lead after this broker and those that are stopping have left."""
        before = after = self.image
        leaving = [broker_id for broker_id, (state, _) in self._changes.items() if state == "stopping"]
        settings = topic_settings(broker.config)
        for broker_id in (*leaving, broker.broker_id):
            registration = after.brokers.get(broker_id)
            if registration is not None:
                after, _ = unregister_broker(after, broker_id, registration.broker_epoch, settings=settings)
        return [tp for tp, state in partitions_of(before) if _is_lost(state, after.partition(*tp))]

    async def _change(self, broker: Broker, state: State, doing: str, change: Callable[[int], Awaitable[None]]) -> None:
        try:
            await self._run(broker.broker_id, state, doing, change(broker.broker_id))
        finally:
            self._see(broker.store.image)

    async def _run(self, broker_id: int, state: State, doing: str, change: Awaitable[None]) -> None:
        async def run() -> None:
            try:
                await change
            finally:
                del self._changes[broker_id]

        self._look()
        self._changes[broker_id] = (state, doing)
        await self.complete(run())

    async def complete(self, change: Coroutine[Any, Any, None]) -> None:
        """Run a change to completion even if the caller is cancelled; a half-stopped broker would be of no use."""
        task = asyncio.create_task(change, name="change of the cluster")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_log_failure)
            raise

    async def close(self) -> None:
        """Wait until all changes that are under way have ended."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # --- all of them ---

    async def restart_brokers(self) -> None:
        """Restart the brokers one after the other without losing records; see `rolling_restart`.

        Raises:
            OperationRefused: a broker is not running, a partition has one replica only, another restart is under way,
                or a broker cannot be started again; the brokers before that one were restarted.
            NotInSync: replicas were not in sync in time; the brokers that follow were not touched.
        """
        if self._restarting:
            raise OperationRefused("a rolling restart is already under way")
        down = [str(member.broker_id) for member in self.members if member.state != "running"]
        if down:
            raise OperationRefused(f"not all brokers are running: start {', '.join(down)} first")
        single = [tp for tp, state in partitions_of(self.image) if len(state.replicas) == 1]
        if single:
            raise OperationRefused(
                f"a restart would lose the records of partitions with one replica only: {named(single)}"
            )
        self._restarting = True
        try:
            await rolling_restart(self)
        finally:
            self._restarting = False

    async def elect_leaders(
        self, topic: str | None = None, partition: int | None = None, *, unclean: bool = False
    ) -> list[ElectionResult]:
        """Elect the preferred replicas as leaders or, uncleanly, any live replica where there is no leader.

        Args:
            topic: elect leaders of this topic's partitions; None: of all topics' partitions.
            partition: elect the leader of this partition of the topic only.
            unclean: if a partition has no leader, elect a live replica that may lack acknowledged records.

        Returns:
            The result for the partition if one is named, otherwise for all partitions that needed an election.

        Raises:
            NotThere: there is no such topic or partition.
            ClusterUnavailable: no broker runs, or the metadata store does not answer in time.
        """
        self._check_partition(topic, partition)
        able = [b for b in self._cluster.brokers if b.broker_id not in self._changes]
        broker = next((b for b in able if self._cluster.network.reaches_store(b.broker_id)), None)
        if broker is None:
            raise ClusterUnavailable("no broker is running" + (" that reaches the metadata" if able else ""))
        election = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED
        settings = topic_settings(broker.config)

        def decide(image: ClusterImage) -> tuple[ClusterImage, tuple[ElectionResult, ...]]:
            of_topic = [tp for tp, _ in partitions_of(image) if topic in (None, tp.topic)]
            wanted = [tp for tp in of_topic if partition in (None, tp.partition)]
            return elect_leaders(image, wanted, election, settings=settings)

        try:
            async with time_limit(self._cluster.clock, ELECTION_TIME_LIMIT_MS):
                results = await decided(broker.store, decide, "no leader was elected")
        except TimeoutError:
            raise MayBeDone("the metadata store does not answer; it may elect leaders later") from None
        if unclean:
            _log_unclean(results)
        return [r for r in results if partition is not None or r.error != ErrorCode.ELECTION_NOT_NEEDED]

    def _check_partition(self, topic: str | None, partition: int | None) -> None:
        if topic is None:
            if partition is not None:
                raise OperationRefused("a partition needs the name of its topic")
        elif topic not in self.image.topics:
            raise NotThere(f"there is no topic {topic}")
        elif partition is not None and self.image.partition(topic, partition) is None:
            raise NotThere(f"topic {topic} has no partition {partition}")


def _log_failure(task: asyncio.Task[None]) -> None:
    """Log why a change was not done that has no caller left."""
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.warning("a change of the cluster failed after its client was gone", why=str(error))


def _is_lost(before: PartitionState, after: PartitionState | None) -> bool:
    """Whether a partition goes offline, or loses its last replica that could lead it again."""
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
