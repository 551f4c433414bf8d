"""Tests of the ListConfigResources handler."""

from __future__ import annotations

from typing import Any

from purgatorio.broker.api import list_config_resources
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.list_config_resources import ListConfigResourcesRequest

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


def ask(cluster: Any, *types: int, version: int = 1) -> Any:
    return cluster.ask(list_config_resources, version, ListConfigResourcesRequest(resource_types=list(types)))


def listed(response: Any) -> list[tuple[int, str]]:
    assert response.error_code == 0
    return [(each.resource_type, each.resource_name) for each in response.config_resources]


def test_without_types_all_topics_and_live_brokers_are_listed(cluster: Any) -> None:
    cluster.create("orders")
    cluster.create("billing")
    cluster.fence(3)
    assert listed(ask(cluster)) == [(TOPIC, "billing"), (TOPIC, "orders"), (BROKER, "1"), (BROKER, "2")]


def test_only_resources_of_the_types_that_are_asked_for_are_listed_each_once(cluster: Any) -> None:
    cluster.create("orders")
    assert listed(ask(cluster, TOPIC, TOPIC)) == [(TOPIC, "orders")]
    assert listed(ask(cluster, LOGGER, CLIENT_METRICS, GROUP)) == []


def test_groups_with_configs_of_their_own_are_listed(cluster: Any) -> None:
    for group_id in ("b", "a"):
        cluster.change(lambda image, name=group_id: (image.with_group_configs(name, {"x": "1"}), None))
    assert listed(ask(cluster, GROUP)) == [(GROUP, "a"), (GROUP, "b")]


def test_version_0_asks_for_client_metrics_of_which_there_are_none(cluster: Any) -> None:
    cluster.create("orders")
    assert listed(ask(cluster, version=0)) == []


def test_an_unknown_type_is_refused(cluster: Any) -> None:
    response = ask(cluster, TOPIC, 64)
    assert (response.error_code, response.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, [])


def test_a_whole_request_can_be_answered_with_an_error() -> None:
    response = list_config_resources.API.failed(ListConfigResourcesRequest(), ErrorCode.UNKNOWN_SERVER_ERROR)
    assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
