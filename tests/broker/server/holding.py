"""Measures for how long a request holds the event loop of a whole broker, in milliseconds of CPU."""

from __future__ import annotations

import asyncio
import random
import time
from typing import NamedTuple

from purgatorio.admin.cluster import Cluster
from purgatorio.broker.config.listeners import PLAINTEXT
from purgatorio.broker.metadata.controller import NewTopic, TopicSettings, create_topics
from purgatorio.broker.routing.listings import Listings
from purgatorio.broker.routing.request import Session
from purgatorio.broker.server.dispatch import Dispatcher
from purgatorio.broker.server.exchange import Exchange
from purgatorio.broker.server.limits import Refusal
from purgatorio.broker.time.long_work import LongWork, Steps

MAX_HOLD_MS = 25
BUSY_MACHINE = 1.4
"""How much longer the same work takes while other processes use the core's caches."""
REFERENCE_MS = 3.5
"""What `reference_ms` takes on the machine that the bounds were measured on."""
MAX_MEMORY_TIMES = 8
TRIES = 10
MAX_TURNS = 5_000
"""In which a request is answered, if it does not wait for anything."""
TURNS_AFTER_A_LOSS = 500
TURNS_AFTERWARDS = 80
"""In which all brokers see what a request has changed."""


class Cost(NamedTuple):
    """The longest hold of the event loop that a request caused, and what it was."""

    hold_ms: float
    title: str


class _Connection:
    """Takes the answer; counts no refusal as a failure."""

    closed = False

    def __init__(self, answers: Listings) -> None:
        self.session = Session(connection_id="c", listener="PLAINTEXT", host="192.0.2.7", peer="192.0.2.7:1")
        self.is_done = False
        self.answer_bytes = 0
        self._answers = answers

    def answered(self, exchange: Exchange) -> None:
        """Any answer will do."""
        self.is_done = True
        self.answer_bytes = exchange.answer_bytes

    def refused(self, exchange: Exchange, reason: Refusal, detail: str) -> None:
        assert reason is not Refusal.INTERNAL_ERROR, detail
        self.is_done = True

    def take_steps(self, steps: Steps) -> None:
        self._answers.begin(steps, self.session)


class Target:
    """A broker that gets frames without a socket; it creates no topics, whose cost depends on their number."""

    def __init__(self, cluster: Cluster) -> None:
        self._dispatcher = Dispatcher(cluster.brokers[0].listeners[PLAINTEXT]._routes)
        self._cluster = cluster
        self._holds_ms: list[float] = []
        self._answers = Listings(LongWork(asyncio.get_running_loop().call_soon).of_owner())
        run = asyncio.Handle._run

        def timed(handle: asyncio.Handle) -> None:
            began = time.thread_time()
            run(handle)
            self._holds_ms.append((time.thread_time() - began) * 1_000)

        self.timed = timed

    async def create(self, topic: str, partitions: int, configs: dict[str, str]) -> None:
        """Create a topic, and wait until this broker leads it."""
        await self._create([NewTopic(topic, partitions, 1, configs=configs)])

    async def create_many(self, topics: list[str]) -> None:
        """Create topics of one partition, and wait until this broker leads them."""
        await self._create([NewTopic(topic, 1, 1) for topic in topics])

    def topic_id(self, topic: str) -> bytes:
        """Return a topic's id."""
        return self._cluster.brokers[0].image.topics[topic].topic_id

    def lock_count(self, group_id: str) -> int:
        """Return under how many locks members of a share group have records."""
        return sum(len(share.locks()) for share in self._cluster.brokers[0].led_shares.partitions.of_group(group_id))

    async def _create(self, new: list[NewTopic]) -> None:
        broker = self._cluster.brokers[0]
        broker.store.submit(
            lambda image: create_topics(image, new, settings=TopicSettings(), rng=random.Random(1)), lambda _: None
        )
        names, count = {each.name for each in new}, sum(each.num_partitions for each in new)

        def led_count() -> int:
            return sum(replica.is_leader for tp, replica in broker.replicas.partitions.items() if tp.topic in names)

        while led_count() < count:  # noqa: ASYNC110 - only turns of the loop are waited for
            await asyncio.sleep(0)

    def send(self, frame: bytes) -> float:
        """Dispatch a frame, and return for how long that held the loop, in milliseconds of CPU."""
        return self._send(frame, _Connection(self._answers))

    def _send(self, frame: bytes, connection: _Connection) -> float:
        began = time.thread_time()
        self._dispatcher.dispatch(frame, Exchange(connection, len(frame), 0.0), connection.session, 0)
        return (time.thread_time() - began) * 1_000

    async def _begin(self, frame: bytes, connection: _Connection) -> float:
        """Send a frame, let a turn pass, and note no other holds than those of what follows from the frame."""
        await asyncio.sleep(0)
        self._holds_ms.clear()
        held_ms = self._send(frame, connection)
        await asyncio.sleep(0)
        del self._holds_ms[:1]  # that of this method, which sent the frame
        return held_ms

    def connect(self) -> _Connection:
        """Return a connection for several requests."""
        return _Connection(self._answers)

    def send_on(self, frame: bytes, connection: _Connection) -> None:
        """Send a frame, and wait for nothing."""
        connection.is_done = False
        self._holds_ms.append(self._send(frame, connection))

    async def settle(self, seconds: float) -> float:
        """Let time pass; return the longest hold of it and of what was sent before."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:  # noqa: ASYNC110 - time passes, whatever happens
            await asyncio.sleep(0.001)
        return max(self._holds_ms)

    async def lose(self, connection: _Connection) -> float:
        """Close a connection; return the longest hold that follows from it, in milliseconds."""
        await asyncio.sleep(0)
        self._holds_ms.clear()
        began = time.thread_time()
        connection.session.lost()
        held_ms = (time.thread_time() - began) * 1_000
        await asyncio.sleep(0)
        del self._holds_ms[:1]
        for _ in range(TURNS_AFTER_A_LOSS):
            await asyncio.sleep(0)
        return max([held_ms, *self._holds_ms])

    async def answer(self, frame: bytes, connection: _Connection | None = None) -> tuple[float, int]:
        """Send a frame, and wait for its answer, or until no more is done for it.

        Args:
            connection: from `connect`; None: a new one.

        Returns:
            The longest hold until then, in milliseconds, and the bytes of the answer.
        """
        connection = connection or _Connection(self._answers)
        connection.is_done = False
        held_ms = await self._begin(frame, connection)
        for _ in range(MAX_TURNS):
            if connection.is_done:
                break
            await asyncio.sleep(0)
        for _ in range(TURNS_AFTERWARDS):
            await asyncio.sleep(0)
        return max([held_ms, *self._holds_ms]), connection.answer_bytes

    async def hold_ms(self, frame: bytes) -> float:
        """Send a frame a few times; return the longest hold that it causes, now or in the next turns of the loop."""
        best_ms = float("inf")
        for _ in range(TRIES):
            held_ms = await self._begin(frame, _Connection(self._answers))
            for _ in range(8):
                await asyncio.sleep(0)
            best_ms = min(best_ms, max([held_ms, *self._holds_ms]))
            if best_ms <= MAX_HOLD_MS * 0.8:
                break
        return best_ms


def reference_ms() -> float:
    """Return what a fixed piece of Python takes here: as a request, it makes objects and looks them up."""

    def work() -> float:
        began = time.thread_time()
        made = {(f"{number}", number): [number] for number in range(8_000)}
        assert sum(made[f"{number}", number][0] for number in range(8_000))
        return (time.thread_time() - began) * 1_000

    return min(work() for _ in range(TRIES))


def assert_within_bound(cost: Cost) -> None:
    slower = max(1.0, reference_ms() / REFERENCE_MS)
    assert cost.hold_ms < MAX_HOLD_MS * BUSY_MACHINE * slower, (cost, f"on a machine {slower:.2f} times slower")
