"""Tests of the precedence of quotas."""

from __future__ import annotations

import pytest

from purgatorio.broker.layers.quotas.entities import QuotaClient, QuotaTable, describe, ip_limits
from purgatorio.broker.layers.quotas.naming import QuotaKey
from purgatorio.broker.metadata.clients import DEFAULT_NAME, QuotaEntity

KEY = QuotaKey.PRODUCER_BYTE_RATE
D = DEFAULT_NAME
PRECEDENCE = [
    (QuotaEntity("alice", "billing"), QuotaClient("alice", "billing"), "user `alice`, client `billing`"),
    (QuotaEntity("alice", D), QuotaClient("alice", "billing"), "user `alice`, default client"),
    (QuotaEntity("alice"), QuotaClient("alice", ""), "user `alice`"),
    (QuotaEntity(D, "billing"), QuotaClient("alice", "billing"), "default user, client `billing`"),
    (QuotaEntity(D, D), QuotaClient("alice", "billing"), "default user, default client"),
    (QuotaEntity(D), QuotaClient("alice", ""), "default user"),
    (QuotaEntity(None, "billing"), QuotaClient("", "billing"), "client `billing`"),
    (QuotaEntity(None, D), QuotaClient("", "billing"), "default client"),
]


@pytest.mark.parametrize("first", range(8))
def test_the_most_specific_quota_applies(first: int) -> None:
    """Each of the eight, with all that come after it."""
    quotas = {entity: {KEY: float(rank)} for rank, (entity, _, _) in enumerate(PRECEDENCE) if rank >= first}
    limit = QuotaTable(dict(reversed(quotas.items())), KEY).find("alice", "billing")
    assert limit == (float(first), *PRECEDENCE[first][1:])


def test_without_a_quota_of_this_key_there_is_no_limit() -> None:
    """Quotas of other clients, and of other keys, are not those of this one."""
    quotas = {QuotaEntity("bob"): {KEY: 1.0}, QuotaEntity(D, D): {QuotaKey.CONSUMER_BYTE_RATE: 1.0}}
    assert QuotaTable(quotas, KEY).find("alice", "billing") is None
    assert not QuotaTable({}, KEY)
    assert not QuotaTable({QuotaEntity(ip="127.0.0.1"): {QuotaKey.CONNECTION_CREATION_RATE: 1.0}}, KEY)


def test_a_default_gives_each_name_its_own_limit() -> None:
    table = QuotaTable({QuotaEntity(None, D): {KEY: 1.0}}, KEY)
    found = [table.find("alice", name) for name in ("a", "b", "")]
    assert [limit.client for limit in found if limit is not None] == [
        QuotaClient("", "a"),
        QuotaClient("", "b"),
        QuotaClient("", ""),
    ]


def test_a_client_without_a_name_is_under_the_defaults() -> None:
    table = QuotaTable({QuotaEntity("alice", D): {KEY: 1.0}, QuotaEntity(D, D): {KEY: 2.0}}, KEY)
    limit = table.find("alice", "")
    assert limit is not None
    assert limit.rule == "user `alice`, default client"


def test_entities_are_named_in_words() -> None:
    assert describe(QuotaEntity(ip=D)) == "default IP"


def test_ip_addresses_have_limits_of_their_own() -> None:
    key = QuotaKey.CONNECTION_CREATION_RATE
    quotas = {
        QuotaEntity(ip="192.0.2.1"): {key: 5.0},
        QuotaEntity(ip=D): {key: 1.0},
        QuotaEntity("alice"): {KEY: 1.0},
    }
    assert ip_limits(quotas) == {"192.0.2.1": 5.0, D: 1.0}
