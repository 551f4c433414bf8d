"""Muted connections: a delayed operation for each, which ends when its throttle time is over (Kafka: ThrottledChannel).

Kafka works on one request of a connection at a time, and reads the next one when its answer was sent and the throttle
time is over. Here a connection has many requests under way: those that were started are completed and answered also
while it is muted; none is started, and no byte is read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from purgatorio.broker.purgatory import DelayedOperation, Purgatory
from purgatorio.broker.quota.throttle import QuotaKind, Throttle
from purgatorio.broker.request import NO_CHANNEL, Session

PURGATORY: Final = "Throttled"


class ThrottledChannel(DelayedOperation):
    """A connection that is muted until its deadline.

    Args:
        throttle: why.
        session: the connection.
        muting: counts it.
    """

    __slots__ = ("_muting", "_session", "throttle")

    def __init__(self, throttle: Throttle, session: Session, muting: Muting) -> None:
        super().__init__(throttle.delay_ms)
        self.throttle = throttle
        self.client = session.client_id or ""
        self._session = session
        self._muting = muting

    def try_complete(self) -> bool:
        """Wait on: only time ends a mute, or `force_complete`."""
        return False

    def on_complete(self) -> None:
        """Let the connection go on."""
        self.on_cancel()
        self._session.channel.unthrottle()

    def on_cancel(self) -> None:
        """Forget the connection."""
        self._session.throttled_by = None
        self._muting.ended(self)

    def channel_lost(self) -> None:
        """End the wait: the connection is gone, and would be kept alive by it (KAFKA-6185)."""
        self._muting.cancel(self)

    def missing(self) -> str:
        """Tell which client is muted, for how long, and by which quota."""
        return str(self.throttle)


class Muting:
    """Mutes the connections of one broker.

    Args:
        purgatory: returns the purgatory for muted connections; makes it at the first call.
        now_ms: its clock.

    Attributes:
        muted: the connections that are muted now, by the kind of the quota that mutes them longest.
    """

    def __init__(self, purgatory: Callable[[], Purgatory[Any]], now_ms: Callable[[], int]) -> None:
        self._purgatory = purgatory
        self._now_ms = now_ms
        self.muted = dict.fromkeys(QuotaKind, 0)

    def mute(self, session: Session, throttle: Throttle) -> None:
        """Mute a connection until the throttle time from now is over; of several, until the latest end.

        Its operation lasts as long as the connection at most, so there are no more than connections.
        """
        operation = session.throttled_by
        if session.channel is NO_CHANNEL:
            return  # it is gone
        if operation is None:
            operation = session.throttled_by = ThrottledChannel(throttle, session, self)
            self.muted[throttle.kind] += 1
            session.channel.throttle()
            self._purgatory().try_complete_else_watch(operation, (f"connection {session.connection_id}",))
            return
        assert isinstance(operation, ThrottledChannel), "nothing else throttles connections"
        if self._now_ms() + throttle.delay_ms > operation.deadline_ms:
            self.muted[operation.throttle.kind] -= 1
            self.muted[throttle.kind] += 1
            operation.throttle = throttle
            self._purgatory().postpone(operation, throttle.delay_ms)

    def cancel(self, operation: ThrottledChannel) -> None:
        """End a mute without effect on the connection."""
        self._purgatory().cancel(operation)

    def ended(self, operation: ThrottledChannel) -> None:
        """Count a mute no more."""
        self.muted[operation.throttle.kind] -= 1
