"""Classes of settings: objects that cannot change, whose mistakes are told all at once and without values."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest

from purgatorio.broker.config import BrokerConfig, ClusterConfig
from purgatorio.broker.config.declare import SettingsError


def test_all_mistakes_are_told_at_once_and_no_value() -> None:
    given: dict[str, Any] = {"admin_token": "secret", "port": "ninety", "ports": 3, "broker": {"num_partitions": 0}}
    with pytest.raises(SettingsError) as caught:
        ClusterConfig(**given)
    assert caught.value.problems == (
        "admin_token must have at least 16 characters",
        "port must be a whole number",
        "ports is not a setting",
        "num_partitions must be at least 1",
    )
    assert "secret" not in str(caught.value)


def test_settings_are_immutable() -> None:
    config: Any = BrokerConfig()
    with pytest.raises(AttributeError, match="immutable"):
        config.port = 1
    with pytest.raises(AttributeError, match="immutable"):
        del config.port
    with pytest.raises(TypeError):
        hash(config)


def test_a_copy_differs_in_what_is_updated_and_knows_what_was_given() -> None:
    first = BrokerConfig(port=1)
    other = first.model_copy(update={"rack": "a"})
    assert (first.rack, other.rack, other.port) == (None, "a", 1)
    assert (first.model_fields_set, other.model_fields_set) == ({"port"}, {"port", "rack"})
    assert first != other
    assert other == BrokerConfig(port=1, rack="a")


def test_what_was_given_makes_the_same_settings_again_by_way_of_json() -> None:
    """The broker processes of `--processes` get their settings so."""
    shared = BrokerConfig(num_partitions=4, listener_name={"plaintext_ssl_client_auth": "none"})
    config = ClusterConfig(brokers=2, broker=shared)
    dumped = config.model_dump(exclude_unset=True)
    assert dumped["broker"]["num_partitions"] == 4
    assert "port" not in dumped
    again = ClusterConfig(**json.loads(json.dumps(dumped)))
    assert again == config
    assert again.model_fields_set == config.model_fields_set
    assert again.broker.model_fields_set == config.broker.model_fields_set
    assert config.model_dump()["broker"] == config.broker.model_dump()


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda config: pickle.loads(pickle.dumps(config))])
def test_settings_are_copied_as_other_objects_are(again: Any) -> None:
    config = ClusterConfig(brokers=1, admin_port=0)
    assert again(config) == config
    assert again(config).model_fields_set == config.model_fields_set


def test_their_text_leaves_out_passwords() -> None:
    shown = repr(ClusterConfig(admin_token="x" * 16, broker=BrokerConfig(sasl_users="alice=hidden", num_partitions=5)))
    assert "num_partitions=5" in shown
    assert "hidden" not in shown
    assert "xxx" not in shown


def test_tables_of_two_settings_are_two() -> None:
    one, other = BrokerConfig(), BrokerConfig()
    assert one.listener_name is not other.listener_name


def test_settings_of_several_classes_come_in_the_order_of_their_sections() -> None:
    names = list(BrokerConfig.model_fields)
    some = ("broker_id", "ssl_client_auth", "num_partitions", "group_max_size", "fetch_max_bytes", "shutdown_grace_ms")
    assert sorted(some, key=names.index) == list(some)
    assert (names[0], names[-1]) == (some[0], some[-1])
