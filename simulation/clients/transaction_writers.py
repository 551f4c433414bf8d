"""Simulated clients that write to several partitions in transactions; they abort, dawdle, and come back as zombies."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from purgatorio.simulation.clients.clients import Output
from purgatorio.simulation.clients.consumers import Consumer
from purgatorio.simulation.clients.transaction_plan import TransactionSurroundings
from purgatorio.simulation.clients.transaction_requests import Value
from purgatorio.simulation.clients.transactional import Fenced, MustAbort, TransactionalProducer
from purgatorio.simulation.world.cluster import SimulatedCluster

COMMITS: Final = 0.8
"""The share of transactions that are committed; the others are aborted on purpose."""
MAX_ROUNDS: Final = 3
MAX_VALUES: Final = 3
"""The most values for one partition in a round."""
STEP_MS: Final = (0.0, 60.0)


class TransactionWriter:
    """One instance of a producer with a transactional id, with a reader of one of its partitions under read_committed.

    Args:
        succeed: starts another instance with the same transactional id.
    """

    def __init__(
        self,
        producer: TransactionalProducer,
        reader: Consumer,
        shared: TransactionSurroundings,
        rng: random.Random,
        *,
        succeed: Callable[[], None],
    ) -> None:
        self._producer = producer
        self._reader = reader
        self._shared = shared
        self._rng = rng
        self._succeed = succeed
        self._has_successor = False

    async def run(self, stopped: Callable[[], bool]) -> bool:
        """Write transactions until `stopped` or fenced; returns whether there is a successor already."""
        reading = asyncio.get_running_loop().create_task(self._reader.run(lambda: False))
        try:
            while not stopped() and not self._has_successor:
                await self._write()
                await asyncio.sleep(self._rng.uniform(*self._shared.pause_ms) / 1000)
        except Fenced:
            pass
        finally:
            reading.cancel()
            self._producer.close()
        return self._has_successor

    async def _write(self) -> None:
        """Write one transaction."""
        await self._producer.begin()
        try:
            for _ in range(self._rng.randint(1, MAX_ROUNDS)):
                await self._producer.send(self._some_values())
                await self._dawdle()
            if self._rng.random() < COMMITS:
                await self._producer.commit()
                return
        except MustAbort:
            if not self._producer.is_open:
                return
        await self._producer.abort()

    def _some_values(self) -> dict[Output, list[Value]]:
        outputs, values = self._shared.outputs, self._shared.values
        chosen = self._rng.sample(outputs, self._rng.randint(1, len(outputs)))
        return {output: [Value(next(values)) for _ in range(self._rng.randint(1, MAX_VALUES))] for output in chosen}

    async def _dawdle(self) -> None:
        """Wait before the next step: sometimes until the transaction times out, or until there is a successor."""
        chance = self._rng.random() if self._shared.is_restless() else 1.0
        if chance < 0.02:
            await asyncio.sleep(1.3 * self._shared.plan.timeout_ms / 1000)
        elif chance < 0.06 and self._shared.plan.zombies and not self._has_successor:
            self._has_successor = True
            self._succeed()
            await asyncio.sleep(self._rng.uniform(0.0, 2.0))
        else:
            await asyncio.sleep(self._rng.uniform(*STEP_MS) / 1000)


@dataclass(slots=True)
class _Place:
    """One transactional id: its instances follow each other, after crashes and as zombies."""

    transactional_id: str
    incarnations: int = 0
    tasks: list[asyncio.Task[None]] = field(default_factory=list)


class TransactionWriters:
    """The writers of a simulation, each transactional id as its own node.

    Args:
        first: the number of the first client; the nodes are named ``client-7`` and so on.
        stopped: whether they shall come to an end.
    """

    def __init__(
        self,
        cluster: SimulatedCluster,
        shared: TransactionSurroundings,
        rng: random.Random,
        *,
        first: int,
        stopped: Callable[[], bool],
    ) -> None:
        self._cluster = cluster
        self._shared = shared
        self._rng = rng
        self._stopped = stopped
        self._places = {f"client-{first + nth}": _Place(f"writer-{nth}") for nth in range(shared.plan.writers)}

    @property
    def names(self) -> list[str]:
        """The names of the clients' nodes."""
        return list(self._places)

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """What has to end before they have come to an end."""
        return [task for place in self._places.values() for task in place.tasks]

    def start(self, name: str) -> None:
        """Start a client; if it was killed, the next one in its place."""
        place = self._places[name]
        place.tasks = [self._cluster.loop.node(name).spawn(self._live(name, place), name=name)]

    async def _live(self, name: str, place: _Place) -> None:
        """Run one instance after the other, until one has a successor."""
        while not self._stopped():
            place.incarnations += 1
            if await self._writer(f"{name}.{place.incarnations}", name, place).run(self._stopped):
                return

    def _writer(self, name: str, node: str, place: _Place) -> TransactionWriter:
        shared, rng = self._shared, random.Random(self._rng.random())
        tp = rng.choice(shared.partitions)
        reader = Consumer(
            shared.new_client(name),
            tp.topic,
            tp.partition,
            history=shared.history,
            clock=shared.clock,
            reader=replace(shared.reader, committed=True),
        )

        def succeed() -> None:
            # Its context is that of the instance that it follows: both belong to one node.
            task = asyncio.get_running_loop().create_task(self._live(node, place), name=f"{node} follows {name}")
            place.tasks.append(task)

        return TransactionWriter(
            shared.new_producer(name, place.transactional_id), reader, shared, rng, succeed=succeed
        )
