"""Topic configs: parsing, defaults, descriptions."""

from __future__ import annotations

import dataclasses

import pytest

from purgatorio.broker.log.config import MAX_LONG, TOPIC_CONFIGS, ConfigType, InvalidConfig, LogConfig
from purgatorio.protocol.compression import Compression
from purgatorio.protocol.records import TimestampType

KAFKAS_DEFAULTS = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "delete.retention.ms": "86400000",
    "max.compaction.lag.ms": "9223372036854775807",
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "min.insync.replicas": "1",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.ms": "604800000",
    "unclean.leader.election.enable": "false",
}


def test_defaults_are_kafkas() -> None:
    assert LogConfig().to_strings().items() >= KAFKAS_DEFAULTS.items()
    assert LogConfig().to_strings()["segment.bytes"] == str(16 * 1024 * 1024), "smaller than Kafka's, as its doc says"


def test_every_config_is_a_field_and_is_described() -> None:
    assert [name.replace(".", "_") for name in TOPIC_CONFIGS] == [field.name for field in dataclasses.fields(LogConfig)]
    assert list(TOPIC_CONFIGS) == sorted(TOPIC_CONFIGS)
    assert all(key.doc for key in TOPIC_CONFIGS.values())


def test_text_comes_back_as_it_was_given() -> None:
    given = {
        "cleanup.policy": "compact,delete",
        "compression.type": "zstd",
        "message.timestamp.type": "LogAppendTime",
        "min.cleanable.dirty.ratio": "0.01",
        "preallocate": "true",
        "retention.ms": "-1",
    }
    config = LogConfig.from_strings(given)
    assert config.to_strings().items() >= given.items()
    assert config.compact
    assert config.delete
    assert config.compression is Compression.ZSTD
    assert config.timestamp_type is TimestampType.LOG_APPEND_TIME


def test_configs_that_a_topic_does_not_set_come_from_the_brokers_defaults() -> None:
    defaults = LogConfig(retention_ms=5, segment_bytes=100)
    config = LogConfig.from_strings({"retention.ms": "7"}, defaults)
    assert (config.retention_ms, config.segment_bytes) == (7, 100)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("retention.ms", "soon"),
        ("retention.ms", "-2"),
        ("retention.ms", str(MAX_LONG + 1)),
        ("segment.bytes", "13"),
        ("segment.bytes", str(2**31)),
        ("max.message.bytes", "-1"),
        ("min.insync.replicas", "0"),
        ("cleanup.policy", "shrink"),
        ("cleanup.policy", "delete,shrink"),
        ("compression.type", "ZIP"),
        ("message.timestamp.type", "createtime"),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("min.cleanable.dirty.ratio", "nan"),
        ("min.cleanable.dirty.ratio", "half"),
        ("preallocate", "yes"),
        ("segment.ms", ""),
    ],
)
def test_values_that_are_not_valid_are_refused_by_name(name: str, text: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        LogConfig.from_strings({name: text})
    assert caught.value.name == name
    assert str(caught.value).startswith(name)
    assert caught.value.why


def test_an_unknown_config_suggests_the_near_one() -> None:
    with pytest.raises(InvalidConfig, match=r"retention\.ms"):
        LogConfig.from_strings({"retentoin.ms": "1"})
    with pytest.raises(InvalidConfig) as caught:
        LogConfig.from_strings({"zzz": "1"})
    assert "meant" not in caught.value.why


def test_compaction_lags_may_not_contradict_each_other() -> None:
    contradictory = LogConfig.from_strings({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"})
    with pytest.raises(InvalidConfig, match="10 is more than"):
        contradictory.consistent()
    assert LogConfig().consistent() == LogConfig()


def test_lists_are_trimmed_and_may_be_empty() -> None:
    assert LogConfig.from_strings({"cleanup.policy": " delete , compact,delete"}).cleanup_policy == (
        "delete",
        "compact",
    )
    neither = LogConfig.from_strings({"cleanup.policy": ""})
    assert not neither.delete
    assert not neither.compact
    assert TOPIC_CONFIGS["cleanup.policy"].type is ConfigType.LIST


def test_compression_of_the_producer_and_none_at_all_are_two_things() -> None:
    assert LogConfig(compression_type="producer").compression is None
    assert LogConfig(compression_type="uncompressed").compression is Compression.NONE


KAFKA_4_CONFIGS_WITHOUT_EFFECT = {
    "compression.gzip.level": ("-1", ["1", "9"], ["0", "10", "-2"]),
    "compression.lz4.level": ("9", ["1", "17"], ["0", "18"]),
    "compression.zstd.level": ("3", ["-131072", "22"], ["23"]),
}


KAFKA_4_CONFIGS = {
    **KAFKA_4_CONFIGS_WITHOUT_EFFECT,
    "follower.replication.throttled.replicas": ("", ["*", "0:1,1:2"], ["0", "*,0:1", "a:b"]),
    "leader.replication.throttled.replicas": ("", ["*", "0:1, 1:2", ""], ["0:"]),
    "local.retention.bytes": ("-2", ["-1", "5"], ["-3"]),
    "local.retention.ms": ("-2", ["-1", "5"], ["-3"]),
    "remote.log.copy.disable": ("false", ["true"], ["maybe"]),
    "remote.log.delete.on.disable": ("false", ["true"], ["1"]),
    "remote.storage.enable": ("false", ["false", "true"], ["maybe"]),
}


@pytest.mark.parametrize("name", KAFKA_4_CONFIGS)
def test_kafka_4s_topic_configs_are_known(name: str) -> None:
    default, good, bad = KAFKA_4_CONFIGS[name]
    assert LogConfig().to_strings()[name] == default
    for text in good:
        assert LogConfig.from_strings({name: text}).to_strings()[name] == text.replace(" ", "")
    for text in bad:
        with pytest.raises(InvalidConfig):
            LogConfig.from_strings({name: text})


def test_configs_without_effect_say_so() -> None:
    for name in (*KAFKA_4_CONFIGS_WITHOUT_EFFECT, "unclean.leader.election.enable"):
        assert "without effect" in TOPIC_CONFIGS[name].doc


@pytest.mark.parametrize(
    ("configs", "name"),
    [
        ({"cleanup.policy": "compact"}, "remote.storage.enable"),
        ({"cleanup.policy": "compact,delete"}, "remote.storage.enable"),
        ({"local.retention.ms": "-1"}, "local.retention.ms"),
        ({"retention.ms": "10", "local.retention.ms": "11"}, "local.retention.ms"),
        ({"retention.bytes": "10", "local.retention.bytes": "11"}, "local.retention.bytes"),
        ({"retention.bytes": "10", "local.retention.bytes": "-1"}, "local.retention.bytes"),
        ({"remote.log.copy.disable": "true", "local.retention.ms": "10"}, "local.retention.ms"),
        ({"remote.log.copy.disable": "true", "local.retention.bytes": "10"}, "local.retention.bytes"),
        ({"local.retention.ms": "10", "remote.copy.lag.ms": "11"}, "remote.copy.lag.ms"),
        ({"retention.bytes": "10", "remote.copy.lag.bytes": "11"}, "remote.copy.lag.bytes"),
    ],
)
def test_configs_of_a_tiered_topic_that_contradict_each_other(configs: dict[str, str], name: str) -> None:
    config = LogConfig.from_strings({**configs, "remote.storage.enable": "true"})
    with pytest.raises(InvalidConfig) as refused:
        config.consistent()
    assert refused.value.name == name
    assert LogConfig.from_strings(configs).consistent(), "without a tier they are of no concern"


@pytest.mark.parametrize(
    ("configs", "retention"),
    [
        ({"retention.ms": "10"}, (10, -1)),
        ({"retention.ms": "10", "local.retention.ms": "4", "local.retention.bytes": "7"}, (4, 7)),
        ({"retention.ms": "-1", "local.retention.ms": "-1", "retention.bytes": "9"}, (-1, 9)),
    ],
)
def test_the_local_retention_is_the_total_one_unless_it_is_set(
    configs: dict[str, str], retention: tuple[int, int]
) -> None:
    config = LogConfig.from_strings({**configs, "remote.storage.enable": "true"}).consistent()
    assert config.effective_local_retention == retention


@pytest.mark.parametrize(
    ("configs", "lag"),
    [
        ({}, (0, -1)),
        ({"remote.copy.lag.ms": "-1"}, (7 * 24 * 3600 * 1000, -1)),
        ({"remote.copy.lag.ms": "-1", "local.retention.ms": "9", "local.retention.bytes": "8"}, (9, 8)),
        ({"remote.copy.lag.ms": "10", "local.retention.ms": "10", "remote.copy.lag.bytes": "5"}, (10, 5)),
        ({"remote.log.copy.disable": "true", "local.retention.ms": "604800000"}, (0, -1)),
    ],
)
def test_the_copy_lag_is_the_local_retention_where_it_is_minus_1(configs: dict[str, str], lag: tuple[int, int]) -> None:
    config = LogConfig.from_strings({**configs, "remote.storage.enable": "true"}).consistent()
    assert config.effective_copy_lag == lag
