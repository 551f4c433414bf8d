"""The standard library as it is without what a process has put in its place: a test's cluster is a guest there.

Time: freezegun replaces the functions of the module `time`, also those that other modules have imported; time-machine
replaces what they do, also in objects that were taken from the module before.

Threads and sockets: gevent and eventlet make greenlets of threads, and have sockets, processes and locks wait in their
hub. The thread of a cluster must be one of the system's: its event loop never returns to a hub. pytest-socket lets no
socket be made.
"""

from __future__ import annotations

import _thread
import concurrent.futures
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    import socket

T = TypeVar("T")


def _builtin_again(name: str) -> Any:
    """Return a module of the interpreter, made once more: its functions are other objects, which nothing finds."""
    spec = find_spec(name)
    assert spec is not None and spec.loader is not None, name  # noqa: PT018 - of one kind
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_time = _builtin_again("time")
monotonic: Callable[[], float] = _time.monotonic
monotonic_ns: Callable[[], int] = _time.monotonic_ns
_time_ns: Callable[[], int] = _time.time_ns
_imported: Final = sys.modules.get


def wall_ns() -> int:
    """Return the machine's nanoseconds since 1970-01-01 UTC, as `time.time_ns` does if nothing travels in time."""
    time_machine = _imported("time_machine")
    return _time_ns() if time_machine is None else _wall_ns_by(time_machine)


def _wall_ns_by(time_machine: Any) -> int:
    """Return the time without time-machine's travels; a test may begin or end a travel meanwhile."""
    way_out = getattr(time_machine, "escape_hatch", None)
    if way_out is None:  # it is being imported
        return _time_ns()
    while True:
        if way_out.is_travelling():
            with suppress(ValueError):  # it has ended
                return int(way_out.time.time_ns())
        told = _time_ns()
        if not way_out.is_travelling():
            return told


# --- sockets and processes ---


def plain_socket() -> Any:
    """Return the module `socket`, or a copy of it if its class is another one."""
    return _plain("socket", "socket")


def accept(listening: socket.socket) -> tuple[socket.socket, Any]:
    """Accept a client as `socket.accept` does, which makes a socket of the class that the module has by now."""
    file, address = listening._accept()  # type: ignore[attr-defined]
    return plain_socket().socket(listening.family, listening.type, listening.proto, fileno=file), address


def plain_subprocess() -> Any:
    """Return the module `subprocess`, or a copy of it if its class is another one."""
    return _plain("subprocess", "Popen")


def _plain(name: str, of_its_own: str) -> Any:
    module = import_module(name)
    is_whole = getattr(getattr(module, of_its_own), "__module__", "") == name
    return module if is_whole else _again(name)


@cache
def _again(name: str) -> Any:
    """Return a module of the standard library, made once more under another name."""
    found = find_spec(name)
    assert found is not None and found.origin is not None, name  # noqa: PT018 - of one kind
    spec = spec_from_file_location(f"purgatorio.plain_{name}", found.origin)
    assert spec is not None and spec.loader is not None, name  # noqa: PT018 - of one kind
    module = sys.modules[spec.name] = module_from_spec(spec)  # where its enumerations look for it
    spec.loader.exec_module(module)
    return module


# --- threads ---

_threads: Any = _builtin_again("_thread")
get_ident: Callable[[], int] = _threads.get_ident
_system_threads: Final[set[int]] = set()


def hub() -> str:
    """Return whose greenlets the threads of this process are, "gevent" or "eventlet"; "" if they are the system's.

    Debuggers, too, put a function of theirs in the place of the one that starts threads.
    """
    package = getattr(_thread.start_new_thread, "__module__", "").partition(".")[0]
    return package if package in ("gevent", "eventlet") else ""


class SystemThread:
    """A daemon thread of the system, with what is used here of `threading.Thread`, whatever that is made of."""

    def __init__(self, target: Callable[[], object]) -> None:
        self._target = target
        self._running = _threads.allocate_lock()

    def start(self) -> None:
        """Start it."""
        self._running.acquire()
        _threads.start_new_thread(self._run, ())

    def _run(self) -> None:
        _system_threads.add(get_ident())
        try:
            self._target()
        finally:
            _system_threads.discard(get_ident())
            self._running.release()

    def is_alive(self) -> bool:
        """Return whether it runs."""
        return bool(self._running.locked())

    def join(self, timeout: float) -> None:
        """Wait for its end, or so many seconds."""
        if self._running.acquire(timeout=timeout):
            self._running.release()


def thread(target: Callable[[], object], name: str) -> threading.Thread | SystemThread:
    """Start a daemon thread of the system."""
    made = SystemThread(target) if hub() else threading.Thread(target=target, name=name, daemon=True)
    made.start()
    return made


def future() -> concurrent.futures.Future[Any]:
    """Return a future that another thread of the system may set, also where locks are those of greenlets."""
    made: concurrent.futures.Future[Any] = concurrent.futures.Future()
    if hub():
        made._condition = threading.Condition(_threads.RLock())
    return made


def result(future: concurrent.futures.Future[T], timeout_seconds: float) -> T:
    """Return the result of such a future as its `result` does; greenlets go on meanwhile."""
    if hub() and not future.done():
        done = _threads.allocate_lock()
        done.acquire()
        future.add_done_callback(lambda _: done.release())
        _aside(lambda: done.acquire(timeout=timeout_seconds))
        if not future.done():
            raise TimeoutError
        timeout_seconds = 0
    return future.result(timeout_seconds)


def _aside(wait: Callable[[], object]) -> None:
    """Make a call that blocks in a thread of the hub's pool; here, in a thread that has no greenlets."""
    if get_ident() in _system_threads:
        wait()
    elif hub() == "gevent":
        from gevent import get_hub

        get_hub().threadpool.apply(wait)
    else:
        from eventlet import tpool

        tpool.execute(wait)


class SystemThreads(ThreadPoolExecutor):
    """Makes each call in a thread of its own, which is the system's; for event loops that ask for an executor."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> concurrent.futures.Future[T]:
        """Call a function in a thread; return the future of its result."""
        made = future()

        def call() -> None:
            if made.set_running_or_notify_cancel():
                try:
                    made.set_result(fn(*args, **kwargs))
                except BaseException as error:
                    made.set_exception(error)

        SystemThread(call).start()
        return made
