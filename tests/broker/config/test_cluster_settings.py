"""The settings of a process, and what each of its brokers gets of them."""

import pytest

from purgatorio.broker.config import BrokerConfig, ClusterConfig
from purgatorio.broker.config.declare import SettingsError


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
    with pytest.raises(SettingsError, match=why):
        ClusterConfig(**given)
