"""All settings of Kafka's brokers are known: each can be given, and no value that Kafka refuses is taken."""

from __future__ import annotations

import pytest

from purgatorio.broker.config.kafka_settings import KafkaSetting, kafka_settings
from purgatorio.broker.config.sources import ConfigError, load_cluster_config
from purgatorio.broker.log.config_keys import ConfigType, config_text

ALL = kafka_settings()
NOT_KAFKAS_DEFAULT = {
    "broker.heartbeat.interval.ms": "20",
    "broker.id": "1",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "controller.quorum.voters": "1@localhost:9093",
    "process.roles": "broker,controller",
    "advertised.listeners": "PLAINTEXT://localhost:9092",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "ssl.keystore.type": "PEM",
    "ssl.truststore.type": "PEM",
}
"""Values for settings without a default, and for those whose default here is another one: there is no Kerberos, there
are no files in Java's own format, and sessions are short."""
WIDER = [
    "group.share.max.delivery.count.limit",
    "group.share.max.partition.max.record.locks",
    "group.share.max.record.lock.duration.ms",
    "group.share.min.record.lock.duration.ms",
    "group.share.record.lock.duration.ms",
    "log.segment.bytes",
]
SAMPLES = {ConfigType.INT: "1", ConfigType.LONG: "1", ConfigType.SHORT: "1"}
WRONG = {
    ConfigType.INT: "x",
    ConfigType.LONG: "1.5",
    ConfigType.SHORT: "x",
    ConfigType.DOUBLE: "x",
    ConfigType.BOOLEAN: "x",
}


def load(setting: KafkaSetting, value: str) -> None:
    load_cluster_config(assignments=[f"{setting.dotted}={value}"], settings={"brokers": "1"})


def test_the_table_has_all_of_kafka_4_4_0() -> None:
    assert len(ALL) == 379
    assert sum(not each.is_internal for each in ALL.values()) == 350


@pytest.mark.parametrize("setting", ALL.values(), ids=list(ALL))
def test_each_setting_of_kafkas_can_be_given(setting: KafkaSetting) -> None:
    default = SAMPLES.get(setting.type, "x") if setting.default is None else config_text(setting.default)
    load(setting, NOT_KAFKAS_DEFAULT.get(setting.dotted, default))


@pytest.mark.parametrize("setting", [each for each in ALL.values() if each.type in WRONG], ids=lambda each: each.dotted)
def test_a_value_of_another_type_is_refused(setting: KafkaSetting) -> None:
    with pytest.raises(ConfigError):
        load(setting, WRONG[setting.type])


def test_values_below_kafkas_bounds_are_refused_but_for_settings_that_have_wider_ones_here() -> None:
    taken = []
    for setting in ALL.values():
        if setting.type in SAMPLES and setting.low is not None and setting.low > -(2**15):
            try:
                load(setting, str(int(setting.low) - 3))
            except ConfigError:
                continue
            taken.append(setting.dotted)
    assert taken == WIDER


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("num.io.threads", "0", "must be at least 1"),
        ("process.roles", "brokre", "must be any of broker, controller"),
        ("controller.quorum.voters", "", "must not be empty"),
        ("telemetry.max.bytes", str(2**31), "must be at most 2147483647"),
        ("sasl.oauthbearer.assertion.algorithm", "none", "must be one of ES256, RS256"),
    ],
)
def test_a_refusal_says_why(name: str, value: str, why: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(ALL[name], value)
    assert refused.value.problems == (f"--set {name} {why}, not {value!r}",)


def test_choices_may_be_written_in_any_case_where_kafka_allows_it() -> None:
    load(ALL["sasl.oauthbearer.assertion.algorithm"], "rs256")
    load(ALL["group.consumer.migration.policy"], "Upgrade")
