"""Tests of Kafka's settings that have no effect here."""

from __future__ import annotations

from pathlib import Path

import pytest

from purgatorio.broker.config import BrokerConfig, ClusterConfig
from purgatorio.broker.config.descriptions import BrokerDescription, as_toml
from purgatorio.broker.config.dynamic import DynamicBrokerConfig
from purgatorio.broker.config.kafka_settings import MAX_TEXT
from purgatorio.broker.config.setting import SettingsError
from purgatorio.broker.config.sources import load_cluster_config
from purgatorio.broker.config.without_effect import REASONS, all_unread, reason_of, unread, unread_keys
from purgatorio.broker.metadata.image import ClusterImage

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
