"""The rule about clients that a quota mutes."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.admin.operations.reading.why.quotas import QUOTAS
from purgatorio.broker.causes.cause import QuotaExceeded
from purgatorio.broker.causes.words import as_document
from purgatorio.broker.layers.quotas.throttle import QuotaKind
from tests.admin.operations.reading.why.documents import facts, said


def muted(client: str, quota: QuotaKind, limit: float, muted_ms: int, rule: str = "default client") -> dict[str, Any]:
    """A muted connection, as the operation ListParked has it."""
    cause = QuotaExceeded(quota, "", client, rule, muted_ms, 2 * limit, limit)
    return {"purgatory": "Throttled", "client": client, "waited_ms": 10, "causes": [as_document(cause, 500)]}


@pytest.mark.parametrize(
    ("quota", "limit", "shown"),
    [
        (QuotaKind.PRODUCE, 2_000.0, "producer_byte_rate=2000"),
        (QuotaKind.FETCH, 1e7, "consumer_byte_rate=10000000"),
        (QuotaKind.REQUEST, 12.5, "request_percentage=12.5"),
        (QuotaKind.CONTROLLER_MUTATION, 1.0, "controller_mutation_rate=1"),
    ],
)
def test_a_muted_client_is_named_with_its_quota(quota: QuotaKind, limit: float, shown: str) -> None:
    document = facts(parked=[muted("shop", quota, limit, 6_120)])
    assert said(document) == [
        f"shop is slowed down by the quota {shown} of default client: muted for 6.1 s; raise the quota"
    ]
    assert said(document, "shop") == said(document)
    assert said(document, "orders") == []


def test_of_several_connections_of_a_client_the_one_counts_that_is_muted_longest() -> None:
    rows = [muted("shop", QuotaKind.PRODUCE, 2_000.0, ms) for ms in (1_000, 6_000, 2_000)]
    assert [each.partition(": ")[2] for each in said(facts(parked=rows))] == ["muted for 6.0 s; raise the quota"]


def test_every_kind_of_quota_has_its_name() -> None:
    assert list(QUOTAS) == [each.value for each in QuotaKind]
