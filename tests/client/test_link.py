"""A link over streams sends a request after its size and returns its response; a request that fails closes it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from purgatorio.client.link import StreamLink
from purgatorio.protocol.api import ApiKey, decode_request, decode_request_header, encode_response
from purgatorio.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from purgatorio.purgatory.clock import ManualClock

KEY, VERSION = ApiKey.FIND_COORDINATOR, 4


class Server:
    """Answers each request with its key, while it is `answering`; it closes a connection that asks for "bye"."""

    def __init__(self) -> None:
        self.answering = True
        self.clock = ManualClock()
        self.ended = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while size := await reader.read(4):
            frame = await reader.readexactly(int.from_bytes(size))
            header, position = decode_request_header(frame)
            assert header.client_id == "me"
            request = decode_request(header, frame, position)
            assert isinstance(request, FindCoordinatorRequest)
            key = request.coordinator_keys[0]
            if key == "bye":
                break
            if self.answering:
                answer = FindCoordinatorResponse(coordinators=[Coordinator(key=key)])
                writer.writelines(encode_response(KEY, VERSION, header.correlation_id, answer))
        writer.close()
        await writer.wait_closed()
        self.ended.set()

    async def ask(self, link: StreamLink, key: str) -> str:
        request = FindCoordinatorRequest(coordinator_keys=[key])
        answer = await link.request(KEY, VERSION, request, timeout_ms=1_000)
        return str(answer.coordinators[0].key)


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
async def link(server: Server) -> AsyncIterator[StreamLink]:
    async with await asyncio.start_server(server.serve, "127.0.0.1", 0) as listening:
        link = await StreamLink.open(server.clock, "me", listening.sockets[0].getsockname()[:2])
        yield link
        link.close()
        await server.ended.wait()


async def test_each_request_has_its_response(server: Server, link: StreamLink) -> None:
    assert [await server.ask(link, key) for key in ("a", "b", "c")] == ["a", "b", "c"]
    assert not link.closed


async def test_a_connection_that_the_broker_closes_is_an_error_and_closed(server: Server, link: StreamLink) -> None:
    with pytest.raises(ConnectionResetError, match="the broker closed the connection"):
        await server.ask(link, "bye")
    assert link.closed


async def test_after_a_missing_response_the_link_is_closed_so_that_no_later_request_gets_it(
    server: Server, link: StreamLink
) -> None:
    server.answering = False
    asking = asyncio.create_task(server.ask(link, "late"))
    await server.clock.run_for(1_000)
    with pytest.raises(TimeoutError):
        await asking
    assert link.closed
