"""Log lines about refused connections and requests: few of a kind, and short, whatever clients send.

A client decides how often it is refused and how long its client id is. So each reason has a budget of lines; the first
line after a silence has the number of lines that were left out.
"""

from __future__ import annotations

from purgatorio.broker.server.limits import Refusal
from purgatorio.logger import LineBudget, cut, get_logger
from purgatorio.purgatory.clock import Clock

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
        """Log one refusal, or count it if its reason has used up its lines; the end of an idle connection is none."""
        if reason is Refusal.IDLE:  # an ordinary end: most clients connect again when they have something to say
            _log.debug("idle connection closed", detail=detail, peer=peer, listener=self._listener)
            return
        _log.warn_within(
            self._budgets.setdefault(reason, LineBudget()),
            self._clock.now_ms(),
            "connection refused",
            reason=str(reason),
            detail=cut(detail),
            peer=peer,
            client_id=None if client_id is None else cut(client_id),
            listener=self._listener,
            **fields,
        )
