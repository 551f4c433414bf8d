"""Tests of the UpdateFeatures handler: the levels are those of the brokers' start."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from purgatorio.broker.api import update_features
from purgatorio.broker.api.features import FeatureLevels
from purgatorio.broker.api.update_features import UpgradeType
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

UPGRADE, SAFE, UNSAFE = UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE


class Asker:
    """Asks brokers with a level of transaction.version, and one of share.version."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster

    def __call__(
        self, *updates: FeatureUpdateKey, version: int = 2, level: int = 2, share: int = 2, validate_only: bool = False
    ) -> UpdateFeaturesResponse:
        api: Any = SimpleNamespace(
            handle=lambda admin, *rest: update_features.handle(FeatureLevels(level, share), *rest)
        )
        request = UpdateFeaturesRequest(feature_updates=list(updates), validate_only=validate_only)
        answer: UpdateFeaturesResponse = self._cluster.ask(api, version, request)
        return answer


@pytest.fixture
def ask(cluster: Any) -> Asker:
    return Asker(cluster)


def update(feature: str, level: int, upgrade_type: int = UPGRADE, **older: bool) -> FeatureUpdateKey:
    return FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=upgrade_type, **older)


@pytest.mark.parametrize("validate_only", [False, True])
@pytest.mark.parametrize("upgrade_type", list(UpgradeType))
def test_a_level_that_is_in_use_is_accepted(ask: Asker, upgrade_type: UpgradeType, validate_only: bool) -> None:
    same = (
        update("transaction.version", 2, upgrade_type),
        update("group.version", 1, upgrade_type),
        update("share.version", 2, upgrade_type),
    )
    answer = ask(*same, validate_only=validate_only)
    assert (answer.error_code, answer.error_message) == (ErrorCode.NONE, None)


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (update("transaction.version", 3), "levels 0 to 2"),
        (update("share.version", 3), "levels 0 to 2"),
        (update("share.version", 1), "does not allow a downgrade"),
        (update("share.version", 0, UNSAFE), "set when brokers start"),
        (update("transaction.version", -1), "levels 0 to 2"),
        (update("transaction.version", 1), "does not allow a downgrade"),
        (update("transaction.version", 1, SAFE), "set when brokers start"),
        (update("group.version", 0, UNSAFE), "set when brokers start"),
        (update("group.version", 2), "levels 0 to 1"),
        (update("metadata.version", 30), "no such feature"),
        (update("transaction.version", 2, 0), "no upgrade type 0"),
        (update("transaction.version", 2, 4), "no upgrade type 4"),
    ],
)
@pytest.mark.parametrize("validate_only", [False, True])
def test_any_other_level_is_an_invalid_update_version_in_words(
    ask: Asker, asked: FeatureUpdateKey, why: str, validate_only: bool
) -> None:
    answer = ask(update("group.version", 1), asked, validate_only=validate_only)
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert answer.error_message is not None
    assert f"{asked.feature} cannot get level {asked.max_version_level}" in answer.error_message
    assert why in answer.error_message


def test_an_upgrade_is_a_change_too(ask: Asker) -> None:
    assert ask(update("transaction.version", 2), level=1).error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert ask(update("transaction.version", 1), level=1).error_code == ErrorCode.NONE


@pytest.mark.parametrize(("allow_downgrade", "why"), [(False, "does not allow a downgrade"), (True, "set when")])
def test_version_0_says_whether_a_downgrade_is_allowed(ask: Asker, allow_downgrade: bool, why: str) -> None:
    answer = ask(update("group.version", 0, allow_downgrade=allow_downgrade), version=0)
    assert answer.error_message is not None
    assert why in answer.error_message


@pytest.mark.parametrize(("version", "named"), [(0, ["group.version"]), (1, ["group.version"]), (2, [])])
def test_until_version_1_each_accepted_feature_is_named_once(ask: Asker, version: int, named: list[str]) -> None:
    twice = update("group.version", 1), update("group.version", 1)
    assert [each.feature for each in ask(*twice, version=version).results] == named
    assert ask(*twice, update("nothing", 1), version=version).results == []
