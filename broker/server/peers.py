"""Requests of this broker's coordinators and leaders to other brokers.

Each API has a connection of its own to each broker, opened when it is needed. Answers come in the order of the
requests: a marker that waits for its replicas must not hold up the questions of leaders that wait for nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Final, NamedTuple

from purgatorio.broker.server.peer import Done, PeerBusy, PeerConnection
from purgatorio.logger import get_logger
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import EncodeError

logger = get_logger(__name__)

MAX_WAITING: Final = 10_000
"""The most requests that wait for one connection, or for answers to those before them."""
REQUEST_TIMEOUT_MS: Final = 10_000
"""The longest wait for an answer; then the connection is closed."""


class _Waiting(NamedTuple):
    api_key: ApiKey
    version: int
    message: Any
    done: Done


class _Peer:
    """Another broker, for one API: the connection, and the requests that are not sent yet."""

    __slots__ = ("broker_id", "connection", "is_connecting", "waiting")

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
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
        self._peers: dict[tuple[int, ApiKey], _Peer] = {}
        self._wanted: list[_Peer] = []
        self._has_wanted = asyncio.Event()
        self._has_stopped = False

    def send(self, broker_id: int, api_key: ApiKey, version: int, message: Any, done: Done) -> None:
        """Send a request; call `done` once, with its response, or with None and an error.

        The error is ConnectionError, TimeoutError or OSError if the broker cannot be reached or was lost, in which case
        it may have carried the request out; PeerBusy if too many requests wait; EncodeError if the message cannot be
        sent. `done` may be called before this returns.
        """
        if self._has_stopped:
            done(None, ConnectionAbortedError("this broker stops"))
            return
        peer = self._peers.get((broker_id, api_key))
        if peer is None:
            peer = self._peers[broker_id, api_key] = _Peer(broker_id)
        if len(peer.waiting) >= MAX_WAITING:
            done(None, PeerBusy(f"{MAX_WAITING} requests to broker {broker_id} wait"))
            return
        peer.waiting.append(_Waiting(api_key, version, message, done))
        self._send_waiting(peer)

    def _send_waiting(self, peer: _Peer) -> None:
        """Send what waits over the connection, or have it opened."""
        while peer.waiting:
            connection = peer.connection
            if connection is None or connection.closed:
                peer.connection = None
                if not peer.is_connecting:
                    peer.is_connecting = True
                    self._wanted.append(peer)
                    self._has_wanted.set()
                return
            api_key, version, message, done = peer.waiting[0]

            def answered(response: Any, error: Exception | None, done: Done = done) -> None:
                try:
                    done(response, error)
                finally:
                    self._send_waiting(peer)

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
                    for peer in wanted:
                        tasks.create_task(self._open(peer))
        finally:
            self._has_stopped = True
            for peer in self._peers.values():
                if peer.connection is not None:
                    peer.connection.close()
                _fail(peer, ConnectionAbortedError("this broker stops"))

    async def _open(self, peer: _Peer) -> None:
        try:
            peer.connection = await self._connect(peer.broker_id)
        except (OSError, TimeoutError) as error:
            peer.is_connecting = False
            _fail(peer, error)
        else:
            peer.is_connecting = False
            self._send_waiting(peer)


def _fail(peer: _Peer, error: Exception) -> None:
    waiting, peer.waiting = peer.waiting, deque()
    for each in waiting:
        try:
            each.done(None, error)
        except Exception:  # a bug of one caller must not keep the error from the others
            logger.exception("handling a lost request failed", broker=peer.broker_id, api_key=each.api_key)


class PeerNetwork:
    """Holds the connections to the brokers that cannot be reached now; open ones, and those that are opened meanwhile.

    A connection to such a broker still opens, as the kernel accepts it; its first request stays without an answer.
    """

    def __init__(self) -> None:
        self._connections: dict[PeerConnection, int] = {}
        self._cut: frozenset[int] = frozenset()

    @property
    def connections(self) -> Collection[PeerConnection]:
        """All that were open when the last one was opened, and that one."""
        return self._connections.keys()

    def connected(self, broker_id: int, connection: PeerConnection) -> None:
        """Note a connection that was opened to a broker."""
        self._connections = {each: to for each, to in self._connections.items() if not each.closed}
        self._connections[connection] = broker_id
        if broker_id in self._cut:
            connection.hold()

    def cut(self, broker_ids: Collection[int]) -> None:
        """Hold the connections to these brokers, and release those to all others."""
        self._cut = frozenset(broker_ids)
        for connection, broker_id in self._connections.items():
            if broker_id in self._cut:
                connection.hold()
            else:
                connection.release()
