"""Finds the clients that have gone while their connections are not read, as those are that a quota mutes.

Only a connection that reads learns that its client has gone. A muted one would keep its file until the end of the mute,
which may be hours away, and a client may open as many as there are files. So the system is asked about them.
"""

from __future__ import annotations

import array
import asyncio
import select
import socket
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

fcntl: Any
termios: Any
try:
    import fcntl
    import termios
except ImportError:  # Windows
    fcntl = termios = None

_HAS_CLOSED: Final[int] = getattr(select, "POLLRDHUP", 0)
"""The client sends nothing more; systems without this say POLLHUP then."""
C = TypeVar("C")


class HangUps(Generic[C]):
    """The connections of one listener that are not read.

    A look at all of them is one system call: a millisecond for ten thousand.
    """

    def __init__(self) -> None:
        make_poll: Callable[[], Any] | None = getattr(select, "poll", None)
        self._poll: Any = None if make_poll is None else make_poll()
        self._files: dict[C, int] = {}
        self._connections: dict[int, C] = {}

    def watch(self, connection: C, transport: asyncio.BaseTransport) -> None:
        """Look at a connection from now on; one without a socket, as in a simulation, is left out."""
        opened: socket.socket | None = transport.get_extra_info("socket")
        if opened is None or self._poll is None or (file := opened.fileno()) < 0:
            return
        self._files[connection] = file
        self._connections[file] = connection
        self._poll.register(file, _HAS_CLOSED)

    def forget(self, connection: C) -> None:
        """Look at a connection no more."""
        file = self._files.pop(connection, None)
        if file is not None and self._connections.get(file) is connection:  # another may have the file by now
            del self._connections[file]
            self._poll.unregister(file)

    def gone(self) -> list[tuple[C, bool]]:
        """Return the connections whose clients have gone, and of each whether there are bytes that were not read."""
        if not self._connections:
            return []
        found: list[tuple[C, bool]] = []
        for file, event in self._poll.poll(0):
            if not event & select.POLLNVAL:  # a file that was closed in this turn
                is_reset = bool(event & (select.POLLERR | select.POLLHUP)) and bool(_HAS_CLOSED)
                found.append((self._connections[file], not is_reset and _unread_bytes(file) > 0))
        return found


def _unread_bytes(file: int) -> int:
    size = array.array("i", [0])
    try:
        fcntl.ioctl(file, termios.FIONREAD, size)
    except OSError:
        return 0
    return size[0]
