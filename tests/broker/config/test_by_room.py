"""The part of a broker's settings that each room gets: defaults of topics, as topics declare them, and limits."""

from __future__ import annotations

import pytest

from purgatorio.broker.config import BrokerConfig
from purgatorio.broker.config.by_room import group_config, topic_settings, topic_synonyms, transaction_config
from purgatorio.broker.config.declare import SettingsError
from purgatorio.broker.config.dynamic import DynamicBrokerConfig
from purgatorio.broker.log.config import TOPIC_CONFIGS, LogConfig, Setting
from purgatorio.broker.metadata.image import ClusterImage

SHARED = [key for key in TOPIC_CONFIGS.values() if key.broker_name is not None]


def test_topics_inherit_the_brokers_settings_under_the_topics_names() -> None:
    defaults = topic_settings(
        BrokerConfig(log_retention_ms=5, message_max_bytes=9, log_cleanup_policy="compact,delete")
    ).log
    assert (defaults.retention_ms, defaults.max_message_bytes, defaults.min_insync_replicas) == (5, 9, 1)
    assert defaults.cleanup_policy == ("compact", "delete")


def test_the_values_of_settings_are_those_of_topics_and_are_read_no_second_time() -> None:
    """Also those that a text would not give back, such as the digits of a ratio."""
    config = BrokerConfig(log_cleaner_min_cleanable_ratio=0.1 + 0.2, compression_type="zstd")
    assert topic_settings(config).log == LogConfig(min_cleanable_dirty_ratio=0.1 + 0.2, compression_type="zstd")


def test_dynamic_configs_that_contradict_each_other_are_defaults_of_topics_all_the_same() -> None:
    """Clients may set them, each by itself; a broker that refused them afterwards would miss the whole image."""
    lags = {"log.cleaner.min.compaction.lag.ms": "9", "log.cleaner.max.compaction.lag.ms": "8"}
    dynamic = DynamicBrokerConfig(BrokerConfig())
    dynamic.image_changed(ClusterImage(1, "test", broker_configs={"": lags}))
    defaults = topic_settings(dynamic.current).log
    assert (defaults.min_compaction_lag_ms, defaults.max_compaction_lag_ms) == (9, 8)
    assert LogConfig.from_strings({"retention.ms": "7"}, defaults).min_compaction_lag_ms == 9


def test_a_broker_without_configuration_has_the_tables_defaults() -> None:
    settings = topic_settings(BrokerConfig(num_partitions=4, default_replication_factor=2))
    assert settings.log == LogConfig()
    assert (settings.num_partitions, settings.replication_factor) == (4, 2)


def test_synonyms_are_kafkas() -> None:
    synonyms = topic_synonyms()
    assert synonyms["retention.ms"] == "log.retention.ms"
    assert synonyms["segment.ms"] == "log.roll.ms"
    assert synonyms["max.message.bytes"] == "message.max.bytes"
    assert "flush.ms" not in synonyms


@pytest.mark.parametrize("key", SHARED, ids=lambda key: key.dotted)
def test_a_brokers_setting_is_what_the_table_says_of_it(key: Setting) -> None:
    """Under the name that clients are told, with the type, the documentation and the bounds of the topic's config."""
    name = str(key.broker_name).replace(".", "_")
    field = BrokerConfig.model_fields[name]
    assert (field.dotted, field.type, field.doc) == (key.broker_name, key.type, key.doc)
    if key.low is not None and key.high is not None:
        for value in (key.low, key.high):
            assert getattr(BrokerConfig(**{name: value}), name) == key.parse(str(value))
        for value in (key.low - 1, key.high + 1):
            with pytest.raises(SettingsError):
                BrokerConfig(**{name: value})


@pytest.mark.parametrize(
    ("name", "text"), [("cleanup.policy", "compact,delete"), ("compression.type", "zstd"), ("cleanup.policy", "shrink")]
)
def test_a_brokers_setting_allows_the_choices_of_the_topics_config(name: str, text: str) -> None:
    key = TOPIC_CONFIGS[name]
    given = {str(key.broker_name).replace(".", "_"): text}
    if text == "shrink":
        with pytest.raises(SettingsError):
            BrokerConfig(**given)
    else:
        assert topic_settings(BrokerConfig(**given)).log.to_strings()[name] == text


def test_the_limits_of_groups_and_transactions_can_be_set() -> None:
    config = BrokerConfig(
        group_coordinator_max_groups=1,
        group_coordinator_max_offsets=2,
        group_coordinator_memory_max_bytes=5,
        transaction_coordinator_max_ids=3,
        transaction_max_partitions=4,
    )
    groups, transactions = group_config(config), transaction_config(config)
    assert (groups.max_groups, groups.max_offsets, groups.max_memory_bytes) == (1, 2, 5)
    assert (transactions.max_ids, transactions.max_partitions) == (3, 4)
