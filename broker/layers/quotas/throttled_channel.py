"""Muted connections: a delayed operation for each, which ends when its throttle time is over (Kafka: ThrottledChannel).

Kafka works on one request of a connection at a time, and reads the next one when its answer was sent and the throttle
time is over. Here a connection has many requests under way: those that were started are completed and answered also
while it is muted; none is started, and no byte is read.

In Kafka a client escapes its throttle by a new connection. Here the first request of that connection which the quota
is about waits for the end of the client's throttle, and mutes the connection until then.
"""

from __future__ import annotations

from collections.abc import Callable

from purgatorio.broker.causes.cause import QuotaExceeded
from purgatorio.broker.causes.kinds import THROTTLED
from purgatorio.broker.causes.purgatories import Purgatories
from purgatorio.broker.layers.quotas.throttle import QuotaKind, Throttle
from purgatorio.broker.routing.request import NO_CHANNEL, Session
from purgatorio.purgatory import DelayedOperation
from purgatorio.purgatory.clock import Clock


class ThrottledChannel(DelayedOperation):
    """A connection that is muted until its deadline.

    Args:
        throttle: why.
        session: the connection.
        muting: counts it.
        then: starts the request that waits for the end; None: none does.
    """

    __slots__ = ("_muting", "_session", "_then", "throttle")

    def __init__(
        self, throttle: Throttle, session: Session, muting: Muting, then: Callable[[], None] | None = None
    ) -> None:
        super().__init__(throttle.delay_ms)
        self._then = then
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
        self._muting.over(self)
        self._session.channel.unthrottle(self._then)

    def on_cancel(self) -> None:
        """Forget the connection."""
        self._session.throttled_by = None
        self._muting.ended(self)

    def channel_lost(self) -> None:
        """End the wait: the connection is gone, and would be kept alive by it (KAFKA-6185)."""
        self._muting.cancel(self)

    def causes(self) -> tuple[QuotaExceeded]:
        """Return which client is muted, for how long, and by which quota."""
        kind, delay_ms, (limit, client, rule), used = self.throttle
        return (QuotaExceeded(kind, client.user, client.client_id, rule, delay_ms, used, limit),)


class Muting:
    """Mutes the connections of one broker.

    Args:
        purgatories: have one for muted connections, which is made for the first of them.
        clock: the broker's.

    Attributes:
        muted: the connections that are muted now, by the kind of the quota that mutes them longest.
        when_released: called with a throttle that was ended before its time.
    """

    def __init__(self, purgatories: Purgatories, clock: Clock) -> None:
        self._purgatories = purgatories
        self._clock = clock
        self.muted = dict.fromkeys(QuotaKind, 0)
        self.when_released: Callable[[Throttle], object] = lambda throttle: None

    def mute(self, session: Session, throttle: Throttle, then: Callable[[], None] | None = None) -> None:
        """Mute a connection until the throttle time from now is over; of several, until the latest end.

        Its operation lasts as long as the connection at most, so there are no more than connections.

        Args:
            then: starts a request that waits for the end, of a connection that is not muted; never called if the
                connection is lost.
        """
        operation = session.throttled_by
        if session.channel is NO_CHANNEL:
            return  # it is gone
        if operation is None:
            operation = session.throttled_by = ThrottledChannel(throttle, session, self, then)
            self.muted[throttle.kind] += 1
            session.channel.throttle()
            self._purgatories.of(THROTTLED).try_complete_else_watch(operation, (f"connection {session.connection_id}",))
            return
        assert isinstance(operation, ThrottledChannel), "nothing else throttles connections"
        assert then is None, "no request is started on a muted connection"
        if self._clock.now_ms() + throttle.delay_ms > operation.deadline_ms:
            self.muted[operation.throttle.kind] -= 1
            self.muted[throttle.kind] += 1
            operation.throttle = throttle
            self._purgatories.of(THROTTLED).postpone(operation, throttle.delay_ms)

    def cancel(self, operation: ThrottledChannel) -> None:
        """End a mute without effect on the connection."""
        self._purgatories.of(THROTTLED).cancel(operation)

    def over(self, operation: ThrottledChannel) -> None:
        """Report a mute that was ended before its time."""
        if self._clock.now_ms() < operation.deadline_ms:
            self.when_released(operation.throttle)

    def ended(self, operation: ThrottledChannel) -> None:
        """Count a mute no more."""
        self.muted[operation.throttle.kind] -= 1
