"""Tests of the decision that changes the configs of one group."""

from __future__ import annotations

import pytest

from purgatorio.broker.config.broker_settings import BrokerConfig
from purgatorio.broker.config.group_configs import group_keys
from purgatorio.broker.metadata.controller import DecisionRefused, alter_group_configs, replacing
from purgatorio.broker.metadata.controller import configs as decisions
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.protocol.errors import ErrorCode

SETTINGS = {"group_consumer_min_session_timeout_ms": 1, "group_consumer_min_heartbeat_interval_ms": 1}
KEYS = group_keys(BrokerConfig(broker_id=1, **SETTINGS))
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
EMPTY = ClusterImage(version=0, cluster_id="c")


def altered(image: ClusterImage, group_id: str, **configs: str) -> ClusterImage:
    edit = replacing({name.replace("_", "."): value for name, value in configs.items()})
    return alter_group_configs(image, group_id, edit, keys=KEYS)


def test_a_groups_configs_replace_its_others_and_end_when_all_are_reset() -> None:
    image = altered(EMPTY, "g", consumer_session_timeout_ms="50000")
    image = altered(image, "other", share_auto_offset_reset="earliest")
    image = altered(image, "g", consumer_heartbeat_interval_ms="6000")
    assert image.group_configs == {"g": {HEARTBEAT: "6000"}, "other": {"share.auto.offset.reset": "earliest"}}
    assert altered(image, "g").group_configs == {"other": {"share.auto.offset.reset": "earliest"}}
    assert altered(image, "g", consumer_heartbeat_interval_ms="6000") is image


@pytest.mark.parametrize("configs", [{SESSION: "5000"}, {SESSION: "9000", HEARTBEAT: "9000"}])
def test_a_session_is_longer_than_the_time_between_heartbeats(configs: dict[str, str]) -> None:
    with pytest.raises(DecisionRefused) as refused:
        alter_group_configs(EMPTY, "g", replacing(configs), keys=KEYS)
    assert refused.value.error == ErrorCode.INVALID_CONFIG
    shorter = {**configs, HEARTBEAT: "100"}
    assert alter_group_configs(EMPTY, "g", replacing(shorter), keys=KEYS).group_configs == {"g": shorter}


def test_the_groups_with_configs_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "MAX_CONFIGURED_GROUPS", 1)
    image = altered(EMPTY, "g", consumer_session_timeout_ms="50000")
    with pytest.raises(DecisionRefused) as refused:
        altered(image, "h", consumer_session_timeout_ms="50000")
    assert refused.value.error == ErrorCode.POLICY_VIOLATION
    assert altered(image, "h") is image
    assert altered(image, "g", consumer_session_timeout_ms="51000").group_configs == {"g": {SESSION: "51000"}}
