"""Brokers that answer as a test says, and a client with links to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from purgatorio.client.client import KafkaClient
from purgatorio.client.link import Address
from purgatorio.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from purgatorio.purgatory.clock import ManualClock

ADDRESSES = {1: ("one", 9092), 2: ("two", 9092)}
TP = ("orders", 0)


class FakeLink:
    """A link to a broker of `Brokers`."""

    def __init__(self, brokers: Brokers, address: Address) -> None:
        self.closed = False
        self._brokers = brokers
        self._address = address

    async def request(self, api_key: int, api_version: int, message: Any, *, timeout_ms: int) -> Any:
        self._brokers.asked.append((self._address[0], type(message).__name__))
        return self._brokers.answer(self._address, message)

    def close(self) -> None:
        self.closed = True


class Brokers:
    """Answers by the class of a request: with an answer, or what it returns for the request; errors are raised.

    Attributes:
        asked: host and class of each request.
        down: the hosts that cannot be reached.
        leader: of all partitions; -1: there is none.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.down: set[str] = set()
        self.leader = 2
        self.links: list[FakeLink] = []
        self._answers: dict[type, list[Any]] = {MetadataRequest: [self._metadata]}

    def set(self, request: type, *answers: Any) -> None:
        """Answer requests of a class so, one after another, and at last always with the last answer."""
        self._answers[request] = list(answers)

    def answer(self, address: Address, request: Any) -> Any:
        if address[0] in self.down:
            raise ConnectionResetError("it is down")
        answers = self._answers[type(request)]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer(request) if isinstance(answer, Callable) else answer  # type: ignore[arg-type]

    def _metadata(self, request: MetadataRequest) -> MetadataResponse:
        assert request.topics is not None
        brokers = [MetadataResponseBroker(node_id=each, host=at[0], port=at[1]) for each, at in ADDRESSES.items()]
        partition = MetadataResponsePartition(partition_index=0, leader_id=self.leader, leader_epoch=7)
        return MetadataResponse(
            brokers=brokers, topics=[MetadataResponseTopic(name=request.topics[0].name, partitions=[partition])]
        )

    async def open(self, address: Address) -> FakeLink:
        if address[0] in self.down:
            raise ConnectionRefusedError("nobody listens")
        self.links.append(FakeLink(self, address))
        return self.links[-1]


class Patient(KafkaClient[FakeLink]):
    """A client that does not wait.

    Attributes:
        waits: how often it would have.
    """

    def __init__(self, brokers: Brokers) -> None:
        super().__init__(brokers.open, lambda: [ADDRESSES[1]], clock=ManualClock())
        self.waits = 0

    async def back_off(self) -> None:
        self.waits += 1
