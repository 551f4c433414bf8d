"""The read-process-write loop of a group's member: outputs and the offsets of their inputs in one transaction."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.simulation.clients.clients import Output
from purgatorio.simulation.clients.consumers import Took
from purgatorio.simulation.clients.transaction_plan import TransactionSurroundings
from purgatorio.simulation.clients.transaction_requests import Membership, Value
from purgatorio.simulation.clients.transactional import Fenced, MustAbort

MAX_INPUTS: Final = 100
"""The most records of one partition that a transaction processes; often it stops at fewer."""
MAX_BATCH: Final = 25
"""The most records of a batch: it has to fit into the smallest segment."""
ABORTS: Final = 0.1


class NotProcessed(Exception):
    """The transaction was aborted, or its end is not known: the member has to begin at its committed offsets again."""


class Transformer:
    """Makes an output record of each input record.

    Args:
        name: of the member's client.
        shared: what transactional clients share; the outputs are those that are written to.
        transactional_id: of the member's place in the group; the next member there has it too.
    """

    def __init__(self, name: str, shared: TransactionSurroundings, transactional_id: str, rng: random.Random) -> None:
        self._name = name
        self._shared = shared
        self._id = transactional_id
        self._rng = rng
        self._producer = shared.new_producer(name, transactional_id)
        self._inputs: dict[TopicPartition, deque[tuple[int, int]]] = {}

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
        self, positions: Mapping[TopicPartition, int], committed: Mapping[TopicPartition, int], membership: Membership
    ) -> dict[TopicPartition, int]:
        """Process some of what was read in a transaction, and return the offsets that it has committed.

        Args:
            positions: where the readers are.
            committed: the offsets that were committed before.

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
            await self._write(taken, offsets, membership)
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
        membership: Membership,
    ) -> None:
        outputs: dict[Output, list[Value]] = {}
        for source, offset in self._sources(taken):
            output = self._rng.choice(self._shared.outputs)
            outputs.setdefault(output, []).append(Value(next(self._shared.values), (str(source), offset)))
        while outputs:
            await self._producer.send({output: values[:MAX_BATCH] for output, values in outputs.items()})
            outputs = {output: values[MAX_BATCH:] for output, values in outputs.items() if len(values) > MAX_BATCH}
        if self._shared.is_restless() and self._rng.random() < 0.03:
            await asyncio.sleep(self._rng.uniform(0.5, 1.3) * self._shared.plan.timeout_ms / 1000)
        await self._producer.send_offsets(offsets, membership)
        if self._rng.random() < ABORTS and self._shared.is_restless():
            raise MustAbort("on purpose")
        await self._producer.commit()

    def _sources(self, taken: Mapping[TopicPartition, list[tuple[int, int]]]) -> Iterator[tuple[TopicPartition, int]]:
        return ((tp, offset) for tp, records in taken.items() for offset, _ in records)

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
            self._producer = self._shared.new_producer(self._name, self._id, self._producer.sent)
