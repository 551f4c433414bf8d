"""The world of a scenario: brokers, services, what they read and write, and the end of all faults."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from purgatorio.admin.operations.reading.records import check_isolation_level
from purgatorio.broker.config.by_room import topic_settings
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.controller import NewTopic, create_topics
from purgatorio.broker.metadata.image import NO_LEADER
from purgatorio.broker.metadata.store import decide
from purgatorio.broker.replica.partition import Partition
from purgatorio.simulation.world.cluster import SimulatedCluster
from purgatorio.simulation.world.loop import SimulatedClock
from purgatorio.testing.records import read_records
from purgatorio.testing.simulate import checks
from purgatorio.testing.simulate.faults import Faults, Plan
from purgatorio.testing.simulate.feed import Encode, Feed, Payloads
from purgatorio.testing.simulate.journal import Journal
from purgatorio.testing.simulate.service import Failed, Main, Process
from purgatorio.testing.simulate.settling import PATIENCE_SECONDS, QUIET_SECONDS, Settling
from purgatorio.testing.simulate.store import Store
from purgatorio.testing.values import IsolationLevel, Record

LOOK_SECONDS: Final = 0.01
SETTLE_LIMIT_SECONDS: Final = 300.0
"""The virtual time that a world has to come to rest after its faults."""


class World:
    """A scenario's handle on its run. No fault affects the scenario itself: it is not one of the simulated processes.

    Attributes:
        bootstrap: the brokers' addresses, for a client's `bootstrap_servers`.
        bootstrap_servers: the same as a list, for clients that want one.
        store: tables that outlive the services.
        journal: what has happened so far.
    """

    def __init__(
        self,
        cluster: SimulatedCluster,
        *,
        journal: Journal,
        streams: Callable[[str], random.Random],
        failed: Failed,
        ending: Callable[[], None],
        seconds: float,
    ) -> None:
        self.journal = journal
        self.store = Store(journal, streams("store"))
        self.bootstrap_servers = [f"{host}:{port}" for host, port in cluster.addresses]
        self.bootstrap = ",".join(self.bootstrap_servers)
        self._cluster = cluster
        self._clock = SimulatedClock(cluster.loop)
        self._began_seconds = cluster.loop.time()
        self._rng = streams("topics")
        self._failed = failed
        self._ending = ending
        self._seconds = seconds
        self._processes: list[Process] = []
        self._feed = Feed(cluster.addresses, self._clock, streams("feed"), journal)
        self._faults = Faults(cluster, lambda: self._processes, journal)
        self._faulting: asyncio.Task[None] | None = None
        self._settling = Settling(cluster, lambda: self.store.changes)

    # --- time ---

    @property
    def seconds(self) -> float:
        """Virtual seconds since the scenario began."""
        return self._cluster.loop.time() - self._began_seconds

    def now(self) -> datetime:
        """Return the virtual date and time, in UTC."""
        return datetime.fromtimestamp(self._clock.wall_ms() / 1000, UTC)

    # --- topics and records ---

    async def topic(self, name: str, *, partitions: int = 1, **configs: object) -> str:
        """Create a topic, of three replicas or as many as there are brokers; return its name when it has leaders.

        Args:
            configs: topic configs by Kafka's names, with underscores for dots: ``cleanup_policy="compact"``.

        Raises:
            ValueError: the brokers refuse it.
        """
        named = {key.replace("_", "."): str(value) for key, value in configs.items()}
        new = NewTopic(name, partitions, min(3, len(self._cluster.broker_ids)), configs=named)
        broker = next(iter(self._cluster.brokers.values()))
        settings = topic_settings(broker.config)
        (result,) = await decide(
            self._cluster.store.open(), lambda image: create_topics(image, [new], settings=settings, rng=self._rng)
        )
        if result.error:
            raise ValueError(f"topic {name!r} was not created: {result.message or result.error.name}")
        while not self._has_leaders(name):  # noqa: ASYNC110 - seen from outside
            await asyncio.sleep(LOOK_SECONDS)
        return name

    def _has_leaders(self, name: str) -> bool:
        return all(
            (topic := broker.image.topics.get(name)) is not None
            and all(state.leader != NO_LEADER for state in topic.partitions)
            for broker in self._cluster.brokers.values()
        )

    async def produce(
        self,
        topic: str,
        count: int,
        *,
        value: Encode = lambda number: str(number).encode(),
        key: Callable[[int], bytes | None] = lambda number: None,
        seconds: float | None = None,
    ) -> list[int]:
        """Produce records with unique values, in turn to all partitions, while faults happen; return their numbers.

        Every record is sent until brokers acknowledge it, once, and those of a partition in their order.

        Args:
            value, key: make the bytes of a record from its number; numbers are unique in the world.
            seconds: the virtual time that they are spread over; by default, that of all faults.

        Raises:
            ValueError: there is no such topic.
        """
        outputs = [Payloads(topic, index, encode=value, key=key) for index in range(self._partition_count(topic))]
        return await self._feed.produce(outputs, count, self._seconds if seconds is None else seconds)

    def records(
        self, topic: str, partition: int | None = None, *, isolation_level: IsolationLevel = "read_uncommitted"
    ) -> list[Record]:
        """Return the committed records of a topic, by partition and offset, without a client; after `settle`.

        Args:
            isolation_level: "read_committed" leaves out the records of transactions that were aborted or are open.

        Raises:
            ValueError: the topic or partition does not exist, or has no leader now; or there is no such level.
        """
        check_isolation_level(isolation_level)
        partitions = range(self._partition_count(topic)) if partition is None else (partition,)
        return [each for index in partitions for each in read_records(self._led(topic, index), isolation_level)]

    def _partition_count(self, topic: str) -> int:
        found = self._cluster.image.topics.get(topic)
        if found is None:
            raise ValueError(f"there is no topic {topic!r}: name it in `topics`, or create it with `world.topic`")
        return len(found.partitions)

    def _led(self, topic: str, partition: int) -> Partition:
        state = self._cluster.partitions.get((topic, partition))
        broker = None if state is None else self._cluster.brokers.get(state.leader)
        replica = None if broker is None else broker.replicas.partitions.get(TopicPartition(topic, partition))
        if replica is None:
            raise ValueError(f"{topic}-{partition} has no leader now")
        return replica

    # --- services ---

    def service(
        self, name: str, main: Main, /, *args: Any, replicas: int = 1, restarts: bool = False, **options: Any
    ) -> None:
        """Run a service: ``main(*args, **options)`` in a process of its own, again after each kill.

        The process ends when `main` returns. If it raises, the seed fails.

        Args:
            name: the process is called so, or name-1, name-2 … if there are several.
            replicas: how many such processes run.
            restarts: whether a process that raises is started again after a second, as a supervisor does.

        Raises:
            ValueError: there is a service of this name.
        """
        names = [name] if replicas == 1 else [f"{name}-{nth}" for nth in range(1, replicas + 1)]
        taken = {process.name for process in self._processes}
        for each in names:
            if each in taken:
                raise ValueError(f"there is a service {each!r} already")
            process = Process(
                self._cluster.loop,
                each,
                partial(main, *args, **options),
                restarts=restarts,
                journal=self.journal,
                failed=self._failed,
                ending=self._ending,
            )
            self._processes.append(process)
            process.start()

    # --- faults ---

    def begin(self, plan: Plan) -> None:
        """Begin the faults of a plan. The run does so when the scenario begins."""
        self._faulting = self._cluster.loop.create_task(self._faults.run(plan), name="faults")

    async def settle(self, *, quiet_seconds: float = QUIET_SECONDS, patience_seconds: float = PATIENCE_SECONDS) -> None:
        """End all faults, start what was killed, and wait until everything that was produced has been worked on.

        That is: every replica is in sync, groups are stable and have committed all that there is, and for a while no
        service has stored or produced anything. Work in between is not seen: a record whose offset is committed first,
        and that is worked on for longer than that while, is still worked on when this returns, and a check would call
        it lost.

        Args:
            quiet_seconds: that while, in virtual time: longer than a service works on a record, or on all that it has
                polled if it stores that together.
            patience_seconds: the same if a group has not committed everything; some services never do.

        Raises:
            TimeoutError: services still work after minutes of virtual time.
        """
        self._faults.end()
        if self._faulting is not None:
            await self._faulting
        while self._feed.busy:  # noqa: ASYNC110 - the scenario may produce in tasks of its own
            await asyncio.sleep(LOOK_SECONDS)
        lag = await self._settling.wait(
            quiet_seconds=quiet_seconds, patience_seconds=patience_seconds, limit_seconds=SETTLE_LIMIT_SECONDS
        )
        self.journal.record("world", "world", "is at rest" + (f", though {lag}" if lag else ""))

    def stop(self) -> None:
        """End all faults and services at once."""
        self._faults.end()
        if self._faulting is not None:
            self._faulting.cancel()
        for process in self._processes:
            process.kill()

    # --- checks ---

    def check(self, name: str, arrived: Iterable[Any], *, of: Callable[[Any], object] = lambda row: row) -> None:
        """Compare what arrived with what the world produced.

        Args:
            name: "lost" (a value did not arrive), "duplicates" (it arrived twice), "unexpected" (it was not sent),
                "exactly-once" (all of these), "order" (within a partition).
            arrived: a table of the store, or any rows.
            of: returns the number of the record that a row came from, as a number, text or bytes.

        Raises:
            CheckFailed: it found a violation.
            ValueError: there is no check of this name.
        """
        checks.check(
            name,
            checks.Arrived(
                sent=[str(number) for number in self._feed.acked],
                maybe=frozenset(map(str, self._feed.unknown)),
                arrived=[checks.text_of(of(row)) for row in arrived],
                partitions={str(number): partition for number, partition in self._feed.partitions.items()},
            ),
        )


Topics = Mapping[str, int]
"""Topics to create at the start, with their numbers of partitions."""
