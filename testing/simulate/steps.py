"""The steps of a run: when which process runs which callback, after which draws. Two runs of a seed have the same."""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Callable
from typing import Any, Final

from purgatorio.simulation.world.loop import START_SECONDS, Node
from purgatorio.simulation.world.network import name_of
from purgatorio.testing.simulate.loop import ServiceLoop
from purgatorio.testing.simulate.streams import seed_of

_DRAWS_MASK: Final = 0xFFFF_FFFF


class Steps:
    """Reports each step of a run, in a line.

    Args:
        report: called with each line.
    """

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._draws = 0

    def stream(self, seed: int, purpose: str) -> random.Random:
        """Return the generator of one purpose of a seed; its draws are part of the next step."""
        return _Reported(seed_of(seed, purpose), self._drawn)

    def _drawn(self, value: float) -> None:
        self._draws = hash((self._draws, value)) & _DRAWS_MASK  # the hash of numbers is the same in each process

    def follow(self, loop: ServiceLoop) -> None:
        """Report the steps of a loop."""
        run: Callable[[Node | None, asyncio.Handle], None] = loop._run_handle

        def run_reported(node: Node | None, handle: asyncio.Handle) -> None:
            seconds = loop.time() - START_SECONDS
            self._report(f"{seconds:.6f} s  {name_of(node):<12} {callback_of(handle)}, draws {self._draws:08x}")
            run(node, handle)

        loop._run_handle = run_reported  # type: ignore[method-assign]  # only a loop that is followed pays for it


class _Reported(random.Random):
    """A generator that reports its draws, which are those of any other."""

    def __init__(self, seed: str, report: Callable[[float], None]) -> None:
        self._report = report
        super().__init__(seed)

    def random(self) -> float:
        value = super().random()
        self._report(value)
        return value

    def getrandbits(self, k: int, /) -> int:
        value = super().getrandbits(k)
        self._report(value)
        return value


def callback_of(handle: asyncio.Handle) -> str:
    """Return what a handle runs, without addresses: a task by its coroutine and its number, or a function."""
    callback: Any = getattr(handle, "_callback", None)
    while isinstance(callback, functools.partial):
        callback = callback.func
    task = getattr(callback, "__self__", None)
    if isinstance(task, asyncio.Task):
        coroutine: Any = task.get_coro()
        frame = getattr(coroutine, "cr_frame", None)
        line = "" if frame is None else f" line {frame.f_lineno}"
        return f"{getattr(coroutine, '__qualname__', 'a task')}{line}, task {hash(task)}"
    return str(getattr(callback, "__qualname__", type(callback).__qualname__))
