"""What a test may ask of its cluster."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from purgatorio.testing.options import ClusterOptions, canonical, text


def test_ports_are_free_ones_and_sessions_may_be_short_unless_told_otherwise() -> None:
    config = ClusterOptions().config()
    assert (config.brokers, config.port, config.admin_port, config.racks) == (3, 0, 0, None)
    assert config.broker.group_min_session_timeout_ms == 1
    settings = {"group.min.session.timeout.ms": 6_000, "port": 9092}
    config = ClusterOptions(settings=settings).config()
    assert (config.port, config.broker.group_min_session_timeout_ms) == (9092, 6_000)


@pytest.mark.parametrize("name", ["min.insync.replicas", "min_insync_replicas", "min-insync-replicas"])
@pytest.mark.parametrize("value", [2, "2"])
def test_settings_have_any_spelling_and_values_may_be_text(name: str, value: object) -> None:
    assert ClusterOptions(settings={name: value}).config().broker.min_insync_replicas == 2


def test_racks_may_be_text_with_commas() -> None:
    assert ClusterOptions(brokers=2, racks="a,b").config() == ClusterOptions(brokers=2, racks=["a", "b"]).config()


def test_racks_are_given_in_turn() -> None:
    config = ClusterOptions(brokers=2, racks=["a", "b"]).config()
    assert [each.rack for each in config.broker_configs()] == ["a", "b"]


def test_followers_ask_less_often_where_they_serve_no_consumers() -> None:
    waits: list[dict[str, Any]] = [{}, {"racks": ["a"]}, {"settings": {"replica.fetch.wait.max.ms": 70}}]
    configs = [ClusterOptions(**each).config() for each in waits]
    assert [each.broker.replica_fetch_wait_max_ms for each in configs] == [2_000, 500, 70]


def test_topics_without_their_partitions_are_refused() -> None:
    topics: Any = ["orders"]
    with pytest.raises(
        ValueError, match=r"topics are names with numbers of partitions, \{'orders': 3\}, not \['orders'\]"
    ):
        ClusterOptions(topics=topics).config()


def test_none_stands_for_the_default() -> None:
    assert ClusterOptions(settings={"min_insync_replicas": None}).config().broker.min_insync_replicas == 1


def test_all_problems_are_told_with_the_names_as_they_were_spelt() -> None:
    settings: dict[str, Any] = {"min.insync.replica": 1, "message.max.bytes": "many"}
    with pytest.raises(ValueError, match="not a setting") as failure:
        ClusterOptions(settings=settings).config()
    assert str(failure.value) == (
        "min.insync.replica is not a setting; did you mean min.insync.replicas?; "
        "message.max.bytes must be a whole number, not 'many'"
    )


def test_the_same_options_are_parsed_once() -> None:
    options = [ClusterOptions(settings={"min.insync.replicas": 2}) for _ in range(2)]
    assert options[0].config() is options[1].config()


def test_values_as_text() -> None:
    assert [text(value) for value in (True, 1, "a", ["compact", "delete"])] == ["true", "1", "a", "compact,delete"]
    assert canonical("Min.Insync-replicas") == "min_insync_replicas"


def test_fault_rules_are_data_or_files(tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    file.write_text('[[fault]]\napi = "Fetch"\nhold = true\n')
    data = {"api": "Produce", "error": "REQUEST_TIMED_OUT"}
    for faults in ([data, file], (str(file), data)):
        assert {str(rule) for rule in ClusterOptions(faults=faults).rules()} == {
            "api=Produce error=REQUEST_TIMED_OUT",
            "api=Fetch hold=true",
        }
    assert [rule.api for rule in ClusterOptions(faults=file).rules()] == ["Fetch"]
    assert [rule.api for rule in ClusterOptions(faults=data).rules()] == ["Produce"]
    assert ClusterOptions().rules() == []


@pytest.mark.parametrize(
    ("faults", "why"),
    [
        ([{"api": "Fetch", "hold": True}, {"api": "Fetsch"}], "faults: rule 2: there is no API 'Fetsch'; did you mean"),
        ([{"apy": "Fetch"}], "faults: rule 1: a fault rule has no 'apy'; did you mean api?"),
        ([7], "faults: rule 1: a rule must have names and values"),
        ("none.toml", "none.toml: No such file"),
    ],
)
def test_a_fault_rule_that_cannot_be_is_told_by_its_place(faults: Any, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        ClusterOptions(faults=faults).rules()
