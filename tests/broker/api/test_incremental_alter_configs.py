"""Tests of the IncrementalAlterConfigs handler."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.api import incremental_alter_configs
from purgatorio.broker.metadata.controller.configs import MAX_CUSTOM_CHARS
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.broker.api.conftest import Setting

TOPIC, BROKER, GROUP = 2, 4, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


def alter(kind: int, name: str, *changes: tuple[str, int, str | None]) -> AlterConfigsResource:
    return AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[AlterableConfig(name=key, config_operation=code, value=value) for key, code, value in changes],
    )


def ask(cluster: Any, *resources: AlterConfigsResource, version: int = 1, validate_only: bool = False) -> Any:
    request = IncrementalAlterConfigsRequest(resources=list(resources), validate_only=validate_only)
    return cluster.ask(incremental_alter_configs, version, request).responses


@pytest.mark.parametrize("version", range(2))
def test_every_version_changes_only_the_named_configs(cluster: Any, version: int) -> None:
    cluster.create("a", segment_bytes="2000", retention_ms="6")
    (result,) = ask(
        cluster,
        alter(
            TOPIC,
            "a",
            ("retention.ms", SET, "7"),
            ("segment.bytes", DELETE, None),
            ("cleanup.policy", APPEND, "compact"),
        ),
        version=version,
    )
    assert (result.resource_type, result.resource_name) == (TOPIC, "a")
    assert (result.error_code, result.error_message) == (ErrorCode.NONE, None)
    assert cluster.image.topics["a"].configs == {"retention.ms": "7", "cleanup.policy": "delete,compact"}


def test_each_topic_is_changed_or_refused_independently(cluster: Any) -> None:
    cluster.create("a")
    cluster.create("b")
    results = ask(
        cluster,
        alter(TOPIC, "a", ("retention.ms", SET, "7"), ("retention.ms", SET, "8")),
        alter(TOPIC, "b", ("cleanup.policy", SUBTRACT, "delete")),
    )
    assert [result.error_code for result in results] == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
    assert cluster.image.topics["a"].configs == {}
    assert cluster.image.topics["b"].configs == {"cleanup.policy": ""}


def test_validating_only_changes_nothing(cluster: Any) -> None:
    cluster.create("a")
    (result,) = ask(cluster, alter(TOPIC, "a", ("retention.ms", SET, "7")), validate_only=True)
    assert result.error_code == 0
    assert cluster.image.topics["a"].configs == {}


@pytest.mark.parametrize("name", ["1", ""])
def test_some_configs_of_a_broker_or_of_all_brokers_are_changed(cluster: Any, name: str) -> None:
    ask(cluster, alter(BROKER, name, ("log.retention.ms", SET, "7"), ("log.segment.bytes", SET, "50")))
    (result,) = ask(
        cluster,
        alter(BROKER, name, ("log.retention.ms", DELETE, None), ("log.cleanup.policy", SET, "compact")),
    )
    assert (result.error_code, result.error_message) == (ErrorCode.NONE, None)
    assert cluster.image.broker_configs == {name: {"log.segment.bytes": "50", "log.cleanup.policy": "compact"}}


def test_a_list_of_a_broker_grows_from_that_of_all_brokers_and_that_from_the_one_of_the_start(cluster: Any) -> None:
    cluster.admin.broker_configs["log.cleanup.policy"] = Setting("delete", True, 7, "How old records go.")
    ask(cluster, alter(BROKER, "", ("log.cleanup.policy", APPEND, "compact")))
    assert cluster.image.broker_configs[""] == {"log.cleanup.policy": "delete,compact"}
    ask(cluster, alter(BROKER, "1", ("log.cleanup.policy", SUBTRACT, "delete")))
    assert cluster.image.broker_configs["1"] == {"log.cleanup.policy": "compact"}


def test_a_topics_list_grows_from_the_dynamic_value_of_all_brokers(cluster: Any) -> None:
    cluster.create("a")
    ask(cluster, alter(BROKER, "", ("log.cleanup.policy", SET, "compact")))
    ask(cluster, alter(TOPIC, "a", ("cleanup.policy", APPEND, "delete")))
    assert cluster.image.topics["a"].configs == {"cleanup.policy": "compact,delete"}


@pytest.mark.parametrize(
    ("name", "config", "value", "error", "why"),
    [
        ("1", "broker.id", "7", ErrorCode.INVALID_REQUEST, "read when a broker starts"),
        ("", "broker.id", "7", ErrorCode.INVALID_REQUEST, "read when a broker starts"),
        ("2", "log.retention.ms", "7", ErrorCode.INVALID_REQUEST, "This is broker 1"),
        ("", "my.own", None, ErrorCode.INVALID_REQUEST, "has no value"),
        ("1", "my.own", "x" * MAX_CUSTOM_CHARS, ErrorCode.INVALID_REQUEST, "at most 16384 characters"),
        ("1", "unstable.api.versions.enable", "true", ErrorCode.INVALID_REQUEST, "read when a broker starts"),
        ("1", "listener.name.a.ssl.keystore.location", "b", ErrorCode.INVALID_REQUEST, "read when a broker starts"),
        ("", "log.retention.ms", "-2", ErrorCode.INVALID_REQUEST, "not between"),
        ("", "log.retention.ms", None, ErrorCode.INVALID_REQUEST, "has no value"),
        ("1", "num.io.threads", "0", ErrorCode.INVALID_REQUEST, "must be at least 1"),
        ("1", "ssl.client.auth", "none", ErrorCode.INVALID_REQUEST, "read when a broker starts"),
        ("", "sasl.kerberos.min.time.before.relogin", "1", ErrorCode.INVALID_REQUEST, "for one broker, not for all"),
        ("1", "min.insync.replicas", "2", ErrorCode.INVALID_CONFIG, "not for one broker"),
    ],
)
def test_a_change_of_a_broker_that_cannot_be_made_is_refused_with_kafkas_code_and_a_reason(
    cluster: Any, name: str, config: str, value: str | None, error: ErrorCode, why: str
) -> None:
    (result,) = ask(cluster, alter(BROKER, name, ("max.connections", SET, "5"), (config, SET, value)))
    assert result.error_code == error
    assert why in result.error_message
    assert cluster.image.broker_configs == {}


def test_a_broker_config_that_kafka_knows_and_nothing_here_reads_is_kept(cluster: Any) -> None:
    """librdkafka's test 0081 sets it."""
    name = "sasl.kerberos.min.time.before.relogin"
    (result,) = ask(cluster, alter(BROKER, "1", (name, SET, "58000")))
    assert result.error_code == 0
    assert cluster.image.broker_configs == {"1": {name: "58000"}}
    (result,) = ask(cluster, alter(BROKER, "1", (name, DELETE, None)))
    assert cluster.image.broker_configs == {}


@pytest.mark.parametrize("name", ["1", ""])
@pytest.mark.parametrize("config", ["my.own.setting", "cleanup.policy", "host", "", "listener.name.a.num.io.threads"])
def test_a_broker_config_that_kafka_does_not_know_is_kept_as_kafka_keeps_it(
    cluster: Any, name: str, config: str
) -> None:
    """Kafka takes it for one of a class that is plugged in."""
    (result,) = ask(cluster, alter(BROKER, name, (config, SET, "delete")))
    assert result.error_code == 0
    assert cluster.image.broker_configs == {name: {config: "delete"}}
    (result,) = ask(cluster, alter(BROKER, name, (config, DELETE, None)))
    assert (result.error_code, cluster.image.broker_configs) == (0, {})


@pytest.mark.parametrize("operation", [APPEND, SUBTRACT])
def test_a_broker_config_that_kafka_does_not_know_is_no_list(cluster: Any, operation: int) -> None:
    (result,) = ask(cluster, alter(BROKER, "1", ("my.own.setting", operation, "a")))
    assert (result.error_code, result.error_message) == (
        ErrorCode.INVALID_CONFIG,
        "Config 'my.own.setting' is not a list.",
    )


def test_validating_a_change_of_a_broker_changes_nothing(cluster: Any) -> None:
    (result,) = ask(cluster, alter(BROKER, "", ("log.retention.ms", SET, "7")), validate_only=True)
    assert result.error_code == 0
    assert cluster.image.broker_configs == {}


def test_throttles_of_a_broker_are_set_and_reset_as_by_kafka_reassign_partitions(cluster: Any) -> None:
    rates = [f"{side}.replication.throttled.rate" for side in ("leader", "follower")]
    for operation, value in ((SET, "1000"), (DELETE, None)):
        (result,) = ask(cluster, alter(BROKER, "1", *[(rate, operation, value) for rate in rates]))
        assert result.error_code == ErrorCode.NONE
    assert cluster.image.broker_configs == {}


def test_configs_of_a_group_are_changed_and_reset(cluster: Any) -> None:
    timeout, reset = "consumer.session.timeout.ms", "share.auto.offset.reset"
    (result,) = ask(cluster, alter(GROUP, "billing", (timeout, SET, " 50000 "), (reset, SET, "by_duration:PT1H")))
    assert (result.error_code, result.resource_type, result.resource_name) == (0, GROUP, "billing")
    assert cluster.image.group_configs == {"billing": {timeout: "50000", reset: "by_duration:PT1H"}}
    for deleted in (timeout, reset, "no.such.config"):
        (result,) = ask(cluster, alter(GROUP, "billing", (deleted, DELETE, None)))
        assert result.error_code == ErrorCode.NONE
    assert cluster.image.group_configs == {}


@pytest.mark.parametrize(
    ("group", "change", "code"),
    [
        ("", ("consumer.session.timeout.ms", SET, "50000"), ErrorCode.INVALID_REQUEST),
        ("g", ("consumer.session.timeout.ms", SET, None), ErrorCode.INVALID_REQUEST),
        ("g", ("consumer.session.timeout.ms", SET, "44999"), ErrorCode.INVALID_CONFIG),
        ("g", ("consumer.session.timeout.ms", SET, "60001"), ErrorCode.INVALID_CONFIG),
        ("g", ("consumer.session.timeout.ms", SET, "soon"), ErrorCode.INVALID_CONFIG),
        ("g", ("consumer.session.timeout.ms", APPEND, "50000"), ErrorCode.INVALID_CONFIG),
        ("g", ("no.such.config", SET, "1"), ErrorCode.INVALID_CONFIG),
        ("g" * 1_001, ("consumer.session.timeout.ms", SET, "50000"), ErrorCode.POLICY_VIOLATION),
    ],
)
def test_a_change_of_a_group_that_cannot_be_made_is_refused_with_kafkas_code(
    cluster: Any, group: str, change: tuple[str, int, str | None], code: ErrorCode
) -> None:
    (result,) = ask(cluster, alter(GROUP, group, change))
    assert (result.error_code, bool(result.error_message)) == (code, True)
    assert cluster.image.group_configs == {}


def test_validating_a_change_of_a_group_changes_nothing(cluster: Any) -> None:
    change = alter(GROUP, "g", ("consumer.session.timeout.ms", SET, "50000"))
    (result,) = ask(cluster, change, validate_only=True)
    assert result.error_code == ErrorCode.NONE
    assert cluster.image.group_configs == {}


def test_a_whole_request_can_be_answered_with_an_error(cluster: Any) -> None:
    request = IncrementalAlterConfigsRequest(resources=[alter(TOPIC, "a")])
    seen = cluster.travel(1, incremental_alter_configs.API.failed(request, ErrorCode.NOT_CONTROLLER))
    assert [result.error_code for result in seen.responses] == [ErrorCode.NOT_CONTROLLER]
