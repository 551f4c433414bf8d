"""A bucket on a server of this process, as object stores on the network have it."""

from __future__ import annotations

import itertools
import logging
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

_numbers = itertools.count()
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}


@pytest.fixture(scope="session")
def s3_url() -> Iterator[str]:
    """The URL of moto's S3; a test that uses it is slow."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def s3(s3_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The location of an empty bucket, with its server and credentials in the environment."""
    bucket = f"shop-{next(_numbers)}"
    with urllib.request.urlopen(urllib.request.Request(f"{s3_url}/{bucket}", method="PUT"), timeout=10):
        pass
    for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": s3_url}.items():
        monkeypatch.setenv(name, value)
    return f"s3://{bucket}/tier"


class Answering:
    """A server that answers as a test says.

    Attributes:
        answers: the statuses and bodies of the next answers; the last one is given again and again.
        asked: how many requests came.
    """

    def __init__(self) -> None:
        self.answers: list[tuple[int, str]] = []
        self.asked = 0

    def next(self) -> tuple[int, bytes]:
        self.asked += 1
        status, body = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return status, body.encode()


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Iterator[Answering]:
    """The server of all buckets."""
    answering = Answering()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            status, body = answering.next()
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    for method in ("GET", "PUT", "POST", "DELETE"):
        setattr(Handler, f"do_{method}", Handler.answer)
    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}"}.items():
        monkeypatch.setenv(name, value)
    yield answering
    server.shutdown()
    server.server_close()
    thread.join()
