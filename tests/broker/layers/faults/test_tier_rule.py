"""Fault rules about calls of the tier's object store, as data."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.layers.faults import FaultError, TierRule, parse_fault


def rule(**data: Any) -> TierRule:
    parsed = parse_fault(data)
    assert isinstance(parsed, TierRule)
    return parsed


@pytest.mark.parametrize(
    "data",
    [
        {"tier": "get", "topic": "orders", "partition": 3, "broker": 2, "hold": True, "name": "slow"},
        {"tier": "get", "delay_ms": 700, "truncate_bytes": 0},
        {"tier": "list", "error": "Unavailable", "count": 3},
        {"tier": "put", "corrupt": True, "nth": 2},
        {"tier": "delete", "lose": True, "probability": 0.5},
    ],
)
def test_a_rule_says_again_what_it_was_told(data: dict[str, Any]) -> None:
    assert rule(**data).as_data() == data


def test_it_is_shown_in_one_line() -> None:
    assert str(rule(tier="get", topic="orders", hold=True)) == "tier=get topic=orders hold=true"


def test_errors_and_calls_are_spelled_as_in_the_list() -> None:
    assert (found := rule(tier="GET", error="not_there")).error == "NotThere"
    assert found.tier == "get"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ({"tier": "gets", "hold": True}, "no call of the tier 'gets'; did you mean get?"),
        ({"tier": "append", "hold": True}, "no call of the tier 'append', only get, put, list, delete"),
        ({"tier": 7}, "'tier' must be text"),
        ({"tier": "get", "truncate": 3}, "a fault rule of the tier has no 'truncate'; did you mean truncate_bytes?"),
        ({"tier": "get", "api": "Fetch"}, "a fault rule of the tier has no 'api'"),
        ({"tier": "get"}, "the rule does nothing; give delay_ms, hold, error, truncate_bytes, corrupt or lose"),
        ({"tier": "get", "error": "unavaliable"}, "no error of the tier 'unavaliable'; did you mean Unavailable?"),
        ({"tier": "get", "error": "NOT_LEADER"}, "'NOT_LEADER', only Unavailable, Refused, NotThere, Exists"),
        ({"tier": "get", "error": "Exists"}, "the error Exists is one of put, not of get"),
        ({"tier": "delete", "error": "NotThere"}, "the error NotThere is one of get, not of delete"),
        ({"tier": "put", "truncate_bytes": 3}, "'truncate_bytes' is for get, not for put"),
        ({"tier": "get", "lose": True}, "'lose' is for put and delete, not for get"),
        ({"tier": "list", "corrupt": True}, "'corrupt' is for get and put, not for list"),
        ({"tier": "get", "corrupt": True, "truncate_bytes": 3}, "give only one of 'truncate_bytes' and 'corrupt'"),
        ({"tier": "get", "hold": True, "delay_ms": 3}, "give only one of 'delay_ms' and 'hold'"),
        ({"tier": "get", "hold": "yes"}, "'hold' must be true or false"),
        ({"tier": "get", "truncate_bytes": -1}, "'truncate_bytes' must be a whole number from 0"),
        ({"tier": "get", "hold": True, "nth": 1, "count": 2}, "give 'nth' or 'count', not both"),
        ({"tier": "get", "hold": True, "probability": 2}, "at most 1"),
        ({"tier": "get", "hold": True, "topic": 5}, "'topic' must be text"),
    ],
)
def test_a_rule_that_cannot_be_is_refused_with_a_sentence(data: dict[str, object], why: str) -> None:
    with pytest.raises(FaultError, match=why.replace("?", r"\?")):
        parse_fault(data)
