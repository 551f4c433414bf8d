"""A thread with an event loop of its own, in which clusters run while tests of any kind use them."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import os
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final, TypeVar

from purgatorio import unpatched
from purgatorio.broker.time.event_loop import own_loop

T = TypeVar("T")

CALL_TIMEOUT_SECONDS: Final = 30.0
"""The longest wait for the thread; a test must not hang for ever because a cluster does."""


class SharedThread:
    """A daemon thread that runs an event loop. All methods are called from other threads."""

    def __init__(self) -> None:
        self._loop = own_loop()
        self._pid = os.getpid()
        self._hub = unpatched.hub()
        if self._hub:
            self._loop.set_default_executor(unpatched.SystemThreads())
        self._ident: int | None = None
        self._thread = unpatched.thread(self._run, "purgatorio cluster")

    def _run(self) -> None:
        self._ident = unpatched.get_ident()
        self._loop.run_forever()

    @property
    def is_usable(self) -> bool:
        """Whether the thread runs in this process, and can be waited for.

        A forked child has the object, and not the thread. Where threads have become greenlets since the start, neither
        works: gevent and eventlet have to patch before there are threads.
        """
        return self._pid == os.getpid() and self._hub == unpatched.hub() and self._thread.is_alive()

    @property
    def is_current(self) -> bool:
        """Whether the caller is in the thread itself."""
        return unpatched.get_ident() == self._ident

    def start(self, coroutine: Coroutine[Any, Any, T], doing: str) -> concurrent.futures.Future[T]:
        """Start a coroutine in the thread; `doing` names what it does, for errors.

        Raises:
            RuntimeError: this process was forked after the thread began, or the caller is in the thread itself.
        """
        if not self.is_usable:
            coroutine.close()
            if self._hub != (hub := unpatched.hub()):
                raise RuntimeError(f"cannot {doing}: {hub or self._hub} patched this process after the cluster's start")
            raise RuntimeError(f"cannot do this after a fork: {doing}. The cluster runs in a thread of the parent.")
        if self.is_current:
            coroutine.close()
            raise RuntimeError(f"cannot wait for the cluster from within its thread: {doing}")
        future = unpatched.future()
        self._loop.call_soon_threadsafe(self._begin, coroutine, future)
        return future

    def _begin(self, coroutine: Coroutine[Any, Any, T], future: concurrent.futures.Future[T]) -> None:
        """Run a coroutine as `asyncio.run_coroutine_threadsafe` does, whose futures have the locks of greenlets."""
        task = self._loop.create_task(coroutine)
        task.add_done_callback(partial(_tell, future))
        future.add_done_callback(partial(self._forget, task))

    def _forget(self, task: asyncio.Task[T], future: concurrent.futures.Future[T]) -> None:
        if future.cancelled() and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(task.cancel)

    def close(self) -> None:
        """Stop the loop and end the thread."""
        if not self.is_usable:
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_TIMEOUT_SECONDS)
        if not self._thread.is_alive():
            self._loop.close()


def _tell(future: concurrent.futures.Future[T], task: asyncio.Task[T]) -> None:
    """Set what became of a task; a future that was cancelled has no use for it."""
    if task.cancelled():
        future.cancel()
    if not future.set_running_or_notify_cancel():
        return
    error = task.exception()
    if error is None:
        future.set_result(task.result())
    else:
        future.set_exception(error)


class LoopThread:
    """The thread as one cluster uses it: when that cluster ends, so does all that was started for it.

    Args:
        shared: the thread; by default the one that the clusters of this process share.
    """

    def __init__(self, shared: SharedThread | None = None) -> None:
        self._shared = shared or shared_thread()
        self._started: set[concurrent.futures.Future[Any]] = set()
        self._is_closed = False

    @property
    def is_usable(self) -> bool:
        """Whether calls are possible: `end` was not called, and this process is not a forked child."""
        return not self._is_closed and self._shared.is_usable

    def start(self, coroutine: Coroutine[Any, Any, T], doing: str) -> concurrent.futures.Future[T]:
        """Start a coroutine in the thread; it is cancelled when the cluster ends. `doing` names it, for errors.

        Raises:
            RuntimeError: the cluster is closed, this process was forked after the thread began, or the caller is in
                the thread itself.
        """
        if self._is_closed:
            coroutine.close()
            raise RuntimeError(f"the cluster is closed; cannot {doing}")
        future = self._shared.start(coroutine, doing)
        self._started.add(future)
        future.add_done_callback(self._started.discard)
        return future

    def run(self, coroutine: Coroutine[Any, Any, T], doing: str, timeout_seconds: float = CALL_TIMEOUT_SECONDS) -> T:
        """Run a coroutine in the thread and return its result.

        Raises:
            TimeoutError: it took longer; it is cancelled.
            RuntimeError: as `start`; or the cluster was closed before there was a result.
        """
        return result_of(self.start(coroutine, doing), doing, timeout_seconds)

    def call(
        self, function: Callable[[], T | Awaitable[T]], doing: str, timeout_seconds: float = CALL_TIMEOUT_SECONDS
    ) -> T:
        """Call a function in the thread and return its result, awaited if it can be. Raises as `run`."""

        async def called() -> T:
            found = function()
            return await found if isinstance(found, Awaitable) else found

        return self.run(called(), doing, timeout_seconds)

    def end(self, coroutine: Coroutine[Any, Any, None], doing: str) -> None:
        """Cancel what is under way, run a last coroutine, and refuse all further calls. Raises as `run`."""
        self._is_closed = True
        for future in list(self._started):
            future.cancel()
        result_of(self._shared.start(coroutine, doing), doing, CALL_TIMEOUT_SECONDS)


def result_of(future: concurrent.futures.Future[T], doing: str, timeout_seconds: float) -> T:
    """Wait for the result of what was started for a cluster.

    Raises:
        TimeoutError: it took longer; it is cancelled.
        RuntimeError: the cluster was closed meanwhile.
    """
    try:
        return unpatched.result(future, timeout_seconds)
    except concurrent.futures.CancelledError:
        raise RuntimeError(f"the cluster was closed meanwhile: {doing}") from None
    except concurrent.futures.TimeoutError:
        if future.done():
            raise
        future.cancel()
        raise TimeoutError(f"still waiting after {timeout_seconds:g} s: {doing}") from None


_shared: SharedThread | None = None


def shared_thread() -> SharedThread:
    """Return the thread of this process; the first caller starts it. It ends with the process."""
    global _shared
    if _shared is None or not _shared.is_usable:
        _shared = SharedThread()
        atexit.register(_shared.close)
    return _shared


def runs_here() -> bool:
    """Return whether the caller is in the thread that the clusters of this process share."""
    return _shared is not None and _shared.is_current
