"""Leaders and coordinators in the JSON API; tests/admin/cli/test_leadership_commands.py has a real cluster."""

from __future__ import annotations

from typing import Any

import httpx
import pytest


@pytest.mark.parametrize(
    ("path", "body", "status", "error"),
    [
        ("topics/move-leader", {"topic": "order"}, 404, "there is no topic 'order'; did you mean orders?"),
        ("topics/move-leader", {"topic": "orders", "partition": 7}, 404, "there is no partition orders-7"),
        ("topics/move-leader", {"topic": "orders", "to": 9}, 409, "cannot be led by broker 9"),
        ("topics/move-leader", {"topics": "orders"}, 400, "did you mean topic?"),
        ("topics/no-leader", {"topic": "order"}, 404, "did you mean orders?"),
        ("groups/a/b/move-coordinator", {}, 404, "there is no coordinator of group 'a/b' yet"),
        ("transactions/a/move-coordinator", {}, 404, "there is no coordinator of transaction 'a' yet"),
    ],
)
async def test_what_cannot_be_is_refused(
    client: httpx.AsyncClient, cluster: Any, path: str, body: Any, status: int, error: str
) -> None:
    cluster.has_topic("orders")
    refused = await client.post(f"/api/v1/{path}", json=body)
    assert refused.status_code == status
    assert error in refused.json()["error"]


async def test_nothing_moves_when_no_broker_reaches_the_metadata(client: httpx.AsyncClient, cluster: Any) -> None:
    cluster.has_topic("orders")
    for broker_id in cluster.broker_ids:
        cluster.network.pause(broker_id)
    for path in ("topics/move-leader", "topics/no-leader"):
        refused = await client.post(f"/api/v1/{path}", json={"topic": "orders"})
        assert (refused.status_code, refused.json()["error"]) == (
            503,
            "no broker is running that reaches the metadata",
        )


@pytest.mark.parametrize("path", ["topics/move-leader", "topics/no-leader", "groups/a/move-coordinator"])
async def test_another_site_moves_nothing(client: httpx.AsyncClient, path: str) -> None:
    foreign = {"Origin": "https://elsewhere.example"}
    assert (await client.post(f"/api/v1/{path}", json={"topic": "orders"}, headers=foreign)).status_code == 403
