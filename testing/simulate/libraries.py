"""What libraries do in C, out of reach of the patches: replaced while a simulation runs, if they are installed."""

from __future__ import annotations

import importlib
import importlib.util
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def adapted() -> Iterator[None]:
    """Have libraries take the simulation's time while the context lasts."""
    if importlib.util.find_spec("aiokafka") is None:
        yield
        return
    BatchBuilder = importlib.import_module("aiokafka.producer.message_accumulator").BatchBuilder  # noqa: N806 - a class
    append = BatchBuilder.append

    def stamped(self: Any, *, timestamp: int | None, **rest: Any) -> Any:
        # aiokafka's C builder stamps records by gettimeofday; simulated brokers refuse them as years too late.
        return append(self, timestamp=int(time.time() * 1000) if timestamp is None else timestamp, **rest)

    BatchBuilder.append = stamped
    try:
        yield
    finally:
        BatchBuilder.append = append
