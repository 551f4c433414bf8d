"""The event loop of a simulated service: what asyncio offers, simulated, or refused with a sentence."""

from __future__ import annotations

import asyncio
import itertools
import random
import socket
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final, NoReturn

from purgatorio.simulation.world.loop import (
    START_SECONDS,
    TURN_SECONDS,
    Node,
    SimulatedLoop,
    current_node,
)
from purgatorio.simulation.world.network import name_of
from purgatorio.testing.simulate.errors import OutsideSimulation

TURNS_BETWEEN_LOOKS: Final = 1_000
"""Turns of the loop between two looks at the time that the run has taken."""
MAX_FAILED_TASKS: Final = 10_000
"""The last failed tasks that are looked at in the end; clients that cannot connect have many."""
LOCAL_HOSTS: Final = (None, "", "localhost", "0.0.0.0", "127.0.0.1", "::", "::1")
_cpu_seconds: Final = time.thread_time
"""The CPU time of this thread: the time of the machine's clock depends on what else it does."""


class NumberedFuture(asyncio.Future[Any]):
    """A future whose place in a set does not depend on its address: clients walk over sets of futures."""

    def __init__(self, number: int, *, loop: asyncio.AbstractEventLoop) -> None:
        self._number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


class NumberedTask(asyncio.Task[Any]):
    """A task whose place in a set does not depend on its address, as `asyncio.wait` and clients have sets of tasks."""

    def __init__(self, number: int, coroutine: Any, **options: Any) -> None:
        self._number = number  # before the task is registered in a set
        super().__init__(coroutine, **options)

    def __hash__(self) -> int:
        return self._number


class ServiceLoop(SimulatedLoop):
    """A simulated loop that runs code which was not written for it.

    Args:
        rng: interleaves the callbacks of different nodes.
        limit_seconds: the CPU time that the run may take.
        fenced: called with each refusal: code may swallow the exception.
    """

    def __init__(
        self, rng: random.Random, *, limit_seconds: float, fenced: Callable[[OutsideSimulation], None]
    ) -> None:
        super().__init__(rng)
        self._limit_seconds = limit_seconds
        self._give_up_seconds = _cpu_seconds() + limit_seconds
        self._turns = 0
        self._looked_at = START_SECONDS
        self._fenced = fenced
        self.failed_in: dict[int, Node | None] = {}
        self._failed: deque[tuple[weakref.ref[asyncio.Task[Any]], Node | None]] = deque(maxlen=MAX_FAILED_TASKS)
        self._numbers = itertools.count()

    def create_future(self) -> asyncio.Future[Any]:
        return NumberedFuture(next(self._numbers), loop=self)

    def make_task(self, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        return NumberedTask(next(self._numbers), coroutine, loop=self, **options)

    def _run_once(self) -> None:
        self._turns += 1
        if self._turns % TURNS_BETWEEN_LOOKS == 0:
            if _cpu_seconds() > self._give_up_seconds:
                raise TimeoutError(self._too_long())
            self._looked_at = self._now
        super()._run_once()

    def _too_long(self) -> str:
        """Return what the run spends its time with: turns without a wait, or virtual time."""
        told = f"the run takes more than {self._limit_seconds:g} s of CPU time"
        if self._now - self._looked_at < 2 * TURNS_BETWEEN_LOOKS * TURN_SECONDS:
            busy = dict.fromkeys(name_of(each._context.run(current_node)) for each in self._base._ready)
            return f"{told}: does a loop in {', '.join(busy)} wait with sleep(0)?"
        return (
            f"{told}, in which {self._now - START_SECONDS:,.0f} s of virtual time passed: it waits for what never comes"
        )

    def task_made(self, task: asyncio.Task[Any], node: Node | None) -> None:
        """Note which node a task that fails belongs to; its exception is reported when nothing remembers the task."""
        super().task_made(task, node)
        task.add_done_callback(lambda done: self._note_failure(done, node), context=self.world)

    def _note_failure(self, task: asyncio.Task[Any], node: Node | None) -> None:
        # `exception()` would mark it as retrieved.
        if getattr(task, "_exception", None) is not None:
            self.failed_in[id(task)] = node
            self._failed.append((weakref.ref(task), node))

    def never_retrieved(self) -> Iterator[tuple[Node | None, BaseException]]:
        """Iterate over the exceptions of tasks that something keeps and nothing has awaited, each with its node.

        A task that nothing keeps reports its exception by its destructor. Python 3.13 keeps tasks for longer.
        """
        for reference, node in self._failed:
            task: Any = reference()
            if task is not None and task._log_traceback:
                yield node, task._exception

    def refuse(self, sentence: str) -> NoReturn:
        """Raise and report what no simulation has."""
        error = OutsideSimulation(sentence)
        self._fenced(error)
        raise error

    # --- threads: their work is done inline, in a turn of its own ---

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Run a function that a thread would run as a step of its own; it takes no virtual time."""
        answer = self.create_future()

        def step() -> None:
            if answer.cancelled():
                return
            try:
                result = func(*args)
            except Exception as error:
                answer.set_exception(error)
            else:
                answer.set_result(result)

        self.call_soon(step)
        return answer

    # --- the network ---

    async def create_connection(self, factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:  # type: ignore[override]
        """Connect over the simulated network."""
        if options.get("ssl"):
            self.refuse("TLS is not simulated: connect with PLAINTEXT here, and test TLS with the `kafka` fixture")
        if options.get("sock") is not None:
            self.refuse("a socket of the machine cannot be used in a simulation: connect by host and port")
        return await super().create_connection(factory, _host(host), port)

    async def create_server(self, factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:  # type: ignore[override]
        """Listen on the simulated network."""
        if options.get("ssl"):
            self.refuse("TLS is not simulated: serve without it here")
        return await super().create_server(factory, _host(host), port)

    async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> Any:
        """Return a name as its own address: the simulated network knows hosts by their names."""
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (_host(host), port))]

    # --- signals: a simulated process has none but SIGKILL and SIGSTOP, which it cannot handle ---

    def add_signal_handler(self, sig: int, callback: Callable[..., object], *args: Any) -> None:  # type: ignore[override]
        """Do nothing: no simulated process gets a signal that it could handle."""

    def remove_signal_handler(self, sig: int) -> bool:
        """Do nothing."""
        return True


def _host(host: Any) -> Any:
    """Return the name of a host; the current process is at ``billing.sim``, which is also its localhost."""
    return f"{name_of(current_node())}.sim" if host in LOCAL_HOSTS else host


def _refusal(name: str, what: str) -> Callable[..., Any]:
    def refuse(self: ServiceLoop, *args: Any, **options: Any) -> Any:
        self.refuse(f"{what} cannot be simulated ({name} was called by {_caller()})")

    refuse.__name__ = name
    return refuse


def _caller() -> str:
    node = current_node()
    return "the scenario" if node is None else node.name


_REFUSED: Final = {
    "UDP": ("create_datagram_endpoint",),
    "a Unix socket": ("create_unix_connection", "create_unix_server"),
    "a process": ("subprocess_exec", "subprocess_shell"),
    "a pipe": ("connect_read_pipe", "connect_write_pipe"),
    "a file descriptor": ("add_reader", "remove_reader", "add_writer", "remove_writer"),
    "a socket of the machine": (
        "sock_accept",
        "sock_connect",
        "sock_recv",
        "sock_recv_into",
        "sock_recvfrom",
        "sock_sendall",
        "sock_sendto",
        "sock_sendfile",
        "connect_accepted_socket",
    ),
    "TLS": ("start_tls",),
}
for _what, _names in _REFUSED.items():
    for _name in _names:
        setattr(ServiceLoop, _name, _refusal(_name, _what))
