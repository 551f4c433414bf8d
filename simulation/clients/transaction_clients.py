"""Simulated clients with transactions: writers to several partitions, which abort, dawdle, and come back as zombies,
and the read-process-write loop of a group's member: outputs and the offsets of their inputs in one transaction.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Final

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.client.group import GroupMembership
from purgatorio.simulation.clients.clients import ClientSlot, Output
from purgatorio.simulation.clients.consumers import SimulatedConsumer, Took
from purgatorio.simulation.clients.plans import TransactionShared, Value
from purgatorio.simulation.clients.transactional import Fenced, MustAbort, SentCounts, TransactionalProducer

MAX_INPUTS: Final = 100
"""The most records of one partition that a transaction processes; often it stops at fewer."""
MAX_BATCH: Final = 25
"""The most records of a batch: it has to fit into the smallest segment."""
ABORTS: Final = 0.1


class NotProcessed(Exception):
    """The transaction was aborted, or its end is not known: the member has to begin at its committed offsets again."""


class Transformer:
    """Makes an output record of each input record.

    Its transactional id is that of the member's place in the group; the next member there has it too.
    """

    def __init__(self, name: str, shared: TransactionShared, transactional_id: str, rng: random.Random) -> None:
        self._name = name
        self._shared = shared
        self._id = transactional_id
        self._rng = rng
        self._producer = self._instance(None)
        self._inputs: dict[TopicPartition, deque[tuple[int, int]]] = {}

    def _instance(self, sent: SentCounts | None) -> TransactionalProducer:
        shared = self._shared
        return TransactionalProducer(shared.new_client(self._name), self._id, shared.plan, shared.numbers, sent)

    @property
    def is_idle(self) -> bool:
        """Whether all that was read is processed."""
        return not any(self._inputs.values())

    def took(self, tp: TopicPartition) -> Took:
        """Return the function that receives what is read of a partition."""
        self._inputs[tp] = inputs = deque[tuple[int, int]]()
        return inputs.extend

    def forget(self, tp: TopicPartition) -> None:
        """Drop what was read of a partition and is not processed."""
        self._inputs.pop(tp, None)

    def close(self) -> None:
        """Close all connections."""
        self._producer.close()

    async def process(
        self, positions: Mapping[TopicPartition, int], committed: Mapping[TopicPartition, int], me: GroupMembership
    ) -> dict[TopicPartition, int]:
        """Process some of what was read up to `positions` in a transaction, and return the offsets that it committed.

        Raises:
            NotProcessed: nothing was committed, or that is not known.
        """
        limit = self._rng.randint(1, MAX_INPUTS) if self._shared.is_restless() else MAX_INPUTS
        taken = {tp: list(islice(self._inputs[tp], limit)) for tp in positions if tp in self._inputs}
        offsets = {
            tp: records[-1][0] + 1 if len(records) < len(self._inputs[tp]) else positions[tp]
            for tp, records in taken.items()
        }
        offsets = {tp: offset for tp, offset in offsets.items() if offset != committed.get(tp, 0)}
        if not offsets:
            return {}
        try:
            await self._producer.begin()
            await self._write(taken, offsets, me)
        except (MustAbort, Fenced) as error:
            await self._give_up(error)
            raise NotProcessed from error
        for tp, records in taken.items():
            inputs = self._inputs.get(tp, ())
            for _ in range(min(len(records), len(inputs))):
                self._inputs[tp].popleft()
        return offsets

    async def _write(
        self,
        taken: Mapping[TopicPartition, list[tuple[int, int]]],
        offsets: Mapping[TopicPartition, int],
        me: GroupMembership,
    ) -> None:
        outputs: dict[Output, list[Value]] = {}
        for source, records in taken.items():
            for offset, _ in records:
                output = self._rng.choice(self._shared.outputs)
                outputs.setdefault(output, []).append(Value(next(self._shared.values), (str(source), offset)))
        while outputs:
            await self._producer.send({output: values[:MAX_BATCH] for output, values in outputs.items()})
            outputs = {output: values[MAX_BATCH:] for output, values in outputs.items() if len(values) > MAX_BATCH}
        if self._shared.is_restless() and self._rng.random() < 0.03:
            await asyncio.sleep(self._rng.uniform(0.5, 1.3) * self._shared.plan.timeout_ms / 1000)
        await self._producer.send_offsets(offsets, me)
        if self._rng.random() < ABORTS and self._shared.is_restless():
            raise MustAbort("on purpose")
        await self._producer.commit()

    async def _give_up(self, error: MustAbort | Fenced) -> None:
        """Abort the transaction if it is open; after a fence go on as another instance of the producer."""
        fenced = isinstance(error, Fenced)
        if self._producer.is_open and not fenced:
            try:
                await self._producer.abort()
            except Fenced:
                fenced = True
        if fenced:
            self._producer.close()
            self._producer = self._instance(self._producer.sent)


COMMITS: Final = 0.8
"""The share of transactions that are committed; the others are aborted on purpose."""
MAX_ROUNDS: Final = 3
MAX_VALUES: Final = 3
"""The most values for one partition in a round."""
STEP_MS: Final = (0.0, 60.0)


@dataclass
class TransactionWriter:
    """One instance of a producer with a transactional id, with a reader of one of its partitions under read_committed.

    `succeed` starts another instance with the same transactional id.
    """

    producer: TransactionalProducer
    reader: SimulatedConsumer
    shared: TransactionShared
    rng: random.Random
    succeed: Callable[[], None]
    _has_successor: bool = False

    async def run(self, stopped: Callable[[], bool]) -> bool:
        """Write transactions until `stopped` or fenced; returns whether there is a successor already."""
        reading = asyncio.get_running_loop().create_task(self.reader.run(lambda: False))
        try:
            while not stopped() and not self._has_successor:
                await self._write()
                await asyncio.sleep(self.rng.uniform(*self.shared.pause_ms) / 1000)
        except Fenced:
            pass
        finally:
            reading.cancel()
            self.producer.close()
        return self._has_successor

    async def _write(self) -> None:
        await self.producer.begin()
        try:
            for _ in range(self.rng.randint(1, MAX_ROUNDS)):
                await self.producer.send(self._some_values())
                await self._dawdle()
            if self.rng.random() < COMMITS:
                await self.producer.commit()
                return
        except MustAbort:
            if not self.producer.is_open:
                return
        await self.producer.abort()

    def _some_values(self) -> dict[Output, list[Value]]:
        outputs, values = self.shared.outputs, self.shared.values
        chosen = self.rng.sample(outputs, self.rng.randint(1, len(outputs)))
        return {output: [Value(next(values)) for _ in range(self.rng.randint(1, MAX_VALUES))] for output in chosen}

    async def _dawdle(self) -> None:
        """Wait before the next step: sometimes until the transaction times out, or until there is a successor."""
        chance = self.rng.random() if self.shared.is_restless() else 1.0
        if chance < 0.02:
            await asyncio.sleep(1.3 * self.shared.plan.timeout_ms / 1000)
        elif chance < 0.06 and self.shared.plan.zombies and not self._has_successor:
            self._has_successor = True
            self.succeed()
            await asyncio.sleep(self.rng.uniform(0.0, 2.0))
        else:
            await asyncio.sleep(self.rng.uniform(*STEP_MS) / 1000)


class TransactionWriters:
    """The writers of a simulation, each transactional id as its own node."""

    def __init__(
        self, shared: TransactionShared, rng: random.Random, *, first: int, stopped: Callable[[], bool]
    ) -> None:
        self._shared = shared
        self._rng = rng
        self._stopped = stopped
        self.places = [
            ClientSlot(f"client-{first + nth}", partial(self._live, f"writer-{nth}"))
            for nth in range(shared.plan.writers)
        ]

    async def _live(self, transactional_id: str, place: ClientSlot) -> None:
        """Run one instance after the other, until one has a successor."""
        while not self._stopped():
            place.incarnations += 1
            if await self._writer(f"{place.name}.{place.incarnations}", transactional_id, place).run(self._stopped):
                return

    def _writer(self, name: str, transactional_id: str, place: ClientSlot) -> TransactionWriter:
        shared, rng = self._shared, random.Random(self._rng.random())
        tp = rng.choice(shared.partitions)
        reader = SimulatedConsumer(shared.new_client(name), tp, reader=replace(shared.reader, committed=True))
        producer = TransactionalProducer(shared.new_client(name), transactional_id, shared.plan, shared.numbers)

        def succeed() -> None:
            # Its context is that of the instance that it follows: both belong to one node.
            live = self._live(transactional_id, place)
            place.tasks.append(asyncio.get_running_loop().create_task(live, name=f"{place.name} follows {name}"))

        return TransactionWriter(producer, reader, shared, rng, succeed)
