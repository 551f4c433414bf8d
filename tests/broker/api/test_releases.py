"""Brokers that answer as a release of Apache Kafka: its APIs, their versions, and its features."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any, get_args, get_type_hints

import pytest

from purgatorio.broker.api import api_versions, update_features
from purgatorio.broker.api.features import Feature, FeatureLevels, features
from purgatorio.broker.api.releases import LATEST, NEEDS, Levels, Release, release, releases
from purgatorio.broker.api.routes import APIS, versions_as
from purgatorio.broker.config import BrokerConfig
from purgatorio.broker.config.address_settings import AddressSettings
from purgatorio.broker.config.room_settings import share_version, transaction_config
from purgatorio.broker.routing.request import Versions, api_versions_response
from purgatorio.protocol.api_key import ApiKey
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
