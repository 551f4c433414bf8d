"""A door for `purgatorio top --attach`: one for all clusters of this process, from its first one on.

A program that knows the secret in the door's file (`purgatorio.admin.web.attach`) gets the list of open clusters.
Their admin HTTP is started for it, so that a test which is not looked at pays for a thread and a file only.
"""

from __future__ import annotations

import atexit
import contextlib
import hmac
import json
import os
import secrets
import socket
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from purgatorio.unpatched import accept, plain_socket, thread

MAX_SECRET_BYTES: Final = 100
KNOCK_SECONDS: Final = 2.0
"""How long a program has to send the secret."""

Clusters = Callable[[], Iterable[tuple[str, Callable[[], str]]]]
"""Returns where each open cluster was opened, with what returns its admin URL."""


class Door:
    """Listens on this machine, and lists the clusters for programs that know the secret."""

    def __init__(self, clusters: Clusters) -> None:
        self._clusters = clusters
        self._secret = secrets.token_urlsafe(24)
        from purgatorio.admin.web import attach

        self._listening = plain_socket().create_server(("127.0.0.1", 0))
        self.file: Path | None = attach.write(self._listening.getsockname()[1], self._secret)
        self._thread = thread(self._listen, "purgatorio door")

    def close(self) -> None:
        """Remove the file, and end the thread."""
        if self.file is not None:
            self.file.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)  # wakes the thread
        self._thread.join(KNOCK_SECONDS)
        self._listening.close()

    def let_go(self) -> None:
        """Close the socket in a forked child, whose parent has the door."""
        self._listening.close()

    def _listen(self) -> None:
        while True:
            try:
                visitor, _ = accept(self._listening)
            except OSError:
                return
            with visitor, contextlib.suppress(OSError):
                self._answer(visitor)

    def _answer(self, visitor: socket.socket) -> None:
        visitor.settimeout(KNOCK_SECONDS)
        with visitor.makefile("rb") as said:
            knock = said.readline(MAX_SECRET_BYTES).strip()
        if not hmac.compare_digest(knock, self._secret.encode()):
            return
        for where, admin_url in self._clusters():
            with contextlib.suppress(RuntimeError, TimeoutError):  # it ends just now
                visitor.sendall(json.dumps({"url": admin_url(), "where": where}).encode() + b"\n")


_door: Door | None = None


def opened(clusters: Clusters) -> None:
    """Make sure that this process has its door."""
    global _door
    if _door is None:
        with contextlib.suppress(OSError):
            _door = Door(clusters)
            atexit.register(_close)


def is_found() -> bool:
    """Whether `purgatorio top --attach` finds this process."""
    return _door is not None and _door.file is not None


def _close() -> None:
    global _door
    if _door is not None:
        _door.close()
        _door = None


def _let_go_in_child() -> None:
    global _door
    if _door is not None:
        _door.let_go()
        _door = None
        atexit.unregister(_close)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go_in_child)
