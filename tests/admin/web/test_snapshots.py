"""Snapshots in the JSON API; tests/admin/cli/test_snapshot_commands.py has a real cluster."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from purgatorio.broker.cluster.errors import ClusterUnavailable
from purgatorio.broker.cluster.snapshots import MAX_SNAPSHOTS


async def test_snapshots_are_taken_listed_restored_and_removed(client: httpx.AsyncClient, cluster: Any) -> None:
    cluster.has_topic("orders")
    taken = (await client.post("/api/v1/snapshots", json={"name": "a/b"})).json()
    assert taken == {"name": "a/b", "topics": ["orders"], "topic_count": 1, "size_bytes": 0}
    assert (await client.get("/api/v1/snapshots")).json() == {"snapshots": [taken]}
    cluster.change_image(lambda image: image.without_topics(["orders"]))
    assert (await client.post("/api/v1/snapshots/a%2Fb/restore", json={})).json() == taken
    assert "orders" in cluster.store.image.topics
    assert (await client.request("DELETE", "/api/v1/snapshots/a%2Fb", json={})).json() == taken
    assert (await client.get("/api/v1/snapshots")).json() == {"snapshots": []}


async def test_so_many_snapshots_are_kept_and_no_more(client: httpx.AsyncClient) -> None:
    names = [(await client.post("/api/v1/snapshots", json={})).json()["name"] for _ in range(MAX_SNAPSHOTS)]
    assert names == [str(number) for number in range(1, MAX_SNAPSHOTS + 1)]
    refused = await client.post("/api/v1/snapshots", json={})
    assert (refused.status_code, refused.json()["error"]) == (409, "there are 10 snapshots already; remove one first")


async def test_a_restore_goes_on_when_its_client_is_gone(
    client: httpx.AsyncClient, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, may_end, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def restore(snapshot: Any) -> None:
        began.set()
        await may_end.wait()
        ended.set()

    monkeypatch.setattr(cluster, "restore", restore)
    await client.post("/api/v1/snapshots", json={"name": "base"})
    asking = asyncio.create_task(client.post("/api/v1/snapshots/base/restore", json={}))
    await began.wait()
    asking.cancel()
    await asyncio.wait([asking])
    may_end.set()
    await cluster.control.close()
    assert ended.is_set()


async def test_why_a_restore_failed_without_its_client_is_logged(
    client: httpx.AsyncClient, cluster: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    began, may_end = asyncio.Event(), asyncio.Event()

    async def restore(snapshot: Any) -> None:
        began.set()
        await may_end.wait()
        raise ClusterUnavailable("no broker runs")

    monkeypatch.setattr(cluster, "restore", restore)
    await client.post("/api/v1/snapshots", json={"name": "base"})
    asking = asyncio.create_task(client.post("/api/v1/snapshots/base/restore", json={}))
    await began.wait()
    asking.cancel()
    await asyncio.wait([asking])
    may_end.set()
    await cluster.control.close()
    await asyncio.sleep(0)
    assert "no broker runs" in caplog.text


async def test_another_site_neither_takes_nor_restores(client: httpx.AsyncClient) -> None:
    foreign = {"Origin": "https://elsewhere.example"}
    await client.post("/api/v1/snapshots", json={"name": "base"})
    assert (await client.post("/api/v1/snapshots", json={}, headers=foreign)).status_code == 403
    assert (await client.post("/api/v1/snapshots/base/restore", json={}, headers=foreign)).status_code == 403
    assert (await client.request("DELETE", "/api/v1/snapshots/base", json={}, headers=foreign)).status_code == 403
