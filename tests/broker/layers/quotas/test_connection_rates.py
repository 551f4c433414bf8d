"""Tests of the rates of accepted connections."""

from __future__ import annotations

import pytest

from purgatorio.broker.layers.quotas import connection_rates
from purgatorio.broker.layers.quotas.connection_rates import ConnectionRates
from purgatorio.broker.metadata.clients import DEFAULT_NAME, QuotaEntity
from purgatorio.broker.time.rates import RateWindow
from purgatorio.purgatory.clock import ManualClock

KEY = "connection_creation_rate"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000)


@pytest.fixture
def rates(clock: ManualClock) -> ConnectionRates:
    return ConnectionRates(RateWindow(), clock)


def test_an_address_above_its_rate_is_refused_after_a_second_at_most(
    rates: ConnectionRates, clock: ManualClock
) -> None:
    """What is refused does not count: later ones come in as soon as old ones leave the window."""
    rates.quotas_changed({QuotaEntity(ip="192.0.2.1"): {KEY: 1.0}})
    assert [rates.refuse_after_ms("192.0.2.1") for _ in range(13)] == [0] * 10 + [1_000] * 3
    assert rates.refuse_after_ms("192.0.2.2") == 0
    clock.advance_ms(5_000)
    assert rates.refuse_after_ms("192.0.2.1") == 1_000
    clock.advance_ms(6_000)
    assert [rates.refuse_after_ms("192.0.2.1") for _ in range(11)] == [0] * 10 + [1_000]


def test_the_default_gives_each_other_address_its_own_rate(rates: ConnectionRates) -> None:
    rates.quotas_changed({QuotaEntity(ip=DEFAULT_NAME): {KEY: 0.1}, QuotaEntity(ip="192.0.2.1"): {KEY: 100.0}})
    assert [rates.refuse_after_ms(host) for host in ("a", "a", "b", "192.0.2.1", "192.0.2.1")] == [0, 1_000, 0, 0, 0]


def test_without_quotas_nothing_is_measured(rates: ConnectionRates) -> None:
    rates.quotas_changed({QuotaEntity(ip=DEFAULT_NAME): {KEY: 0.1}})
    assert rates.is_active
    rates.refuse_after_ms("a")
    rates.quotas_changed({})
    assert not rates.is_active
    assert [rates.refuse_after_ms("a") for _ in range(100)] == [0] * 100
    assert [rates.read_after_ms() for _ in range(100)] == [0] * 100


def test_a_broker_reads_connections_later_that_come_too_fast(rates: ConnectionRates, clock: ManualClock) -> None:
    rates.broker_limit = 1
    assert [rates.read_after_ms() for _ in range(11)] == [0] * 10 + [1_000]
    assert rates.late_ms.value(clock.now_ms()) == 1_000


def test_addresses_are_limited(rates: ConnectionRates, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_rates, "MAX_ADDRESSES", 2)
    rates.quotas_changed({QuotaEntity(ip=DEFAULT_NAME): {KEY: 0.1}})
    for host in ("a", "b", "c"):
        rates.refuse_after_ms(host)
    assert [rates.refuse_after_ms(host) for host in ("c", "b", "a")] == [1_000, 1_000, 0]
