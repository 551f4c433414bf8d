"""Replaces work that installed libraries do in C or in threads of their own, out of reach of other patches."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import importlib
import importlib.util
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from purgatorio.testing.simulate.replacing import Place, replaced, with_taken_names


@contextmanager
def adapted() -> Iterator[None]:
    """Have libraries take the simulation's time and turns while the context lasts."""
    with replaced({**_aiokafka(), **_anyio()}):
        yield


def _aiokafka() -> dict[Place, Any]:
    """Return what stamps records: aiokafka's C builder would do it by gettimeofday, years after the virtual time."""
    if importlib.util.find_spec("aiokafka") is None:
        return {}
    builder = importlib.import_module("aiokafka.producer.message_accumulator").BatchBuilder
    append: Callable[..., Any] = builder.append

    def stamped(self: Any, *, timestamp: int | None, **rest: Any) -> Any:
        return append(self, timestamp=int(time.time() * 1000) if timestamp is None else timestamp, **rest)

    return {(builder, "append"): stamped}


def _anyio() -> dict[Place, Any]:
    """Return what runs functions in anyio's threads: FastStream and others do so with every function that is sync."""
    if importlib.util.find_spec("anyio") is None:
        return {}

    async def run_sync(func: Callable[..., Any], *args: Any, **options: Any) -> Any:
        step = functools.partial(contextvars.copy_context().run, func, *args)
        return await asyncio.get_running_loop().run_in_executor(None, step)

    return with_taken_names({(importlib.import_module("anyio.to_thread"), "run_sync"): run_sync})
