"""Standing still and cut networks in the JSON API; tests/admin/cli/test_network_commands.py has a real cluster."""

from __future__ import annotations

from typing import Any

import httpx
import pytest


async def test_the_network_is_cut_and_healed(client: httpx.AsyncClient, cluster: Any) -> None:
    cut = await client.post("/api/v1/network/partition", json={"groups": [[1], [3, 2]]})
    assert cut.json() == (await client.get("/api/v1/network")).json() == {"paused": [], "groups": [[1], [2, 3]]}
    members = (await client.get("/api/v1/brokers")).json()["brokers"]
    assert [each["cut_off_from"] for each in members] == [[2, 3], [1], [1]]
    assert (await client.post("/api/v1/network/heal", json={})).json()["groups"] == []


async def test_a_broker_stands_still_until_it_is_resumed(client: httpx.AsyncClient, cluster: Any) -> None:
    assert (await client.post("/api/v1/brokers/2/pause", json={})).json() == {"paused": [2], "groups": []}
    members = (await client.get("/api/v1/brokers")).json()["brokers"]
    assert [each["paused"] for each in members] == [False, True, False]
    assert (await client.post("/api/v1/brokers/2/resume", json={})).json()["paused"] == []
    await client.post("/api/v1/brokers/3/pause", json={})
    assert (await client.post("/api/v1/brokers/resume", json={})).json()["paused"] == []


@pytest.mark.parametrize(
    ("path", "body", "status", "error"),
    [
        ("network/partition", {"groups": [[1, 2, 3]]}, 400, "name at least two groups"),
        ("network/partition", {"groups": [[1], [1, 2]]}, 400, "in one group only"),
        ("network/partition", {"groups": [[1], [9]]}, 404, "there is no broker 9, only 1, 2, 3"),
        ("network/partition", {"groups": [["1"], [2]]}, 400, "groups.0.0: Input should be a valid integer"),
        ("network/partition", {"group": [[1], [2]]}, 400, "group: there is no such field; did you mean groups?"),
        ("brokers/9/pause", {}, 404, "there is no such broker, only 1, 2, 3"),
        ("brokers/2/pause", {}, 409, "broker 2 is not running"),
    ],
)
async def test_what_cannot_be_is_refused(
    client: httpx.AsyncClient, cluster: Any, path: str, body: Any, status: int, error: str
) -> None:
    await cluster.stop_broker(2)
    refused = await client.post(f"/api/v1/{path}", json=body)
    assert refused.status_code == status
    assert error in refused.json()["error"]
    assert cluster.network.groups == cluster.network.paused == []


@pytest.mark.parametrize(
    "path", ["network/partition", "network/heal", "brokers/1/pause", "brokers/1/resume", "brokers/resume"]
)
async def test_another_site_changes_nothing(client: httpx.AsyncClient, cluster: Any, path: str) -> None:
    cluster.network.pause(1)
    body = {"groups": [[1], [2]]} if path.endswith("partition") else {}
    foreign = {"Origin": "https://elsewhere.example"}
    assert (await client.post(f"/api/v1/{path}", json=body, headers=foreign)).status_code == 403
    assert (cluster.network.paused, cluster.network.groups) == ([1], [])
