"""The common part of all clients of scenes: connections, leaders, coordinators, and a life of attempts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from statistics import median_low
from typing import Any, Final, NamedTuple

from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.server.peer import PeerBusy, PeerConnection
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode, ProtocolError
from purgatorio.protocol.messages.find_coordinator import FindCoordinatorRequest
from purgatorio.protocol.messages.metadata import METADATA_VERSION, MetadataRequest, MetadataRequestTopic
from purgatorio.purgatory import Purgatory
from purgatorio.purgatory.clock import Clock

FIND_COORDINATOR_VERSION: Final = 4
GROUP, TRANSACTION = 0, 1
"""The types of keys that have a coordinator."""
CONNECT_TIMEOUT_MS: Final = 2_000
REQUEST_TIMEOUT_MS: Final = 60_000
"""Longer than the waits that scenes show; a client whose broker dies hears of it by its connection."""
RETRY_MS: Final = 100
LAST: Final = 9
"""The latest durations of which a figure is the median."""

Address = tuple[str, int]
Fact = int | str


class Unavailable(Exception):
    """No broker answers, or a partition or a key has no broker now."""


class Refused(Exception):
    """A broker answered with an error after which the client begins anew."""


FAILURES: Final = (OSError, TimeoutError, ProtocolError, PeerBusy, Unavailable, Refused)
"""After these a client tries again."""


class Stage(NamedTuple):
    """The cluster, as a client gets it.

    Attributes:
        addresses: returns where the running brokers listen.
        purgatory: returns one for timers of the scene's own.
    """

    clock: Clock
    addresses: Callable[[], Sequence[Address]]
    purgatory: Callable[[], Purgatory[Any]]


class Client(ABC):
    """A client of a scene.

    Args:
        name: its client id.

    Attributes:
        facts: what it has seen, for figures.
    """

    def __init__(self, stage: Stage, name: str) -> None:
        self.name = name
        self.facts: dict[str, Fact] = {}
        self._stage = stage
        self._connections: dict[Address, PeerConnection] = {}
        self._leaders: dict[TopicPartition, Address] = {}

    @property
    def now_ms(self) -> int:
        """The cluster's time."""
        return self._stage.clock.now_ms()

    async def run(self) -> None:
        """Live until cancelled; begin anew after a failure."""
        try:
            while True:
                try:
                    await self.live()
                except FAILURES:
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
        await self._stage.clock.sleep(delay_ms)

    def forget(self) -> None:
        """Close all connections, and forget the leaders: where they are is asked for again."""
        self._leaders.clear()
        self.close()

    def close(self) -> None:
        """Close all connections."""
        connections, self._connections = self._connections, {}
        for each in connections.values():
            each.close()

    # --- brokers ---

    async def connection(self, address: Address) -> PeerConnection:
        """Return the connection to a broker, which is opened if there is none."""
        known = self._connections.get(address)
        if known is None or known.closed:
            known = self._connections[address] = PeerConnection(self._stage.clock, client_id=self.name)
            await known.connect(*address, timeout_ms=CONNECT_TIMEOUT_MS)
        return known

    async def ask(self, address: Address, key: ApiKey, version: int, request: Any) -> Any:
        """Return a broker's answer."""
        connection = await self.connection(address)
        return await connection.request(key, version, request, timeout_ms=REQUEST_TIMEOUT_MS)

    async def ask_any(self, key: ApiKey, version: int, request: Any) -> Any:
        """Return the answer of the first broker that can be reached."""
        for address in self._stage.addresses():
            try:
                return await self.ask(address, key, version, request)
            except (OSError, TimeoutError):
                continue
        raise Unavailable("no broker answers")

    async def leader(self, tp: TopicPartition) -> Address:
        """Return where the leader of a partition listens, as the brokers knew it when they were asked."""
        if tp not in self._leaders:
            request = MetadataRequest(topics=[MetadataRequestTopic(name=tp.topic)], allow_auto_topic_creation=False)
            answer = await self.ask_any(ApiKey.METADATA, METADATA_VERSION, request)
            brokers = {each.node_id: (each.host, each.port) for each in answer.brokers}
            (topic,) = answer.topics
            for each in topic.partitions:
                if each.leader_id in brokers:
                    self._leaders[TopicPartition(tp.topic, each.partition_index)] = brokers[each.leader_id]
        if tp not in self._leaders:
            raise Unavailable(f"{tp} has no leader")
        return self._leaders[tp]

    async def topic_id(self, topic: str) -> bytes:
        """Ask a broker for the id of a topic, 16 bytes."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        answer = await self.ask_any(ApiKey.METADATA, METADATA_VERSION, request)
        return bytes(answer.topics[0].topic_id)

    async def coordinator(self, key: str, key_type: int = GROUP) -> Address:
        """Return where the coordinator of a group or a transactional id listens."""
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
        answer = await self.ask_any(ApiKey.FIND_COORDINATOR, FIND_COORDINATOR_VERSION, request)
        (found,) = answer.coordinators
        if found.error_code:
            raise Unavailable(ErrorCode(found.error_code).name)
        return found.host, found.port


def check(code: int) -> None:
    """Raise Refused for an error code other than 0."""
    if code:
        raise Refused(ErrorCode(code).name)


class Durations:
    """The latest durations, of which the median is a figure."""

    def __init__(self) -> None:
        self._last: deque[int] = deque(maxlen=LAST)

    def add(self, duration_ms: int) -> int:
        """Add one; return the median in ms."""
        self._last.append(duration_ms)
        return median_low(self._last)
