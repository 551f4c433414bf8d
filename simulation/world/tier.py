"""The simulated object store of the tier, and the links of brokers' nodes to it, which faults slow down and cut.

The store outlives all brokers. A call takes time there and back. One that fails may have been done, or be done later,
also when its broker is dead by then, as a write whose connection is lost. Answers to reads may be short, or have other
bytes than were written; those to writes do not lie, and a list is that of its moment, as with S3.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from purgatorio.broker.tier.store import Exists, NotThere, Refused, StoredObject, Unavailable
from purgatorio.protocol.compression import Buffer
from purgatorio.simulation.world.loop import Node, SimulatedLoop

T = TypeVar("T")

LATENCY_MS: Final = (0.5, 20.0)
SLOW_MS: Final = (50.0, 1_500.0)
"""Up to more than remote.fetch.max.wait.ms."""
LATE_MS: Final = (0.0, 3_000.0)
"""How much later than its failure a call is done."""
REFUSED_OF_ERRORS: Final = 0.2


class SimulatedTier:
    """The objects, and what is wrong with the store for all brokers.

    Attributes:
        objects: their bytes, by their names.
        ever: the names of all objects that there have ever been.
        latency_ms: the range of the time that a message takes.
        errors: the probability that a call fails.
        lies: the probability that the answer to a read is short or has other bytes.
        written: are called with a node and the name of an object when the node has written it.
        changed_buffers: the names of objects whose bytes have changed while they were written.
    """

    def __init__(self, loop: SimulatedLoop, rng: random.Random) -> None:
        self.loop = loop
        self.rng = rng
        self.objects: dict[str, bytes] = {}
        self.ever: dict[str, None] = {}
        self.written: list[Callable[[Node, str], None]] = []
        self.changed_buffers: list[str] = []
        self._links: list[TierLink] = []
        self.heal()

    def heal(self) -> None:
        """Undo all faults."""
        self.latency_ms = LATENCY_MS
        self.errors = self.lies = 0.0
        for link in self._links:
            link.heal()

    def open(self, node: Node) -> TierLink:
        """Return the link of a node that has just begun."""
        self._links = [link for link in self._links if link.node.alive]
        link = TierLink(self, node)
        self._links.append(link)
        return link

    def links(self) -> Sequence[TierLink]:
        """Return the links of the nodes that are alive."""
        return [link for link in self._links if link.node.alive]

    def after(self, range_ms: tuple[float, float], callback: Callable[[], object]) -> None:
        """Call back in the world, after a time out of a range."""
        loop = self.loop
        loop.call_at(loop.time() + self.rng.uniform(*range_ms) / 1000, callback, context=loop.world)

    # --- what the store does ---

    def put(self, key: str, data: bytes, create: bool) -> None:
        if create and key in self.objects:
            raise Exists(f"there is {key} already")
        self.objects[key] = data
        self.ever[key] = None

    def get(self, key: str, start: int, length: int) -> bytes:
        if key not in self.objects:
            raise NotThere(f"there is no {key}")
        data = self.objects[key][start : start + length]
        if data and self.rng.random() < self.lies:
            at = self.rng.randrange(len(data))
            return data[:at] if self.rng.random() < 0.5 else data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        return data

    def list(self, prefix: str) -> Sequence[StoredObject]:
        return [StoredObject(key, len(self.objects[key])) for key in sorted(self.objects) if key.startswith(prefix)]

    def delete(self, key: str) -> None:
        self.objects.pop(key, None)


class TierLink:
    """The store as one node sees it: a `Store`. While it is cut, calls fail at once, or wait until it is healed."""

    location = "the simulated tier"

    def __init__(self, tier: SimulatedTier, node: Node) -> None:
        self.node = node
        self._tier = tier
        self._is_cut = False
        self._held: list[Callable[[], None]] = []

    def cut(self) -> None:
        """Hold every message to the store, and fail some of the calls."""
        self._is_cut = True

    def heal(self) -> None:
        """Let the held messages go."""
        self._is_cut = False
        held, self._held = self._held, []
        for send in held:
            send()

    async def put(self, key: str, parts: Sequence[Buffer], *, create: bool) -> None:
        data = b"".join(parts)

        def write() -> None:
            if not call.cancelled() and self.node.alive and b"".join(parts) != data:
                self._tier.changed_buffers.append(key)
            self._tier.put(key, data, create)
            for look in self._tier.written:
                look(self.node, key)

        call = self._begin(write)
        await call

    async def get(self, key: str, start: int, length: int) -> Buffer:
        return await self._begin(lambda: self._tier.get(key, start, length))

    async def list(self, prefix: str) -> Sequence[StoredObject]:
        return await self._begin(lambda: self._tier.list(prefix))

    async def delete(self, key: str) -> None:
        await self._begin(lambda: self._tier.delete(key))

    def _begin(self, act: Callable[[], T]) -> asyncio.Future[T]:
        """Send a call, and return the future of its answer."""
        tier, rng = self._tier, self._tier.rng
        answer: asyncio.Future[T] = tier.loop.create_future()
        if self._is_cut and rng.random() < 0.5:
            tier.after(LATENCY_MS, partial(self._answer, answer, None, Unavailable("no connection")))
            return answer

        def send() -> None:
            tier.after(tier.latency_ms, arrive)

        def arrive() -> None:
            if not self.node.alive and rng.random() < 0.5:
                return  # it died in the midst of sending
            if rng.random() < tier.errors:
                self._fail(act, answer)
                return
            try:
                result, error = act(), None
            except (Exists, NotThere) as failure:
                result, error = None, failure
            tier.after(tier.latency_ms, partial(self._answer, answer, result, error))

        if self._is_cut:
            self._held.append(send)
        else:
            send()
        return answer

    def _fail(self, act: Callable[[], object], answer: asyncio.Future[Any]) -> None:
        """Fail a call, which was not done, or is done at some time."""
        tier, error = self._tier, Refused("not now") if self._tier.rng.random() < REFUSED_OF_ERRORS else None
        if error is None and tier.rng.random() < 0.5:
            tier.after(LATE_MS, partial(_try, act))
        tier.after(tier.latency_ms, partial(self._answer, answer, None, error or Unavailable("503")))

    def _answer(self, answer: asyncio.Future[Any], result: object, error: Exception | None) -> None:
        """Bring an answer to the node, unless it is dead or does not wait any more."""

        def arrive() -> None:
            if answer.done():
                return
            if error is None:
                answer.set_result(result)
            else:
                answer.set_exception(error)

        self.node.call(arrive)


def _try(act: Callable[[], object]) -> None:
    try:
        act()
    except (Exists, NotThere):
        return
