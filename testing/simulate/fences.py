"""Fences: what reaches out of a simulation is refused with a sentence, whichever library asks for it.

An audit hook sees sockets and processes, whichever code asks for them. Threads and sleeps are replaced.
"""

from __future__ import annotations

import _thread
import functools
import importlib
import importlib.util
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Final, NoReturn

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
_RDKAFKA_CLASSES: Final = ("Producer", "Consumer", "ShareConsumer", "_AdminClientImpl")
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
    """The thread that is fenced now, and the callback for refusals. An audit hook cannot be removed, but be idle."""

    thread: int | None = None
    fenced: Fenced | None = None
    installed = False
    classes: ClassVar[set[type]] = set()
    """The refusing subclasses, which are made once; never walked."""


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


def _fenced_init(of: Any) -> Callable[..., Any]:
    return _fence(of.__init__, _RDKAFKA)


@functools.cache
def _fenced_class(real: type) -> type:
    """Return a subclass that is refused on the fenced thread, for classes in C, whose methods cannot be replaced."""
    made = type(real.__name__, (real,), {"__module__": real.__module__, "__init__": _fenced_init(real)})
    _Fence.classes.add(made)
    return made


def _subclasses(of: type) -> Iterator[type]:
    """Iterate over the subclasses of a class that are there, but for those that the fence has made."""
    each: type
    for each in of.__subclasses__():
        if each not in _Fence.classes:
            yield each
            yield from _subclasses(each)


def _librdkafka() -> dict[Place, Any]:
    """Return what refuses clients that have threads and sockets in C.

    They are imported now, if they are installed: a service may be the first to import them.
    """
    if importlib.util.find_spec("confluent_kafka") is None:
        return {}
    importlib.import_module("confluent_kafka.admin")
    native = importlib.import_module("confluent_kafka.cimpl")
    found: dict[Place, Any] = {}
    for name in _RDKAFKA_CLASSES:
        real = getattr(native, name, None)  # an older version has fewer
        if real is not None:
            found[native, name] = _fenced_class(real)
            found |= {(each, "__init__"): _fenced_init(each) for each in _subclasses(real)}
    return found


def _replacements() -> dict[Place, Any]:
    starts: dict[Place, Any] = {
        (owner, name): _fence(getattr(owner, name), _THREAD)
        for owner, name in ((threading.Thread, "start"), (_thread, "start_new_thread"))
    }
    return {**starts, **with_taken_names({(time, "sleep"): _fence(time.sleep, _SLEEP), **_librdkafka()})}


@contextmanager
def fenced(refused: Fenced) -> Iterator[None]:
    """Refuse calls that reach out of this thread's simulation while the context lasts.

    Args:
        refused: called with each refusal, which code may swallow.

    Raises:
        RuntimeError: another simulation runs in this process.
    """
    if _Fence.thread is not None:
        raise RuntimeError("a simulation runs already in this process: simulations cannot be nested")
    if not _Fence.installed:
        sys.addaudithook(_look)
        _Fence.installed = True
    _Fence.thread, _Fence.fenced = threading.get_ident(), refused
    try:
        with replaced(_replacements()):
            yield
    finally:
        _Fence.thread = _Fence.fenced = None
