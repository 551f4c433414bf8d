"""Tests of the AlterConfigs handler."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.api import alter_configs
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource

TOPIC, BROKER, GROUP = 2, 4, 32


def alter(kind: int, name: str, **configs: str) -> AlterConfigsResource:
    return AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[AlterableConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
    )


def ask(cluster: Any, *resources: AlterConfigsResource, version: int = 2, validate_only: bool = False) -> Any:
    request = AlterConfigsRequest(resources=list(resources), validate_only=validate_only)
    return cluster.ask(alter_configs, version, request).responses


@pytest.mark.parametrize("version", range(3))
def test_every_version_replaces_the_configs_of_each_topic(cluster: Any, version: int) -> None:
    cluster.create("a", segment_bytes="2000")
    cluster.create("b", segment_bytes="2000")
    results = ask(cluster, alter(TOPIC, "a", retention_ms="7"), alter(TOPIC, "b", retention_mss="7"), version=version)
    assert [(result.resource_type, result.resource_name, result.error_code) for result in results] == [
        (TOPIC, "a", ErrorCode.NONE),
        (TOPIC, "b", ErrorCode.INVALID_CONFIG),
    ]
    assert results[0].error_message is None
    assert "retention.ms" in results[1].error_message
    assert cluster.image.topics["a"].configs == {"retention.ms": "7"}
    assert cluster.image.topics["b"].configs == {"segment.bytes": "2000"}


def test_all_dynamic_configs_of_brokers_are_replaced(cluster: Any) -> None:
    ask(cluster, alter(BROKER, "1", log_retention_ms="7"), alter(BROKER, "", log_retention_ms="8", max_connections="9"))
    results = ask(cluster, alter(BROKER, "1"), alter(BROKER, "", message_max_bytes="5"))
    assert [result.error_code for result in results] == [ErrorCode.NONE, ErrorCode.NONE]
    assert cluster.image.broker_configs == {"": {"message.max.bytes": "5"}}


@pytest.mark.parametrize(("kind", "name"), [(TOPIC, "a"), (BROKER, "1"), (BROKER, ""), (GROUP, "app")])
def test_a_config_without_a_value_is_an_invalid_request(cluster: Any, kind: int, name: str) -> None:
    """As in Kafka, whatever has the config, and whether there is such a config or not."""
    cluster.create("a")
    for config in ("retention.ms", "no.such.config"):
        asked = alter(kind, name)
        asked.configs = [AlterableConfig(name=config, value=None)]
        (result,) = ask(cluster, asked)
        assert result.error_code == ErrorCode.INVALID_REQUEST
        assert config in result.error_message


def test_a_config_that_is_named_twice_is_an_invalid_request(cluster: Any) -> None:
    """As in Kafka, and as IncrementalAlterConfigs answers."""
    cluster.create("a", segment_bytes="2000")
    asked = alter(TOPIC, "a", retention_ms="7")
    asked.configs *= 2
    (result,) = ask(cluster, asked)
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert "retention.ms" in result.error_message
    assert cluster.image.topics["a"].configs == {"segment.bytes": "2000"}


def test_validating_only_changes_nothing(cluster: Any) -> None:
    cluster.create("a")
    (result,) = ask(cluster, alter(TOPIC, "a", retention_ms="7"), validate_only=True)
    assert result.error_code == 0
    assert cluster.image.topics["a"].configs == {}


@pytest.mark.parametrize(
    ("resource", "error"),
    [
        (alter(BROKER, "1", broker_id="7"), ErrorCode.INVALID_REQUEST),
        (alter(BROKER, "1", log_retention_ms="long"), ErrorCode.INVALID_REQUEST),
        (alter(BROKER, "2", log_retention_ms="7"), ErrorCode.INVALID_REQUEST),
        (alter(8, "1"), ErrorCode.INVALID_REQUEST),
        (alter(TOPIC, "unknown"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (alter(TOPIC, "a b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_a_resource_that_cannot_be_altered_is_refused_with_a_reason(
    cluster: Any, resource: AlterConfigsResource, error: ErrorCode
) -> None:
    (result,) = ask(cluster, resource)
    assert result.error_code == error
    assert result.error_message


def test_a_resource_named_twice_is_refused_once_and_not_changed(cluster: Any) -> None:
    cluster.create("a")
    (result,) = ask(cluster, alter(TOPIC, "a", retention_ms="7"), alter(TOPIC, "a", retention_ms="8"))
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert cluster.image.topics["a"].configs == {}


def test_the_broker_answers_when_it_sees_the_change(cluster: Any) -> None:
    cluster.create("a")
    request = AlterConfigsRequest(resources=[alter(TOPIC, "a", retention_ms="7")])
    reply = cluster.send(alter_configs, 2, request)
    assert reply.responses == []
    while not reply.responses:
        cluster.turns.turn()
    assert cluster.image.topics["a"].configs == {"retention.ms": "7"}


def test_a_whole_request_can_be_answered_with_an_error(cluster: Any) -> None:
    request = AlterConfigsRequest(resources=[alter(TOPIC, "a")])
    seen = cluster.travel(2, alter_configs.API.failed(request, ErrorCode.NOT_CONTROLLER))
    assert [result.error_code for result in seen.responses] == [ErrorCode.NOT_CONTROLLER]
