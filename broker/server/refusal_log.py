"""Log lines about refused connections and requests: few of a kind, and short, whatever clients send.

A client decides how often it is refused and how long its client id is. So each reason has a budget of lines; the first
line after a silence tells how many lines were left out.
"""

from __future__ import annotations

from typing import Final

from purgatorio.broker.clock import Clock
from purgatorio.broker.server.limits import Refusal
from purgatorio.logger import get_logger

LINES_PER_PERIOD: Final = 10
"""Lines of one reason within `PERIOD_MS`: enough to see whether one client or many are refused."""
PERIOD_MS: Final = 10_000
MAX_TEXT_CHARS: Final = 200
"""The longest value in a line. Topic names have at most 249 characters, client ids of real clients far fewer."""

_log = get_logger(__name__)


class RefusalLog:
    """Logs refusals of one listener.

    Args:
        listener: the listener's name.
        clock: times the periods.
    """

    def __init__(self, listener: str, clock: Clock) -> None:
        self._listener = listener
        self._clock = clock
        self._budgets: dict[Refusal, LineBudget] = {}

    def refused(self, reason: Refusal, detail: str, *, peer: str, client_id: str | None, **fields: object) -> None:
        """Log one refusal, or count it if its reason has used up its lines."""
        budget = self._budgets.setdefault(reason, LineBudget())
        left_out = budget.take(self._clock.now_ms())
        if left_out is None:
            return
        if left_out:
            fields["lines_left_out"] = left_out
        _log.warning(
            "connection refused",
            reason=str(reason),
            detail=cut(detail),
            peer=peer,
            client_id=None if client_id is None else cut(client_id),
            listener=self._listener,
            **fields,
        )


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
