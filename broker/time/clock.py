"""The old name of `purgatorio.purgatory.clock`, for one release: it goes with 0.4.0 (see `purgatorio.moved`).

The machine's clock went elsewhere: it knows what tests put in the place of `time`, and the purgatory stands alone.
"""

from __future__ import annotations

import warnings

from purgatorio.broker.time.system_clock import SystemClock
from purgatorio.purgatory.clock import Alarm, Clock, ManualClock, time_limit

__all__ = ["Alarm", "Clock", "ManualClock", "SystemClock", "time_limit"]

warnings.warn(
    "purgatorio.broker.time.clock is purgatorio.purgatory.clock now, and SystemClock is in "
    "purgatorio.broker.time.system_clock; the old name goes with 0.4.0",
    DeprecationWarning,
    stacklevel=2,
)
