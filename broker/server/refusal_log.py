"""Log lines about refused connections and requests: few of a kind, and short, whatever clients send.

A client decides how often it is refused and how long its client id is. So each reason has a budget of lines; the first
line after a silence has the number of lines that were left out.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from purgatorio.broker.server.limits import Refusal
from purgatorio.logger import LineBudget, cut, get_logger
from purgatorio.purgatory.clock import Clock

_log = get_logger(__name__)

LAST_REFUSED: Final = 20
"""How many refusals of a listener are kept as they were."""


class RefusedConnection(NamedTuple):
    """A refusal; its texts are cut.

    Attributes:
        at_ms: when, on the broker's clock.
        client: its client id; "" if it had not named one.
    """

    at_ms: int
    reason: str
    detail: str
    client: str


class RefusalLog:
    """Logs refusals of one listener.

    Args:
        listener: the listener's name.
        clock: times the periods.

    Attributes:
        last: the last refusals, oldest first.
    """

    def __init__(self, listener: str, clock: Clock) -> None:
        self._listener = listener
        self._clock = clock
        self._budgets: dict[Refusal, LineBudget] = {}
        self.last: deque[RefusedConnection] = deque(maxlen=LAST_REFUSED)

    def refused(self, reason: Refusal, detail: str, *, peer: str, client_id: str | None, **fields: object) -> None:
        """Log one refusal, or count it if its reason has used up its lines; the end of an idle connection is none."""
        if reason is Refusal.IDLE:  # an ordinary end: most clients connect again when they have something to say
            _log.debug("idle connection closed", detail=detail, peer=peer, listener=self._listener)
            return
        detail, now_ms = cut(detail), self._clock.now_ms()
        self.last.append(RefusedConnection(now_ms, str(reason), detail, cut(client_id or "")))
        _log.warn_within(
            self._budgets.setdefault(reason, LineBudget()),
            now_ms,
            "connection refused",
            reason=str(reason),
            detail=detail,
            peer=peer,
            client_id=None if client_id is None else cut(client_id),
            listener=self._listener,
            **fields,
        )
