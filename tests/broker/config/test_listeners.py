"""A broker's listeners from its settings."""

from __future__ import annotations

import pytest

from purgatorio.broker.config import BrokerConfig
from purgatorio.broker.config.listeners import BROKERS, brokers_own, inter_broker_listener, listener_configs, with_ports
from purgatorio.broker.config.sources import ConfigError, load_cluster_config

TWO = {
    "listeners": "INTERNAL://0.0.0.0:29092,EXTERNAL://[::1]:9092",
    "listener_security_protocol_map": "INTERNAL:PLAINTEXT,external:SSL",
    "advertised_listeners": "INTERNAL://broker:29092,EXTERNAL://localhost:9092",
}


def test_without_the_setting_there_is_one_plaintext_listener_on_host_and_port() -> None:
    (only,) = listener_configs(BrokerConfig(host="0.0.0.0", port=9192))
    assert (only.name, only.protocol, only.host, only.port) == ("PLAINTEXT", "PLAINTEXT", "0.0.0.0", 9192)
    assert only.advertised == ("localhost", 9192)


def test_listeners_have_their_own_protocols_and_advertised_addresses() -> None:
    inside, outside = listener_configs(BrokerConfig(**TWO))  # type: ignore[arg-type]
    assert (inside.name, inside.protocol, inside.advertised) == ("INTERNAL", "PLAINTEXT", ("broker", 29092))
    assert (outside.protocol, outside.host, outside.advertised) == ("SSL", "::1", ("localhost", 9092))


def test_a_listener_that_is_not_advertised_has_no_advertised_address() -> None:
    config = BrokerConfig(listeners="PLAINTEXT://127.0.0.1:1,SSL://127.0.0.1:2", advertised_listeners="SSL://me:2")
    assert [each.advertised for each in listener_configs(config)] == [None, ("me", 2)]


def test_each_next_broker_of_a_cluster_has_ports_one_higher() -> None:
    config = load_cluster_config(settings={"brokers": "2", "listeners": "SSL://:9192,PLAINTEXT://:0"})
    second = listener_configs(config.broker_configs()[1])
    assert [(each.host, each.port) for each in second] == [("127.0.0.1", 9193), ("127.0.0.1", 0)]


def test_the_ports_that_the_system_chose_are_kept_for_the_next_start() -> None:
    config = BrokerConfig(listeners="SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:9092")
    kept = with_ports(config, {"SSL": 40001, "PLAINTEXT": 9092, BROKERS: 40002})
    assert kept.listeners == "SSL://127.0.0.1:40001,PLAINTEXT://127.0.0.1:9092"
    assert with_ports(BrokerConfig(port=0), {"PLAINTEXT": 7}).port == 7


def test_brokers_have_a_listener_of_their_own_as_soon_as_one_of_clients_has_security() -> None:
    assert brokers_own(BrokerConfig()) == ()
    assert inter_broker_listener(BrokerConfig()) == "PLAINTEXT"
    secure = BrokerConfig(listeners="PLAINTEXT://:9092,SSL://:9093")
    assert [each.name for each in brokers_own(secure)] == [BROKERS]
    assert inter_broker_listener(secure) == BROKERS


def test_inter_broker_listener_name_chooses_among_listeners_without_security() -> None:
    config = BrokerConfig(
        listeners="A://:1,B://:2",
        listener_security_protocol_map="A:PLAINTEXT,B:PLAINTEXT",
        inter_broker_listener_name="b",
    )
    assert inter_broker_listener(config) == "B"


@pytest.mark.parametrize(
    "spelling", ["listener.name.external.ssl.client.auth", "listener_name_external_ssl_client_auth"]
)
def test_a_setting_of_one_listener_is_its_own_alone(spelling: str) -> None:
    given = {**TWO, spelling: "required", "brokers": "1"}
    config = load_cluster_config(settings=given).broker_configs()[0]
    inside, outside = listener_configs(config)
    assert (inside.settings, outside.settings) == ({}, {"ssl_client_auth": "required"})


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (
            {"listeners": "PLAINTEXT"},
            "listeners has the entry 'PLAINTEXT', which is not like PLAINTEXT://127.0.0.1:9092",
        ),
        ({"listeners": "SSL://:70000"}, "ports end at 65535"),
        ({"listeners": "SSL://:1,SSL://:2"}, "listeners has SSL twice"),
        ({"listeners": "SSL://a:1,PLAINTEXT://a:1"}, "listeners has a:1 twice"),
        ({"listeners": "INSIDE://:1"}, "listener INSIDE has no protocol: add INSIDE:PLAINTEXT to"),
        ({"listeners": "BROKERS://:1", "listener_security_protocol_map": "BROKERS:SSL"}, "BROKERS is the listener of"),
        ({"listener_security_protocol_map": "A:TLS"}, "has 'A:TLS'; the protocols are PLAINTEXT, SSL"),
        ({"advertised_listeners": "SSL://me:1"}, "advertised.listeners has SSL, which listeners does not have"),
        ({"advertised_listeners": "PLAINTEXT://0.0.0.0:1"}, "no client can connect to this host"),
        ({"inter_broker_listener_name": "INSIDE"}, "inter.broker.listener.name is INSIDE"),
        ({"listener.name.ssl.ssl.client.auth": "none"}, "is of no listener; there are PLAINTEXT"),
        ({"listener.name.plaintext.num.partition": "1"}, "is not a setting"),
        ({"listener.name.plaintext.ssl.client.auth": "maybe"}, "must be none, requested or required"),
        ({"listeners": "SSL://:9092,PLAINTEXT://:9093", "brokers": "2"}, "leave room for 2 brokers"),
    ],
)
def test_listeners_that_cannot_be_used_are_refused_with_a_sentence(given: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_cluster_config(settings=given)
    assert why in str(refused.value)
