"""Toxics as data, and on which connections they act."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.layers.faults import FaultError, LiveToxic, Toxic, parse_fault
from tests.broker.layers.faults.harness import FakeBroker


@pytest.fixture
def broker() -> FakeBroker:
    return FakeBroker({})


def toxic(**data: Any) -> Toxic:
    parsed = parse_fault(data)
    assert isinstance(parsed, Toxic)
    return parsed


@pytest.mark.parametrize(
    "data",
    [
        {"toxic": "latency", "latency_ms": 100, "jitter_ms": 20, "client": "billing"},
        {"toxic": "bandwidth", "rate_kb": 64, "stream": "upstream"},
        {"toxic": "slow_close", "delay_ms": 5, "broker": 2},
        {"toxic": "timeout", "replica": 3, "name": "silence"},
        {"toxic": "reset_peer", "timeout_ms": 7, "toxicity": 0.5},
        {"toxic": "slicer", "average_size_bytes": 10, "size_variation_bytes": 3, "delay_ms": 1},
        {"toxic": "limit_data", "limit_bytes": 0},
    ],
)
def test_a_toxic_says_again_what_it_was_told(data: dict[str, Any]) -> None:
    assert toxic(**data).as_data() == data


def test_it_is_shown_in_one_line() -> None:
    assert str(toxic(toxic="latency", latency_ms=100, client="till")) == "toxic=latency client=till latency_ms=100"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ({"toxic": "latencies"}, "no toxic 'latencies'; did you mean latency?"),
        ({"toxic": "rain"}, "no toxic 'rain', only latency, bandwidth"),
        ({"toxic": 7}, "a toxic is given by its name"),
        ({"toxic": "latency", "latency": 3}, "has no 'latency'; did you mean latency_ms?"),
        ({"toxic": "latency", "rate_kb": 3}, "'latency' has no 'rate_kb'"),
        ({"toxic": "latency", "api": "Fetch"}, "'latency' has no 'api'"),
        ({"toxic": "latency"}, "'latency' does nothing; give latency_ms"),
        ({"toxic": "latency", "latency_ms": -1}, "'latency_ms' must be a whole number from 0"),
        ({"toxic": "latency", "latency_ms": True}, "'latency_ms' must be a whole number"),
        ({"toxic": "bandwidth"}, "'bandwidth' needs rate_kb"),
        ({"toxic": "bandwidth", "rate_kb": 0}, "'rate_kb' must be a whole number from 1"),
        ({"toxic": "timeout", "stream": "up"}, "must be upstream or downstream"),
        ({"toxic": "timeout", "toxicity": 0}, "above 0"),
        ({"toxic": "timeout", "toxicity": 1.5}, "at most 1"),
        ({"toxic": "timeout", "client": 5}, "must be text"),
        ({"toxic": "timeout", "client": "till", "replica": 2}, "not both"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(data: dict[str, object], why: str) -> None:
    with pytest.raises(FaultError, match=why.replace("?", r"\?")):
        parse_fault(data)


def test_a_broker_passes_the_toxics_that_may_be_about_its_connections(broker: FakeBroker) -> None:
    first = broker.faults.add(toxic(toxic="timeout"))
    broker.faults.add(toxic(toxic="timeout", broker=2))
    last = broker.faults.add(toxic(toxic="reset_peer", broker=1))
    assert broker.poisoned[-1].rules == (first, last)
    first.release()
    assert broker.poisoned[-1].rules == (last,)
    broker.faults.clear()
    assert broker.poisoned[-1].rules == ()
    assert broker.faults.rules == []


def test_requests_are_not_asked_about_toxics(broker: FakeBroker) -> None:
    broker.faults.add(toxic(toxic="timeout"))
    assert broker.handlers == broker.own_handlers


@pytest.mark.parametrize(
    ("about", "clients"),
    [
        ({}, ["till", "broker-of-mine", ""]),
        ({"client": "till"}, ["till"]),
        ({"replica": 2}, ["broker-2-fetcher"]),
    ],
)
def test_it_is_about_clients_unless_it_asks_for_a_broker(
    broker: FakeBroker, about: dict[str, Any], clients: list[str]
) -> None:
    live = broker.faults.add(toxic(toxic="timeout", **about))
    everybody = ["till", "broker-of-mine", "", "broker-2-fetcher", "broker-3-fetcher"]
    assert [each for each in everybody if live.is_about(each)] == clients


def test_toxicity_is_a_share_of_the_connections_drawn_from_the_seed() -> None:
    def drawn(seed: int) -> list[bool]:
        live = LiveToxic(1, toxic(toxic="timeout", toxicity=0.3), lambda _: None, seed)
        acts = [live.draw() is not None for _ in range(200)]
        assert (live.matched, live.fired) == (200, sum(acts))
        return acts

    assert drawn(1) == drawn(1) != drawn(2)
    assert 40 < sum(drawn(1)) < 80


def test_a_connection_on_which_it_acts_is_told_of(broker: FakeBroker) -> None:
    live = broker.faults.add(toxic(toxic="latency", latency_ms=5))
    broker.poisoned[-1].draw(live, "till")
    (fired,) = broker.faults.fired
    assert (fired.rule, fired.nth, fired.broker, fired.api, fired.client) == (live.id, 1, 1, "connection", "till")
    assert fired.action == "latency downstream"
    assert live.as_data()["fired"] == 1
