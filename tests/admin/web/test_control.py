from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from purgatorio.admin.operations.control.cluster_control import ELECTION_TIME_LIMIT_MS
from purgatorio.broker.cluster.restart import IN_SYNC_POLL_MS, RESTART_TIME_LIMIT_MS

LAST = (
    "broker 1 is the last in-sync replica of orders-0, which would go offline and lose all records; "
    "only --force (over HTTP: force) stops it"
)


async def test_a_broker_is_stopped_started_and_killed(client: httpx.AsyncClient, cluster: Any) -> None:
    for change, state, running in (
        ("stop", "stopped", [1, 3]),
        ("start", "running", [1, 2, 3]),
        ("kill", "killed", [1, 3]),
    ):
        response = await client.post(f"/api/v1/brokers/2/{change}", json={})
        assert (response.status_code, response.json()) == (200, {"broker": 2, "state": state})
        assert [broker.broker_id for broker in cluster.brokers] == running


async def test_a_broker_is_added(client: httpx.AsyncClient, cluster: Any) -> None:
    response = await client.post("/api/v1/brokers", json={"rack": "b"})
    assert (response.status_code, response.json()) == (200, {"broker": 4, "state": "running"})
    assert [broker.broker_id for broker in cluster.brokers] == [1, 2, 3, 4]
    cluster.refuses_to_start = OSError(errno.EADDRINUSE, "address already in use")
    response = await client.post("/api/v1/brokers", json={})
    assert (response.status_code, response.json()) == (
        409,
        {"error": "no broker can be added: address already in use"},
    )


async def test_a_change_that_the_brokers_state_does_not_allow_is_409(client: httpx.AsyncClient, cluster: Any) -> None:
    await cluster.stop_broker(2)
    for path, error in (
        ("2/stop", "broker 2 is not running"),
        ("2/kill", "broker 2 is not running"),
        ("1/start", "broker 1 is already running"),
    ):
        response = await client.post(f"/api/v1/brokers/{path}", json={})
        assert (response.status_code, response.json()) == (409, {"error": error})


@pytest.mark.parametrize("change", ["stop", "kill", "start"])
@pytest.mark.parametrize("broker_id", ["4", "-1", "x", "²", "9" * 5000])
async def test_an_unknown_broker_is_404(client: httpx.AsyncClient, broker_id: str, change: str) -> None:
    response = await client.post(f"/api/v1/brokers/{broker_id}/{change}", json={})
    assert (response.status_code, response.json()) == (404, {"error": "there is no such broker, only 1, 2, 3"})


async def test_a_port_that_is_taken_is_409(client: httpx.AsyncClient, cluster: Any) -> None:
    await cluster.stop_broker(2)
    cluster.refuses_to_start = OSError(errno.EADDRINUSE, "address already in use")
    response = await client.post("/api/v1/brokers/2/start", json={})
    assert (response.status_code, response.json()) == (
        409,
        {"error": "broker 2 cannot be started: port 9093 is in use"},
    )


async def test_the_last_in_sync_replica_is_stopped_only_by_force(
    client: httpx.AsyncClient, cluster: Any, state_of: Callable[..., Any]
) -> None:
    cluster.has_topic("orders", state_of(1, isr=(1,)))
    response = await client.post("/api/v1/brokers/1/stop", json={})
    assert (response.status_code, response.json()) == (409, {"error": LAST})
    assert (await client.post("/api/v1/brokers/1/stop", json={"force": True})).status_code == 200


async def test_a_kill_never_asks(client: httpx.AsyncClient, cluster: Any, state_of: Callable[..., Any]) -> None:
    cluster.has_topic("orders", state_of(1, isr=(1,)))
    assert (await client.post("/api/v1/brokers/1/kill", json={})).status_code == 200


@pytest.mark.parametrize(
    ("path", "body", "error"),
    [
        ("brokers/1/stop", '{"force": "yes"}', "force: Input should be a valid boolean"),
        ("brokers/1/kill", '{"force": true}', "force: there is no such field"),
        ("brokers/restart", "[]", "Input should be an object"),
        ("topics/elect", '{"partition": 0}', "give the topic of that partition"),
        ("topics/elect", '{"topic": "orders", "partition": -1}', "partition: Input should be greater than"),
        ("topics/elect", '{"topic": ""}', "topic: String should have at least 1 character"),
        ("topics/elect", '{"unclean": 1}', "unclean: Input should be a valid boolean"),
    ],
)
async def test_a_body_that_is_wrong_is_400(client: httpx.AsyncClient, path: str, body: str, error: str) -> None:
    headers = {"content-type": "application/json"}
    response = await client.post(f"/api/v1/{path}", content=body, headers=headers)
    assert response.status_code == 400
    assert error in response.json()["error"]


@pytest.mark.parametrize(
    "path", ["brokers/1/stop", "brokers/1/kill", "brokers/1/start", "brokers/restart", "brokers", "topics/elect"]
)
async def test_another_site_changes_nothing(client: httpx.AsyncClient, cluster: Any, path: str) -> None:
    response = await client.post(f"/api/v1/{path}", json={}, headers={"origin": "http://evil.example"})
    assert response.status_code == 403
    assert len(cluster.brokers) == 3


async def test_all_brokers_are_restarted(client: httpx.AsyncClient, cluster: Any) -> None:
    before = list(cluster.brokers)
    response = await client.post("/api/v1/brokers/restart", json={})
    assert (response.status_code, response.json()) == (200, {"brokers": [1, 2, 3], "state": "running"})
    assert not [broker for broker in cluster.brokers if broker in before]


async def test_a_restart_that_does_not_get_in_sync_is_504_and_says_where(
    client: httpx.AsyncClient, cluster: Any, state_of: Callable[..., Any]
) -> None:
    cluster.has_topic("orders", state_of(1, isr=(1, 2)))
    asked = asyncio.create_task(client.post("/api/v1/brokers/restart", json={}))
    await cluster.clock.run_for(RESTART_TIME_LIMIT_MS + IN_SYNC_POLL_MS)
    response = await asked
    assert (response.status_code, response.json()) == (
        504,
        {"error": "not fully in sync after 60 s: orders-0", "not_in_sync": ["orders-0"]},
    )


async def test_a_leader_is_elected_uncleanly_where_there_is_none(
    client: httpx.AsyncClient, cluster: Any, state_of: Callable[..., Any]
) -> None:
    cluster.has_topic("orders", state_of(-1, isr=(), leader_epoch=3), state_of())
    response = await client.post("/api/v1/topics/elect", json={"topic": "orders", "unclean": True})
    elected = {"topic": "orders", "partition": 0, "error": "NONE", "message": "", "leader": 1, "leader_epoch": 4}
    assert (response.status_code, response.json()) == (200, {"unclean": True, "partitions": [elected]})
    assert cluster.control.image.partition("orders", 0).leader == 1


async def test_an_election_that_is_not_needed_is_told_of_the_partition_that_was_named(
    client: httpx.AsyncClient, cluster: Any
) -> None:
    cluster.has_topic("orders")
    named = (await client.post("/api/v1/topics/elect", json={"topic": "orders", "partition": 0})).json()
    assert [(row["error"], row["leader"]) for row in named["partitions"]] == [("ELECTION_NOT_NEEDED", 1)]
    everywhere = (await client.post("/api/v1/topics/elect", json={})).json()
    assert everywhere == {"unclean": False, "partitions": []}


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"topic": "payments"}, "there is no topic payments"),
        ({"topic": "orders", "partition": 1}, "topic orders has no partition 1"),
    ],
)
async def test_an_election_where_there_is_nothing_is_404(
    client: httpx.AsyncClient, cluster: Any, body: dict[str, Any], error: str
) -> None:
    cluster.has_topic("orders")
    response = await client.post("/api/v1/topics/elect", json=body)
    assert (response.status_code, response.json()) == (404, {"error": error})


async def test_an_election_needs_a_broker(client: httpx.AsyncClient, cluster: Any) -> None:
    for broker_id in cluster.broker_ids:
        await cluster.stop_broker(broker_id)
    response = await client.post("/api/v1/topics/elect", json={})
    assert (response.status_code, response.json()) == (503, {"error": "no broker is running"})


async def test_brokers_are_listed_whether_they_run_or_not(client: httpx.AsyncClient, cluster: Any) -> None:
    await cluster.stop_broker(2)
    rows = (await client.get("/api/v1/brokers")).json()["brokers"]
    assert [(row["id"], row["state"], row["port"], row["broker_epoch"]) for row in rows] == [
        (1, "running", 9092, 11),
        (2, "stopped", 9093, 12),
        (3, "running", 9094, 13),
    ]


async def test_partitions_are_listed_by_name_up_to_a_limit(
    client: httpx.AsyncClient, cluster: Any, state_of: Callable[..., Any]
) -> None:
    cluster.has_topic("payments")
    cluster.has_topic("orders", state_of(2, isr=(2, 3), elr=(1,)), state_of(-1, isr=(), elr=(3,)))
    listed = (await client.get("/api/v1/topics?limit=2")).json()
    assert (listed["partition_count"], listed["offline_count"]) == (3, 1)
    assert [
        (row["topic"], row["partition"], row["leader"], row["isr"], row["elr"]) for row in listed["partitions"]
    ] == [
        ("orders", 0, 2, [2, 3], [1]),
        ("orders", 1, -1, [], [3]),
    ]
    assert [row["offline"] for row in listed["partitions"]] == [False, True]
    assert (await client.get("/api/v1/topics?topic=payments")).json()["partition_count"] == 1


async def test_a_store_that_does_not_answer_is_503(
    client: httpx.AsyncClient, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "_turn", lambda: None)
    asked = asyncio.create_task(client.post("/api/v1/topics/elect", json={}))
    await cluster.clock.run_for(ELECTION_TIME_LIMIT_MS)
    response = await asked
    assert (response.status_code, response.json()) == (
        503,
        {"error": "the metadata store does not answer; it may elect leaders later", "refusal": "MayBeDone"},
    )
