"""The event loop in which brokers run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from purgatorio import unpatched


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's event loop if it is installed; None stands for asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def own_loop() -> asyncio.AbstractEventLoop:
    """Return a new event loop for a thread of ours in a process of others, whose policy and time are not ours."""
    made = loop_factory()
    return _Loop() if made is None else made()


def call_soon(callback: Callable[[], object]) -> None:
    """Call `callback` in the next turn of the event loop that runs now."""
    asyncio.get_running_loop().call_soon(callback)


class _Loop(getattr(asyncio, "ProactorEventLoop", asyncio.SelectorEventLoop)):  # type: ignore[misc]
    """asyncio's own event loop, by the machine's time; uvloop's needs no help."""

    time = staticmethod(unpatched.monotonic)
