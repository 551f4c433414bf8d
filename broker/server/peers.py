"""Requests of this broker's coordinators and leaders to other brokers: one connection to each, opened when needed."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from purgatorio.broker.server.peer import Done, PeerBusy, PeerConnection
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import EncodeError

MAX_WAITING: Final = 10_000
"""The most requests to one broker that wait for its connection, or for answers to those before them."""
REQUEST_TIMEOUT_MS: Final = 10_000
"""The longest wait for an answer; then the connection is closed."""


class _Waiting(NamedTuple):
    api_key: ApiKey
    version: int
    message: Any
    done: Done


class _Peer:
    """Another broker: its connection, and the requests that are not sent yet."""

    __slots__ = ("connection", "is_connecting", "waiting")

    def __init__(self) -> None:
        self.connection: PeerConnection | None = None
        self.is_connecting = False
        self.waiting: deque[_Waiting] = deque()


class Peers:
    """Sends requests to other brokers.

    Args:
        connect: opens a connection to a broker; raises OSError or TimeoutError.
    """

    def __init__(self, connect: Callable[[int], Awaitable[PeerConnection]]) -> None:
        self._connect = connect
        self._peers: dict[int, _Peer] = {}
        self._wanted: list[int] = []
        self._has_wanted = asyncio.Event()

    def send(self, broker_id: int, api_key: ApiKey, version: int, message: Any, done: Done) -> None:
        """Send a request; call `done` once, with its response, or with None and an error.

        The error is ConnectionError, TimeoutError or OSError if the broker cannot be reached or was lost, in which case
        it may have carried the request out; PeerBusy if too many requests wait; EncodeError if the message cannot be
        sent. `done` may be called before this returns.
        """
        peer = self._peers.setdefault(broker_id, _Peer())
        if len(peer.waiting) >= MAX_WAITING:
            done(None, PeerBusy(f"{MAX_WAITING} requests to broker {broker_id} wait"))
            return
        peer.waiting.append(_Waiting(api_key, version, message, done))
        self._send_waiting(broker_id, peer)

    def _send_waiting(self, broker_id: int, peer: _Peer) -> None:
        """Send what waits over the connection, or have it opened."""
        while peer.waiting:
            connection = peer.connection
            if connection is None or connection.closed:
                peer.connection = None
                if not peer.is_connecting:
                    peer.is_connecting = True
                    self._wanted.append(broker_id)
                    self._has_wanted.set()
                return
            api_key, version, message, done = peer.waiting[0]

            def answered(response: Any, error: Exception | None, done: Done = done) -> None:
                done(response, error)
                self._send_waiting(broker_id, peer)

            try:
                connection.send(api_key, version, message, timeout_ms=REQUEST_TIMEOUT_MS, done=answered)
            except PeerBusy:
                return  # an answer makes room
            except ConnectionError:
                peer.connection = None
                continue
            except EncodeError as error:
                peer.waiting.popleft()
                done(None, error)
                continue
            peer.waiting.popleft()

    async def run(self) -> None:
        """Open connections when they are needed; close all when cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                while True:
                    await self._has_wanted.wait()
                    self._has_wanted.clear()
                    wanted, self._wanted = self._wanted, []
                    for broker_id in wanted:
                        tasks.create_task(self._open(broker_id))
        finally:
            for peer in self._peers.values():
                if peer.connection is not None:
                    peer.connection.close()
                _fail(peer, ConnectionAbortedError("this broker stops"))

    async def _open(self, broker_id: int) -> None:
        peer = self._peers[broker_id]
        try:
            peer.connection = await self._connect(broker_id)
        except (OSError, TimeoutError) as error:
            peer.is_connecting = False
            _fail(peer, error)
        else:
            peer.is_connecting = False
            self._send_waiting(broker_id, peer)


def _fail(peer: _Peer, error: Exception) -> None:
    waiting, peer.waiting = peer.waiting, deque()
    for each in waiting:
        each.done(None, error)
