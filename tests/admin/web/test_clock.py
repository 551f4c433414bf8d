"""The brokers' time in the JSON API; tests/admin/cli/test_clock_commands.py moves that of a real cluster."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from purgatorio.broker.time.movable_clock import MovableClock


@pytest.fixture
def clock(cluster: Any) -> MovableClock:
    """A clock that can be moved, instead of the cluster's own."""
    cluster.clock = clock = MovableClock()
    return clock


async def test_a_clock_that_cannot_be_moved_is_said_so(client: httpx.AsyncClient) -> None:
    assert (await client.get("/api/v1/clock")).json()["movable"] is False
    for change, body in (("freeze", {}), ("unfreeze", {}), ("advance", {"seconds": 1.0})):
        refused = await client.post(f"/api/v1/clock/{change}", json=body)
        assert refused.status_code == 409
        assert "cannot be moved" in refused.json()["error"]


async def test_time_moves_by_hand(client: httpx.AsyncClient, clock: MovableClock) -> None:
    before = (await client.post("/api/v1/clock/freeze", json={})).json()
    assert before["frozen"]
    moved = (await client.post("/api/v1/clock/advance", json={"seconds": 30.0})).json()
    assert (moved["now_ms"], moved["wall_ms"]) == (before["now_ms"] + 30_000, before["wall_ms"] + 30_000)
    assert (moved["ended"], moved["ended_count"]) == ([], 0)
    assert not (await client.post("/api/v1/clock/unfreeze", json={})).json()["frozen"]
    assert not clock.is_frozen


@pytest.mark.parametrize("body", [{}, {"seconds": -1.0}, {"seconds": 1e12}, {"seconds": 1.0, "session": True}])
async def test_a_move_that_cannot_be_is_refused(client: httpx.AsyncClient, clock: MovableClock, body: Any) -> None:
    assert (await client.post("/api/v1/clock/advance", json=body)).status_code in (400, 422)


async def test_another_site_cannot_move_time(client: httpx.AsyncClient, clock: MovableClock) -> None:
    foreign = {"Origin": "https://elsewhere.example"}
    assert (await client.post("/api/v1/clock/freeze", json={}, headers=foreign)).status_code == 403
    assert not clock.is_frozen
