"""All settings of Kafka's brokers are known: each can be given, and no value that Kafka refuses is taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from purgatorio.broker.config import BrokerConfig, ClusterConfig
from purgatorio.broker.config.declare import SettingsError
from purgatorio.broker.config.descriptions import BrokerDescription, as_toml
from purgatorio.broker.config.dynamic import DynamicBrokerConfig
from purgatorio.broker.config.kafka_settings import (
    MAX_TEXT,
    REASONS,
    KafkaSetting,
    all_unread,
    kafka_settings,
    reason_of,
    unread,
    unread_keys,
)
from purgatorio.broker.config.sources import ConfigError, load_cluster_config
from purgatorio.broker.log.setting import ConfigType, config_text
from purgatorio.broker.metadata.image import ClusterImage

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


FIELDS = BrokerConfig.model_fields
KEYS = unread_keys(FIELDS)


def accepts(name: str, text: str) -> bool:
    try:
        KEYS[name].parse(text)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("num.io.threads", ("1", "9"), ("0", "x")),
        ("log.cleaner.threads", ("0",), ("-1",)),
        ("compression.gzip.level", ("1", "9", "-1"), ("0", "10", "-2")),
        ("sasl.kerberos.min.time.before.relogin", ("58000",), ("soon",)),
        ("sasl.login.refresh.buffer.seconds", ("4000",), ("32768",)),
        ("sasl.login.refresh.window.factor", ("0.1",), ("x", "nan", "inf")),
        ("transaction.partition.verification.enable", ("true", "FALSE"), ("x",)),
        ("sasl.kerberos.service.name", ("kafka",), ("k" * (MAX_TEXT + 1),)),
    ],
)
def test_values_are_checked_by_type_and_bounds(name: str, good: tuple[str, ...], bad: tuple[str, ...]) -> None:
    assert [text for text in good if not accepts(name, text)] == []
    assert [text for text in bad if accepts(name, text)] == []


def test_those_that_say_which_clients_may_connect_cannot_be_changed_later() -> None:
    assert [name for name in KEYS if name.startswith(("ssl.", "listener", "principal."))] == []
    assert KEYS["sasl.kerberos.service.name"].of_one_broker
    assert not KEYS["num.io.threads"].of_one_broker


def test_each_has_a_reason_and_each_reason_a_setting() -> None:
    """The families of tiered storage and of config providers have no setting of their own in the table."""
    found = {reason_of(each.dotted) for each in all_unread(FIELDS)}
    assert found == REASONS.keys()
    assert all("without effect" in key.doc for key in KEYS.values())


def test_setting_one_changes_no_setting() -> None:
    dynamic = DynamicBrokerConfig(BrokerConfig(broker_id=1))
    image = ClusterImage(1, "test", broker_configs={"1": {"num.io.threads": "9", "log.preallocate": "true"}})
    assert dynamic.image_changed(image) == {}


def test_programs_give_them_by_name_and_bad_values_are_refused() -> None:
    config = ClusterConfig(broker=BrokerConfig(num_io_threads=4, ssl_keystore_password="open sesame"))
    assert config.broker.without_effect == {"num_io_threads": 4, "ssl_keystore_password": "open sesame"}
    assert "open sesame" not in repr(config)
    with pytest.raises(SettingsError, match="num_io_threads must be at least 1\nnum_oi_threads is not a setting"):
        BrokerConfig(num_io_threads=0, num_oi_threads=1)


def test_brokers_describe_them_with_kafkas_defaults_but_for_those_that_kafka_hides() -> None:
    described = BrokerDescription(
        BrokerConfig(broker_id=1, num_io_threads=4, delegation_token_secret_key="x", log_dirs="/var/lib/kafka")
    )
    assert (described["num.io.threads"].value, described["num.io.threads"].is_default) == ("4", False)
    assert (described["num.network.threads"].value, described["num.network.threads"].is_default) == ("3", True)
    assert described["num.io.threads"].doc == "Accepted, without effect: a broker works in one thread."
    assert described["delegation.token.secret.key"].value is None
    assert described["log.dirs"].value == "/var/lib/kafka"
    assert "unstable.api.versions.enable" not in described


def test_the_printed_configuration_has_them_and_can_be_read_again(tmp_path: Path) -> None:
    assignments = [
        "num.io.threads=4",
        "rsm.config.bucket=geheim",
        "log.retention.hours=2",
        "ssl.keystore.password=geheim",
    ]
    printed = as_toml(load_cluster_config(assignments=assignments))
    lines = printed.splitlines()
    assert "num_io_threads = 4" in lines
    assert "# num_network_threads = 3" in lines
    assert "# Without effect: a broker works in one thread." in lines
    assert "geheim" not in printed
    file = tmp_path / "a.toml"
    file.write_text(printed)
    again = load_cluster_config(file=file)
    assert (again.broker.without_effect["num_io_threads"], again.broker.log_retention_ms) == (4, 7_200_000)


def test_settings_of_classes_have_any_name() -> None:
    assert unread("config_providers_file_class") is not None
    assert unread("rlmm_config_x") is not None
    assert unread("something_else") is None
