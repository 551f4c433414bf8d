"""Time, passed in: the clock that runs, the one that tests move, the event loop, and when garbage is collected."""

from typing import Final

MAX_ADVANCE_SECONDS: Final = 100 * 366 * 24 * 3600
"""A hundred years: farther, timestamps and deadlines would leave their ranges."""
