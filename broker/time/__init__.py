"""Time and turns: clocks, rates over windows of time, the event loop, long work, and when garbage is collected.

`Clock` itself and the manual one are in `purgatory/clock.py`. Here are `system_clock.py` (the machine's),
`running_clock.py` (without standstills of the process: leases), `movable_clock.py` (which tests and operators move),
`rates.py` (the arithmetic of quotas), `event_loop.py`, `long_work.py` (work in steps that share the turns of the loop),
and `garbage.py`, which sets Python's collector.
"""

from typing import Final

MAX_ADVANCE_SECONDS: Final = 100 * 366 * 24 * 3600
"""A hundred years: farther, timestamps and deadlines would leave their ranges."""
