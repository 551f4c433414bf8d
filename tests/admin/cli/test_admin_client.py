from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from purgatorio.admin.cli import admin_client
from purgatorio.admin.cli.admin_client import AdminClient, AdminError, AdminUrlError

Serve = Callable[[int, bytes], str]


class Server(ThreadingHTTPServer):
    """Answers everything alike, and keeps what it was asked."""

    status = 200
    body = b"{}"
    asked: list[tuple[str, str, str | None, bytes]]


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        length = int(self.headers.get("content-length", "0"))
        asked = (self.command, self.path, self.headers.get("content-type"), self.rfile.read(length))
        self.server.asked.append(asked)
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.send_header("Location", "/elsewhere")
        self.end_headers()
        self.wfile.write(self.server.body)

    do_POST = do_GET  # noqa: N815 -- the base class's way of naming

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as serving:
        serving.asked = []
        thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield serving
        serving.shutdown()
        thread.join()


@pytest.fixture
def client(server: Server) -> AdminClient:
    return AdminClient(f"http://127.0.0.1:{server.server_address[1]}/")


def test_it_asks_and_changes(server: Server, client: AdminClient) -> None:
    """A change is JSON, as the guard of the admin HTTP wants it."""
    server.body = b'{"brokers": []}'
    assert client.get("brokers") == {"brokers": []}
    client.post("brokers/2/stop", {"force": True})
    client.post("brokers/2/kill")
    assert server.asked == [
        ("GET", "/api/v1/brokers", None, b""),
        ("POST", "/api/v1/brokers/2/stop", "application/json", b'{"force": true}'),
        ("POST", "/api/v1/brokers/2/kill", "application/json", b"{}"),
    ]


def test_a_refusal_is_told_in_the_clusters_words_without_control_characters(
    server: Server, client: AdminClient
) -> None:
    server.status, server.body = 409, json.dumps({"error": "broker 2 \x1b[31mis not running"}).encode()
    with pytest.raises(AdminError, match=r"^broker 2 \?\[31mis not running$"):
        client.post("brokers/2/stop")


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b"<html>"),
        (200, b"[]"),
        (200, b"\xff"),
        (200, b"[" * 100_000),
        (404, b"{}"),
        (302, b""),
        (500, b'{"error": 1}'),
    ],
)
def test_a_server_that_is_not_purgatorio_is_named(
    server: Server, client: AdminClient, status: int, body: bytes
) -> None:
    server.status, server.body = status, body
    with pytest.raises(AdminError, match=r"^the server at http://127\.0\.0\.1:\d+ is not Purgatorio"):
        client.get("state")
    assert len(server.asked) == 1


def test_proxies_of_the_environment_are_not_asked(client: AdminClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert AdminClient(client.url).get("state") == {}


def test_an_address_without_a_server_is_named_with_a_remedy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(
        AdminError, match=rf"^no server listens at {url}: is a cluster running\? .*--admin or PURGATORIO_ADMIN"
    ):
        AdminClient(url).get("state")


def test_a_server_that_does_not_answer_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_client, "TIMEOUT_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(AdminError, match=rf"^no answer from {url} within 0\.05 s$"):
            AdminClient(url).get("state")


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [(b"\x00\x00\x00\x07Kafka\r\n", "does not speak HTTP"), (b"", "closed the connection without an answer")],
)
def test_a_port_of_something_else_is_told_of(answer: bytes, sentence: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:

        def reply() -> None:
            connection, _ = other.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

        thread = threading.Thread(target=reply)
        thread.start()
        with pytest.raises(AdminError, match=sentence):
            AdminClient(f"http://127.0.0.1:{other.getsockname()[1]}").get("state")
        thread.join()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:9644",
        "ftp://localhost",
        "http://",
        "http://[::1",
        "http://h:x",
        "http://h:0",
        "http://h:99999",
        "http://a b",
    ],
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(AdminUrlError, match=r"is not an address like http://127\.0\.0\.1:9644"):
        AdminClient(url)
