"""How fast connections may come: from one IP address (KIP-612), and to the broker (KIP-402). Knows no event loop."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from purgatorio.broker.layers.quotas.entities import ip_limits
from purgatorio.broker.metadata.clients import DEFAULT_NAME, ClientQuotas
from purgatorio.broker.time.rates import Average, Rate, RateWindow
from purgatorio.purgatory.clock import Clock

MAX_DELAY_MS: Final = 1_000
"""The longest that a connection is kept waiting, in Kafka one window of its quotas."""
MAX_ADDRESSES: Final = 10_000
"""Addresses whose rates are kept; the one that connected longest ago makes room."""


class ConnectionRates:
    """The rates of accepted connections of one broker.

    Args:
        window: over which they are measured.
        clock: the broker's.

    Attributes:
        broker_limit: connections that the broker accepts per second (max.connection.creation.rate).
        refused_ms: how long connections were kept before they were closed, on average.
        late_ms: how long connections had to wait, on average.
    """

    def __init__(self, window: RateWindow, clock: Clock) -> None:
        self._window = window
        self._clock = clock
        self._limits: Mapping[str, float] = {}
        self._of_address: dict[str, Rate] = {}
        self._of_broker = Rate(window)
        self.broker_limit: float = math.inf
        self.refused_ms = Average(window)
        self.late_ms = Average(window)

    @property
    def is_active(self) -> bool:
        """Whether any address has a limit."""
        return bool(self._limits)

    def quotas_changed(self, quotas: ClientQuotas) -> None:
        """Apply other limits of addresses."""
        self._limits = ip_limits(quotas)
        if not self._limits:
            self._of_address.clear()

    def refuse_after_ms(self, host: str) -> int:
        """Count a connection from an address; return 0, or after how long it is to be closed, unread.

        A connection that is closed does not count.
        """
        limit = self._limits.get(host, self._limits.get(DEFAULT_NAME)) if self._limits else None
        if limit is None:
            return 0
        rate = self._of_address.pop(host, None)
        if rate is None:
            if len(self._of_address) >= MAX_ADDRESSES:
                del self._of_address[next(iter(self._of_address))]
            rate = Rate(self._window)
        self._of_address[host] = rate
        now_ms = self._clock.now_ms()
        rate.record(1, now_ms)
        delay_ms = min(MAX_DELAY_MS, rate.throttle_ms(limit, now_ms))
        if delay_ms:
            rate.record(-1, now_ms)
            self.refused_ms.record(delay_ms, now_ms)
        return delay_ms

    def read_after_ms(self) -> int:
        """Count a connection to the broker; return for how long it is not to be read."""
        if self.broker_limit == math.inf:
            return 0
        now_ms = self._clock.now_ms()
        self._of_broker.record(1, now_ms)
        delay_ms = min(MAX_DELAY_MS, self._of_broker.throttle_ms(self.broker_limit, now_ms))
        if delay_ms:
            self.late_ms.record(delay_ms, now_ms)
        return delay_ms
