"""Tests of the decisions about topic configs."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

from purgatorio.broker.log.config import LogConfig
from purgatorio.broker.metadata.controller import (
    ConfigChange,
    ConfigOperation,
    NewTopic,
    TopicResult,
    TopicSettings,
    alter_topic_configs,
    changing,
    create_topics,
    replacing,
    topic_log_config,
)
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.protocol.errors import ErrorCode

SETTINGS = TopicSettings()
SET, DELETE, APPEND, SUBTRACT = ConfigOperation


@pytest.fixture
def image(three: ClusterImage) -> ClusterImage:
    topic = NewTopic("orders", configs={"retention.ms": "1000", "segment.bytes": "2000"})
    return create_topics(three, [topic], settings=SETTINGS, rng=random.Random(7))[0]


def configs(image: ClusterImage) -> Mapping[str, str]:
    return image.topics["orders"].configs


def change(
    image: ClusterImage, *changes: tuple[str, int, str | None], **options: Any
) -> tuple[ClusterImage, TopicResult]:
    return alter_topic_configs(
        image, "orders", changing([ConfigChange(*each) for each in changes]), **{"settings": SETTINGS, **options}
    )


def test_altering_replaces_all_configs(image: ClusterImage) -> None:
    after, result = alter_topic_configs(image, "orders", replacing({"retention.bytes": "5"}), settings=SETTINGS)
    assert result.error == ErrorCode.NONE
    assert configs(after) == {"retention.bytes": "5"}
    assert configs(image) == {"retention.ms": "1000", "segment.bytes": "2000"}


def test_altering_to_no_configs_resets_all_to_the_defaults(image: ClusterImage) -> None:
    after, _ = alter_topic_configs(image, "orders", replacing({}), settings=SETTINGS)
    assert configs(after) == {}
    assert topic_log_config(after.topics["orders"], SETTINGS) == LogConfig()


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"retention.mss": "1"}, ErrorCode.INVALID_CONFIG),
        ({"retention.ms": "x"}, ErrorCode.INVALID_CONFIG),
        ({"retention.ms": None}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_altering_to_an_invalid_config_changes_nothing(
    image: ClusterImage, wrong: dict[str, str | None], error: ErrorCode
) -> None:
    after, result = alter_topic_configs(image, "orders", replacing(wrong), settings=SETTINGS)
    assert after is image
    assert result.error == error


def test_an_unknown_topic_cannot_be_altered(image: ClusterImage) -> None:
    for after, result in (
        alter_topic_configs(image, "other", replacing({}), settings=SETTINGS),
        alter_topic_configs(image, "other", changing([]), settings=SETTINGS),
    ):
        assert after is image
        assert result.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_incremental_changes_leave_the_other_configs_alone(image: ClusterImage) -> None:
    after, result = change(image, ("retention.ms", DELETE, None), ("retention.bytes", SET, "5"))
    assert result.error == ErrorCode.NONE
    assert configs(after) == {"segment.bytes": "2000", "retention.bytes": "5"}


def test_deleting_a_config_that_is_not_set_changes_nothing(image: ClusterImage) -> None:
    after, result = change(image, ("retention.bytes", DELETE, None))
    assert after is image
    assert result.error == ErrorCode.NONE


def test_appending_to_a_config_that_is_not_set_starts_from_the_default(image: ClusterImage) -> None:
    after, _ = change(image, ("cleanup.policy", APPEND, "compact"))
    assert configs(after)["cleanup.policy"] == "delete,compact"


def test_appending_an_item_that_is_in_the_list_adds_it_no_second_time(image: ClusterImage) -> None:
    after, _ = change(image, ("cleanup.policy", SET, "compact"))
    after, _ = change(after, ("cleanup.policy", APPEND, " delete, compact ,delete"))
    assert configs(after)["cleanup.policy"] == "compact,delete"


def test_subtracting_removes_items_and_ignores_those_that_are_not_in_the_list(image: ClusterImage) -> None:
    after, _ = change(image, ("cleanup.policy", SET, "compact,delete"))
    after, result = change(after, ("cleanup.policy", SUBTRACT, "delete,other"))
    assert result.error == ErrorCode.NONE
    assert configs(after)["cleanup.policy"] == "compact"


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (("retention.ms", APPEND, "1"), ErrorCode.INVALID_CONFIG),
        (("retention.ms", SUBTRACT, "1"), ErrorCode.INVALID_CONFIG),
        (("retention.mss", SET, "1"), ErrorCode.INVALID_CONFIG),
        (("retention.mss", APPEND, "1"), ErrorCode.INVALID_CONFIG),
        (("cleanup.policy", APPEND, "shred"), ErrorCode.INVALID_CONFIG),
        (("retention.ms", SET, None), ErrorCode.INVALID_REQUEST),
        (("cleanup.policy", APPEND, None), ErrorCode.INVALID_REQUEST),
        (("retention.ms", 9, "1"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_one_invalid_change_refuses_all_changes(
    image: ClusterImage, wrong: tuple[str, int, str | None], error: ErrorCode
) -> None:
    after, result = change(image, ("retention.bytes", SET, "5"), wrong)
    assert after is image
    assert result.error == error
    assert result.message


def test_changing_a_config_twice_in_one_request_is_refused(image: ClusterImage) -> None:
    after, result = change(image, ("retention.ms", SET, "1"), ("retention.ms", DELETE, None))
    assert after is image
    assert result.error == ErrorCode.INVALID_REQUEST


def test_validate_only_gives_the_same_result_and_changes_nothing(image: ClusterImage) -> None:
    after, result = change(image, ("retention.ms", SET, "1"), validate_only=True)
    assert after is image
    assert result.error == ErrorCode.NONE
    assert alter_topic_configs(image, "orders", replacing({}), settings=SETTINGS, validate_only=True)[0] is image


def test_setting_the_present_value_changes_nothing(image: ClusterImage) -> None:
    assert change(image, ("retention.ms", SET, "1000"))[0] is image


def test_a_topics_logs_are_configured_by_its_own_configs_over_the_brokers_defaults(image: ClusterImage) -> None:
    settings = TopicSettings(log=LogConfig(retention_ms=5, retention_bytes=6))
    config = topic_log_config(image.topics["orders"], settings)
    assert (config.retention_ms, config.retention_bytes) == (1000, 6)


def test_lags_of_compaction_may_not_contradict_each_other_nor_those_of_the_brokers(image: ClusterImage) -> None:
    settings = TopicSettings(log=LogConfig(min_compaction_lag_ms=6))
    for lags in ({"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "8"}, {"max.compaction.lag.ms": "5"}):
        after, result = alter_topic_configs(image, "orders", replacing(lags), settings=settings)
        assert (after, result.error) == (image, ErrorCode.INVALID_CONFIG)


def test_a_topic_goes_on_whose_lag_contradicts_a_later_default_of_the_brokers(image: ClusterImage) -> None:
    after, _ = alter_topic_configs(image, "orders", replacing({"min.compaction.lag.ms": "9"}), settings=SETTINGS)
    lags = {"log.cleaner.min.compaction.lag.ms": "4", "log.cleaner.max.compaction.lag.ms": "3"}
    settings = TopicSettings(log=LogConfig().with_broker_configs(lags))
    assert topic_log_config(after.topics["orders"], settings).min_compaction_lag_ms == 9
    after = after.with_broker_configs("", lags)
    _, result = alter_topic_configs(after, "orders", replacing({"max.compaction.lag.ms": "10"}), settings=settings)
    assert result.error == ErrorCode.NONE


def test_a_topic_has_a_tier_only_where_the_brokers_have_one(image: ClusterImage) -> None:
    enable = ("remote.storage.enable", SET, "true")
    _, refused = change(image, enable)
    assert (refused.error, refused.message) == (
        ErrorCode.INVALID_CONFIG,
        "remote.storage.enable: the brokers have no tier: set tier.location",
    )
    after, _ = change(image, enable, settings=TopicSettings(has_tier=True))
    assert configs(after)["remote.storage.enable"] == "true"


def test_a_topic_leaves_the_tier_only_without_its_records_there(image: ClusterImage) -> None:
    settings = TopicSettings(has_tier=True)
    tiered, _ = change(image, ("remote.storage.enable", SET, "true"), settings=settings)
    disable = ("remote.storage.enable", SET, "false")
    _, refused = change(tiered, disable, settings=settings)
    assert refused.error == ErrorCode.INVALID_CONFIG
    assert "set remote.log.delete.on.disable=true as well" in (refused.message or "")
    after, result = change(tiered, disable, ("remote.log.delete.on.disable", SET, "true"), settings=settings)
    assert (result.error, configs(after)["remote.storage.enable"]) == (ErrorCode.NONE, "false")
