"""Tests of the configs that a group may have of its own."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.config.broker_settings import BrokerConfig
from purgatorio.broker.config.group_configs import group_keys


def accepts(name: str, text: str, **settings: Any) -> bool:
    try:
        group_keys(BrokerConfig(broker_id=1, **settings))[name].parse(text)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("consumer.session.timeout.ms", ("45000", "60000"), ("44999", "60001", "x")),
        ("consumer.heartbeat.interval.ms", ("5000", "15000"), ("4999", "15001")),
        ("consumer.assignment.interval.ms", ("0", "15000"), ("-1", "15001")),
        ("share.session.timeout.ms", ("45000", "60000"), ("44999", "60001")),
        ("share.heartbeat.interval.ms", ("5000", "15000"), ("4999", "15001")),
        ("share.record.lock.duration.ms", ("15000", "60000"), ("14999", "60001")),
        ("share.assignment.interval.ms", ("0", "15000"), ("-1", "15001")),
        ("errors.deadletterqueue.topic.name", ("", "dlq.orders"), ("__dlq", "a b")),
        ("errors.deadletterqueue.copy.record.enable", ("true",), ("",)),
        ("share.delivery.count.limit", ("2", "10"), ("1", "11")),
        ("share.partition.max.record.locks", ("100", "4000"), ("99", "4001")),
        ("share.isolation.level", ("read_committed", "read_uncommitted"), ("READ_COMMITTED", "")),
        ("share.renew.acknowledge.enable", ("true", "False"), ("yes",)),
        ("streams.num.standby.replicas", ("0", "2"), ("3",)),
        ("streams.initial.rebalance.delay.ms", ("0", "10"), ("-1",)),
        (
            "share.auto.offset.reset",
            ("earliest", "latest", "by_duration:PT1H", "by_duration:P1DT2H3M4.5S", "by_duration:P1D"),
            (
                "none",
                "EARLIEST",
                "by_duration:",
                "by_duration:P",
                "by_duration:PT",
                "by_duration:P1DT",
                "by_duration:1H",
            ),
        ),
    ],
)
def test_values_are_bounded_as_in_kafka(name: str, good: tuple[str, ...], bad: tuple[str, ...]) -> None:
    assert [text for text in good if not accepts(name, text)] == []
    assert [text for text in bad if accepts(name, text)] == []


def test_the_brokers_settings_are_the_bounds_and_the_defaults() -> None:
    settings = {
        "group_consumer_session_timeout_ms": 7_000,
        "group_consumer_min_session_timeout_ms": 6_000,
        "group_consumer_max_session_timeout_ms": 8_000,
    }
    name = "consumer.session.timeout.ms"
    key = group_keys(BrokerConfig(broker_id=1, **settings))[name]
    assert (key.default, key.low, key.high) == (7_000, 6_000, 8_000)
    assert key.broker_name == "group.consumer.session.timeout.ms"


def test_the_brokers_own_value_is_always_allowed() -> None:
    fast = group_keys(BrokerConfig(broker_id=1, group_consumer_heartbeat_interval_ms=100))
    key = fast["consumer.heartbeat.interval.ms"]
    assert (key.default, key.low, key.high) == (100, 100, 15_000)
    slow = group_keys(BrokerConfig(broker_id=1, group_consumer_session_timeout_ms=90_000))
    assert slow["consumer.session.timeout.ms"].high == 90_000


def test_kafkas_configs_of_groups_are_known() -> None:
    keys = group_keys(BrokerConfig(broker_id=1))
    assert len(keys) == 19
    assert {name.partition(".")[0] for name in keys} == {"consumer", "errors", "share", "streams"}
