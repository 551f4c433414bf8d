"""An answer that a test of any kind can wait for: with ``.wait()``, or with ``await`` in asyncio and in trio."""

from __future__ import annotations

import asyncio
import concurrent.futures
import sys
import warnings
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Final, Generic, TypeVar, overload

from purgatorio.testing.loop_thread import result_of

T = TypeVar("T")

WAIT_SECONDS: Final = 10.0
"""The longest wait, unless the test names another one."""
POLL_SECONDS: Final = 0.001
"""The time between two looks at what no event of the broker announces."""


class Waiting(Generic[T]):
    """Something that will be so, in the cluster's thread. A wait that is dropped unawaited warns, as a coroutine does.

    Args:
        future: its result, in that thread.
        what: what is waited for, for errors.
        timeout_seconds: the longest wait.
    """

    def __init__(self, future: concurrent.futures.Future[T], what: str, timeout_seconds: float = WAIT_SECONDS) -> None:
        self._future = future
        self._what = what
        self._timeout_seconds = timeout_seconds
        self._is_waited_for = False

    def __del__(self) -> None:
        if not getattr(self, "_is_waited_for", True):
            told = f"{self._what}: this was never waited for; add .wait(), or await it"
            warnings.warn(told, RuntimeWarning, stacklevel=2, source=self)

    def wait(self, timeout_seconds: float | None = None) -> T:
        """Block until it is so, and return the result.

        Raises:
            TimeoutError: it is not so in time.
            RuntimeError: the cluster was closed meanwhile.
        """
        self._is_waited_for = True
        seconds = self._timeout_seconds if timeout_seconds is None else timeout_seconds
        return result_of(self._future, self._what, seconds)

    def __await__(self) -> Generator[Any, Any, T]:
        self._is_waited_for = True
        trio = sys.modules.get("trio")
        if trio is not None and trio.lowlevel.in_trio_run():
            result: T = yield from trio.to_thread.run_sync(self.wait).__await__()
            return result
        return (yield from self._in_asyncio().__await__())

    async def _in_asyncio(self) -> T:
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await asyncio.wrap_future(self._future)
        except TimeoutError:
            raise TimeoutError(f"still waiting after {self._timeout_seconds:g} s: {self._what}") from None
        except asyncio.CancelledError:
            waiter = asyncio.current_task()
            if waiter is not None and waiter.cancelling():
                raise
            raise RuntimeError(f"the cluster was closed meanwhile: {self._what}") from None


@overload
async def first(look: Callable[[], Awaitable[T]], is_enough: Callable[[T], object] = bool) -> T: ...


@overload
async def first(look: Callable[[], T], is_enough: Callable[[T], object] = bool) -> T: ...


async def first(look: Callable[[], Any], is_enough: Callable[[Any], object] = bool) -> Any:
    """Look again and again, and return the first result that is enough."""
    while True:
        result = look()
        seen = await result if isinstance(result, Awaitable) else result
        if is_enough(seen):
            return seen
        await asyncio.sleep(POLL_SECONDS)
