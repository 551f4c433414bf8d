"""The rates of clients under one quota: made when a client is first charged, forgotten when it is idle."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Generic, TypeVar

from purgatorio.broker.layers.quotas.entities import Limit, QuotaClient, QuotaTable
from purgatorio.broker.layers.quotas.naming import QuotaKey
from purgatorio.broker.layers.quotas.throttle import QuotaKind, Throttle
from purgatorio.broker.metadata.clients import ClientQuotas
from purgatorio.broker.time.rates import Average, Rate, RateWindow, TokenBucket
from purgatorio.purgatory.clock import Clock

MAX_CLIENTS: Final = 10_000
"""Clients of one quota whose rates are kept; the one that was charged longest ago makes room."""
IDLE_MS: Final = 3_600_000
"""After this time without a charge a rate is forgotten; no sample of it has counted for long."""

M = TypeVar("M", Rate, TokenBucket)


class Account(Generic[M]):
    """The usage of one client, or of all that share its limit.

    Attributes:
        meter: measures it.
        limit: the limit at the last charge.
        throttle_ms: the average of the throttle times in its answers.
        muted_until_ms: when the last of these ends, by the broker's clock.
        used: by how much it was over its limit then; see `Throttle`.
    """

    __slots__ = ("limit", "meter", "muted_until_ms", "throttle_ms", "used")

    def __init__(self, meter: M, limit: Limit, window: RateWindow) -> None:
        self.meter: M = meter
        self.limit = limit
        self.throttle_ms = Average(window)
        self.muted_until_ms = 0
        self.used = 0.0


class ClientAccounts(Generic[M]):
    """The accounts of one quota's clients, in the order of their last charges.

    Args:
        kind: of the quota.
        key: its name.
        window: over which it is measured.
        clock: the broker's.
    """

    def __init__(self, kind: QuotaKind, key: QuotaKey, window: RateWindow, clock: Clock) -> None:
        self.kind = kind
        self.window = window
        self._key = key
        self._clock = clock
        self._table = QuotaTable({}, key)
        self._accounts: dict[QuotaClient, Account[M]] = {}

    @property
    def is_active(self) -> bool:
        """Whether any client has a limit."""
        return bool(self._table)

    def quotas_changed(self, quotas: ClientQuotas) -> None:
        """Apply other limits to the rates that were measured (KAFKA-4158); without any, forget the rates."""
        self._table = QuotaTable(quotas, self._key)
        if not self._table:
            self._accounts.clear()

    def limit(self, user: str, client_id: str) -> Limit | None:
        """Return the limit that applies to a client; None if no quota does."""
        return self._table.find(user, client_id)

    def accounts(self) -> Iterator[Account[M]]:
        """Yield the accounts that were charged lately, the last one first."""
        now_ms = self._clock.now_ms()
        for account in reversed(self._accounts.values()):
            if now_ms - account.meter.last_ms >= IDLE_MS:
                return
            yield account

    def throttled(self, throttle: Throttle) -> None:
        """Count a throttle time that a client was answered."""
        now_ms = self._clock.now_ms()
        account = self._account(throttle.limit, now_ms)
        account.throttle_ms.record(throttle.delay_ms, now_ms)
        if now_ms + throttle.delay_ms > account.muted_until_ms:
            account.muted_until_ms = now_ms + throttle.delay_ms
            account.used = throttle.used

    def mute_of(self, limit: Limit) -> Throttle | None:
        """Return the rest of the time for which a client is muted, on whichever of its connections."""
        account = self._accounts.get(limit.client)
        left_ms = 0 if account is None else account.muted_until_ms - self._clock.now_ms()
        return Throttle(self.kind, left_ms, limit, account.used) if account is not None and left_ms > 0 else None

    def released(self, throttle: Throttle) -> None:
        """Mute a client no more, on new connections either."""
        account = self._accounts.get(throttle.limit.client)
        if account is not None:
            account.muted_until_ms = 0

    def _account(self, limit: Limit, now_ms: int) -> Account[M]:
        account = self._accounts.pop(limit.client, None)
        if account is None:
            self._make_room(now_ms)
            account = Account(self._meter(limit, now_ms), limit, self.window)
        self._accounts[limit.client] = account
        account.limit = limit
        return account

    def _meter(self, limit: Limit, now_ms: int) -> M:
        raise NotImplementedError

    def _make_room(self, now_ms: int) -> None:
        """Forget at most two idle accounts, so that an account costs the same whenever it is made."""
        for _ in range(2):
            client = next(iter(self._accounts), None)
            if client is None:
                return
            idle_ms = now_ms - self._accounts[client].meter.last_ms
            if idle_ms >= IDLE_MS or len(self._accounts) >= MAX_CLIENTS:
                del self._accounts[client]


class ClientRates(ClientAccounts[Rate]):
    """The rates of one quota's clients.

    Args:
        most_ms: the longest throttle time; None: any.
    """

    def __init__(
        self,
        kind: QuotaKind,
        key: QuotaKey,
        window: RateWindow,
        clock: Clock,
        *,
        most_ms: int | None = None,
    ) -> None:
        super().__init__(kind, key, window, clock)
        self._most_ms = most_ms

    def charge(self, limit: Limit, amount: float) -> Throttle | None:
        """Count an amount; return how the client is throttled if it is over its limit now."""
        now_ms = self._clock.now_ms()
        meter = self._account(limit, now_ms).meter
        meter.record(amount, now_ms)
        delay_ms = meter.throttle_ms(limit.value, now_ms)
        if delay_ms <= 0:
            return None
        if self._most_ms is not None:
            delay_ms = min(delay_ms, self._most_ms)
        return Throttle(self.kind, delay_ms, limit, meter.per_second(now_ms))

    def take_back(self, limit: Limit, amount: float) -> None:
        """Uncount an amount that was not sent after all."""
        now_ms = self._clock.now_ms()
        self._account(limit, now_ms).meter.record(-amount, now_ms)

    def is_over(self, limit: Limit) -> bool:
        """Return whether the client is over its limit without any further charge."""
        account = self._accounts.get(limit.client)
        return account is not None and account.meter.throttle_ms(limit.value, self._clock.now_ms()) > 0

    def is_unused(self, limit: Limit) -> bool:
        """Return whether the client was charged nothing within the window."""
        account = self._accounts.get(limit.client)
        return account is None or account.meter.total(self._clock.now_ms()) <= 0

    def _meter(self, limit: Limit, now_ms: int) -> Rate:
        return Rate(self.window)


class ClientBuckets(ClientAccounts[TokenBucket]):
    """The token buckets of the clients that change the cluster (KIP-599)."""

    def is_overdrawn(self, limit: Limit) -> bool:
        """Return whether a strict quota allows nothing now."""
        now_ms = self._clock.now_ms()
        return self._account(limit, now_ms).meter.tokens(limit.value, now_ms) < 0

    def take(self, limit: Limit, amount: float) -> None:
        """Count partitions that are changed, even if there are fewer tokens; a negative amount gives tokens back."""
        now_ms = self._clock.now_ms()
        self._account(limit, now_ms).meter.take(amount, limit.value, now_ms)

    def throttle(self, limit: Limit) -> Throttle | None:
        """Return how the client is throttled if its bucket is overdrawn."""
        now_ms = self._clock.now_ms()
        meter = self._account(limit, now_ms).meter
        delay_ms = meter.throttle_ms(limit.value, now_ms)
        return Throttle(self.kind, delay_ms, limit, -meter.tokens(limit.value, now_ms)) if delay_ms > 0 else None

    def _meter(self, limit: Limit, now_ms: int) -> TokenBucket:
        return TokenBucket(self.window, limit.value, now_ms)
