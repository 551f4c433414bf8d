"""A link asks for the broker's versions first, and sends requests in the newest that both ends know."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from purgatorio.broker.time.system_clock import SystemClock
from purgatorio.client.client import KafkaClient, Refused, Unavailable
from purgatorio.client.group import all_committed_offsets
from purgatorio.client.link import Address
from purgatorio.client.negotiated import NegotiatedLink, NotServed
from purgatorio.protocol.api import ApiKey, decode_request, decode_request_header, encode_response
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from purgatorio.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from purgatorio.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)

TIMEOUT_MS = 5_000
OLD = {ApiKey.API_VERSIONS: (0, 2), ApiKey.FIND_COORDINATOR: (0, 2), ApiKey.OFFSET_FETCH: (0, 7)}
"""A broker of before KIP-699 and KIP-709, which does not know ApiVersions 3."""


class Broker:
    """A broker with some versions, and the requests that it got: API and version."""

    def __init__(self) -> None:
        self.served: dict[ApiKey, tuple[int, int]] = dict(OLD)
        self.got: list[tuple[int, int]] = []
        self.answers: dict[int, Callable[[Any], Any]] = {}
        self.address: Address = ("", 0)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while size := await reader.read(4):
            frame = await reader.readexactly(int.from_bytes(size))
            header, position = decode_request_header(frame)
            self.got.append((header.api_key, header.api_version))
            version = header.api_version
            if header.api_key == ApiKey.API_VERSIONS:
                known = [
                    ApiVersion(api_key=key, min_version=low, max_version=top) for key, (low, top) in self.served.items()
                ]
                is_known = version <= self.served[ApiKey.API_VERSIONS][1]
                code = ErrorCode.NONE if is_known else ErrorCode.UNSUPPORTED_VERSION
                answer: Any = ApiVersionsResponse(error_code=code, api_keys=known)
                version = version if is_known else 0
            else:
                answer = self.answers[header.api_key](decode_request(header, frame, position))
            writer.writelines(encode_response(header.api_key, version, header.correlation_id, answer))
        writer.close()


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    broker = Broker()
    async with await asyncio.start_server(broker.serve, "127.0.0.1", 0) as listening:
        broker.address = listening.sockets[0].getsockname()[:2]
        yield broker


async def connect(address: Address, **options: Any) -> NegotiatedLink:
    return await NegotiatedLink.connect(SystemClock(), "me", address, timeout_ms=TIMEOUT_MS, **options)


async def test_an_old_broker_is_asked_in_versions_that_it_knows(broker: Broker) -> None:
    broker.answers[ApiKey.FIND_COORDINATOR] = lambda request: FindCoordinatorResponse(
        node_id=4, host=request.key, port=broker.address[1]
    )
    part = OffsetFetchResponsePartition(partition_index=1, committed_offset=42)
    topic = OffsetFetchResponseTopic(name="orders", partitions=[part])
    broker.answers[ApiKey.OFFSET_FETCH] = lambda request: OffsetFetchResponse(
        topics=[topic] if request.topics is None and request.group_id == "g" else []
    )
    client = KafkaClient(connect, lambda: [broker.address], clock=SystemClock())
    assert await client.coordinator("a-group") == 4
    assert client.addresses[4] == ("a-group", broker.address[1])
    client.addresses[4] = broker.address

    class Known:
        async def ask(self, request: Any) -> Any:
            return await client.ask(4, request)

    assert await all_committed_offsets(Known(), "g") == {("orders", 1): 42}  # type: ignore[arg-type]
    asked = [(ApiKey.API_VERSIONS, 3), (ApiKey.API_VERSIONS, 0)]
    assert broker.got == [*asked, (ApiKey.FIND_COORDINATOR, 2), *asked, (ApiKey.OFFSET_FETCH, 7)]
    client.close()


async def test_a_new_broker_is_asked_in_the_version_of_the_client(broker: Broker) -> None:
    broker.served = {ApiKey.API_VERSIONS: (0, 9), ApiKey.FIND_COORDINATOR: (0, 99)}
    link = await connect(broker.address)
    assert link.version_of(ApiKey.FIND_COORDINATOR, 4) == 4
    with pytest.raises(
        NotServed, match=r"^UNSUPPORTED_VERSION: the broker does not serve offset_fetch as needed here$"
    ):
        link.version_of(ApiKey.OFFSET_FETCH, 9)
    broker.served[ApiKey.FIND_COORDINATOR] = (5, 99)
    link.close()
    link = await connect(broker.address)
    with pytest.raises(Refused):
        await link.request(ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(), timeout_ms=TIMEOUT_MS)
    link.close()


async def test_what_is_no_broker_is_said_to_be_none() -> None:
    async def web(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(4)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(web, "127.0.0.1", 0) as listening:
        address = listening.sockets[0].getsockname()[:2]
        with pytest.raises(ConnectionError, match=r"^does not answer as a broker of Kafka; it may want TLS"):
            await connect(address)
    with pytest.raises(ConnectionError, match=r"^no server listens there$"):
        await connect(address)
    with pytest.raises(ConnectionError, match=r"^there is no such host$"):
        await connect(("no-such-host.invalid", 9092))


async def test_a_link_whose_login_fails_is_closed(broker: Broker) -> None:
    links: list[NegotiatedLink] = []

    async def login(link: NegotiatedLink) -> None:
        links.append(link)
        raise Unavailable("wrong password")

    with pytest.raises(Unavailable, match=r"^wrong password$"):
        await connect(broker.address, login=login)
    assert links[0].closed
