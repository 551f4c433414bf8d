"""The open files of this process: each connection is one.

Without a free file the kernel cannot give the listener a connection. uvloop then closes new connections without a word,
asyncio leaves them waiting; so caps on connections lie below the limit, and a broker says when no file is free.
"""

from __future__ import annotations

import errno
import importlib
import importlib.util
import os
from typing import Any, Final

resource: Any = importlib.import_module("resource") if importlib.util.find_spec("resource") else None
"""None on Windows, where the number of sockets has no such limit."""

WANTED_FILES: Final = 65_536
"""As many as the largest default caps need; some systems refuse more, or take long over tables that large."""
CONNECTIONS_SHARE: Final = 0.75
"""The share of the open files that clients' connections may take; the rest is for the admin HTTP, the connections
between brokers, and the program that runs the brokers."""
OWN_FILES: Final = 64
"""Files that a process has whose brokers have no connection: listening sockets, the event loop's, the standard ones."""
FILES_PER_BROKER_PAIR: Final = 8
"""Both ends of two connections in each direction: one fetches, one asks the coordinator."""


def raise_limit() -> int | None:
    """Raise the soft limit of open files towards `WANTED_FILES`, as far as the system lets a process do it itself.

    Returns:
        The limit now; None if there is none.
    """
    if resource is None:
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED_FILES if hard == resource.RLIM_INFINITY else min(WANTED_FILES, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return limit()
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):  # macOS says unlimited, and refuses more than its own bound
        return limit()
    return wanted


def limit() -> int | None:
    """Return the soft limit of open files; None if there is none."""
    if resource is None:
        return None
    soft: int = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if soft == resource.RLIM_INFINITY else soft


def connections_per_broker(brokers: int) -> int | None:
    """Return how many connections each broker of a process may accept; None if open files do not bound it."""
    files = limit()
    if files is None:
        return None
    own = OWN_FILES + FILES_PER_BROKER_PAIR * (brokers * (brokers - 1) // 2)
    return max(1, min(int(files * CONNECTIONS_SHARE), files - own) // brokers)


def is_one_free() -> bool:
    """Return whether a file can be opened now."""
    try:
        os.close(os.dup(0))
    except OSError as error:
        return error.errno not in (errno.EMFILE, errno.ENFILE)
    return True
