"""Records that the world itself produces: unique values, idempotently, sent again until brokers acknowledge them."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable, Iterator
from typing import Final

from purgatorio.late import dataclass
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch
from purgatorio.purgatory.clock import Clock
from purgatorio.simulation.clients.clients import Client, Output, SimulatedProducer
from purgatorio.simulation.history.history import Acked, History, Sent, Unknown
from purgatorio.testing.simulate.journal import Journal

DELIVERY_TIMEOUT_MS: Final = 600_000
"""How long the world sends a value again; longer than any fault."""

Encode = Callable[[int], bytes]


@dataclass(frozen=True, slots=True)
class Payloads(Output):
    """An output whose records have the keys and values that the scenario wants."""

    encode: Encode = lambda number: str(number).encode()
    key: Callable[[int], bytes | None] = lambda number: None

    def batch(
        self,
        values: list[int],
        wall_ms: int,
        *,
        producer: tuple[int, int],
        sequence: int,
        transactional: bool = False,
    ) -> bytes:
        records = [Record(nth, wall_ms, self.key(value), self.encode(value), ()) for nth, value in enumerate(values)]
        return build_batch(
            records,
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=sequence if producer[0] >= 0 else -1,
        )


class Feed:
    """Produces values that are unique in its world: 0, 1, 2 …

    Attributes:
        history: sends and their outcomes, by partition.
    """

    def __init__(self, bootstrap: list[tuple[str, int]], clock: Clock, rng: random.Random, journal: Journal) -> None:
        self.history = History()
        self.busy = 0
        self._bootstrap = bootstrap
        self._clock = clock
        self._rng = rng
        self._journal = journal
        self._numbers = itertools.count()
        self._clients = itertools.count(1)

    @property
    def acked(self) -> list[int]:
        """The values that brokers acknowledged, in the order of sending."""
        acked = {event.value for event in self.history.of(Acked)}
        return [event.value for event in self.history.of(Sent) if event.value in acked]

    @property
    def partitions(self) -> dict[int, str]:
        """The partition that each value was sent to."""
        return {event.value: event.partition for event in self.history.of(Sent)}

    @property
    def unknown(self) -> list[int]:
        """The values that may have been written or not."""
        return [event.value for event in self.history.of(Unknown)]

    async def produce(self, outputs: list[Payloads], count: int, over_seconds: float) -> list[int]:
        """Send so many values, in turn to these outputs and spread over some virtual time; return them.

        It returns when all are acknowledged. The values of one partition are sent in order.
        """
        values = [next(self._numbers) for _ in range(count)]
        shares = [values[nth :: len(outputs)] for nth in range(len(outputs))]
        self.busy += 1
        try:
            async with asyncio.TaskGroup() as sending:
                for output, share in zip(outputs, shares, strict=True):
                    if share:
                        sending.create_task(self._send(output, share, over_seconds))
        finally:
            self.busy -= 1
        return values

    async def _send(self, output: Payloads, values: list[int], over_seconds: float) -> None:
        left = list(values)

        def take() -> Iterator[int]:
            while left:
                yield left.pop(0)

        name, rng = f"world-{next(self._clients)}", random.Random(self._rng.random())
        client = Client(name, self._bootstrap, clock=self._clock, rng=rng, history=self.history)
        producer = SimulatedProducer(
            client,
            output,
            acks=-1,
            values=take(),
            delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
            pause_ms=(0.0, 2_000 * over_seconds / len(values)),
        )
        await producer.run(lambda: not left)
        self._journal.record("world", "sent", f"{len(values)} records to {output.name} are acknowledged")
