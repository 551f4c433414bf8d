"""Fences: what reaches out of a simulation is refused with a sentence, whichever library asks for it.

An audit hook sees sockets and processes, whichever code asks for them. Threads and sleeps are replaced.
"""

from __future__ import annotations

import _thread
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn

from purgatorio.testing.simulate.errors import OutsideSimulation
from purgatorio.testing.simulate.replacing import Place, replaced, with_taken_names

Fenced = Callable[[OutsideSimulation], None]

_SOCKET: Final = "a socket of the machine cannot be used in a simulation: connect through asyncio"
_PROCESS: Final = "a process cannot be started in a simulation"
_THREAD: Final = (
    "a thread cannot be started in a simulation: nothing would decide when it runs. asyncio.to_thread and "
    "run_in_executor are simulated"
)
_SLEEP: Final = "time.sleep would stop all processes of the simulation at once: use asyncio.sleep"
_RDKAFKA: Final = (
    "librdkafka has threads and sockets of its own, which no loop can simulate: test confluent-kafka with the `kafka` "
    "fixture"
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
}


class _Fence:
    """The thread that is fenced now, and what is told each refusal. An audit hook cannot be removed, but be idle."""

    thread: int | None = None
    fenced: Fenced | None = None
    installed = False


def _refuse(sentence: str) -> NoReturn:
    error = OutsideSimulation(sentence)
    assert _Fence.fenced is not None
    _Fence.fenced(error)
    raise error


def _look(event: str, args: tuple[Any, ...]) -> None:
    if _Fence.thread is not None and event in _EVENTS and threading.get_ident() == _Fence.thread:
        _refuse(_EVENTS[event])


def _fence(real: Callable[..., Any], sentence: str) -> Callable[..., Any]:
    """Return a function that refuses on the fenced thread, and elsewhere does what the real one does."""

    def refuse(*args: Any, **options: Any) -> Any:
        return real(*args, **options) if threading.get_ident() != _Fence.thread else _refuse(sentence)

    return refuse


def _librdkafka() -> dict[Place, Any]:
    """Return what refuses clients that are imported already and have threads and sockets in C."""
    module = sys.modules.get("confluent_kafka")
    names = ("Producer", "Consumer", "DeserializingConsumer", "SerializingProducer")
    return {} if module is None else {(module, name): _fence(getattr(module, name), _RDKAFKA) for name in names}


def _replacements() -> dict[Place, Any]:
    starts: dict[Place, Any] = {
        (owner, name): _fence(getattr(owner, name), _THREAD)
        for owner, name in ((threading.Thread, "start"), (_thread, "start_new_thread"))
    }
    return {**starts, **with_taken_names({(time, "sleep"): _fence(time.sleep, _SLEEP), **_librdkafka()})}


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
        with replaced(_replacements()):
            yield
    finally:
        _Fence.thread = _Fence.fenced = None
