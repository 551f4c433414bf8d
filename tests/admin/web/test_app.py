from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from purgatorio.admin.operations.reading import state
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.time import long_work

WAITING = 'kafka_server_delayedoperationpurgatory_numdelayedoperations{broker="1",delayedOperation="Produce"} 1.0'


async def test_prometheus_scrapes_what_waits(client: httpx.AsyncClient, cluster: Any) -> None:
    cluster.brokers[0].park_produce()
    response = await client.get("/metrics")
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert WAITING in response.text
    assert "process_resident_memory_bytes " in response.text


async def test_openmetrics_is_spoken_when_asked_for(client: httpx.AsyncClient) -> None:
    response = await client.get("/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"})
    assert response.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0; charset=utf-8")
    assert response.text.endswith("# EOF\n")


async def test_metrics_may_be_asked_for_under_a_service_name(client: httpx.AsyncClient) -> None:
    """Prometheus beside us in a compose file knows us by the service's name."""
    response = await client.get("/metrics", headers={"host": "purgatorio:9644"})
    assert response.status_code == 200


async def test_the_loop_turns_between_slices_of_a_scrape(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def turns_of_a_scrape(slice_cost: int) -> int:
        monkeypatch.setattr(long_work, "SLICE", slice_cost)
        scrape = asyncio.create_task(client.get("/metrics"))
        turns = 0
        while not scrape.done():
            turns += 1
            await asyncio.sleep(0)
        return turns

    async def in_this_thread(function: Callable[..., bytes], *arguments: Any) -> bytes:
        return function(*arguments)

    monkeypatch.setattr(asyncio, "to_thread", in_this_thread)
    assert await turns_of_a_scrape(1) > await turns_of_a_scrape(1_000_000) + 40, "one for each family of metrics"


async def test_it_is_alive(client: httpx.AsyncClient) -> None:
    response = await client.get("/healthz")
    assert (response.status_code, response.json()) == (200, {"status": "ok"})


async def test_it_is_ready_when_every_broker_is_registered(client: httpx.AsyncClient, cluster: Any) -> None:
    response = await client.get("/readyz")
    assert (response.status_code, response.json()) == (200, {"ready": True, "missing": []})
    cluster.brokers[1].own_image = ClusterImage(0, "test")
    response = await client.get("/readyz")
    assert (response.status_code, response.json()) == (503, {"ready": False, "missing": [2]})


async def test_it_is_not_ready_while_a_broker_has_lost_its_lease(client: httpx.AsyncClient, cluster: Any) -> None:
    """It leads nothing, though the last image that it had from a store that is silent now has it."""
    cluster.brokers[1].lifecycle.lease_lasts = False
    response = await client.get("/readyz")
    assert (response.status_code, response.json()) == (503, {"ready": False, "missing": [2]})
    cluster.brokers[1].lifecycle.lease_lasts = True
    assert (await client.get("/readyz")).status_code == 200


async def test_it_is_not_ready_while_a_broker_does_not_run(client: httpx.AsyncClient, cluster: Any) -> None:
    await cluster.stop_broker(3)
    response = await client.get("/readyz")
    assert (response.status_code, response.json()) == (503, {"ready": False, "missing": [3]})


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/api/v1/", 404),
        ("GET", "//evil.example", 404),
        ("GET", "/static/", 404),
        ("DELETE", "/", 405),
        ("GET", "/api/v1/brokers/1/follower", 405),
        ("POST", "/api/v1/state", 405),
        ("OPTIONS", "/api/v1/brokers/1/follower", 405),
    ],
)
async def test_what_is_not_there_is_told_as_json(
    client: httpx.AsyncClient, method: str, path: str, status: int
) -> None:
    response = await client.request(method, f"http://localhost:9644{path}")
    assert response.status_code == status
    assert list(response.json()) == ["error"]
    assert ("allow" in response.headers) == (status == 405)


async def test_no_other_site_is_let_in_by_cors(client: httpx.AsyncClient) -> None:
    headers = {"origin": "http://evil.example", "access-control-request-method": "POST"}
    response = await client.options("/api/v1/brokers/1/follower", headers=headers)
    assert not [name for name in response.headers if name.startswith("access-control")]


async def test_a_bug_is_a_500_that_gives_nothing_away(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(state, "read_state", fail)
    response = await client.get("/api/v1/state")
    assert (response.status_code, response.json()) == (500, {"error": "internal error; the broker's log says more"})
    assert "content-security-policy" in response.headers


@pytest.mark.parametrize("path", ["/", "/metrics", "/readyz", "/api/v1/state", "/static/page.js"])
async def test_no_page_of_another_site_can_read_under_its_own_name(client: httpx.AsyncClient, path: str) -> None:
    """DNS rebinding: the other site's name resolves to this machine."""
    response = await client.get(path, headers={"host": "evil.example:9644"})
    assert response.status_code == 403
    assert response.json() == {"error": "this server does not answer to the host name 'evil.example'"}
    assert "content-security-policy" in response.headers


@pytest.mark.parametrize("host", ["purgatorio:9644", "localhost", "127.0.0.1:9644", "[::1]:9644", "broker.example", ""])
async def test_addresses_the_configured_host_and_names_of_this_network_can_read(
    client: httpx.AsyncClient, host: str
) -> None:
    assert (await client.get("/readyz", headers={"host": host})).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status", "error"),
    [
        ("POST", "/api/v1/brokers/1/puase", 404, "there is nothing here; did you mean /api/v1/brokers/1/pause?"),
        ("GET", "/api/v1/snapshot", 404, "there is nothing here; did you mean /api/v1/snapshots?"),
        ("GET", "/nothing/of/the/kind", 404, "there is nothing here; GET /api/v1 lists what there is"),
        ("GET", "/api/v1/" + "x" * 300, 404, "there is nothing here; GET /api/v1 lists what there is"),
        (
            "POST",
            "/api/v1/groups/billing/expire-membr",
            405,
            "POST is not for this address; did you mean /api/v1/groups/billing/expire-member?",
        ),
    ],
)
async def test_a_wrong_address_is_answered_with_the_near_one(
    client: httpx.AsyncClient, method: str, path: str, status: int, error: str
) -> None:
    response = await client.request(method, path, json={} if method == "POST" else None)
    assert (response.status_code, response.json()) == (status, {"error": error})
