"""Fault rules as data: what is understood, and what is refused with which sentence."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.layers.faults.rule import FaultError, parse_rule


def test_a_rule_is_told_in_one_line_by_the_names_that_it_was_given() -> None:
    rule = parse_rule({"api": "fetch", "topic": "orders", "error": "not_leader_or_follower", "count": 3})
    assert str(rule) == "api=Fetch topic=orders count=3 error=NOT_LEADER_OR_FOLLOWER"
    assert rule.as_data() == {"api": "Fetch", "topic": "orders", "error": "NOT_LEADER_OR_FOLLOWER", "count": 3}
    assert parse_rule(rule.as_data()) == rule


def test_an_absent_name_and_none_mean_any() -> None:
    assert parse_rule({"broker": None, "partition": None, "drop": "request"}) == parse_rule({"drop": "request"})


def test_zero_is_a_partition_and_a_broker_and_not_the_absence_of_one() -> None:
    """The zero values of Go's structs are such a trap (franz-go#1435)."""
    assert parse_rule({"api": "Produce", "partition": 0, "hold": True}).names_partitions


@pytest.mark.parametrize("name", ["OffsetFetch", "OFFSET_FETCH", "offsetfetch"])
def test_an_api_may_be_spelled_in_both_of_kafkas_ways(name: str) -> None:
    assert parse_rule({"api": name, "hold": True}).api == "OffsetFetch"


def test_errors_in_turn_are_their_own_count() -> None:
    assert parse_rule({"errors": ["REQUEST_TIMED_OUT", "NONE"]}).budget == 2
    assert parse_rule({"hold": True, "nth": 3}).budget == 1
    assert parse_rule({"hold": True}).budget is None


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({"api": "Fetsch", "hold": True}, "no API 'Fetsch'; did you mean Fetch?"),
        ({"error": "NOT_LEADER"}, "no error 'NOT_LEADER'"),
        ({"error": "REQUEST_TIMEOUT"}, "no error 'REQUEST_TIMEOUT'; did you mean REQUEST_TIMED_OUT?"),
        ({"cleint": "till", "hold": True}, "no 'cleint'; did you mean client?"),
        ({"api": "Heartbeat", "topic": "orders", "hold": True}, "Heartbeat requests name no topics"),
        ({"api": "Produce", "group": "billing", "hold": True}, "Produce requests name no group"),
        ({"api": "Fetch", "transactional_id": "t", "hold": True}, "Fetch requests name no transactional id"),
        ({"api": "Fetch", "version": 99, "hold": True}, "Fetch has no version 99, only 4 to 18"),
        ({"api": "StreamsGroupHeartbeat", "hold": True}, "do not answer StreamsGroupHeartbeat"),
        ({"api": "Fetch"}, "the rule does nothing"),
        ({"observe": True, "hold": True}, "observes does nothing else"),
        ({"error": "UNKNOWN_SERVER_ERROR", "drop": "answer"}, "only one of 'error' and 'drop'"),
        ({"hold": True, "delay_ms": 5}, "only one of 'delay_ms' and 'hold'"),
        ({"error": "UNKNOWN_SERVER_ERROR", "throttle_ms": 5}, "needs the broker's own answer"),
        ({"hold": True, "count": 0}, "'count' must be a whole number from 1"),
        ({"hold": True, "count": True}, "'count' must be a whole number"),
        ({"hold": 1}, "'hold' must be true or false"),
        ({"hold": True, "count": 2, "nth": 2}, "'nth' or 'count', not both"),
        ({"hold": True, "probability": 0}, "'probability' must be"),
        ({"hold": True, "topic": 7}, "'topic' must be text"),
        ({"hold": True, "topic_id": "short"}, "'topic_id' must be 22 letters"),
        ({"answer_delay_ms": 5, "drop": "answer"}, "needs an answer, which 'drop' takes away"),
        ({"hide": 2, "hold": True}, "hides does nothing else"),
        ({"hide": 2, "observe": True}, "observes does nothing else"),
        ({"hide": 2, "api": "Fetch"}, "the answers to Fetch list no brokers"),
        ({"answer_delay_ms": 5, "hold": True}, "only one of 'answer_delay_ms' and 'hold'"),
        ({"disconnect": "during"}, "'disconnect' must be before or after"),
        ({"errors": []}, "'errors' must be a list"),
        ({"errors": ["NONE"], "count": 2}, "'errors' has its own count"),
        ({"hold": True, "client": "a", "replica": 2}, "'replica' or 'client', not both"),
        ({"hold": True, "when": "api_version > 3"}, "'when' takes a function of Python"),
    ],
)
def test_a_rule_that_cannot_be_is_refused_with_a_sentence(data: dict[str, Any], sentence: str) -> None:
    with pytest.raises(FaultError) as caught:
        parse_rule(data)
    assert sentence in str(caught.value)


def test_functions_are_for_python() -> None:
    rule = parse_rule({"when": len, "reply": repr}, functions=True)
    assert (rule.when, rule.reply) == (len, repr)
    assert str(rule) == "when=len reply=repr"
    with pytest.raises(FaultError, match="'when' must be a function"):
        parse_rule({"when": "x", "hold": True}, functions=True)
