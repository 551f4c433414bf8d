"""Where the brokers of tests say that they are, and ports for processes that take no free one by themselves."""

from __future__ import annotations

import contextlib
import socket

from purgatorio.broker.metadata.image import Endpoint


def plaintext(host: str, port: int) -> tuple[Endpoint, ...]:
    """The endpoints of a broker with one listener, as brokers have it."""
    return (Endpoint("PLAINTEXT", host, port),)


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def neighbouring_ports() -> int:
    """Return the first of two free ports."""
    while True:
        first = free_port()
        with socket.socket() as sock, contextlib.suppress(OSError, OverflowError):
            sock.bind(("127.0.0.1", first + 1))
            return first
