"""The machine's clock, whatever a test has put in the place of the module `time`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from purgatorio.purgatory.clock import Alarm
from purgatorio.unpatched import monotonic, monotonic_ns, wall_ns


class SystemClock:
    """The machine's clocks, and the timers of the running event loop."""

    def now_ms(self) -> int:
        """Monotonic milliseconds."""
        return monotonic_ns() // 1_000_000

    now_seconds = staticmethod(monotonic)
    """Monotonic seconds; without a call around the call, since each request reads it."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC."""
        return wall_ns() // 1_000_000

    async def sleep(self, delay_ms: float) -> None:
        await asyncio.sleep(delay_ms / 1000)

    def call_later(self, delay_ms: float, callback: Callable[..., object], *args: Any) -> Alarm:
        return asyncio.get_running_loop().call_later(delay_ms / 1000, callback, *args)
