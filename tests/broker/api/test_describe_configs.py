"""Tests of the DescribeConfigs handler."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.api import describe_configs
from purgatorio.broker.log.config import GONE_CONFIGS, TOPIC_CONFIGS, ConfigType
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tests.broker.api.conftest import Setting

TOPIC, BROKER = 2, 4
TOPIC_CONFIG, DYNAMIC_BROKER_CONFIG, DYNAMIC_DEFAULT_BROKER_CONFIG, STATIC_BROKER_CONFIG, DEFAULT_CONFIG = range(1, 6)


def about(kind: int, name: str, *keys: str) -> DescribeConfigsResource:
    return DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=list(keys) or None)


def ask(cluster: Any, *resources: DescribeConfigsResource, version: int = 4, **options: bool) -> Any:
    return cluster.ask(describe_configs, version, DescribeConfigsRequest(resources=list(resources), **options)).results


def by_name(result: Any) -> dict[str, Any]:
    return {config.name: config for config in result.configs}


@pytest.mark.parametrize("version", range(1, 5))
def test_every_version_lists_a_topics_configs_with_their_sources(cluster: Any, version: int) -> None:
    cluster.create("orders", segment_bytes="2000")
    (result,) = ask(cluster, about(TOPIC, "orders"), version=version)
    assert (result.error_code, result.error_message) == (0, None)
    assert (result.resource_type, result.resource_name) == (TOPIC, "orders")
    configs = by_name(result)
    assert set(configs) == set(TOPIC_CONFIGS) - GONE_CONFIGS
    for name, value, source in (
        ("segment.bytes", "2000", TOPIC_CONFIG),
        ("retention.ms", "5000", STATIC_BROKER_CONFIG),
        ("cleanup.policy", "delete", DEFAULT_CONFIG),
    ):
        assert (configs[name].value, configs[name].config_source) == (value, source)
        assert not configs[name].read_only
        assert configs[name].synonyms == []
    if version >= 3:
        assert configs["retention.ms"].config_type == ConfigType.LONG
        assert configs["cleanup.policy"].config_type == ConfigType.LIST
        assert configs["retention.ms"].documentation is None


def test_synonyms_list_every_config_that_the_value_can_come_from(cluster: Any) -> None:
    cluster.create("orders", segment_bytes="2000", cleanup_policy="compact")
    (result,) = ask(cluster, about(TOPIC, "orders"), include_synonyms=True)
    synonyms = {
        name: [(each.name, each.value, each.source) for each in config.synonyms]
        for name, config in by_name(result).items()
    }
    assert synonyms["segment.bytes"] == [
        ("segment.bytes", "2000", TOPIC_CONFIG),
        ("log.segment.bytes", "16384", DEFAULT_CONFIG),
    ]
    assert synonyms["retention.ms"] == [("log.retention.ms", "5000", STATIC_BROKER_CONFIG)]
    assert synonyms["cleanup.policy"] == [
        ("cleanup.policy", "compact", TOPIC_CONFIG),
        ("cleanup.policy", "delete", DEFAULT_CONFIG),
    ]


def test_documentation_is_included_on_request(cluster: Any) -> None:
    cluster.create("orders")
    topic, broker = ask(cluster, about(TOPIC, "orders"), about(BROKER, "1"), version=3, include_documentation=True)
    assert all(config.documentation for config in topic.configs)
    assert by_name(broker)["broker.id"].documentation == "The broker's id."


def test_only_the_named_configs_are_listed_and_unknown_names_are_ignored(cluster: Any) -> None:
    cluster.create("orders")
    (result,) = ask(cluster, about(TOPIC, "orders", "retention.ms", "no.such"))
    assert list(by_name(result)) == ["retention.ms"]


def test_an_empty_list_of_names_means_all_as_in_kafka(cluster: Any) -> None:
    cluster.create("orders")
    resource = about(TOPIC, "orders")
    resource.configuration_keys = []
    (result,) = ask(cluster, resource)
    assert set(by_name(result)) == set(TOPIC_CONFIGS) - GONE_CONFIGS


def test_a_broker_lists_its_own_configs_those_read_at_its_start_as_read_only(cluster: Any) -> None:
    (result,) = ask(cluster, about(BROKER, "1"), include_synonyms=True)
    configs = by_name(result)
    assert {name: (config.value, config.config_source) for name, config in configs.items()} == {
        "broker.id": ("1", STATIC_BROKER_CONFIG),
        "log.retention.ms": ("5000", STATIC_BROKER_CONFIG),
        "log.segment.bytes": ("16384", DEFAULT_CONFIG),
        "min.insync.replicas": ("1", DYNAMIC_DEFAULT_BROKER_CONFIG),
    }
    assert [name for name, config in configs.items() if config.read_only] == ["broker.id"]
    synonym = configs["broker.id"].synonyms[0]
    assert (synonym.name, synonym.value, synonym.source) == ("broker.id", "1", STATIC_BROKER_CONFIG)


def test_dynamic_configs_of_all_brokers_are_listed_by_themselves(cluster: Any) -> None:
    cluster.change(lambda image: (image.with_broker_configs("", {"log.retention.ms": "6"}), None))
    (result,) = ask(cluster, about(BROKER, ""))
    config = by_name(result)["log.retention.ms"]
    assert (config.name, config.value, config.config_source) == ("log.retention.ms", "6", DYNAMIC_DEFAULT_BROKER_CONFIG)
    assert not config.read_only


def test_all_brokers_have_a_min_insync_replicas_as_kafka_writes_it_with_elr(cluster: Any) -> None:
    cluster.create("orders")
    for value, source in (("1", 3), ("2", 3)):
        every, topic = ask(cluster, about(BROKER, ""), about(TOPIC, "orders"))
        for config in (by_name(every)["min.insync.replicas"], by_name(topic)["min.insync.replicas"]):
            assert (config.value, config.config_source, config.read_only) == (value, source, False)
        assert list(by_name(every)) == ["min.insync.replicas"]
        cluster.change(lambda image: (image.with_broker_configs("", {"min.insync.replicas": "2"}), None))


def test_a_config_without_effect_is_listed_once_it_is_set_and_says_so(cluster: Any) -> None:
    cluster.change(lambda image: (image.with_broker_configs("1", {"num.io.threads": "9"}), None))
    (result,) = ask(cluster, about(BROKER, "1"), include_documentation=True)
    config = by_name(result)["num.io.threads"]
    assert (config.value, config.config_source) == ("9", DYNAMIC_BROKER_CONFIG)
    assert "without effect" in config.documentation


def test_a_dynamic_value_wins_over_that_of_all_brokers_and_that_over_the_one_of_the_start(cluster: Any) -> None:
    cluster.create("orders")
    throttle = "leader.replication.throttled.rate"
    cluster.change(lambda image: (image.with_broker_configs("", {"log.retention.ms": "6"}), None))
    cluster.change(lambda image: (image.with_broker_configs("1", {"log.retention.ms": "7", throttle: "8"}), None))
    topic, broker = ask(cluster, about(TOPIC, "orders"), about(BROKER, "1"), include_synonyms=True)
    for config in (by_name(topic)["retention.ms"], by_name(broker)["log.retention.ms"]):
        assert (config.value, config.config_source) == ("7", DYNAMIC_BROKER_CONFIG)
        assert [(each.name, each.value, each.source) for each in config.synonyms] == [
            ("log.retention.ms", "7", DYNAMIC_BROKER_CONFIG),
            ("log.retention.ms", "6", DYNAMIC_DEFAULT_BROKER_CONFIG),
            ("log.retention.ms", "5000", STATIC_BROKER_CONFIG),
        ]
    assert by_name(broker)[throttle].value == "8"


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (TOPIC, "unknown", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "one", ErrorCode.INVALID_REQUEST),
        (8, "1", ErrorCode.INVALID_REQUEST),
        (0, "", ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_resource_without_configs_is_answered_with_an_error_and_the_others_are_listed(
    cluster: Any, kind: int, name: str, error: ErrorCode
) -> None:
    cluster.create("orders")
    bad, good = ask(cluster, about(kind, name), about(TOPIC, "orders"))
    assert (bad.error_code, bad.resource_type, bad.resource_name) == (error, kind, name)
    assert bad.error_message
    assert bad.configs == []
    assert good.error_code == 0


def test_a_resource_named_many_times_is_described_once(cluster: Any) -> None:
    cluster.create("orders")
    assert len(ask(cluster, *[about(TOPIC, "orders")] * 50)) == 1


def test_a_whole_request_can_be_answered_with_an_error(cluster: Any) -> None:
    request = DescribeConfigsRequest(resources=[about(TOPIC, "orders")])
    seen = cluster.travel(4, describe_configs.API.failed(request, ErrorCode.UNKNOWN_SERVER_ERROR))
    assert [result.error_code for result in seen.results] == [ErrorCode.UNKNOWN_SERVER_ERROR]


def test_every_group_has_configs_whether_it_exists_or_not(cluster: Any) -> None:
    """kafka-configs asks for each group that it lists, and for one that need not exist."""
    cluster.admin.broker_configs["group.consumer.session.timeout.ms"] = Setting("45000", False, 3, "Session timeout.")
    (result,) = ask(cluster, about(32, "billing"))
    assert (result.error_code, result.resource_name) == (0, "billing")
    assert len(result.configs) == 19
    found = {each.name: (each.value, each.config_source) for each in result.configs if not each.read_only}
    assert found["consumer.session.timeout.ms"] == ("45000", STATIC_BROKER_CONFIG)
    assert found["consumer.heartbeat.interval.ms"] == ("5000", DEFAULT_CONFIG)
    assert found["share.auto.offset.reset"] == ("latest", DEFAULT_CONFIG)
    (refused,) = ask(cluster, about(32, ""))
    assert refused.error_code == ErrorCode.INVALID_REQUEST


def test_a_groups_own_config_comes_before_that_of_the_brokers_groups(cluster: Any) -> None:
    cluster.change(lambda image: (image.with_group_configs("g", {"consumer.session.timeout.ms": "50000"}), None))
    (result,) = ask(cluster, about(32, "g", "consumer.session.timeout.ms"), include_synonyms=True)
    (config,) = result.configs
    assert (config.value, config.config_source) == ("50000", 8)
    assert [(each.name, each.value, each.source) for each in config.synonyms] == [
        ("consumer.session.timeout.ms", "50000", 8),
        ("group.consumer.session.timeout.ms", "45000", DEFAULT_CONFIG),
    ]


def test_topics_that_set_the_same_share_their_entries(cluster: Any) -> None:
    """An answer about thousands of topics is made in little time and memory."""
    for name, retention in (("a", "1"), ("b", "1"), ("c", "2")):
        cluster.create(name, retention_ms=retention)
    request = DescribeConfigsRequest(resources=[about(TOPIC, name) for name in "abc"])
    (response,) = cluster.send(describe_configs, 4, request).responses
    a, b, c = response.results
    assert a.configs is b.configs
    assert [one is other for one, other in zip(a.configs, c.configs, strict=True)].count(False) == 1


@pytest.mark.parametrize(("name", "source"), [("1", 2), ("", 3)])
def test_a_broker_config_that_kafka_does_not_know_is_shown_without_its_value(
    cluster: Any, name: str, source: int
) -> None:
    """It may be a password; as Kafka 4.4.0 shows it."""
    cluster.change(lambda image: (image.with_broker_configs(name, {"my.own": "geheim"}), None))
    request = DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=4, resource_name=name, configuration_keys=["my.own"])],
        include_synonyms=True,
    )
    (result,) = cluster.ask(describe_configs, 4, request).results
    (config,) = result.configs
    assert (config.name, config.value, config.config_source, config.config_type) == ("my.own", None, source, 0)
    assert (config.is_sensitive, config.read_only) == (True, True)
    assert [(each.value, each.source) for each in config.synonyms] == [(None, source)]


def test_a_config_of_one_listener_is_shown_as_what_it_is_one_of(cluster: Any) -> None:
    named = "listener.name.external.num.network.threads"
    cluster.change(lambda image: (image.with_broker_configs("1", {named: "4"}), None))
    request = DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=[named])]
    )
    (config,) = cluster.ask(describe_configs, 4, request).results[0].configs
    assert (config.value, config.config_type, config.is_sensitive, config.read_only) == ("4", 3, False, True)
