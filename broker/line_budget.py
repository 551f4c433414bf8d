"""How many log lines there are about one thing that clients cause, and how long: few, and short, whatever they send."""

from __future__ import annotations

from typing import Final

LINES_PER_PERIOD: Final = 10
"""Lines of one reason within `PERIOD_MS`: enough to see whether one client or many are refused."""
PERIOD_MS: Final = 10_000
MAX_TEXT_CHARS: Final = 200
"""The longest value in a line. Topic names have at most 249 characters, client ids of real clients far fewer."""


class LineBudget:
    """The lines of one reason in the current period: at most `LINES_PER_PERIOD` within `PERIOD_MS`."""

    def __init__(self) -> None:
        self._ends_ms: int | None = None
        self._left = 0
        self._left_out = 0

    def take(self, now_ms: int) -> int | None:
        """Take one line; return how many were left out before it, or None if this one is left out."""
        if self._ends_ms is None or now_ms >= self._ends_ms:
            self._ends_ms = now_ms + PERIOD_MS
            self._left = LINES_PER_PERIOD
        if not self._left:
            self._left_out += 1
            return None
        self._left -= 1
        left_out, self._left_out = self._left_out, 0
        return left_out


def cut(text: str) -> str:
    """Return a text that came from a client, without its end if it is too long for a log line."""
    if len(text) <= MAX_TEXT_CHARS:
        return text
    return f"{text[:MAX_TEXT_CHARS]}… ({len(text)} characters)"
