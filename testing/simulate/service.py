"""A service of the world: processes that run your main function, each started anew after it was killed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final

from purgatorio.simulation.world.loop import Node, SimulatedLoop
from purgatorio.testing.simulate.journal import Journal

RESTART_SECONDS: Final = 1.0
"""How long a supervisor waits before it starts a process that failed."""

Main = Callable[..., Coroutine[Any, Any, object]]
Failed = Callable[[str, BaseException], None]


class Process:
    """One place where a service runs, by the name of its node.

    Args:
        main: returns the coroutine to run; called at each start, as a process starts anew.
        restarts: whether a process that fails is started again, as a supervisor does.
        failed: called with an exception that ended `main`, unless it restarts.
        ending: called before a process whose `main` has returned is ended.
    """

    def __init__(
        self,
        loop: SimulatedLoop,
        name: str,
        main: Callable[[], Coroutine[Any, Any, object]],
        *,
        restarts: bool,
        journal: Journal,
        failed: Failed,
        ending: Callable[[], None],
    ) -> None:
        self.name = name
        self._loop = loop
        self._main = main
        self._restarts = restarts
        self._journal = journal
        self._failed = failed
        self._ending = ending
        self._node: Node | None = None

    @property
    def node(self) -> Node | None:
        """The running process; None between a kill and the next start, and after its main function has returned."""
        return self._node

    def start(self) -> None:
        """Start a process; does nothing if there is one."""
        if self._node is not None:
            return
        self._node = node = self._loop.node(self.name)
        self._journal.record(self.name, "service", "starts")
        task = node.spawn(self._run(), name=self.name)
        task.add_done_callback(partial(self._ended, node), context=self._loop.world)

    async def _run(self) -> object:
        return await self._main()

    def kill(self) -> None:
        """End the process at once (SIGKILL)."""
        if self._node is not None:
            node, self._node = self._node, None
            node.kill()

    def _ended(self, node: Node, task: asyncio.Task[object]) -> None:
        if node is not self._node:
            return  # it was killed
        error = None if task.cancelled() else task.exception()
        self._ending()
        self.kill()  # its other tasks end with its main function, as in a process
        if error is None:
            self._journal.record(self.name, "service", "is cancelled" if task.cancelled() else "returns")
            return
        self._journal.record(self.name, "service", f"fails: {error!r}")
        if self._restarts:
            self._loop.call_later(RESTART_SECONDS, self.start, context=self._loop.world)
        else:
            self._failed(self.name, error)
