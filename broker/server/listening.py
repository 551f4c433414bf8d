"""Listening sockets of an address, from which several clients are accepted in one turn of the event loop.

libuv accepts one connection of a listening socket in a turn. Where a turn takes long, because a client keeps the
broker busy, two hundred new clients would wait for as many turns: seconds. So the sockets are watched and emptied here.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from asyncio.selector_events import BaseSelectorEventLoop
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from purgatorio.broker.server.connection_snapshot import host_and_peer
from purgatorio.purgatory.clock import Alarm, Clock
from purgatorio.unpatched import accept, plain_socket

MAX_ACCEPTS_PER_TURN: Final = 64
"""Clients that are accepted from one socket in one turn of the event loop: 5 ms of work until they are connected."""
FREE_PORT_TRIES: Final = 10
"""How often a free port is looked for: another process may take the one that was found."""
ACCEPT_RETRY_MS: Final = 100
"""The time after which accepting is tried again when no file was free for a client."""

Accepted = Callable[[socket.socket, str, str], None]
"""Takes a client's socket, which does not block; its host; and its host and port in one text."""


def can_watch_sockets(loop: asyncio.AbstractEventLoop) -> bool:
    """Return whether an event loop can watch sockets (`add_reader`): a simulated one and Windows' default cannot.

    uvloop's loop can, and shares no base with asyncio's own.
    """
    return isinstance(loop, BaseSelectorEventLoop) or not isinstance(loop, asyncio.BaseEventLoop)


async def open_sockets(host: str, port: int, backlog: int) -> list[socket.socket]:
    """Open sockets that listen on every address of `host`, all on the same port.

    Raises:
        OSError: an address cannot be listened on; no socket is left open.
    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    not_here: OSError | None = None
    try:
        for family, address in dict.fromkeys((family, str(address[0])) for family, _, _, _, address in found):
            try:
                sockets.append(_listening(address, port, family, backlog))
            except OSError as error:
                # A name may have an address that the machine lacks: localhost is ::1 too, even if there is no IPv6.
                if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                    raise
                not_here = error
            else:
                port = sockets[0].getsockname()[1]
        if not_here is not None and not sockets:
            raise not_here
    except OSError:
        for opened in sockets:
            opened.close()
        raise
    return sockets


def _listening(address: str, port: int, family: int, backlog: int) -> socket.socket:
    """Return a socket that listens on a port, 0 being any free one.

    A free port is looked for first, and then asked for by its number: Linux takes one that it chose itself away from a
    socket that listens no more (`refuse`).
    """
    for tries_left in reversed(range(1 if port else FREE_PORT_TRIES)):
        asked = port
        if not port:
            with plain_socket().socket(family) as found:
                found.bind((address, 0))
                asked = found.getsockname()[1]
        try:
            made: socket.socket = plain_socket().create_server((address, asked), family=family, backlog=backlog)
            return made
        except OSError as error:
            if error.errno != errno.EADDRINUSE or not tries_left:
                raise
    raise AssertionError("the last try returns or raises")


def refuse(listening: socket.socket) -> None:
    """Listen no more, in whichever process the socket is; clients are refused, and the port stays its own.

    Only Linux does so. Elsewhere nothing happens, and `hold` does it.
    """
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)  # or others may use a port where none listens
    with contextlib.suppress(OSError):
        listening.shutdown(socket.SHUT_RDWR)


def hold(listening: Iterable[socket.socket]) -> list[socket.socket]:
    """Return these sockets, or others in their place, that have the ports and do not listen; they can listen again.

    Beside Linux a port is free for a moment: one that another process takes then is not held.
    """
    holders = []
    for each in listening:
        if _listens(each):
            refuse(each)
        if not _listens(each):
            holders.append(each)
            continue
        address, holder = each.getsockname(), plain_socket().socket(each.family)
        each.close()
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections may be left
        try:
            holder.bind(address)
        except OSError:
            holder.close()
        else:
            holders.append(holder)
    return holders


def _listens(sock: socket.socket) -> bool:
    return bool(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


class ListeningSockets:
    """Accepts from the sockets of one address.

    Args:
        accepted: takes each client.
        clock: times the next attempt when no client could be accepted.
        most_per_turn: clients that are accepted from one socket in one turn.

    Attributes:
        sockets: those that are listened on; empty when they are closed.
    """

    def __init__(self, accepted: Accepted, clock: Clock, most_per_turn: int = MAX_ACCEPTS_PER_TURN) -> None:
        self._accepted = accepted
        self._clock = clock
        self._most_per_turn = most_per_turn
        self._retry: Alarm | None = None
        self._listens_on = False
        self.sockets: list[socket.socket] = []

    async def open(self, host: str, port: int, backlog: int, listening: Sequence[socket.socket] = ()) -> None:
        """Listen.

        Args:
            listening: sockets that listen or did (`kept`, `hold`), to be used instead of new ones; they are closed with
                this object.

        Raises:
            OSError: the address cannot be listened on.
        """
        self.sockets = list(listening) or await open_sockets(host, port, backlog)
        for each in self.sockets:
            each.setblocking(False)
        for each in listening:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            each.listen(backlog)
        self._watch()

    def kept(self, *, listening: bool) -> list[socket.socket]:
        """Return sockets that have the port beyond `close`: listening on, or refusing clients from then on (`hold`)."""
        self._listens_on = listening
        return [plain_socket().fromfd(each.fileno(), each.family, each.type) for each in self.sockets]

    def close(self) -> None:
        """Free the port, unless it is kept."""
        if self._retry is not None:
            self._retry.cancel()
        for each in self.sockets:
            asyncio.get_running_loop().remove_reader(each)
            if not self._listens_on:
                refuse(each)
            each.close()
        self.sockets = []

    def _watch(self) -> None:
        for each in self.sockets:
            asyncio.get_running_loop().add_reader(each, self._accept, each)

    def _accept(self, listening: socket.socket) -> None:
        """Accept clients that wait; the loop calls again in its next turn if more do."""
        for _ in range(self._most_per_turn):
            try:
                client, address = accept(listening)
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError:  # no file is free for it, of which the listener's sweep warns
                for each in self.sockets:
                    asyncio.get_running_loop().remove_reader(each)
                self._retry = self._clock.call_later(ACCEPT_RETRY_MS, self._watch)
                return
            client.setblocking(False)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # asyncio does so for its own servers only
            self._accepted(client, *host_and_peer(address))


class PlainAcceptor:
    """Makes connections of the clients that come by the sockets of one address, without TLS.

    Args:
        protocol: makes the protocol of a connection.
        clock: see `ListeningSockets`.
    """

    def __init__(self, protocol: Callable[[], asyncio.Protocol], clock: Clock) -> None:
        self._protocol = protocol
        self._listening = ListeningSockets(self._begin, clock)
        self._beginning: dict[asyncio.Task[None], socket.socket] = {}
        self.open = self._listening.open
        self.kept = self._listening.kept

    @property
    def sockets(self) -> list[socket.socket]:
        """The listening sockets; empty when they are closed."""
        return self._listening.sockets

    def close(self) -> None:
        """Free the port; clients that were accepted, but have no protocol yet, are closed in the next turn.

        Nothing is cancelled: uvloop 0.23 would not call `connection_lost` of a protocol that has `connection_made` if
        its transport is aborted before that. Such a protocol gets `connection_made` in the next turn, if not before.
        """
        self._listening.close()

    async def wait_closed(self) -> None:
        """Wait until no client is without a protocol, after `close`."""
        if self._beginning:
            await asyncio.wait(list(self._beginning))

    def _begin(self, client: socket.socket, host: str, peer: str) -> None:
        task = asyncio.create_task(self._connect(client), name=f"accepted {peer}")
        self._beginning[task] = client
        task.add_done_callback(self._begun)

    async def _connect(self, client: socket.socket) -> None:
        if not self._listening.sockets:  # closed meanwhile
            client.close()
            return
        try:
            await asyncio.get_running_loop().connect_accepted_socket(self._protocol, client)
        except OSError:  # the client is gone
            client.close()

    def _begun(self, task: asyncio.Task[None]) -> None:
        client = self._beginning.pop(task)
        if task.cancelled():  # it may not have begun, so that no transport closes the socket
            client.close()
