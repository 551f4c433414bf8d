"""The delayed operation of a member's session: it waits for a heartbeat that does not come.

Each sign of life moves the deadline (`Purgatory.postpone`): the operation is parked once per session, and ends when the
member leaves or its session is over. Kafka ended one operation with each heartbeat, and parked the next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from purgatorio.broker.causes.cause import NoHeartbeat
from purgatorio.broker.causes.words import shortened
from purgatorio.late import dataclass
from purgatorio.purgatory import DelayedOperation, Purgatory


@dataclass(frozen=True, slots=True)
class MemberKey:
    """The watch key of a member's session."""

    group_id: str
    member_id: str

    def __str__(self) -> str:
        return f"{shortened(self.group_id)}: {shortened(self.member_id)}"


class DelayedHeartbeat(DelayedOperation):
    """The session of one member, or of a member id that was given out and has not joined yet.

    Args:
        session_timeout_ms: the time that each sign of life gives.
        counts_as_alive: asked at the deadline; while it returns true the session goes on.
    """

    __slots__ = ("_counts_as_alive", "_expired", "_key", "_purgatory", "session_timeout_ms")

    def __init__(
        self,
        purgatory: Purgatory[Any],
        key: MemberKey,
        session_timeout_ms: int,
        *,
        expired: Callable[[], None],
        counts_as_alive: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__(session_timeout_ms)
        self._purgatory = purgatory
        self._key = key
        self._expired = expired
        self._counts_as_alive = counts_as_alive
        self.session_timeout_ms = session_timeout_ms

    def start(self, client: str = "") -> DelayedHeartbeat:
        """Begin the session; `client` is the member's client id, for observers."""
        self.client = client
        self._purgatory.try_complete_else_watch(self, (self._key,))
        return self

    def beat(self) -> None:
        """Give the member its session timeout again, from now: it has shown that it lives."""
        self._purgatory.postpone(self, self.session_timeout_ms)

    def end(self) -> None:
        """End the session: the member has left, or this broker does not coordinate its group any more."""
        self.force_complete()

    def try_complete(self) -> bool:
        """Wait on: only `end` completes a session."""
        return False

    def expire(self) -> bool:
        """End the session, unless the member waits for an answer of this broker, which counts as a sign of life."""
        if not self.completed and self._counts_as_alive():
            self.beat()
            return False
        return super().expire()

    def on_complete(self) -> None:
        """Answer no request: a session has none."""

    def on_expiration(self) -> None:
        """Remove the member."""
        self._expired()

    def causes(self) -> tuple[NoHeartbeat]:
        """Return the member whose heartbeat is waited for."""
        return (NoHeartbeat(self._key.group_id, self._key.member_id),)

    def held_by(self) -> tuple[str]:
        """Return the member's id."""
        return (shortened(self._key.member_id),)
