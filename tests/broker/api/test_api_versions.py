"""ApiVersions: besides the APIs, the features of the cluster."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from purgatorio.broker.api import api_versions
from purgatorio.broker.api.features import FeatureLevels
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse


@pytest.fixture
def ask(cluster: Any) -> Any:
    api: Any = SimpleNamespace(handle=lambda admin, *rest: api_versions.handle({}, FeatureLevels(1, 2), *rest))
    request = ApiVersionsRequest(client_software_name="app", client_software_version="1")
    return lambda version: cluster.ask(api, version, request)


@pytest.mark.parametrize("version", [3, 4, 5])
def test_the_features_in_use_are_finalized(ask: partial[ApiVersionsResponse], version: int) -> None:
    answer = ask(version)
    levels = [(each.name, each.min_version_level, each.max_version_level) for each in answer.finalized_features]
    assert levels == [("group.version", 1, 1), ("transaction.version", 1, 1), ("share.version", 2, 2)]


@pytest.mark.parametrize(("level", "told"), [(0, []), (1, [1]), (2, [2])])
def test_share_groups_that_are_switched_off_are_no_feature_in_use(cluster: Any, level: int, told: list[int]) -> None:
    api: Any = SimpleNamespace(handle=lambda admin, *rest: api_versions.handle({}, FeatureLevels(2, level), *rest))
    answer = cluster.ask(api, 4, ApiVersionsRequest(client_software_name="app", client_software_version="1"))
    assert [each.max_version_level for each in answer.finalized_features if each.name == "share.version"] == told
    assert [each.max_version for each in answer.supported_features if each.name == "share.version"] == [2]
    assert answer.finalized_features_epoch == 2 + level


@pytest.mark.parametrize("level", [1, 2])
def test_the_version_of_transactions_is_a_setting(cluster: Any, level: int) -> None:
    api: Any = SimpleNamespace(handle=lambda admin, *rest: api_versions.handle({}, FeatureLevels(level, 0), *rest))
    answer = cluster.ask(api, 3, ApiVersionsRequest(client_software_name="app", client_software_version="1"))
    assert answer.finalized_features[1].max_version_level == level
    assert answer.finalized_features_epoch == level, "higher after an upgrade, or Java keeps the lower level"


@pytest.mark.parametrize(
    ("version", "supported"),
    [(3, []), (4, [("group.version", 0, 1), ("transaction.version", 0, 2), ("share.version", 0, 2)])],
)
def test_kafka_17011_features_with_minimum_0_are_told_from_version_4_on(
    ask: partial[ApiVersionsResponse], version: int, supported: list[tuple[str, int, int]]
) -> None:
    features = ask(version).supported_features
    assert [(each.name, each.min_version, each.max_version) for each in features] == supported


@pytest.mark.parametrize("version", range(3))
def test_older_versions_have_no_features(ask: partial[ApiVersionsResponse], version: int) -> None:
    assert ask(version).finalized_features == []


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, ErrorCode.NONE),
        ({"cluster_id": "ours", "node_id": 1}, ErrorCode.NONE),
        ({"cluster_id": "theirs", "node_id": 1}, ErrorCode.REBOOTSTRAP_REQUIRED),
        ({"cluster_id": "ours", "node_id": 2}, ErrorCode.REBOOTSTRAP_REQUIRED),
        ({"cluster_id": "ours"}, ErrorCode.INVALID_REQUEST),
        ({"node_id": 1}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_kip_1242_a_client_that_means_another_broker_is_told_so(
    cluster: Any, fields: dict[str, Any], told: ErrorCode
) -> None:
    handle = partial(
        api_versions.handle, {}, FeatureLevels(1, 2), identity=lambda: api_versions.BrokerIdentity("ours", 1)
    )
    api: Any = SimpleNamespace(handle=lambda admin, *rest: handle(*rest))
    request = ApiVersionsRequest(client_software_name="app", client_software_version="1", **fields)
    assert cluster.ask(api, 5, request).error_code == told
    assert cluster.ask(api, 4, request).error_code == ErrorCode.NONE, "older versions do not say whom they mean"
