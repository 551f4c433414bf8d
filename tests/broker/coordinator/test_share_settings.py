"""Tests of the settings of share groups."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from purgatorio.broker.config import BrokerConfig
from purgatorio.broker.config.by_room import share_settings
from purgatorio.broker.config.group_configs import group_keys
from purgatorio.broker.coordinator.share_settings import OffsetReset, ResetTo, ShareGroupSettings, ShareSettings
from purgatorio.broker.log.setting import config_text
from purgatorio.broker.metadata.image import ClusterImage

EMPTY = ClusterImage(1, "test")


def settings_of(configs: dict[str, str], defaults: ShareSettings | None = None) -> ShareSettings:
    image = EMPTY.with_group_configs("g", configs)
    return ShareGroupSettings(SimpleNamespace(image=image), defaults or ShareSettings()).of("g")


def test_a_group_without_configs_has_the_brokers_settings() -> None:
    config = BrokerConfig(
        broker_id=1,
        group_share_session_timeout_ms=1,
        group_share_heartbeat_interval_ms=2,
        group_share_assignment_interval_ms=3,
        group_share_record_lock_duration_ms=4,
        group_share_delivery_count_limit=6,
        group_share_partition_max_record_locks=700,
    )
    defaults = share_settings(config)
    assert defaults == ShareSettings(
        session_timeout_ms=1,
        heartbeat_interval_ms=2,
        assignment_interval_ms=3,
        record_lock_duration_ms=4,
        delivery_count_limit=6,
        max_record_locks=700,
    )
    assert settings_of({"consumer.session.timeout.ms": "9"}, defaults) == defaults
    assert ShareGroupSettings(SimpleNamespace(image=EMPTY), defaults).of("g") is defaults


def test_the_defaults_are_those_of_a_broker_and_of_the_group_configs() -> None:
    config = BrokerConfig(broker_id=1)
    assert share_settings(config) == ShareSettings()
    shared = {
        key.dotted: config_text(key.default)
        for key in group_keys(config).values()
        if key.dotted.startswith(("share.", "errors."))
    }
    assert settings_of(shared) == ShareSettings()
    assert len(shared) == 11


def test_each_config_of_a_group_counts() -> None:
    assert settings_of(
        {
            "share.session.timeout.ms": "50000",
            "share.heartbeat.interval.ms": "6000",
            "share.assignment.interval.ms": "7",
            "share.record.lock.duration.ms": "20000",
            "share.delivery.count.limit": "9",
            "share.partition.max.record.locks": "111",
            "share.auto.offset.reset": "earliest",
            "share.isolation.level": "read_committed",
            "share.renew.acknowledge.enable": "False",
            "errors.deadletterqueue.topic.name": "dlq.orders",
            "errors.deadletterqueue.copy.record.enable": "true",
        }
    ) == ShareSettings(
        session_timeout_ms=50_000,
        heartbeat_interval_ms=6_000,
        assignment_interval_ms=7,
        record_lock_duration_ms=20_000,
        delivery_count_limit=9,
        max_record_locks=111,
        auto_offset_reset=OffsetReset(ResetTo.EARLIEST),
        reads_committed=True,
        renews=False,
        dead_letter_topic="dlq.orders",
        copies_dead_letters=True,
    )


@pytest.mark.parametrize(
    ("text", "reset"),
    [
        ("latest", OffsetReset(ResetTo.LATEST)),
        ("earliest", OffsetReset(ResetTo.EARLIEST)),
        ("by_duration:PT1H", OffsetReset(ResetTo.DURATION, 3_600_000)),
        ("by_duration:P1DT2H3M4.5S", OffsetReset(ResetTo.DURATION, 93_784_500)),
        ("by_duration:PT0.0019S", OffsetReset(ResetTo.DURATION, 1)),
    ],
)
def test_where_a_group_begins_is_read_as_java_does(text: str, reset: OffsetReset) -> None:
    assert OffsetReset.parse(text) == reset


def test_settings_are_made_again_when_configs_or_defaults_change() -> None:
    store = SimpleNamespace(image=EMPTY.with_group_configs("g", {"share.delivery.count.limit": "3"}))
    settings = ShareGroupSettings(store, ShareSettings())
    first = settings.of("g")
    store.image = store.image.with_group_configs("other", {"share.delivery.count.limit": "4"})
    assert settings.of("g") == first
    store.image = store.image.with_group_configs("g", {"share.delivery.count.limit": "7"})
    assert (settings.of("g").delivery_count_limit, settings.of("other").delivery_count_limit) == (7, 4)
    settings.defaults = ShareSettings(assignment_interval_ms=1_000)
    assert settings.of("g") == ShareSettings(assignment_interval_ms=1_000, delivery_count_limit=7)
    store.image = store.image.with_group_configs("g", {})
    assert settings.of("g") is settings.defaults


def test_settings_are_kept_between_two_changes() -> None:
    image = EMPTY.with_group_configs("g", {"share.delivery.count.limit": "3"})
    settings = ShareGroupSettings(SimpleNamespace(image=image), ShareSettings())
    assert settings.of("g") is settings.of("g")
