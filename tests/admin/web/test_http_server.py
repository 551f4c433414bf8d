from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from purgatorio.admin.web import http_server
from purgatorio.admin.web.bodies import json_response
from purgatorio.admin.web.server import AdminServer
from purgatorio.logger import LINES_PER_PERIOD

REQUEST = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture
async def connect(cluster: Any) -> AsyncIterator[Callable[[], Any]]:
    """Opens connections to an admin HTTP that runs as long as the test."""
    admin = AdminServer(cluster)
    await admin.start("127.0.0.1", 0)
    writers: list[asyncio.StreamWriter] = []

    async def open_one() -> Stream:
        reader, writer = await asyncio.open_connection(*admin.address)
        writers.append(writer)
        return reader, writer

    async def restarted() -> Stream:
        """Connect after a restart, which makes the application anew."""
        await admin.stop()
        await admin.start("127.0.0.1", 0)
        return await open_one()

    open_one.admin, open_one.restarted = admin, restarted  # type: ignore[attr-defined]
    yield open_one
    await admin.stop()
    for writer in writers:
        writer.close()


async def ask(stream: Stream) -> bytes:
    """Ask once on a connection that stays open."""
    reader, writer = stream
    writer.write(REQUEST)
    return await reader.readuntil(b'"ok"}')


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What an operator sees at the usual level."""
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


async def gone(stream: Stream) -> bool:
    """Whether the other side closes the connection without another word."""
    try:
        return await stream[0].read() == b""
    except ConnectionResetError:
        return True


async def test_a_connection_serves_several_requests(connect: Any) -> None:
    stream = await connect()
    for _ in range(3):
        assert (await ask(stream)).startswith(b"HTTP/1.1 200 OK")


async def test_one_connection_too_many_closes_the_one_that_waited_longest(
    connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "MAX_CONNECTIONS", 2)
    first, second = await connect(), await connect()
    await ask(second)
    await ask(first)
    third = await connect()
    await ask(third)
    assert await gone(second)
    await ask(first)


async def test_silent_and_slow_connections_lock_no_other_out(connect: Any) -> None:
    """110 of them made /readyz fail for ten seconds."""
    silent = [await connect() for _ in range(http_server.MAX_CONNECTIONS // 2)]
    slow = [await connect() for _ in range(http_server.MAX_CONNECTIONS // 2)]
    for _, writer in slow:
        writer.write(b"POST /api/v1/brokers/1/follower HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n")
    for _ in range(10):
        await ask(await connect())
    assert await gone(silent[0])


async def test_a_client_that_takes_no_answer_is_the_first_to_go(
    connect: Any, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "MAX_CONNECTIONS", 1)
    cluster.has_topic("orders", count=2_000)
    reader, writer = await connect()
    reader._transport.pause_reading()
    for _ in range(200):
        writer.write(b"GET /api/v1/state HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await ask(await connect())


async def test_a_connection_too_many_is_closed_while_all_others_are_being_answered(
    connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "MAX_CONNECTIONS", 1)
    answering, go_on = asyncio.Event(), asyncio.Event()

    async def slow_answer(request: object) -> object:
        answering.set()
        await go_on.wait()
        return json_response({"status": "ok"})

    monkeypatch.setattr("purgatorio.admin.web.app._alive", slow_answer)
    first = await connect.restarted()
    first[1].write(REQUEST)
    await answering.wait()
    assert await gone(await connect())
    go_on.set()
    await first[0].readuntil(b'"ok"}')


async def test_a_request_that_does_not_come_in_time_closes_its_connection(connect: Any, cluster: Any) -> None:
    """In time by the cluster's clock: one millisecond earlier the head may still be completed."""
    silent, slow, late = [await connect() for _ in range(3)]
    for begun in (slow, late):
        begun[1].write(REQUEST[:10])
    await ask(await connect())  # the server has seen all of them
    cluster.clock.advance_ms(http_server.REQUEST_HEAD_MS - 1)
    late[1].write(REQUEST[10:])
    assert (await late[0].readuntil(b'"ok"}')).startswith(b"HTTP/1.1 200 OK")
    cluster.clock.advance_ms(1)
    assert await gone(silent)
    assert await gone(slow)


async def test_so_does_the_second_request_of_a_connection(connect: Any, cluster: Any) -> None:
    stream = await connect()
    await ask(stream)
    stream[1].write(REQUEST[:10])
    await ask(await connect())
    cluster.clock.advance_ms(http_server.REQUEST_HEAD_MS)
    assert await gone(stream)


async def test_what_is_no_http_is_refused(connect: Any) -> None:
    reader, writer = await connect()
    writer.write(b"\x16\x03\x01 hello\r\n\r\n")
    assert (await reader.read()).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_request_with_two_lengths_is_answered_once(connect: Any, method: str) -> None:
    """A proxy may take the other one, and what is a second request here for a part of the first (RFC 9112, 6.3)."""
    reader, writer = await connect()
    hidden = b"0\r\n\r\n" + REQUEST
    lengths = f"Content-Length: {len(hidden)}\r\nTransfer-Encoding: chunked"
    writer.write(f"{method} /healthz HTTP/1.1\r\nHost: localhost\r\n{lengths}\r\n\r\n".encode() + hidden)
    answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1


async def test_a_flood_of_what_is_no_http_makes_few_log_lines(connect: Any, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(LINES_PER_PERIOD + 20):
        reader, writer = await connect()
        writer.write(b"hello\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
    assert warnings_of(caplog) == ["Invalid HTTP request received."] * LINES_PER_PERIOD


@pytest.mark.parametrize(("path", "is_answered"), [("/healthz", False), ("/healthz", True), ("/api/v1/topics", False)])
async def test_a_malformed_body_makes_one_line_and_no_traceback(
    connect: Any, caplog: pytest.LogCaptureFixture, path: str, is_answered: bool
) -> None:
    """The application answered once more, or uvicorn did: each such request was a traceback in the log."""
    reader, writer = await connect()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
    begun = await reader.readuntil(b"\r\n") if is_answered else b""
    writer.write(b"-1\r\n")
    answer = begun + await reader.read()
    assert answer.startswith(b"HTTP/1.1 405 " if begun else b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1
    assert warnings_of(caplog) == ["Invalid HTTP request received."]


async def test_a_request_under_way_does_not_hold_the_stop_up(
    connect: Any, cluster: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Its body never comes; the application would wait for it longer than the server does."""
    stream = await connect()
    head = b"POST /api/v1/brokers/1/follower HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    stream[1].write(head + b"Content-Length: 10\r\nExpect: 100-continue\r\n\r\n")
    assert (await stream[0].readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
    stopping = asyncio.create_task(connect.admin.stop())
    await cluster.clock.run_for(http_server.STOP_GRACE_MS - 1)
    assert not stopping.done()
    await cluster.clock.run_for(1)
    await stopping
    assert await gone(stream)
    assert warnings_of(caplog) == []
