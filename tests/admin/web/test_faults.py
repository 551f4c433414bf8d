"""Fault rules in the JSON API."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

RULE = {"api": "Fetch", "topic": "orders", "error": "NOT_LEADER_OR_FOLLOWER", "count": 3}


async def remove(client: httpx.AsyncClient, path: str, **options: Any) -> httpx.Response:
    """Send DELETE with an empty object."""
    return await client.request("DELETE", f"/api/v1/{path}", json={}, **options)


async def test_a_rule_is_added_listed_and_removed(client: httpx.AsyncClient, cluster: Any) -> None:
    added = await client.post("/api/v1/faults", json=RULE)
    assert added.status_code == 200
    (listed,) = (await client.get("/api/v1/faults")).json()["faults"]
    assert listed == added.json()
    assert (listed["rule"], listed["matched"], listed["fired"], listed["held"]) == (RULE, 0, 0, 0)
    assert (await remove(client, f"faults/{listed['id']}")).json()["id"] == listed["id"]
    assert cluster.faults.rules == []
    assert (await remove(client, f"faults/{listed['id']}")).status_code == 404


async def test_all_rules_are_removed_at_once(client: httpx.AsyncClient, cluster: Any) -> None:
    for _ in range(3):
        await client.post("/api/v1/faults", json=RULE)
    assert (await remove(client, "faults")).json() == {"removed": 3}
    assert cluster.faults.rules == []


async def test_a_released_rule_is_removed(client: httpx.AsyncClient, cluster: Any) -> None:
    added = (await client.post("/api/v1/faults", json={"api": "Produce", "hold": True})).json()
    released = (await client.post(f"/api/v1/faults/{added['id']}/release", json={})).json()
    assert released["released"] == 0
    assert cluster.faults.rules == []


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"api": "Fetsch", "hold": True}, "there is no API 'Fetsch'; did you mean Fetch?"),
        ({"when": "lambda request: True", "hold": True}, "'when' takes a function of Python"),
        ({"api": "Fetch"}, "the rule does nothing"),
    ],
)
async def test_a_rule_that_cannot_be_is_refused(client: httpx.AsyncClient, body: Any, sentence: str) -> None:
    refused = await client.post("/api/v1/faults", json=body)
    assert refused.status_code == 400
    assert sentence in refused.json()["error"]


async def test_another_site_can_neither_add_nor_remove_rules(client: httpx.AsyncClient, cluster: Any) -> None:
    foreign = {"Origin": "https://elsewhere.example"}
    assert (await client.post("/api/v1/faults", json=RULE, headers=foreign)).status_code == 403
    await client.post("/api/v1/faults", json=RULE)
    assert (await remove(client, "faults", headers=foreign)).status_code == 403
    assert len(cluster.faults.rules) == 1


async def test_the_page_has_the_rules_and_the_faults_that_fired_last(client: httpx.AsyncClient, cluster: Any) -> None:
    await client.post("/api/v1/faults", json=RULE)
    state = (await client.get("/api/v1/state")).json()
    text = "api=Fetch topic=orders count=3 error=NOT_LEADER_OR_FOLLOWER"
    assert state["faults"] == [{"id": 1, "text": text, "matched": 0, "fired": 0, "held": 0, "spent": False}]
    assert (state["fault_count"], state["fired"]) == (1, [])
