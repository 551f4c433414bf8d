"""Connections that come too fast: those of an address above its quota are kept unread and closed, others read late.

Kafka accepts late where a broker has a rate, so that clients wait in the kernel's queue. Here asyncio accepts at once,
and the connection is read when its time has come.
"""

from __future__ import annotations

from collections.abc import Callable

from purgatorio.broker.layers.quotas.connection_rates import ConnectionRates
from purgatorio.broker.server.connection import Connection
from purgatorio.broker.server.limits import Refusal
from purgatorio.purgatory.clock import Alarm, Clock


class ThrottledConnections:
    """Keeps the connections of one listener waiting, each a second at most.

    Args:
        rates: how fast connections may come.
        clock: ends the waits.
        refuse: logs and counts why a connection is closed.
    """

    def __init__(
        self, rates: ConnectionRates, clock: Clock, refuse: Callable[[Refusal, str, Connection], None]
    ) -> None:
        self._rates = rates
        self._clock = clock
        self._refuse = refuse
        self._alarms: dict[Connection, Alarm] = {}

    def entered(self, connection: Connection) -> None:
        """Keep a new connection waiting if it came too fast."""
        host = connection.session.host
        delay_ms = self._rates.refuse_after_ms(host)
        then: Callable[[Connection], None] = self._close
        if delay_ms:
            self._refuse(Refusal.CONNECTION_RATE_OF_ADDRESS, f"connections of {host} come too fast", connection)
        else:
            delay_ms = self._rates.read_after_ms()
            then = self._read
        if delay_ms:
            connection.throttle()
            self._alarms[connection] = self._clock.call_later(delay_ms, then, connection)

    def left(self, connection: Connection) -> None:
        """Forget a connection that is gone."""
        alarm = self._alarms.pop(connection, None)
        if alarm is not None:
            alarm.cancel()

    def _close(self, connection: Connection) -> None:
        del self._alarms[connection]
        connection.abort()

    def _read(self, connection: Connection) -> None:
        del self._alarms[connection]
        connection.unthrottle()
