"""The common part of all clients of scenes: a Kafka client, facts, and a life of attempts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median_low
from typing import Any, Final, NamedTuple

from purgatorio.broker.server.peer import PeerBusy, PeerConnection, open_peer
from purgatorio.client.client import FAILURES, RETRY_MS, KafkaClient
from purgatorio.client.link import Address
from purgatorio.purgatory import Purgatory
from purgatorio.purgatory.clock import Clock

CONNECT_TIMEOUT_MS: Final = 2_000
LAST: Final = 9
"""The latest durations of which a figure is the median."""

Fact = int | str


class Stage(NamedTuple):
    """The cluster, as a client gets it.

    Attributes:
        addresses: returns where the running brokers listen.
        purgatory: returns one for timers of the scene's own.
    """

    clock: Clock
    addresses: Callable[[], Sequence[Address]]
    purgatory: Callable[[], Purgatory[Any]]


class Client(KafkaClient[PeerConnection], ABC):
    """A client of a scene.

    Args:
        name: its client id.

    Attributes:
        facts: what it has seen, for figures.
    """

    def __init__(self, stage: Stage, name: str) -> None:
        super().__init__(partial(open_peer, stage.clock, name, CONNECT_TIMEOUT_MS), stage.addresses, clock=stage.clock)
        self.name = name
        self.facts: dict[str, Fact] = {}
        self._stage = stage

    @property
    def now_ms(self) -> int:
        """The cluster's time."""
        return self.clock.now_ms()

    async def run(self) -> None:
        """Live until cancelled; begin anew after a failure."""
        try:
            while True:
                try:
                    await self.live()
                except (*FAILURES, PeerBusy):
                    self.forget()
                await self.sleep(RETRY_MS)
        finally:
            self.close()

    @abstractmethod
    async def live(self) -> None:
        """Do what the client does, for ever or until it begins anew."""

    async def leave(self) -> None:
        """Leave at the end of the scene; without what brokers would take long to end."""
        self.close()

    async def sleep(self, delay_ms: float) -> None:
        """Wait, on the cluster's clock."""
        await self.clock.sleep(delay_ms)


class Durations:
    """The latest durations, of which the median is a figure."""

    def __init__(self) -> None:
        self._last: deque[int] = deque(maxlen=LAST)

    def add(self, duration_ms: int) -> int:
        """Add one; return the median in ms."""
        self._last.append(duration_ms)
        return median_low(self._last)
