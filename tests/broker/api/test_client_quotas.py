"""Tests of the DescribeClientQuotas and AlterClientQuotas handlers."""

from __future__ import annotations

import math
from typing import Any

import pytest

from purgatorio.broker.api import alter_client_quotas, describe_client_quotas
from purgatorio.broker.layers.quotas import altering
from purgatorio.broker.metadata.clients import DEFAULT_NAME, QuotaEntity
from purgatorio.protocol.errors import ErrorCode
from purgatorio.protocol.messages.alter_client_quotas import (
    AlterClientQuotasEntry,
    AlterClientQuotasRequest,
    AlteredEntityPart,
    ClientQuotasOp,
)
from purgatorio.protocol.messages.describe_client_quotas import ClientQuotasComponent, DescribeClientQuotasRequest

RATE = "producer_byte_rate"
Entity = dict[str, str | None]


def entry(entity: Any, ops: Any) -> AlterClientQuotasEntry:
    """Make an entry; an op without a value removes."""
    parts = entity.items() if isinstance(entity, dict) else entity
    return AlterClientQuotasEntry(
        entity=[AlteredEntityPart(entity_type=kind, entity_name=name) for kind, name in parts],
        ops=[
            ClientQuotasOp(key=key, value=value or 0.0, remove=value is None)
            for key, value in (ops.items() if isinstance(ops, dict) else ops)
        ],
    )


def alter(cluster: Any, *entries: AlterClientQuotasEntry, validate_only: bool = False, version: int = 1) -> list[int]:
    request = AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)
    response = cluster.ask(alter_client_quotas, version, request)
    assert all((result.error_message is None) == (result.error_code == 0) for result in response.entries)
    return [result.error_code for result in response.entries]


def describe(cluster: Any, *components: tuple[str, int, str | None], strict: bool = False) -> Any:
    request = DescribeClientQuotasRequest(
        components=[
            ClientQuotasComponent(entity_type=kind, match_type=match_type, match=match)
            for kind, match_type, match in components
        ],
        strict=strict,
    )
    return cluster.ask(describe_client_quotas, 1, request)


def described(cluster: Any, *components: tuple[str, int, str | None], strict: bool = False) -> list[Entity]:
    response = describe(cluster, *components, strict=strict)
    assert response.error_code == 0
    return [{part.entity_type: part.entity_name for part in entry.entity} for entry in response.entries]


@pytest.mark.parametrize("version", [0, 1])
def test_quotas_are_set_changed_and_removed(cluster: Any, version: int) -> None:
    both = entry({"user": "alice", "client-id": None}, {RATE: 1024.0, "request_percentage": 12.5})
    assert alter(cluster, both, version=version) == [0]
    assert cluster.image.client_quotas == {
        QuotaEntity("alice", DEFAULT_NAME): {RATE: 1024.0, "request_percentage": 12.5}
    }
    fewer = entry({"user": "alice", "client-id": None}, {RATE: 2048.0, "request_percentage": None})
    assert alter(cluster, fewer) == [0]
    assert list(cluster.image.client_quotas.values()) == [{RATE: 2048.0}]
    assert alter(cluster, entry({"client-id": None, "user": "alice"}, {RATE: None})) == [0]
    assert cluster.image.client_quotas == {}


def test_the_result_names_the_entity(cluster: Any) -> None:
    request = AlterClientQuotasRequest(entries=[entry({"user": None, "client-id": "a"}, {RATE: 1.0})])
    (result,) = cluster.ask(alter_client_quotas, 0, request).entries
    assert [(part.entity_type, part.entity_name) for part in result.entity] == [("user", None), ("client-id", "a")]


def test_removing_what_is_not_there_is_no_error_and_no_change(cluster: Any) -> None:
    before = cluster.image.client_quotas
    assert alter(cluster, entry({"user": "alice"}, {RATE: None})) == [0]
    assert cluster.image.client_quotas is before


def test_validate_only_changes_nothing(cluster: Any) -> None:
    assert alter(cluster, entry({"user": "a"}, {RATE: 1.0}), entry({}, {}), validate_only=True) == [0, 42]
    assert cluster.image.client_quotas == {}


@pytest.mark.parametrize(
    ("entity", "ops"),
    [
        ({}, {RATE: 1.0}),
        ({"group": "g"}, {RATE: 1.0}),
        ([("user", "a"), ("user", "b")], {RATE: 1.0}),
        ({"user": ""}, {RATE: 1.0}),
        ({"ip": "192.0.2.1", "user": "a"}, {"connection_creation_rate": 1.0}),
        ({"ip": "no.address"}, {"connection_creation_rate": 1.0}),
        ({"ip": "192.0.2.1"}, {RATE: 1.0}),
        ({"user": "a"}, {"connection_creation_rate": 1.0}),
        ({"user": "a"}, {"no_such_rate": 1.0}),
        ({"user": "a"}, {"no_such_rate": None}),
        ({"user": "a"}, {RATE: -1.0}),
        ({"user": "a"}, [(RATE, 0.0)]),
        ({"user": "a"}, {RATE: 1.5}),
        ({"user": "a"}, {RATE: 2.0**64}),
        ({"user": "a"}, {"request_percentage": math.nan}),
        ({"user": "a"}, {"controller_mutation_rate": math.inf}),
        ({"ip": "192.0.2.1"}, {"connection_creation_rate": 2.0**31}),
        ({"user": "a"}, [(RATE, 1.0), (RATE, None)]),
    ],
)
def test_a_bad_entry_is_refused_and_the_others_go_on(cluster: Any, entity: Any, ops: Any) -> None:
    request = AlterClientQuotasRequest(entries=[entry(entity, ops), entry({"user": "good"}, {RATE: 5.0})])
    if ops == [(RATE, 0.0)]:
        request.entries[0].ops[0].remove = False
    response = cluster.ask(alter_client_quotas, 1, request)
    assert [result.error_code for result in response.entries] == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
    assert cluster.image.client_quotas == {QuotaEntity("good"): {RATE: 5.0}}


def test_the_greatest_rates_are_allowed(cluster: Any) -> None:
    rates = {RATE: float(2**63 - 1), "consumer_byte_rate": 1.0, "controller_mutation_rate": 0.5}
    address = {"connection_creation_rate": float(2**31 - 1)}
    assert alter(cluster, entry({"user": "a"}, rates), entry({"ip": None}, address)) == [0, 0]


def test_an_entity_that_is_named_twice_is_refused_both_times(cluster: Any) -> None:
    entries = [
        entry({"user": "a", "client-id": "c"}, {RATE: 1.0}),
        entry({"client-id": "c", "user": "a"}, {RATE: 2.0}),
        entry({"user": "a"}, {RATE: 3.0}),
    ]
    assert alter(cluster, *entries) == [ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST, ErrorCode.NONE]


def test_a_cluster_has_a_limit_of_entities(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The quotas of an entity that has some can be changed still."""
    monkeypatch.setattr(altering, "MAX_ENTITIES", 1)
    entries = [entry({"user": "a"}, {RATE: 1.0}), entry({"user": "b"}, {RATE: 1.0})]
    assert alter(cluster, *entries) == [ErrorCode.NONE, ErrorCode.POLICY_VIOLATION]
    assert alter(cluster, entry({"user": "a"}, {RATE: 2.0})) == [ErrorCode.NONE]


@pytest.fixture
def known(cluster: Any) -> Any:
    """A cluster with quotas of each kind of entity."""
    users: list[Entity] = [{"user": "a"}, {"user": None}, {"user": "a", "client-id": "c"}, {"client-id": None}]
    addresses: list[Entity] = [{"ip": "192.0.2.1"}, {"ip": None}]
    entries = [entry(entity, {RATE: 1.0}) for entity in users]
    entries += [entry(entity, {"connection_creation_rate": 1.0}) for entity in addresses]
    assert set(alter(cluster, *entries)) == {0}
    return cluster


@pytest.mark.parametrize(
    ("components", "strict", "entities"),
    [
        ([("user", 0, "a")], False, [{"user": "a"}, {"user": "a", "client-id": "c"}]),
        ([("user", 0, "a")], True, [{"user": "a"}]),
        ([("user", 1, None)], False, [{"user": None}]),
        ([("user", 2, None)], True, [{"user": "a"}, {"user": None}]),
        ([("user", 2, None), ("client-id", 2, None)], True, [{"user": "a", "client-id": "c"}]),
        ([("client-id", 1, None)], False, [{"client-id": None}]),
        ([("ip", 2, None)], False, [{"ip": "192.0.2.1"}, {"ip": None}]),
        ([], True, []),
    ],
)
def test_entities_are_found_by_their_parts(known: Any, components: Any, strict: bool, entities: Any) -> None:
    assert described(known, *components, strict=strict) == entities


def test_no_components_ask_for_everything(known: Any) -> None:
    assert len(described(known)) == 6
    values = [(value.key, value.value) for each in describe(known).entries for value in each.values]
    assert values == [(RATE, 1.0)] * 4 + [("connection_creation_rate", 1.0)] * 2


@pytest.mark.parametrize(
    ("components", "error"),
    [
        ([("", 2, None)], ErrorCode.INVALID_REQUEST),
        ([("user", 2, None), ("user", 1, None)], ErrorCode.INVALID_REQUEST),
        ([("user", 0, None)], ErrorCode.INVALID_REQUEST),
        ([("user", 1, "a")], ErrorCode.INVALID_REQUEST),
        ([("user", 2, "a")], ErrorCode.INVALID_REQUEST),
        ([("user", 3, None)], ErrorCode.INVALID_REQUEST),
        ([("ip", 2, None), ("user", 2, None)], ErrorCode.INVALID_REQUEST),
        ([("group", 2, None)], ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(known: Any, components: Any, error: ErrorCode) -> None:
    response = describe(known, *components)
    assert response.error_code == error
    assert response.entries is None
    assert response.error_message
