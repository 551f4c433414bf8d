"""One table declares each topic config, for topics and for the brokers' defaults of it."""

import pytest

from purgatorio.broker.config import BrokerConfig
from purgatorio.broker.config.room_settings import topic_defaults, topic_settings, topic_synonyms
from purgatorio.broker.config.setting import SettingsError
from purgatorio.broker.log.config import TOPIC_CONFIGS, ConfigKey, LogConfig

SHARED = [key for key in TOPIC_CONFIGS.values() if key.broker_name is not None]


def test_topics_inherit_the_brokers_settings_under_the_topics_names() -> None:
    defaults = topic_defaults(BrokerConfig(log_retention_ms=5, message_max_bytes=9))
    assert defaults["retention.ms"] == "5"
    assert defaults["max.message.bytes"] == "9"
    assert defaults["cleanup.policy"] == "delete"
    assert defaults["min.insync.replicas"] == "1"


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


@pytest.mark.parametrize("key", SHARED, ids=lambda key: key.name)
def test_a_brokers_setting_is_what_the_table_says_of_it(key: ConfigKey) -> None:
    """Under the name that clients are told, with the type, the documentation and the bounds of the topic's config."""
    name = str(key.broker_field_name)
    field = BrokerConfig.model_fields[name]
    assert (field.type, field.description) == (key.type, key.doc)
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
    given = {str(key.broker_field_name): text}
    if text == "shrink":
        with pytest.raises(SettingsError):
            BrokerConfig(**given)
    else:
        assert topic_defaults(BrokerConfig(**given))[name] == text
