"""Settings that change while a broker runs: which there are, and which value is in effect."""

from __future__ import annotations

from purgatorio.broker.config import BrokerConfig
from purgatorio.broker.config.by_room import topic_settings
from purgatorio.broker.config.dynamic import DynamicBrokerConfig, dynamic_keys
from purgatorio.broker.config.kafka_settings import unread_keys
from purgatorio.broker.metadata.image import ClusterImage

STATIC = BrokerConfig(broker_id=1, log_retention_ms=5)


def image(configs: dict[str, dict[str, str]]) -> ClusterImage:
    return ClusterImage(1, "test", broker_configs=configs)


def test_they_are_kafkas_dynamic_configs_that_exist_here() -> None:
    assert set(dynamic_keys()) - unread_keys(BrokerConfig.model_fields).keys() == {
        "compression.type",
        "follower.replication.throttled.rate",
        "group.share.assignment.interval.ms",
        "leader.replication.throttled.rate",
        "log.cleaner.backoff.ms",
        "log.cleaner.delete.retention.ms",
        "log.cleaner.max.compaction.lag.ms",
        "log.cleaner.min.cleanable.ratio",
        "log.cleaner.min.compaction.lag.ms",
        "log.cleanup.policy",
        "log.local.retention.bytes",
        "log.local.retention.ms",
        "log.message.timestamp.after.max.ms",
        "log.message.timestamp.before.max.ms",
        "log.message.timestamp.type",
        "log.remote.copy.lag.bytes",
        "log.remote.copy.lag.ms",
        "log.retention.bytes",
        "log.retention.ms",
        "log.roll.ms",
        "log.segment.bytes",
        "max.connection.creation.rate",
        "max.connections",
        "max.connections.per.ip",
        "max.decompressed.message.bytes",
        "message.max.bytes",
        "min.insync.replicas",
        "producer.id.expiration.ms",
        "remote.fetch.max.wait.ms",
        "remote.list.offsets.request.timeout.ms",
        "remote.log.manager.copier.thread.pool.size",
        "remote.log.manager.copy.max.bytes.per.second",
        "remote.log.manager.fetch.max.bytes.per.second",
        "remote.log.reader.threads",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    }


def test_a_brokers_own_value_wins_over_that_of_all_brokers_and_that_over_the_one_of_the_start() -> None:
    dynamic = DynamicBrokerConfig(STATIC)
    every = {"log.retention.ms": "6", "max.connections": "7"}
    assert dynamic.image_changed(image({"": every})) == {"log_retention_ms": 6, "max_connections": 7}
    both = image({"": every, "1": {"log.retention.ms": "8"}, "2": {"log.retention.ms": "9"}})
    assert dynamic.image_changed(both) == {"log_retention_ms": 8}
    assert (dynamic.current.log_retention_ms, dynamic.current.max_connections) == (8, 7)


def test_a_value_that_is_reset_is_that_of_the_start_again() -> None:
    dynamic = DynamicBrokerConfig(STATIC)
    dynamic.image_changed(image({"": {"log.retention.ms": "6"}}))
    assert dynamic.image_changed(image({})) == {"log_retention_ms": 5}
    assert dynamic.current == STATIC


def test_a_change_of_another_broker_or_of_a_throttle_changes_nothing_here() -> None:
    dynamic = DynamicBrokerConfig(STATIC)
    configs = {"1": {"leader.replication.throttled.rate": "5"}, "2": {"log.retention.ms": "6"}}
    assert dynamic.image_changed(image(configs)) == {}


def test_a_list_is_a_default_of_topics_as_if_it_were_set_at_the_start() -> None:
    dynamic = DynamicBrokerConfig(STATIC)
    dynamic.image_changed(image({"": {"log.cleanup.policy": " compact, delete "}}))
    assert topic_settings(dynamic.current).log.cleanup_policy == ("compact", "delete")


def test_a_config_that_kafka_does_not_know_changes_no_setting_though_a_field_has_its_name() -> None:
    custom = {"log_retention_ms": "7", "host": "0.0.0.0", "my.own": "x"}
    assert DynamicBrokerConfig(STATIC).image_changed(image({"1": custom})) == {}
