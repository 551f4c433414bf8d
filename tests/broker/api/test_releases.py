"""Brokers that answer as a release of Apache Kafka: its APIs, their versions, and its features."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any, get_args, get_type_hints

import pytest

from purgatorio.broker.api import api_versions, update_features
from purgatorio.broker.api.config_listing import topic_entries
from purgatorio.broker.api.features import Feature, FeatureLevels, features
from purgatorio.broker.api.routes import APIS, versions_as
from purgatorio.broker.config import BrokerConfig
from purgatorio.broker.config.address_settings import AddressSettings
from purgatorio.broker.config.by_room import share_version, topic_settings, transaction_config
from purgatorio.broker.config.descriptions import BrokerDescription
from purgatorio.broker.config.dynamic import dynamic_keys_of
from purgatorio.broker.config.group_configs import group_keys
from purgatorio.broker.metadata.controller import DecisionRefused
from purgatorio.broker.metadata.controller.configs import check_configs
from purgatorio.broker.metadata.releases import LATEST, NEEDS, Levels, Release, release, releases
from purgatorio.broker.routing.request import Versions, api_versions_response
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.api_versions import ApiVersionsRequest
from purgatorio.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

LEVELS = FeatureLevels(1, 2)
NAMES = ("3.9", "4.0", "4.1", "4.2", "4.3", "4.4")


def test_the_setting_has_the_releases_of_the_table() -> None:
    assert tuple(releases()) == NAMES
    assert get_args(get_type_hints(AddressSettings)["as_version"]) == (*NAMES, LATEST)
    assert release(LATEST) is None


@pytest.mark.parametrize("name", NAMES)
def test_what_is_told_is_what_the_release_and_this_broker_have(name: str) -> None:
    told = {each.api_key: each for each in api_versions_response(versions_as(name)).api_keys}
    versions = releases()[name].versions
    for each in APIS:
        lowest, highest = versions.get(each.key, (0, -1))
        shared = set(range(lowest, highest + 1)) & set(range(each.min_version, each.max_version + 1))
        is_told = int(each.key) in told
        if is_told:
            found = told[each.key]
            assert shared == set(range(found.min_version, found.max_version + 1)), each.key
        else:
            assert not shared or any(each.key in keys for keys in NEEDS.values()), each.key


@pytest.mark.parametrize(
    ("name", "consumer", "share"),
    [("3.9", False, False), ("4.0", True, False), ("4.1", True, False), ("4.4", True, True)],
)
def test_groups_of_later_protocols_are_not_in_earlier_releases(name: str, consumer: bool, share: bool) -> None:
    """KIP-848 is there from 4.0 on, KIP-932 from 4.2 on; the jars of 3.9 and 4.1 have the messages already."""
    as_of = releases()[name]
    assert (as_of.narrowed(ApiKey.CONSUMER_GROUP_HEARTBEAT, Versions(0, 1)) is not None) is consumer
    assert (as_of.narrowed(78, Versions(1, 1)) is not None) is share


def test_versions_beyond_the_release_are_not_answered() -> None:
    as_of = releases()["3.9"]
    produce = as_of.narrowed(ApiKey.PRODUCE, Versions(0, 12))
    assert produce is not None
    assert (produce.lowest, produce.highest) == (0, 11)
    assert as_of.narrowed(ApiKey.PRODUCE, Versions(12, 13)) is None
    assert as_of.narrowed(999, Versions(0, 1)) is None


def test_brokers_ask_each_other_in_their_own_versions() -> None:
    """WriteTxnMarkers, which clients never send, has a version in 4.0 that the brokers use."""
    found = releases()["3.9"].narrowed(ApiKey.WRITE_TXN_MARKERS, Versions(1, 2))
    assert found == Versions(1, 2, highest_advertised=1)
    found = releases()["4.1"].narrowed(ApiKey.WRITE_SHARE_GROUP_STATE, Versions(0, 1))
    assert found == Versions(0, 1, highest_advertised=0)


def test_features_are_those_of_the_release() -> None:
    assert features(FeatureLevels(2, 2), releases()["3.9"]) == ()
    assert features(FeatureLevels(1, 2), releases()["4.0"]) == (
        Feature("group.version", 0, 1, 1),
        Feature("transaction.version", 0, 2, 1),
    )
    assert features(FeatureLevels(2, 2), releases()["4.1"])[2:] == (Feature("share.version", 0, 1, 0),)
    assert features(FeatureLevels(2, 2), releases()["4.3"])[2:] == (Feature("share.version", 0, 1, 1),)
    newer = Release("9", {}, {"transaction.version": Levels(0, 1, 1)})
    assert features(FeatureLevels(2, 2), newer) == (Feature("transaction.version", 0, 1, 1),)


def test_transactions_are_those_of_the_release() -> None:
    assert transaction_config(BrokerConfig(as_version="3.9")).version == 1
    assert transaction_config(BrokerConfig(as_version="4.0")).version == 2
    assert transaction_config(BrokerConfig(as_version="4.4", transaction_version=1)).version == 1


@pytest.mark.parametrize(
    ("name", "asked", "level"),
    [("3.9", 2, 0), ("4.1", 2, 0), ("4.2", 2, 1), ("4.4", 2, 2), ("4.4", 0, 0), ("latest", 1, 1), ("latest", 2, 2)],
)
def test_share_groups_are_those_of_the_release(name: str, asked: int, level: int) -> None:
    """4.1 has them as a preview, which has to be switched on there."""
    assert share_version(BrokerConfig(as_version=name, share_version=asked)) == level


def test_the_answers_about_features_go_by_the_release(cluster: Any) -> None:
    as_of = releases()["3.9"]
    api: Any = SimpleNamespace(handle=lambda admin, *rest: api_versions.handle({}, LEVELS, *rest, release=as_of))
    answer = cluster.ask(api, 4, ApiVersionsRequest(client_software_name="app", client_software_version="1"))
    assert (answer.supported_features, answer.finalized_features) == ([], [])
    api = SimpleNamespace(handle=lambda admin, *rest: partial(update_features.handle, LEVELS, release=as_of)(*rest))
    update = FeatureUpdateKey(feature="group.version", max_version_level=1, upgrade_type=1)
    answer = cluster.ask(api, 1, UpdateFeaturesRequest(feature_updates=[update]))
    assert "there is no such feature" in answer.error_message


def test_configs_are_those_of_the_release() -> None:
    """What the release has not got, what has another default there than in the newest one, and bounds."""
    oldest, newest = releases()["3.9"].configs, releases()["4.4"].configs
    assert "message.format.version" in newest["topic"].absent - oldest["topic"].absent
    assert "remote.copy.lag.ms" in oldest["topic"].absent - newest["topic"].absent
    assert oldest["topic"].defaults == {"message.timestamp.after.max.ms": str(2**63 - 1)}
    assert oldest["broker"].defaults["num.recovery.threads.per.data.dir"] == "1"
    assert not any(newest[kind].defaults for kind in newest)
    assert [releases()[name].configs["topic"].lowest["segment.bytes"] for name in NAMES] == [14, 14, *[2**20] * 4]


@pytest.mark.parametrize(
    ("name", "hidden", "shown"),
    [
        ("3.9", "max.decompressed.message.bytes", "message.downconversion.enable"),
        ("4.3", "max.decompressed.message.bytes", "segment.bytes"),
        ("4.4", "message.format.version", "max.decompressed.message.bytes"),
        ("latest", "message.format.version", "max.decompressed.message.bytes"),
    ],
)
def test_topic_configs_that_the_release_has_not_got_are_neither_told_nor_accepted(
    name: Any, hidden: str, shown: str
) -> None:
    config = BrokerConfig(as_version=name)
    settings = topic_settings(config)
    admin: Any = SimpleNamespace(
        topics=settings,
        topic_synonyms={},
        broker_id=1,
        store=SimpleNamespace(image=SimpleNamespace(broker_configs={})),
        broker_configs={},
    )
    told = [each.name for each in topic_entries(admin, {})]
    assert shown in told
    assert hidden not in told
    assert check_configs({shown: settings.log.to_strings()[shown]}, settings)
    with pytest.raises(DecisionRefused, match="has no such topic config") as caught:
        check_configs({hidden: settings.log.to_strings()[hidden]}, settings)
    assert caught.value.error == ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(("name", "lowest"), [("4.0", 14), ("4.1", 2**20), ("latest", 14)])
def test_segments_have_the_least_size_of_the_release(name: Any, lowest: int) -> None:
    """KIP-1030; without a release they may be as small as ever, since they are in memory."""
    settings = topic_settings(BrokerConfig(as_version=name))
    assert check_configs({"segment.bytes": str(lowest)}, settings)
    with pytest.raises(DecisionRefused):
        check_configs({"segment.bytes": str(lowest - 1)}, settings)


def test_defaults_are_those_of_the_release_unless_they_are_set() -> None:
    """KIP-1030 has changed how far ahead the time of a record may lie."""
    name = "log.message.timestamp.after.max.ms"
    as_version: Any
    for as_version, value in (("3.9", 2**63 - 1), ("4.0", 3_600_000), ("latest", 3_600_000)):
        config = BrokerConfig(as_version=as_version)
        assert config.log_message_timestamp_after_max_ms == value
        assert topic_settings(config).log.message_timestamp_after_max_ms == value
        told = BrokerDescription(config)[name]
        assert (told.value, told.is_default) == (str(value), True)
    config = BrokerConfig(as_version="3.9", log_message_timestamp_after_max_ms=7)
    assert config.log_message_timestamp_after_max_ms == 7
    assert not BrokerDescription(config)[name].is_default


def test_configs_of_brokers_and_groups_are_those_of_the_release() -> None:
    old, new = BrokerConfig(as_version="4.1"), BrokerConfig(as_version="4.4")
    assert "group.share.min.delivery.count.limit" in BrokerDescription(new).keys() - BrokerDescription(old).keys()
    assert "log.remote.copy.lag.ms" in dynamic_keys_of(new).keys() - dynamic_keys_of(old).keys()
    assert "share.delivery.count.limit" in group_keys(new).keys() - group_keys(old).keys()
    assert "share.isolation.level" in group_keys(old)
    assert not group_keys(BrokerConfig(as_version="3.9"))
    assert dynamic_keys_of(BrokerConfig()).keys() == dynamic_keys_of(new).keys()
