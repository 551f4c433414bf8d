"""Environment variables of Kafka's image."""

from __future__ import annotations

from pathlib import Path

import pytest

from purgatorio.broker.config.kafka_environment import kafka_variables
from purgatorio.broker.config.listeners import listener_configs
from purgatorio.broker.config.sources import MAX_WARNINGS, ConfigError, load_cluster_config

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
    [("KAFKA_NUM_IO_THREADS", "num.io.threads"), ("KAFKA_RSM_CONFIG_A__B_C___D", "rsm.config.a_b.c-d")],
)
def test_underscores_stand_for_dots_underscores_and_dashes(variable: str, name: str) -> None:
    environ = {"KAFKA_NODE_ID": "1", variable: "v"}
    assert [each for each in kafka_variables(environ) if each[0] == variable] == [(variable, name, "v")]


def warnings_of(**environ: str) -> list[str]:
    lines: list[str] = []
    load_cluster_config(environ=environ, settings={"brokers": "1"}, warn=lines.append)
    return lines


@pytest.mark.parametrize(
    ("variable", "value", "hint"),
    [
        ("KAFKA_LOG_RETENTON_MS", "1", "; did you mean KAFKA_LOG_RETENTION_MS?"),
        ("KAFKA_CREATE_TOPICS", "a:1:1", "; did you mean KAFKA_AUTO_CREATE_TOPICS_ENABLE?"),
        ("KAFKA_BROKERS", "kafka:9092", "; did you mean PURGATORIO_BROKERS?"),
        ("KAFKA_PORT", "tcp://10.96.0.7:9092", "; did you mean PURGATORIO_PORT?"),
        ("KAFKA_PORT_9092_TCP_ADDR", "10.96.0.7", ""),
        ("KAFKA_URL", "geheim", ""),
    ],
)
def test_a_variable_of_kafkas_image_that_is_no_setting_is_a_warning_with_the_near_one(
    variable: str, value: str, hint: str
) -> None:
    """A value may be a secret, so that it is not told."""
    expected = f"environment: {variable} is not a setting, and is left out{hint}"
    assert warnings_of(KAFKA_NODE_ID="1", **{variable: value}) == [expected]


def test_what_kubernetes_tells_of_a_service_named_purgatorio_is_a_warning() -> None:
    injected = {
        "PURGATORIO_SERVICE_HOST": "10.96.0.7",
        "PURGATORIO_SERVICE_PORT_ADMIN": "9644",
        "PURGATORIO_PORT": "tcp://10.96.0.7:9092",
        "PURGATORIO_PORT_9092_TCP_PROTO": "tcp",
        "PURGATORIO_ADMIN_PORT": "tcp://10.96.0.8:9644",
    }
    assert [line.split()[1] for line in warnings_of(**injected)] == list(injected)
    with pytest.raises(ConfigError, match="PURGATORIO_PORTS is not a setting; did you mean PURGATORIO_PORT"):
        load_cluster_config(environ={"PURGATORIO_PORTS": "1"})


def test_warnings_are_bounded() -> None:
    lines = warnings_of(KAFKA_NODE_ID="1", **{f"KAFKA_X{index}": "1" for index in range(MAX_WARNINGS + 5)})
    assert len(lines) == MAX_WARNINGS + 1
    assert lines[-1] == "environment: 5 more variables are not settings, and are left out"


def test_a_setting_without_effect_on_which_somebody_may_rely_is_a_warning() -> None:
    lines = warnings_of(
        KAFKA_NODE_ID="1",
        KAFKA_CREATE_TOPIC_POLICY_CLASS_NAME="org.example.Policy",
        KAFKA_NUM_IO_THREADS="4",
        KAFKA_UNCLEAN_LEADER_ELECTION_ENABLE="false",
    )
    assert lines == ["create.topic.policy.class.name has no effect here: classes of Java are not loaded."]
    lines = warnings_of(
        KAFKA_NODE_ID="1",
        KAFKA_LISTENER_NAME_PLAINTEXT_PLAIN_SASL_SERVER_CALLBACK_HANDLER_CLASS="org.example.Passwords",
        KAFKA_LISTENER_NAME_PLAINTEXT_NUM_NETWORK_THREADS="4",
    )
    assert lines == ["sasl.server.callback.handler.class has no effect here: classes of Java are not loaded."]


def test_files_with_secrets_are_read_from_where_the_image_has_them(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("open sesame\n")
    environ = {
        "KAFKA_NODE_ID": "1",
        "KAFKA_SSL_KEYSTORE_FILENAME": "broker.pem",
        "KAFKA_SSL_KEYSTORE_CREDENTIALS": "unused",
        "KAFKA_SSL_KEY_CREDENTIALS": "password",
    }
    found = {name: value for _, name, value in kafka_variables(environ, tmp_path)}
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
        list(kafka_variables({"KAFKA_NODE_ID": "1", variable: value}, tmp_path))


PUBLIC: tuple[tuple[str, str], ...] = (
    ("KAFKA_LISTENERS", "PLAINTEXT://127.0.0.1:21101, CONTROLLER://127.0.0.1:21102"),
    ("KAFKA_LISTENERS", "PLAINTEXT://:21101,CONTROLLER://:21102"),
    ("KAFKA_INTER_BROKER_LISTENER_NAME", "PLAINTEXT"),
    ("KAFKA_KRAFT_MODE", "true"),
    ("KAFKA_KRAFT_CLUSTER_ID", "abc"),
    ("KAFKA_ENABLE_KRAFT", "yes"),
    ("KAFKA_BROKER_ID", "1"),
    ("KAFKA_ZOOKEEPER_CONNECT", "zookeeper:2181"),
    ("KAFKA_TOOLS_LOG4J_LOGLEVEL", "WARN"),
    ("KAFKA_LOG4J_LOGGERS", "kafka=WARN"),
    ("KAFKA_JMX_PORT", "9101"),
    ("KAFKA_JMX_HOSTNAME", "localhost"),
    ("KAFKA_CONFLUENT_SUPPORT_METRICS_ENABLE", "false"),
    ("KAFKA_CONFLUENT_LICENSE_TOPIC_REPLICATION_FACTOR", "1"),
    ("KAFKA_METRIC_REPORTERS", "x.Y"),
    ("KAFKA_CREATE_TOPICS", "a:1:1"),
    ("KAFKA_PORT", "tcp://10.96.0.7:9092"),
    ("KAFKA_SERVICE_HOST", "10.96.0.7"),
    ("KAFKA_SERVICE_PORT", "9092"),
    ("KAFKA_PORT_9092_TCP", "tcp://10.96.0.7:9092"),
    ("KAFKA_PORT_9092_TCP_ADDR", "10.96.0.7"),
    ("KAFKA_UI_SERVICE_HOST", "10.96.0.8"),
    ("KAFKA_CONNECT_HOST", "x"),
    ("KAFKA_BROKER", "kafka:9092"),
    ("KAFKA_BROKERS", "kafka:9092"),
    ("KAFKA_TOPIC", "orders"),
    ("KAFKA_GROUP_ID", "billing"),
    ("KAFKA_HOST", "kafka"),
    ("KAFKA_URL", "kafka:9092"),
    ("KAFKA_AUTHORIZER_CLASS_NAME", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
    ("KAFKA_SUPER_USERS", "User:admin"),
    ("KAFKA_ALLOW_EVERYONE_IF_NO_ACL_FOUND", "true"),
    ("KAFKA_AUTO_CREATE_TOPICS_ENABLE", "TRUE"),
    ("KAFKA_DELETE_TOPIC_ENABLE", "true"),
    ("KAFKA_LOG_RETENTION_HOURS", "168"),
    ("KAFKA_LOG_RETENTION_MINUTES", "-1"),
    ("KAFKA_LOG_RETENTION_BYTES", "-1"),
    ("KAFKA_LOG_SEGMENT_BYTES", "1073741824"),
    ("KAFKA_LOG_CLEANUP_POLICY", "compact"),
    ("KAFKA_LOG_DIRS", "/tmp/kraft"),
    ("KAFKA_NUM_PARTITIONS", "3"),
    ("KAFKA_MESSAGE_MAX_BYTES", "10485760"),
    ("KAFKA_REPLICA_FETCH_MAX_BYTES", "10485760"),
    ("KAFKA_MAX_REQUEST_SIZE", "10485760"),
    ("KAFKA_SOCKET_REQUEST_MAX_BYTES", "104857600"),
    ("KAFKA_DEFAULT_REPLICATION_FACTOR", "1"),
    ("KAFKA_MIN_INSYNC_REPLICAS", "1"),
    ("KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR", "1"),
    ("KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS", "1"),
    ("KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR", "1"),
    ("KAFKA_TRANSACTION_STATE_LOG_MIN_ISR", "1"),
    ("KAFKA_SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR", "1"),
    ("KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS", "0"),
    ("KAFKA_GROUP_COORDINATOR_REBALANCE_PROTOCOLS", "classic,consumer"),
    ("KAFKA_GROUP_SHARE_ENABLE", "true"),
    ("KAFKA_UNSTABLE_API_VERSIONS_ENABLE", "true"),
    ("KAFKA_CONNECTIONS_MAX_IDLE_MS", "600000"),
    ("KAFKA_COMPRESSION_TYPE", "producer"),
    ("KAFKA_SASL_ENABLED_MECHANISMS", "PLAIN"),
    ("KAFKA_SASL_MECHANISM_INTER_BROKER_PROTOCOL", "PLAIN"),
    (
        "KAFKA_LISTENER_NAME_PLAINTEXT_PLAIN_SASL_JAAS_CONFIG",
        'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b" user_a="b";',
    ),
    ("KAFKA_OPTS", "-Djava.security.auth.login.config=/x"),
    ("KAFKA_HEAP_OPTS", "-Xmx512m"),
    ("KAFKA_INTER_BROKER_PROTOCOL_VERSION", "3.5"),
    ("KAFKA_LOG_MESSAGE_FORMAT_VERSION", "3.0"),
    ("KAFKA_REMOTE_LOG_STORAGE_SYSTEM_ENABLE", "false"),
    ("KAFKA_QUEUED_MAX_REQUESTS", "500"),
    ("KAFKA_EARLY_START_LISTENERS", "X"),
    ("KAFKA_CONTROLLER_QUORUM_BOOTSTRAP_SERVERS", "localhost:9093"),
    ("KAFKA_RACK", "a"),
    ("KAFKA_BROKER_RACK", "a"),
)
"""Variables of public compose files for the images apache/kafka and cp-kafka, and of Kubernetes."""
NO_SETTINGS = frozenset(
    {
        "KRAFT_MODE",
        "KRAFT_CLUSTER_ID",
        "ENABLE_KRAFT",
        "ZOOKEEPER_CONNECT",
        "CONFLUENT_SUPPORT_METRICS_ENABLE",
        "CONFLUENT_LICENSE_TOPIC_REPLICATION_FACTOR",
        "CREATE_TOPICS",
        "PORT",
        "SERVICE_HOST",
        "SERVICE_PORT",
        "PORT_9092_TCP",
        "PORT_9092_TCP_ADDR",
        "CONNECT_HOST",
        "BROKER",
        "BROKERS",
        "TOPIC",
        "GROUP_ID",
        "HOST",
        "URL",
        "MAX_REQUEST_SIZE",
        "GROUP_SHARE_ENABLE",
        "INTER_BROKER_PROTOCOL_VERSION",
        "LOG_MESSAGE_FORMAT_VERSION",
        "RACK",
    }
)
"""Those of them that name no setting of Kafka's 4.4.0."""


@pytest.mark.parametrize(("variable", "value"), PUBLIC)
def test_variables_of_public_files_start_a_broker(variable: str, value: str) -> None:
    base = {name: each for name, each in IMAGE.items() if name.startswith("KAFKA_") and "LISTENER" not in name}
    listeners = {
        "KAFKA_LISTENERS": "PLAINTEXT://127.0.0.1:21101,CONTROLLER://127.0.0.1:21102",
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:21101",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    }
    told = warnings_of(**{**base, **listeners, "KAFKA_NODE_ID": "1", variable: value})
    assert len(told) == (variable.removeprefix("KAFKA_") in NO_SETTINGS)


def test_a_list_with_an_empty_entry_is_an_error_as_in_kafka() -> None:
    environ = {**IMAGE, "KAFKA_ADVERTISED_LISTENERS": "INTERNAL://kafka:29092,"}
    with pytest.raises(ConfigError, match=r"advertised.listeners has the entry ''"):
        load_cluster_config(environ=environ, settings={"brokers": "1"})
