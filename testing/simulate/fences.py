"""Fences: what reaches out of a simulation is refused with a sentence, whichever library asks for it.

An audit hook sees sockets, processes, threads and sleeps of pure Python and of C code that tells the interpreter.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from purgatorio.testing.simulate.errors import OutsideSimulation

Fenced = Callable[[OutsideSimulation], None]

_SOCKET: Final = "a socket of the machine cannot be used in a simulation: connect through asyncio"
_PROCESS: Final = "a process cannot be started in a simulation"
_THREAD: Final = (
    "a thread cannot be started in a simulation: nothing would decide when it runs. asyncio.to_thread and "
    "run_in_executor are simulated"
)
_EVENTS: Final = {
    "socket.connect": _SOCKET,
    "socket.bind": _SOCKET,
    "socket.sendto": _SOCKET,
    "socket.sendmsg": _SOCKET,
    "socket.getaddrinfo": "names are not looked up in a simulation: connect through asyncio, to a simulated host",
    "subprocess.Popen": _PROCESS,
    "os.system": _PROCESS,
    "os.fork": _PROCESS,
    "os.forkpty": _PROCESS,
    "os.posix_spawn": _PROCESS,
    "os.exec": _PROCESS,
    "_thread.start_new_thread": _THREAD,
    "_thread.start_joinable_thread": _THREAD,
    "time.sleep": "time.sleep would stop all processes of the simulation at once: use asyncio.sleep",
}


class _Fence:
    """The thread that is fenced now, and what is told each refusal. An audit hook cannot be removed, but be idle."""

    thread: int | None = None
    fenced: Fenced | None = None
    installed = False


def _look(event: str, args: tuple[Any, ...]) -> None:
    if _Fence.thread is None or event not in _EVENTS or threading.get_ident() != _Fence.thread:
        return
    error = OutsideSimulation(_EVENTS[event])
    assert _Fence.fenced is not None
    _Fence.fenced(error)
    raise error


@contextmanager
def fenced(told: Fenced) -> Iterator[None]:
    """Refuse what reaches out of this thread's simulation while the context lasts.

    Args:
        told: called with each refusal, which code may swallow.

    Raises:
        RuntimeError: another simulation runs in this process.
    """
    if _Fence.thread is not None:
        raise RuntimeError("a simulation runs already in this process: simulations cannot be nested")
    if not _Fence.installed:
        sys.addaudithook(_look)
        _Fence.installed = True
    _Fence.thread, _Fence.fenced = threading.get_ident(), told
    try:
        yield
    finally:
        _Fence.thread = _Fence.fenced = None
