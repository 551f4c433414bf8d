"""The brokers of other hosts, as one of them asks and shows them."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from purgatorio.admin.cli.hosts import hosted
from purgatorio.admin.cli.hosts.hosted import HostedBrokers
from purgatorio.admin.operations.brokers import KillBroker
from purgatorio.admin.web import forwarding
from purgatorio.admin.web.forwarding import ForwardedRequest, Unreachable
from purgatorio.admin.web.proofs import ProofGuard, Proofs, asked_as
from purgatorio.admin.web.tokens import AdminTokens, TokenGuard
from purgatorio.broker.cluster.errors import OperationRefused
from purgatorio.broker.metadata.image import BrokerRegistration, ClusterImage
from purgatorio.purgatory.clock import ManualClock
from tests.endpoints import plaintext

TOKEN = "a token of the cluster"


class Other:
    """The admin HTTP of another host."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.more = ""
        self.endless: bytes | None = None
        self.ended = asyncio.Event()
        self.ended.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked.append((await reader.readuntil(b"\r\n\r\n")).decode())
        if self.endless is not None:
            await self.serve_without_end(writer, self.endless)
            return
        more = self.more.encode("latin-1")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n%scontent-length: 2\r\n\r\n{}" % more)
        await writer.drain()
        writer.close()

    async def serve_without_end(self, writer: asyncio.StreamWriter, piece: bytes) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n%s\r\n" % self.more.encode())
        self.ended.clear()
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0 if len(piece) > 1 else 0.01)
        writer.close()
        self.ended.set()


@pytest.fixture
async def other() -> AsyncIterator[tuple[Other, dict[int, str], HostedBrokers, ManualClock]]:
    other, clock = Other(), ManualClock()
    server = await asyncio.start_server(other.serve, "127.0.0.1", 0)
    pages = {2: f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"}
    store: Any = SimpleNamespace(pages=pages, last_pages=pages, image=ClusterImage(version=1, cluster_id="c"))
    config = SimpleNamespace(broker=SimpleNamespace(broker_id=1))
    cluster: Any = SimpleNamespace(clock=clock, config=config, admin=SimpleNamespace(app=None))
    brokers = HostedBrokers(cluster, store, None)
    yield other, pages, brokers, clock
    await brokers.close()
    await other.ended.wait()
    server.close()


ASKED = ForwardedRequest(
    "GET", "/api/v1/brokers", {"host": "page.example.com", "origin": "http://evil.example.com", "accept": "a/b"}
)


async def test_another_one_is_not_asked_by_its_name(other: Any) -> None:
    """A page of another site may give an address a name, so an admin HTTP answers to few of them."""
    served, _, brokers, _ = other
    assert (await brokers.ask(2, ASKED)).body == "{}"
    head = served.asked[0].lower()
    assert "host: localhost\r\n" in head
    assert "accept: a/b\r\n" in head
    assert "example.com" not in head


async def answering(request: Request) -> Response:
    return JSONResponse({"asked": f"{request.method} {request.url}", "body": (await request.body()).decode()}, 202)


@pytest.fixture
async def proving(other: Any) -> AsyncIterator[HostedBrokers]:
    """Broker 1, of a cluster with a token."""
    brokers = HostedBrokers(other[2]._cluster, other[2]._store, TOKEN)
    yield brokers
    await brokers.close()


@pytest.mark.parametrize("asked", [ASKED, ForwardedRequest("POST", "/api/v1/topics?a=b c&d=%20", {}, '{"name": "ö"}')])
async def test_with_a_token_both_prove_that_they_have_it(
    other: Any, proving: HostedBrokers, asked: ForwardedRequest
) -> None:
    page = other[1][2]
    app = Starlette(routes=[Route("/{path:path}", answering, methods=["GET", "POST"])])
    proofs = Proofs(TOKEN, asked_as(2, page))
    guard = ProofGuard(app, TokenGuard(app, AdminTokens(TOKEN)), proofs, ManualClock())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(guard)) as client:
        await proving.close()
        proving._client = client
        told = await proving.ask(2, asked)
    assert told.status == 202
    assert told.media_type == "application/json"
    assert json.loads(told.body)["body"] == asked.body
    assert asked.method in told.body


@pytest.mark.parametrize("challenge", ["", "www-authenticate: Purgatorio \xff.,\r\n", "www-authenticate: Bearer\r\n"])
async def test_what_has_taken_the_address_of_another_one_hears_no_token_and_is_not_believed(
    other: Any, proving: HostedBrokers, challenge: str
) -> None:
    """Nor is it if it passes a living broker's answers on, which are not about this request."""
    served, _, _, _ = other
    served.more = f"{challenge}x-purgatorio-proof: {'0' * 64}\r\n"
    with pytest.raises(Unreachable, match=r"broker 2 cannot be asked at .*: what answers there is not this broker"):
        await proving.ask(2, ASKED)
    assert len(served.asked) == 2
    assert not any(TOKEN in each for each in served.asked)


@pytest.mark.parametrize("with_token", [False, True])
async def test_what_answers_without_end_is_not_listened_to(
    other: Any, proving: HostedBrokers, with_token: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It took memory until there was no more, before it had proved anything."""
    monkeypatch.setattr(hosted, "MAX_ANSWER_BYTES", 1_000_000)
    served, _, brokers, _ = other
    served.endless = bytes(64 * 1024)
    with pytest.raises(Unreachable, match=r"broker 2 cannot be asked at .*: what answers there sends more than 1"):
        await (proving if with_token else brokers).ask(2, ASKED)


async def test_an_answer_that_comes_byte_by_byte_has_no_more_time(other: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte had a second."""
    monkeypatch.setattr(hosted, "CONNECT_SECONDS", 0.05)
    monkeypatch.setattr(forwarding, "READ_LIMIT_MS", 50)
    served, _, brokers, _ = other
    served.endless = b" "
    with pytest.raises(Unreachable, match="has not answered for 0 s"):
        await brokers.ask(2, ASKED)


async def test_an_answer_is_not_unpacked(other: Any) -> None:
    """A kilobyte of it may be a megabyte."""
    served, _, brokers, _ = other
    served.more = "content-encoding: deflate\r\n"
    assert (await brokers.ask(2, ASKED)).body == "{}"
    assert "accept-encoding: identity\r\n" in served.asked[0].lower()


async def test_one_that_does_not_answer_is_marked_with_since_when(other: Any) -> None:
    _, pages, brokers, clock = other
    pages[2] = "http://127.0.0.1:1"
    with pytest.raises(
        Unreachable, match=r"broker 2 cannot be asked at http://127\.0\.0\.1:1: has not answered for 0 s"
    ):
        await brokers.ask(2, ASKED)
    clock.advance_ms(3_000)
    assert brokers.row(2, None)["process"] == {"id": None, "trouble": "has not answered for 3 s"}


async def test_a_dead_broker_stays_a_target_of_monitoring(other: Any) -> None:
    """Prometheus forgot it at the moment that it should report."""
    _, _, brokers, _ = other
    image = ClusterImage(version=1, cluster_id="c")
    for broker_id, fenced in ((1, False), (2, True)):
        image = image.with_broker(BrokerRegistration(broker_id, broker_id, plaintext("h", 1), fenced=fenced))
    brokers._store.image = image
    brokers._store.last_pages = {2: "http://h:9644/broker", 3: "http://gone:9644/broker", 1: "http://g:9644/broker"}
    brokers._store.pages = {}
    assert list(brokers.targets.items()) == [(1, "http://g:9644/broker"), (2, "http://h:9644/broker")]
    assert brokers.active_and_fenced == (1, 1)


async def test_one_without_a_lease_has_no_page(other: Any) -> None:
    _, pages, brokers, _ = other
    pages.clear()
    with pytest.raises(Unreachable, match="broker 2 cannot be asked: it holds no lease"):
        await brokers.ask(2, ASKED)
    with pytest.raises(Unreachable, match="this broker is starting"):
        await brokers.ask(1, ASKED)


async def test_processes_of_other_hosts_are_not_ended_from_here(other: Any) -> None:
    with pytest.raises(OperationRefused, match="each of them on its own host"):
        await other[2].control(KillBroker, 2)


async def test_a_host_speaks_for_its_own_broker_alone(other: Any) -> None:
    _, _, brokers, _ = other
    assert list(brokers.own_ids) == [1]
