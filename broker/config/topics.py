"""What a broker's settings say about topics."""

from __future__ import annotations

from purgatorio.broker.config.broker_settings import BrokerConfig
from purgatorio.broker.log.config import TOPIC_CONFIGS, LogConfig
from purgatorio.broker.log.config_keys import config_text
from purgatorio.broker.metadata.controller import TopicSettings


def topic_settings(config: BrokerConfig) -> TopicSettings:
    """The defaults for topics that are created without saying more."""
    log_defaults = LogConfig.from_strings(topic_defaults(config))
    return TopicSettings(config.num_partitions, config.default_replication_factor, log_defaults)


def topic_defaults(config: BrokerConfig) -> dict[str, str]:
    """The broker's defaults of topic configs, by the topic configs' names (``retention.ms``)."""
    return {
        key.name: config_text(getattr(config, key.broker_field_name))
        for key in TOPIC_CONFIGS.values()
        if key.broker_field_name is not None
    }


def topic_synonyms() -> dict[str, str]:
    """For each topic config the broker's setting that is its default, both by Kafka's dotted names."""
    return {key.name: key.broker_name for key in TOPIC_CONFIGS.values() if key.broker_name is not None}
