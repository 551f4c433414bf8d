from __future__ import annotations

import re
from typing import Any

import httpx
import pytest
from starlette.requests import Request

from purgatorio.admin.operations.table import OPERATIONS
from purgatorio.admin.web import bodies, guard
from purgatorio.admin.web.router import ENDPOINTS
from purgatorio.broker.causes.kinds import KINDS
from purgatorio.purgatory.clock import Clock

FOLLOWER = "/api/v1/brokers/2/follower"


async def test_the_state_is_told_as_json_that_nobody_keeps(client: httpx.AsyncClient, cluster: Any) -> None:
    cluster.brokers[0].park_produce()
    response = await client.get("/api/v1/state")
    assert response.status_code == 200
    assert response.headers["cache-control"] == "no-store"
    assert response.json()["now_ms"] == 10_000
    assert response.json()["brokers"][0]["purgatories"][0]["num_delayed"] == 1


async def test_what_clients_named_is_escaped(client: httpx.AsyncClient, cluster: Any) -> None:
    """A lone surrogate cannot be encoded, and must not break the document."""
    cluster.brokers[0].park_produce(causes=["<script>\ud800\u2028"])
    response = await client.get("/api/v1/state")
    assert response.content.isascii()
    assert response.json()["brokers"][0]["purgatories"][0]["operations"][0]["missing"].startswith("<script>")


async def test_the_number_of_operations_can_be_chosen(client: httpx.AsyncClient, cluster: Any) -> None:
    for _ in range(3):
        cluster.brokers[0].park_produce()
    response = await client.get("/api/v1/state?operations=2")
    assert len(response.json()["brokers"][0]["purgatories"][0]["operations"]) == 2
    response = await client.get("/api/v1/brokers/1/purgatories/Produce")
    assert [row["id"] for row in response.json()["operations"]] == [1, 2, 3]


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/state?operations=1001",
        "/api/v1/state?operations=-1",
        "/api/v1/state?since_ms=now",
        "/api/v1/state?since_ms=²",
        "/api/v1/finished?limit=" + "9" * 5000,
        "/api/v1/finished?limit=",
    ],
)
async def test_a_number_that_is_none_or_too_large_is_400(client: httpx.AsyncClient, path: str) -> None:
    response = await client.get(path)
    assert response.status_code == 400
    assert "must be a whole number from 0 to" in response.json()["error"]


async def test_finished_operations_are_listed_up_to_a_limit(client: httpx.AsyncClient, cluster: Any) -> None:
    for _ in range(3):
        cluster.brokers[0].park_produce().expire()
    response = await client.get("/api/v1/finished?limit=2")
    assert [row["id"] for row in response.json()["finished"]] == [3, 2]


async def test_a_follower_is_held_and_released_and_delayed(client: httpx.AsyncClient, cluster: Any) -> None:
    gate = cluster.brokers[1].gate
    response = await client.post(FOLLOWER, json={"held": True, "delay_ms": 300})
    assert (response.status_code, response.json()) == (200, {"broker": 2, "held": True, "delay_ms": 300})
    assert (gate.held, gate.delay_ms) == (True, 300)
    await client.post(FOLLOWER, json={"held": False})
    assert (gate.held, gate.delay_ms) == (False, 300)
    await client.post(FOLLOWER, json={"delay_ms": 0})
    assert (gate.held, gate.delay_ms) == (False, 0)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("{}", "give held, delay_ms, or both"),
        ('{"held": "yes"}', "held: Input should be a valid boolean"),
        ('{"held": 1}', "held: Input should be a valid boolean"),
        ('{"delay_ms": -1}', "delay_ms: Input should be greater than or equal to 0"),
        ('{"delay_ms": 3600001}', "delay_ms: Input should be less than or equal to 3600000"),
        ('{"delay_ms": 1.5}', "delay_ms: Input should be a valid integer"),
        ('{"hold": true}', "hold: there is no such field; did you mean held?"),
        ("{", "Invalid JSON"),
        ("[]", "Input should be an object"),
        ("", "Invalid JSON"),
        ("[" * 10_000, "Invalid JSON"),
        (b'{"held": "\xff"}', "Invalid JSON"),
    ],
)
async def test_a_body_that_is_wrong_changes_nothing_and_is_told_why(
    client: httpx.AsyncClient, cluster: Any, body: str | bytes, error: str
) -> None:
    response = await client.post(FOLLOWER, content=body, headers={"content-type": "application/json"})
    assert response.status_code == 400
    assert error in response.json()["error"]
    gate = cluster.brokers[1].gate
    assert (gate.held, gate.delay_ms) == (False, 0)


async def test_an_operation_is_expired_at_once_and_only_once(client: httpx.AsyncClient, cluster: Any) -> None:
    broker = cluster.brokers[2]
    operation, other = broker.park_produce(), broker.park_produce()
    path = "/api/v1/brokers/3/purgatories/Produce/operations/1/expire"
    response = await client.post(path, json={})
    assert (response.status_code, response.json()) == (200, {"broker": 3, "purgatory": "Produce", "id": 1})
    assert (operation.history, other.history) == (["answered", "expired"], [])
    again = await client.post(path, json={})
    assert again.status_code == 404
    assert again.json()["error"] == "there is no such operation parked in purgatory Produce of broker 3, or no longer"
    assert operation.history == ["answered", "expired"]


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("/api/v1/brokers/4/follower", "there is no such broker, only 1, 2, 3"),
        ("/api/v1/brokers/" + "1" * 5000 + "/follower", "there is no such broker, only 1, 2, 3"),
        (
            "/api/v1/brokers/1/purgatories/Rebalance/operations/1/expire",
            "no operation of broker 1 has been parked in Rebalance yet",
        ),
        (
            "/api/v1/brokers/1/purgatories/Produse/operations/1/expire",
            f"broker 1 has no such purgatory, only {', '.join(KINDS)}",
        ),
        (
            "/api/v1/brokers/1/purgatories/Produce/operations/" + "9" * 5000 + "/expire",
            "there is no such operation parked in purgatory Produce of broker 1, or no longer",
        ),
    ],
)
async def test_what_is_not_there_is_404(client: httpx.AsyncClient, path: str, error: str) -> None:
    response = await client.post(path, json={} if path.endswith("expire") else {"held": True})
    assert (response.status_code, response.json()) == (404, {"error": error})


async def test_a_broker_that_does_not_run_cannot_be_asked(client: httpx.AsyncClient, cluster: Any) -> None:
    await cluster.stop_broker(2)
    response = await client.post(FOLLOWER, json={"held": True})
    assert (response.status_code, response.json()) == (409, {"error": "broker 2 is not running"})


async def test_every_endpoint_that_is_listed_is_there(client: httpx.AsyncClient, cluster: Any) -> None:
    """Wrong bodies and refusals aside, none of them is unknown or asked by the wrong method."""
    expected = {"follower": 400, "kill": 409, "reset-offsets": 400, "groups/1": 404, "groups/1/delete": 404}
    expected |= {"clock/advance": 400, "clock/freeze": 409, "clock/unfreeze": 409}
    expected |= {"POST faults": 400, "faults/1": 404, "faults/1/release": 404}
    expected |= {"network/partition": 400, "topics/move-leader": 400, "topics/no-leader": 400}
    expected |= {"move-coordinator": 404, "expire-member": 404, "transactions/1/expire": 404}
    expected |= {"snapshots/Produce": 404, "snapshots/Produce/restore": 404}
    expected |= {"transactions/1": 404, "transactions/1/abort": 404, "hanging-transactions/abort": 400}
    expected |= {"users/set": 400, "users/delete": 400, "quotas/edit": 400, "acls/add": 400, "acls/remove": 400}
    expected |= {"POST topics": 400, "POST topics/none/records": 400, "GET topics/none/records": 404}
    expected |= {"share-groups/1/delete": 404, "topics/none/leader": 404}
    expected |= {"tier/hold": 400, "tier/release": 400, "tier/sweep": 409, "tier/none": 409}  # there is no tier
    expected |= {"tier/none/offload": 409, "tier/none/verify": 409}
    names = {"id": "1", "name": "Produce", "operation": "1", "topic": "none"}
    listed = (await client.get("/api/v1")).json()["endpoints"]
    assert listed == ENDPOINTS
    for endpoint in listed:
        cluster.brokers[0].park_produce()
        path = re.sub(r"{(\w+)}", lambda match: names[match[1]], endpoint["path"])
        response = await client.request(endpoint["method"], path, json={} if "body" in endpoint else None)
        last, after_api = path.rpartition("/")[2], path.removeprefix("/api/v1/")
        expected_here = expected.get(
            f"{endpoint['method']} {after_api}", expected.get(after_api, expected.get(last, 200))
        )
        assert response.status_code == expected_here, path


def test_every_operation_says_what_it_does_and_what_is_given_to_it() -> None:
    for kind in OPERATIONS:
        assert len(kind.does().split()) > 2, kind
        assert all(each.help.words for each in kind.arguments()), kind


async def test_a_request_is_checked_before_its_body_is_read(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(request: Request, clock: Clock) -> bytes:
        raise AssertionError("the body was read")

    monkeypatch.setattr(bodies, "read_body", fail)
    response = await client.post(FOLLOWER, json={}, headers={"origin": "http://evil.example"})
    assert response.status_code == 403


async def test_a_body_that_is_too_large_is_413(client: httpx.AsyncClient) -> None:
    response = await client.post(
        FOLLOWER, content=b" " * (guard.MAX_BODY_BYTES + 1), headers={"content-type": "application/json"}
    )
    assert (response.status_code, response.json()) == (413, {"error": "the body is larger than 65536 bytes"})
