"""A client's links to brokers, and where the leaders of partitions and the coordinators are."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, Generic, NamedTuple, TypeVar

from purgatorio.client.link import Address, Link
from purgatorio.protocol.api import APIS, ApiKey
from purgatorio.protocol.errors import ErrorCode, ProtocolError
from purgatorio.protocol.message import Message
from purgatorio.protocol.messages.find_coordinator import FindCoordinatorRequest
from purgatorio.protocol.messages.init_producer_id import InitProducerIdRequest
from purgatorio.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from purgatorio.purgatory.clock import Clock

KEYS: Final = {api.request: api.key for api in APIS.values()}
"""The API of each class of requests."""
VERSIONS: Final[Mapping[ApiKey, int]] = {
    ApiKey.PRODUCE: 9,
    ApiKey.FETCH: 12,
    ApiKey.LIST_OFFSETS: 7,
    ApiKey.METADATA: 12,
    ApiKey.CREATE_TOPICS: 5,
    ApiKey.DELETE_TOPICS: 6,
    ApiKey.CREATE_PARTITIONS: 3,
    ApiKey.DESCRIBE_CONFIGS: 4,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: 1,
    ApiKey.LIST_GROUPS: 5,
    ApiKey.DESCRIBE_GROUPS: 6,
    ApiKey.CONSUMER_GROUP_DESCRIBE: 1,
    ApiKey.DELETE_GROUPS: 3,
    ApiKey.SASL_HANDSHAKE: 1,
    ApiKey.SASL_AUTHENTICATE: 2,
    ApiKey.FIND_COORDINATOR: 4,
    ApiKey.OFFSET_COMMIT: 9,
    ApiKey.OFFSET_FETCH: 9,
    ApiKey.JOIN_GROUP: 9,
    ApiKey.SYNC_GROUP: 5,
    ApiKey.HEARTBEAT: 4,
    ApiKey.LEAVE_GROUP: 5,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: 1,
    ApiKey.INIT_PRODUCER_ID: 4,
    ApiKey.ADD_PARTITIONS_TO_TXN: 3,
    ApiKey.ADD_OFFSETS_TO_TXN: 3,
    ApiKey.TXN_OFFSET_COMMIT: 3,
    ApiKey.END_TXN: 3,
    ApiKey.SHARE_GROUP_HEARTBEAT: 1,
    ApiKey.SHARE_FETCH: 2,
    ApiKey.SHARE_ACKNOWLEDGE: 2,
}
"""The versions of requests: the newest that name topics, and transactions that add their partitions (KIP-98).

A link to a broker of another release sends an older one if it has to: `purgatorio.client.negotiated`."""
GROUP, TRANSACTION = 0, 1
"""The types of keys that have a coordinator."""
REQUEST_TIMEOUT_MS: Final = 60_000
RETRY_MS: Final = 100

L = TypeVar("L", bound=Link)
T = TypeVar("T")
Partition = tuple[str, int]
"""Topic and index."""


class Unavailable(Exception):
    """No broker answers, or a partition or a key has no broker now."""


class Refused(Unavailable):
    """A broker refuses a request, with this error code."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


NETWORK_ERRORS: Final = (OSError, ProtocolError)
"""With these a broker has not answered; what it was asked for it may have done."""
FAILURES: Final = (*NETWORK_ERRORS, Unavailable)
"""After these a request may succeed later, perhaps at another broker."""


class Leader(NamedTuple):
    """The leader of a partition and its epoch, as a client knows them from metadata."""

    broker_id: int
    epoch: int


def check(code: int) -> None:
    """Raise Refused for an error code other than 0."""
    if code:
        raise Refused(ErrorCode(code))


def by_topic(values: Mapping[Partition, T]) -> dict[str, dict[int, T]]:
    """Return values of partitions by topic and index."""
    found: dict[str, dict[int, T]] = {}
    for (topic, index), value in values.items():
        found.setdefault(topic, {})[index] = value
    return found


class KafkaClient(Generic[L]):
    """Links to brokers, each opened when it is needed.

    Args:
        open_link: connects to an address; raises OSError.
        bootstrap: returns the addresses to ask for metadata, in the order in which they are tried.
        timeout_ms: how long a request waits for its response.

    Attributes:
        addresses: the brokers that it knows, by id.
        leaders: the leaders that took the last request, by partition.
        versions: the versions of its requests.
    """

    def __init__(
        self,
        open_link: Callable[[Address], Awaitable[L]],
        bootstrap: Callable[[], Iterable[Address]],
        *,
        clock: Clock,
        timeout_ms: int = REQUEST_TIMEOUT_MS,
    ) -> None:
        self.clock = clock
        self.addresses: dict[int, Address] = {}
        self.leaders: dict[Partition, Leader] = {}
        self.versions = VERSIONS
        self._open_link = open_link
        self._bootstrap = bootstrap
        self._timeout_ms = timeout_ms
        self._links: dict[int, L] = {}

    async def back_off(self) -> None:
        """Wait before a request is sent again."""
        await self.clock.sleep(RETRY_MS)

    def forget(self) -> None:
        """Close all links, and forget the leaders."""
        self.leaders.clear()
        self.close()

    def close(self) -> None:
        """Close all links."""
        links, self._links = self._links, {}
        for link in links.values():
            link.close()

    # --- requests ---

    async def link(self, broker_id: int) -> L:
        """Return the link to a broker, which is opened if there is none.

        Raises:
            Unavailable: the broker's address is not known.
            OSError: the broker cannot be reached.
        """
        link = self._links.get(broker_id)
        if link is None or link.closed:
            if broker_id not in self.addresses:
                raise Unavailable(f"broker {broker_id} is not known")
            link = self._links[broker_id] = await self._open_link(self.addresses[broker_id])
        return link

    async def ask(self, broker_id: int, request: Message, *, timeout_ms: int | None = None) -> Any:
        """Return a broker's response; raises FAILURES."""
        return await self._exchange(await self.link(broker_id), request, timeout_ms)

    async def ask_any(self, request: Message) -> Any:
        """Return the response of the first broker that answers, over a link of its own.

        Raises:
            Unavailable: no broker answers.
        """
        errors = []
        for address in dict.fromkeys((*self._bootstrap(), *self.addresses.values())):
            try:
                with contextlib.closing(await self._open_link(address)) as link:
                    return await self._exchange(link, request)
            except NETWORK_ERRORS as error:
                errors.append(f"{address[0]}:{address[1]}: {error}")
        raise Unavailable(f"no broker answers: {'; '.join(errors)}")

    async def _exchange(self, link: L, request: Message, timeout_ms: int | None = None) -> Any:
        key = KEYS[type(request)]
        limit_ms = self._timeout_ms if timeout_ms is None else timeout_ms
        return await link.request(key, self.versions[key], request, timeout_ms=limit_ms)

    # --- where to ask ---

    async def metadata(self, topic: str, *, create: bool = False) -> MetadataResponse:
        """Return what a broker knows of a topic, and keep the addresses of all brokers.

        Raises:
            Unavailable: no broker answers.
        """
        return await self.describe([topic], create=create)

    async def describe(self, topics: Iterable[str] | None, *, create: bool = False) -> MetadataResponse:
        """Return what a broker knows of topics, None for all; otherwise as `metadata`."""
        named = None if topics is None else [MetadataRequestTopic(name=each) for each in topics]
        response: MetadataResponse = await self.ask_any(MetadataRequest(topics=named, allow_auto_topic_creation=create))
        self.addresses = {broker.node_id: (broker.host, broker.port) for broker in response.brokers}
        return response

    async def leader(self, tp: Partition) -> Leader:
        """Look up the leader of a partition.

        Raises:
            Unavailable: the partition has no leader, or no broker answers.
        """
        (topic,) = (await self.metadata(tp[0])).topics
        for found in topic.partitions:
            if found.partition_index == tp[1] and found.leader_id in self.addresses:
                return Leader(found.leader_id, found.leader_epoch)
        raise Unavailable(f"{tp[0]}-{tp[1]} has no leader")

    async def known_leader(self, tp: Partition) -> Leader:
        """Return the leader that took the last request, or look it up; raises as `leader`."""
        leader = self.leaders.get(tp)
        if leader is None:
            leader = self.leaders[tp] = await self.leader(tp)
        return leader

    async def partitions(self, topic: str) -> list[int]:
        """Return the partitions of a topic once each has a leader; the topic is created if it does not exist.

        Raises:
            Unavailable: no broker answers, or there can be no such topic.
        """
        while True:
            (found,) = (await self.metadata(topic, create=True)).topics
            error = ErrorCode(found.error_code)
            if error and not error.retriable:
                raise Unavailable(f"{topic}: {error.name}")
            if not error and all(each.leader_id in self.addresses for each in found.partitions):
                for each in found.partitions:
                    self.leaders[topic, each.partition_index] = Leader(each.leader_id, each.leader_epoch)
                return sorted(each.partition_index for each in found.partitions)
            await self.back_off()

    async def coordinator(self, key: str, key_type: int = GROUP) -> int:
        """Look up the broker that coordinates a group or a transactional id.

        Raises:
            Unavailable: it has no coordinator, or no broker answers.
        """
        request = FindCoordinatorRequest(key=key, key_type=key_type, coordinator_keys=[key])
        answer = await self.ask_any(request)
        (found,) = answer.coordinators or [answer]  # before version 4 the answer itself is the only one
        check(found.error_code)
        self.addresses[found.node_id] = (found.host, found.port)
        return int(found.node_id)

    async def producer_id(self, producer_id: int = -1, epoch: int = -1) -> tuple[int, int]:
        """Get a producer id and epoch, or the next epoch of the ones given.

        Raises:
            Unavailable: no broker gives one.
        """
        request = InitProducerIdRequest(transactional_id=None, producer_id=producer_id, producer_epoch=epoch)
        response = await self.ask_any(request)
        check(response.error_code)
        return response.producer_id, response.producer_epoch


class Coordinator:
    """The broker that coordinates a group or a transactional id, looked up when it is needed, and again after errors.

    Args:
        timeout_ms: how long requests to it wait; None: as others of the client.
    """

    def __init__(
        self, client: KafkaClient[Any], key: str, key_type: int = GROUP, *, timeout_ms: int | None = None
    ) -> None:
        self._client = client
        self._key = key
        self._key_type = key_type
        self._timeout_ms = timeout_ms
        self._broker_id = -1

    async def find(self) -> int:
        """Return its broker id; raises Unavailable."""
        if self._broker_id < 0:
            self._broker_id = await self._client.coordinator(self._key, self._key_type)
        return self._broker_id

    async def ask(self, request: Message, *, timeout_ms: int | None = None) -> Any:
        """Return its response; raises FAILURES."""
        try:
            return await self._client.ask(await self.find(), request, timeout_ms=timeout_ms or self._timeout_ms)
        except FAILURES:
            self.forget()
            raise

    def forget(self) -> None:
        """Look it up again before the next request."""
        self._broker_id = -1
