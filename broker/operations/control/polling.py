"""Waiting for what no one event of the brokers tells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from purgatorio.broker.operations.errors import ClusterUnavailable
from purgatorio.broker.time.clock import SystemClock

POLL_MS: Final = 1
TIME_LIMIT_MS: Final = 10_000
_MACHINE: Final = SystemClock()
"""Such waits go by the machine's time: the brokers' may stand still (`MovableClock.freeze`)."""


async def until(holds: Callable[[], bool], what: str, time_limit_ms: int = TIME_LIMIT_MS) -> None:
    """Wait until a condition holds.

    Args:
        what: the condition, for the message: "all brokers know the new leader".

    Raises:
        ClusterUnavailable: it did not hold in time.
    """
    deadline_ms = _MACHINE.now_ms() + time_limit_ms
    while not holds():
        if _MACHINE.now_ms() >= deadline_ms:
            raise ClusterUnavailable(f"after {time_limit_ms / 1000:g} s it is still not so that {what}")
        await _MACHINE.sleep(POLL_MS)
