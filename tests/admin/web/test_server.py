from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from purgatorio.admin.web.server import AdminServer
from tests.error_log import ErrorLog
from tests.logs import capture_logs


@pytest.fixture
async def admin(cluster: Any) -> AsyncIterator[AdminServer]:
    server = AdminServer(cluster)
    yield server
    await server.stop()


async def get(address: tuple[str, int], path: str) -> bytes:
    """One request on a connection of its own, and all that comes back."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


async def test_it_answers_as_soon_as_it_has_started(admin: AdminServer) -> None:
    await admin.start("127.0.0.1", 0)
    host, port = admin.address
    assert (host, admin.url) == ("127.0.0.1", f"http://localhost:{port}")
    assert (await get(admin.address, "/healthz")).startswith(b"HTTP/1.1 200 OK")


async def test_a_port_that_is_taken_is_said_and_leaves_nothing(admin: AdminServer, cluster: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        with pytest.raises(OSError, match="Address already in use"):
            await admin.start(*taken.getsockname()[:2])
        assert asyncio.all_tasks() == {asyncio.current_task()}
    await admin.stop()
    await admin.start("127.0.0.1", 0)


async def test_an_address_of_another_machine_is_refused(admin: AdminServer) -> None:
    with pytest.raises(OSError, match="assign requested address"):
        await admin.start("192.0.2.1", 0)


async def test_a_name_that_stands_for_several_addresses_has_one_port(admin: AdminServer) -> None:
    await admin.start("localhost", 0)
    assert b"200 OK" in await get(("localhost", admin.address[1]), "/healthz")


async def test_stopping_leaves_no_task_no_connection_and_the_port_free(admin: AdminServer) -> None:
    before = asyncio.all_tasks()
    await admin.start("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*admin.address)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await reader.readuntil(b'"ok"}')
    async with asyncio.timeout(1):
        await admin.stop()
        assert await reader.read() == b""
    writer.close()
    assert asyncio.all_tasks() == before
    with socket.create_server(admin.address):
        pass


async def test_it_can_be_stopped_before_it_was_started_and_twice(admin: AdminServer) -> None:
    await admin.stop()
    with pytest.raises(RuntimeError, match="not started"):
        _ = admin.url
    await admin.start("127.0.0.1", 0)
    with pytest.raises(RuntimeError, match="running"):
        await admin.start("127.0.0.1", 0)
    await admin.stop()
    await admin.stop()
    await admin.start("127.0.0.1", admin.address[1])
    assert b"200 OK" in await get(admin.address, "/healthz")


async def test_signals_stay_with_the_process(admin: AdminServer) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    await admin.start("127.0.0.1", 0)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


@pytest.mark.parametrize(
    ("host", "shown"),
    [("0.0.0.0", "localhost"), ("127.0.0.1", "localhost"), ("::1", "[::1]"), ("10.0.0.1", "10.0.0.1")],
)
def test_the_url_is_one_that_a_browser_here_can_open(cluster: Any, host: str, shown: str) -> None:
    server = AdminServer(cluster)
    server._address = (host, 9644)
    assert server.url == f"http://{shown}:9644"


@pytest.mark.process
def test_the_web_server_is_loaded_only_when_it_is_started() -> None:
    check = "import sys, purgatorio.admin.web.server; sys.exit(any(m in sys.modules for m in ('uvicorn', 'starlette')))"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


@pytest.mark.parametrize(("host", "warnings"), [("127.0.0.1", 0), ("localhost", 0), ("0.0.0.0", 1)])
async def test_it_warns_when_other_machines_may_reach_it_without_a_token(
    admin: AdminServer, host: str, warnings: int
) -> None:
    admin._open_to_all = True
    with capture_logs() as logs:
        await admin.start(host, 0)
    assert [line["addresses"] for line in logs if line["log_level"] == "warning"] == [host] * warnings


async def test_a_framework_that_cannot_be_imported_is_told_and_leaves_no_client_waiting(
    admin: AdminServer, monkeypatch: pytest.MonkeyPatch, error_log: ErrorLog
) -> None:
    monkeypatch.setattr("purgatorio.admin.web.server._FRAMEWORK", ("purgatorio.admin.web.no_such_module",))
    await admin.start("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*admin.address)
    with pytest.raises(ConnectionResetError):
        await asyncio.wait_for(reader.read(), 10)
    writer.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(*admin.address)
    error_log.expect("the admin HTTP cannot be started")
