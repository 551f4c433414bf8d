"""The settings: defaults, what belongs to which broker, and their form for DescribeConfigs."""

import pytest
from pydantic import ValidationError

from purgatorio.broker.config.settings import (
    BrokerConfig,
    ClusterConfig,
    SettingType,
    describe,
    settings_of_process,
    topic_defaults,
)


def test_brokers_of_a_cluster_count_up_from_the_first() -> None:
    """Ids, ports and advertised ports go up by one per broker; everything else is shared."""
    shared = BrokerConfig(broker_id=5, advertised_port=19092, follower_delay_ms=7)
    configs = ClusterConfig(brokers=2, port=9200, host="0.0.0.0", broker=shared).broker_configs()
    assert [(c.broker_id, c.port, c.advertised_port, c.host) for c in configs] == [
        (5, 9200, 19092, "0.0.0.0"),
        (6, 9201, 19093, "0.0.0.0"),
    ]
    assert {c.follower_delay_ms for c in configs} == {7}


def test_port_zero_stays_zero_for_every_broker() -> None:
    """Port 0 asks for any free port, of each broker."""
    assert [c.port for c in ClusterConfig(port=0).broker_configs()] == [0, 0, 0]


@pytest.mark.parametrize(("brokers", "replicas"), [(1, 1), (2, 2), (3, 3), (5, 3)])
def test_new_topics_are_replicated_three_times_or_as_often_as_there_are_brokers(brokers: int, replicas: int) -> None:
    assert {c.default_replication_factor for c in ClusterConfig(brokers=brokers).broker_configs()} == {replicas}


def test_a_replication_factor_that_is_given_stays() -> None:
    assert ClusterConfig(broker=BrokerConfig(default_replication_factor=1)).broker.default_replication_factor == 1


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"brokers": 2, "broker": BrokerConfig(default_replication_factor=3)}, "number of brokers is 2"),
        ({"port": 65534}, "do not fit below 65536"),
        ({"broker": BrokerConfig(advertised_port=65535)}, "advertised_port is 65535"),
        ({"port": 9643}, "admin_port is 9644, which is also the port of a broker"),
        ({"broker": BrokerConfig(port=1)}, "port belongs to the cluster"),
    ],
)
def test_settings_that_cannot_hold_together_are_refused(given: dict[str, object], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        ClusterConfig.model_validate(given)


def test_clients_are_told_a_host_they_can_connect_to() -> None:
    """Every interface is no address to connect to: localhost stands for it, unless a host is given."""
    assert BrokerConfig(host="0.0.0.0", port=1).advertised == ("localhost", 1)
    assert BrokerConfig(host="10.0.0.1", port=1).advertised == ("10.0.0.1", 1)
    assert BrokerConfig(host="0.0.0.0", advertised_host="kafka", advertised_port=2).advertised == ("kafka", 2)


def test_settings_are_described_under_kafkas_names() -> None:
    """DescribeConfigs gets dotted names, text values, types, and whether a value is the default."""
    found = describe(BrokerConfig(num_partitions=4, host="::1", port=9092, broker_id=7))
    assert found["num.partitions"][:3] == ("4", False, SettingType.INT)
    assert found["log.retention.ms"][:3] == ("604800000", True, SettingType.LONG)
    assert found["auto.create.topics.enable"][:3] == ("true", True, SettingType.BOOLEAN)
    assert found["broker.rack"][:3] == (None, True, SettingType.STRING)
    assert found["log.cleaner.min.cleanable.ratio"][:3] == ("0.5", True, SettingType.DOUBLE)
    assert found["listeners"].value == "PLAINTEXT://[::1]:9092"
    assert found["node.id"] == found["broker.id"]
    assert list(found) == sorted(found)


def test_every_setting_is_documented() -> None:
    """Each setting says in a sentence what it does."""
    for name, field in settings_of_process().items():
        assert field.description is not None, name
        assert field.description.endswith("."), name


def test_topics_inherit_the_brokers_settings_under_the_topics_names() -> None:
    defaults = topic_defaults(BrokerConfig(log_retention_ms=5, message_max_bytes=9))
    assert defaults["retention.ms"] == "5"
    assert defaults["max.message.bytes"] == "9"
    assert defaults["cleanup.policy"] == "delete"
    assert defaults["min.insync.replicas"] == "1"
