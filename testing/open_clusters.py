"""The open clusters of this process, so that those which a test or a program forgot are ended and reported."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Final

from purgatorio.late import dataclass
from purgatorio.testing import door
from purgatorio.unpatched import plain_socket

_OURS: Final = ("purgatorio.testing", "pytest_purgatorio", "contextlib", "unittest.case")
"""Modules that open a cluster for others."""
_FIXTURES: Final = "_pytest.fixtures"


@dataclass(frozen=True, slots=True, eq=False)
class OpenCluster:
    """A cluster that is open.

    Attributes:
        close: ends it.
        admin_url: returns the URL of its admin HTTP, which is started if it was not yet.
        ports: the brokers' ports.
        where: file and line that opened it.
        by_fixture: whether a fixture of pytest opened it, which closes it when its scope ends.
    """

    close: Callable[[], None]
    admin_url: Callable[[], str]
    ports: tuple[int, ...]
    where: str
    by_fixture: bool


_open: dict[OpenCluster, None] = {}


def opened(close: Callable[[], None], admin_url: Callable[[], str], ports: tuple[int, ...]) -> OpenCluster:
    """Note a cluster that the caller's caller opened, and that `close` ends; hand the result to `closed`."""
    if not _open:
        # Again each time: what is registered last runs first, and the loop thread must end after its clusters.
        atexit.unregister(_close_forgotten)
        atexit.register(_close_forgotten)
    where, by_fixture = _origin()
    cluster = OpenCluster(close, admin_url, ports, where, by_fixture)
    _open[cluster] = None
    door.opened(_told)
    return cluster


def closed(cluster: OpenCluster) -> None:
    """Forget a cluster."""
    _open.pop(cluster, None)


def open_clusters() -> list[OpenCluster]:
    """Return the open clusters of this process, oldest first."""
    return list(_open)


def _told() -> list[tuple[str, Callable[[], str]]]:
    """Return for `purgatorio top --attach` the open clusters, with the test that runs or the line that opened each."""
    test = os.environ.get("PYTEST_CURRENT_TEST")
    return [(test or each.where, each.admin_url) for each in open_clusters()]


def _origin() -> tuple[str, bool]:
    where, by_fixture = "", False
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        by_fixture = by_fixture or module == _FIXTURES
        if not where and not module.startswith(_OURS):
            where = f"{_shown(frame.f_code.co_filename)}:{frame.f_lineno}"
        frame = frame.f_back
    return where or "the program", by_fixture


def _shown(filename: str) -> str:
    path = Path(filename)
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def _close_forgotten() -> None:
    """End the clusters that are open at the end of the process, and say where they were opened."""
    for cluster in open_clusters():
        print(
            f"purgatorio: the cluster that {cluster.where} opened was never closed; it ends now. "
            "Use `with cluster() as kafka:`, or call `kafka.close()`.",
            file=sys.stderr,
        )
        cluster.close()


def _let_go_in_child() -> None:
    """Forget the clusters in a forked child, which are the parent's, and release the brokers' sockets.

    Otherwise a broker that is killed would keep its port, and its clients would not notice: workers of a pool live on.
    The sockets' numbers are kept, and the clusters in memory, so that nothing in the child closes what is not its own.
    """
    if _open:
        _inherited.extend(_open)
        _release({port for cluster in _open for port in cluster.ports})
        _open.clear()


_inherited: list[OpenCluster] = []


def _release(ports: set[int]) -> None:
    """Put nothing in the place of each open file that is a socket on one of these ports."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in [int(name) for name in os.listdir("/dev/fd")]:
        if _is_bound_to(number, ports):
            os.dup2(nothing, number, inheritable=False)
    os.close(nothing)


def _is_bound_to(number: int, ports: set[int]) -> bool:
    try:
        opened = plain_socket().socket(fileno=number)
    except OSError:  # no socket, or closed meanwhile
        return False
    try:
        name = opened.getsockname()
        return isinstance(name, tuple) and name[1] in ports
    finally:
        opened.detach()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go_in_child)
