"""A wire blocks until its response has come, so that a client over wires is done without an event loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import closing
from threading import Thread

import pytest

from purgatorio.client.client import KafkaClient
from purgatorio.client.wire import Wire, now
from purgatorio.protocol.api import encode_response
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from purgatorio.purgatory.clock import ManualClock

FOUND = FindCoordinatorResponse(coordinators=[Coordinator(node_id=3, host="three", port=9092)])
RESPONSE = b"".join(encode_response(ApiKey.FIND_COORDINATOR, 4, 1, FOUND))


@pytest.fixture
def address() -> Iterator[tuple[str, int]]:
    """A broker that answers the first request in two pieces, and then closes its connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(RESPONSE[:9])
                connection.sendall(RESPONSE[9:])
                connection.recv(4096)

        serving = Thread(target=serve)
        serving.start()
        yield server.getsockname()[:2]
        serving.join()


def test_a_response_is_read_whole_and_a_connection_that_ends_is_an_error(address: tuple[str, int]) -> None:
    asked = FindCoordinatorRequest(coordinator_keys=["g"])
    with closing(Wire(address)) as wire:
        assert wire.ask(asked) == FOUND
        with pytest.raises(ConnectionResetError):
            wire.ask(asked)
        assert wire.closed, "a client opens another one"


def test_a_client_over_wires_needs_no_event_loop(address: tuple[str, int]) -> None:
    client = KafkaClient(Wire.open, lambda: [address], clock=ManualClock())
    assert now(client.coordinator("g")) == 3
    assert client.addresses == {3: ("three", 9092)}


def test_what_waits_for_an_event_loop_is_an_error() -> None:
    with pytest.raises(AssertionError, match="it waits for an event loop"):
        now(asyncio.sleep(0))
