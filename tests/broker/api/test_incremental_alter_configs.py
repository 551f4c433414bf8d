"""Tests of the IncrementalAlterConfigs handler."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.api import incremental_alter_configs
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

TOPIC, BROKER = 2, 4
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
def test_broker_configs_cannot_be_changed(cluster: Any, name: str) -> None:
    (result,) = ask(cluster, alter(BROKER, name, ("log.retention.ms", SET, "7")))
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert "cannot be changed while it runs" in result.error_message


def test_resetting_a_brokers_throttles_succeeds_as_after_kafka_reassign_partitions(cluster: Any) -> None:
    rates = [(f"{side}.replication.throttled.rate", DELETE, None) for side in ("leader", "follower")]
    results = ask(cluster, alter(BROKER, "1", *rates), alter(BROKER, "2", *rates, ("num.io.threads", SET, "3")))
    assert [result.error_code for result in results] == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]


def test_a_whole_request_can_be_answered_with_an_error(cluster: Any) -> None:
    request = IncrementalAlterConfigsRequest(resources=[alter(TOPIC, "a")])
    seen = cluster.travel(1, incremental_alter_configs.error_response(request, ErrorCode.NOT_CONTROLLER))
    assert [result.error_code for result in seen.responses] == [ErrorCode.NOT_CONTROLLER]
