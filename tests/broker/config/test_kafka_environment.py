"""Environment variables of Kafka's image."""

from __future__ import annotations

from pathlib import Path

import pytest

from purgatorio.broker.config.kafka_environment import kafka_settings
from purgatorio.broker.config.listeners import listener_configs
from purgatorio.broker.config.sources import ConfigError, load_cluster_config

IMAGE = {
    "KAFKA_NODE_ID": "7",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_LISTENERS": "INTERNAL://0.0.0.0:29092,EXTERNAL://0.0.0.0:9192,CONTROLLER://localhost:9093",
    "KAFKA_ADVERTISED_LISTENERS": "INTERNAL://kafka:29092,EXTERNAL://localhost:9192",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT",
    "KAFKA_INTER_BROKER_LISTENER_NAME": "INTERNAL",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
    "KAFKA_NUM_PARTITIONS": "3",
    "KAFKA_LOG_DIRS": "/var/lib/kafka/data",
    "KAFKA_HEAP_OPTS": "-Xmx1g",
    "KAFKA_JMX_PORT": "9101",
    "KAFKA_LOG4J_ROOT_LOGLEVEL": "WARN",
    "CLUSTER_ID": "MkU3OEVBNTcwNTJENDM2Qk",
    "PATH": "/bin",
}


def test_a_compose_file_for_kafkas_image_starts_a_broker_with_its_listeners() -> None:
    config = load_cluster_config(environ=IMAGE, settings={"brokers": "1"})
    broker = config.broker_configs()[0]
    assert (broker.broker_id, broker.num_partitions, broker.transaction_state_log_min_isr) == (7, 3, 1)
    assert [(each.name, each.port, each.advertised) for each in listener_configs(broker)] == [
        ("INTERNAL", 29092, ("kafka", 29092)),
        ("EXTERNAL", 9192, ("localhost", 9192)),
    ]


def test_settings_that_are_known_are_read_among_those_that_are_left_out() -> None:
    environ = {
        **IMAGE,
        "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR": "1",
        "KAFKA_SHARE_COORDINATOR_THREADS": "2",
        "KAFKA_GROUP_SHARE_MAX_SIZE": "9",
    }
    broker = load_cluster_config(environ=environ, settings={"brokers": "1"}).broker
    assert broker.share_coordinator_state_topic_replication_factor == 1
    assert broker.share_coordinator_state_topic_min_isr == 1
    assert broker.group_share_max_size == 9


def test_without_listeners_the_advertised_ones_are_listened_on_everywhere() -> None:
    environ = {"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:9192"}
    (listener,) = listener_configs(load_cluster_config(environ=environ, settings={"brokers": "1"}).broker_configs()[0])
    assert (listener.host, listener.port, listener.advertised) == ("0.0.0.0", 9192, ("kafka", 9192))


def test_purgatorios_own_variables_win() -> None:
    environ = {**IMAGE, "PURGATORIO_NUM_PARTITIONS": "5"}
    assert load_cluster_config(environ=environ, settings={"brokers": "1"}).broker.num_partitions == 5


def test_an_applications_variables_are_not_read() -> None:
    environ = {"KAFKA_BOOTSTRAP_SERVERS": "a:1", "KAFKA_TOPIC": "orders", "KAFKA_NUM_PARTITIONS": "9"}
    assert load_cluster_config(environ=environ).broker.num_partitions == 1


@pytest.mark.parametrize(
    ("variable", "name"),
    [("KAFKA_SUPER_USERS", "super.users"), ("KAFKA_A__B_C___D", "a_b.c-d"), ("KAFKA_X___Y__Z", "x-y_z")],
)
def test_underscores_stand_for_dots_underscores_and_dashes(variable: str, name: str) -> None:
    environ = {"KAFKA_NODE_ID": "1", variable: "v"}
    assert [each for each in kafka_settings(environ) if each[0] == variable] == [(variable, name, "v")]


def test_a_setting_that_nobody_knows_is_refused_with_the_near_one() -> None:
    with pytest.raises(ConfigError) as refused:
        load_cluster_config(environ={"KAFKA_NODE_ID": "1", "KAFKA_LOG_RETENTON_MS": "1"})
    assert refused.value.problems == (
        "environment: KAFKA_LOG_RETENTON_MS: log.retenton.ms is not a setting; did you mean log.retention.ms?",
    )


def test_files_with_secrets_are_read_from_where_the_image_has_them(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("open sesame\n")
    environ = {
        "KAFKA_NODE_ID": "1",
        "KAFKA_SSL_KEYSTORE_FILENAME": "broker.pem",
        "KAFKA_SSL_KEYSTORE_CREDENTIALS": "unused",
        "KAFKA_SSL_KEY_CREDENTIALS": "password",
    }
    found = {name: value for _, name, value in kafka_settings(environ, tmp_path)}
    assert found == {
        "node.id": "1",
        "ssl.keystore.location": str(tmp_path / "broker.pem"),
        "ssl.key.password": "open sesame",
    }


@pytest.mark.parametrize(
    ("variable", "value", "why"),
    [
        ("KAFKA_SSL_KEYSTORE_FILENAME", "broker.jks", "names a JKS file, but PEM files alone are read here"),
        ("KAFKA_SSL_KEY_CREDENTIALS", "nowhere", "cannot be read"),
    ],
)
def test_files_that_cannot_be_used_are_refused(tmp_path: Path, variable: str, value: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        list(kafka_settings({"KAFKA_NODE_ID": "1", variable: value}, tmp_path))
