"""Consumer groups in the JSON API: real coordinators over one broker's replicas, in a cluster that stands still."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest

from purgatorio.admin.operations.control.group_control import GROUP_TIME_LIMIT_MS
from purgatorio.admin.operations.reading import group_state
from purgatorio.admin.operations.reading.state import FINISHED_OF_IDLE, read_state
from purgatorio.broker.group.offsets import CommittedOffset
from purgatorio.protocol.consumer_protocol import (
    ASSIGNMENT,
    SUBSCRIPTION,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
)
from tests.broker.group.classic.harness import SESSION_MS, Clients
from tests.broker.group.harness import offsets_topic
from tests.broker.replica.harness import batch, topic

SUBSCRIBED = (("range", SUBSCRIPTION.encode(ConsumerProtocolSubscription(topics=["orders"]), 0)),)
RESET = {"topic": "orders", "to": "earliest"}


def assigned(*partitions: int) -> bytes:
    """An assignment of partitions of orders."""
    given = [TopicPartitions(topic="orders", partitions=list(partitions))]
    return ASSIGNMENT.encode(ConsumerProtocolAssignment(assigned_partitions=given), 0)


class Coordinator(Clients):
    """Broker 1 as the coordinator of all groups, and as the leader of orders with two partitions."""

    def __init__(self, cluster: Any, state_of: Callable[..., Any], replicas: tuple[int, ...] = (1,)) -> None:
        super().__init__(replicas)
        self.set_topics(offsets_topic(replicas), topic("orders", partitions=2, replicas=(1,)))
        cluster.has_topic("__consumer_offsets", state_of(1))
        cluster.has_topic("orders", state_of(1), state_of(1))
        cluster.clock = self.clock
        cluster.brokers[0].coordinates(self)
        for partition in (0, 1):
            cluster.brokers[0].holds("orders", partition, is_leader=True, high_watermark=10 * (partition + 1))

    def commit(self, group_id: str, **offsets: int) -> None:
        """Commit offsets of partitions: p0=3."""
        changes = [("orders", int(name[1:]), CommittedOffset(each, -1, "", 0)) for name, each in offsets.items()]
        self.groups.offsets.commit(group_id, changes, lambda _: None, version=9)

    def consumers(self) -> list[str]:
        """Make a stable group of two consumers, app-1 and app-2, that own a partition each; returns their ids."""
        leader = self.join(client_id="app-1", protocols=SUBSCRIBED)
        other = self.join(client_id="app-2", protocols=SUBSCRIBED)
        leader = self.join(leader.member_id, client_id="app-1", protocols=SUBSCRIBED)
        ids = [leader.member_id, other.member_id]
        self.sync(ids[0], 2, {ids[0]: assigned(0), ids[1]: assigned(1)})
        self.sync(ids[1], 2)
        return ids


@pytest.fixture
async def coordinator(cluster: Any, state_of: Callable[..., Any]) -> AsyncIterator[Coordinator]:
    """A coordinator whose upkeep runs."""
    made = Coordinator(cluster, state_of)
    made.group_work.by_loop()
    running = asyncio.create_task(made.groups.run())
    yield made
    running.cancel()
    await asyncio.wait([running])


async def get(client: httpx.AsyncClient, path: str) -> Any:
    response = await client.get(f"/api/v1/{path}")
    assert response.status_code == 200, response.text
    return response.json()


async def post(client: httpx.AsyncClient, path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
    response = await client.post(f"/api/v1/{path}", json=body or {})
    return response.status_code, response.json()


# --- listing ---


async def test_groups_are_listed_by_name_with_their_coordinator_members_and_lag(
    client: httpx.AsyncClient, coordinator: Coordinator
) -> None:
    coordinator.consumers()
    coordinator.commit("audit", p0=4, p1=25)
    listed = await get(client, "groups")
    assert (listed["group_count"], listed["loading_partition_count"]) == (2, 0)
    simple, stable = listed["groups"]
    assert simple == {
        "id": "audit",
        "type": "classic",
        "state": "Empty",
        "protocol_type": "",
        "assignor": "",
        "epoch": 0,
        "coordinator": 1,
        "member_count": 0,
        "offset_count": 2,
        "lag": 6,
        "waits_for": "",
    }
    assert stable["id"] == "billing"
    assert (stable["state"], stable["protocol_type"], stable["assignor"]) == ("Stable", "consumer", "range")
    assert (stable["epoch"], stable["member_count"], stable["offset_count"], stable["lag"]) == (2, 2, 0, None)


async def test_without_groups_the_list_is_empty(client: httpx.AsyncClient) -> None:
    assert await get(client, "groups") == {"groups": [], "group_count": 0, "loading_partition_count": 0}


async def test_a_list_of_many_groups_is_cut_and_counted(client: httpx.AsyncClient, coordinator: Coordinator) -> None:
    for number in range(5):
        coordinator.commit(f"g{number}", p0=1)
    listed = await get(client, "groups?limit=2")
    assert ([group["id"] for group in listed["groups"]], listed["group_count"]) == (["g0", "g1"], 5)


async def test_groups_of_a_broker_that_is_no_coordinator_any_more_are_not_listed(
    client: httpx.AsyncClient, coordinator: Coordinator, cluster: Any, state_of: Callable[..., Any]
) -> None:
    coordinator.commit("audit", p0=1)
    cluster.has_topic("__consumer_offsets", state_of(2, leader_epoch=1))
    assert (await get(client, "groups"))["groups"] == []


async def test_groups_that_are_being_loaded_are_told_of(
    client: httpx.AsyncClient, cluster: Any, state_of: Callable[..., Any]
) -> None:
    coordinator = Coordinator(cluster, state_of)
    coordinator.commit("audit", p0=1)
    coordinator.elect(1, 1, (1,))
    assert (await get(client, "groups"))["loading_partition_count"] == 1
    response = await client.get("/api/v1/groups/audit")
    assert (response.status_code, response.json()) == (
        503,
        {
            "error": "broker 1, the coordinator of audit: __consumer_offsets-0 is being loaded",
            "refusal": "AwaitsElection",
        },
    )


# --- one group ---


async def test_a_group_is_described_with_what_each_member_owns_and_the_lag_of_each_partition(
    client: httpx.AsyncClient, coordinator: Coordinator
) -> None:
    first, second = coordinator.consumers()
    coordinator.groups.offsets.commit(
        "billing",
        [("orders", 1, CommittedOffset(15, -1, "note", 0))],
        lambda _: None,
        member_id=second,
        generation_or_epoch=2,
        version=9,
    )
    coordinator.advance_ms(4_000)
    coordinator.beat(first, 2)
    group = await get(client, "groups/billing")
    assert [(member["client"], member["host"], member["owned"]) for member in group["members"]] == [
        ("app-1", "127.0.0.1", [{"topic": "orders", "partitions": [0], "partition_count": 1}]),
        ("app-2", "127.0.0.1", [{"topic": "orders", "partitions": [1], "partition_count": 1}]),
    ]
    assert [member["session_left_ms"] for member in group["members"]] == [SESSION_MS, SESSION_MS - 4_000]
    base = {"topic": "orders", "metadata": ""}
    assert group["offsets"] == [
        {**base, "partition": 0, "offset": None, "end_offset": 10, "lag": None, "owner": first},
        {**base, "partition": 1, "offset": 15, "end_offset": 20, "lag": 5, "owner": second, "metadata": "note"},
    ]


async def test_a_group_is_described_in_part(client: httpx.AsyncClient, coordinator: Coordinator) -> None:
    coordinator.commit("billing", p0=1, p1=1)
    coordinator.consumers()
    group = await get(client, "groups/billing?members=1&offsets=1")
    assert (group["offset_count"], [row["partition"] for row in group["offsets"]]) == (2, [0])
    assert (group["member_count"], len(group["members"])) == (2, 1)
    group = await get(client, "groups/billing?members=0&offsets=0")
    assert (group["offset_count"], group["offsets"], group["members"]) == (2, [], [])


async def test_a_rebalance_names_the_members_that_it_waits_for(
    client: httpx.AsyncClient, coordinator: Coordinator
) -> None:
    first, _ = coordinator.consumers()
    coordinator.join(client_id="app-3", protocols=SUBSCRIBED)
    coordinator.join(first, client_id="app-1", protocols=SUBSCRIBED)
    group = await get(client, "groups/billing")
    assert group["state"] == "PreparingRebalance"
    assert group["waits_for"] == "rebalance of billing waits for member app-2"
    assert [member["waits_for"] for member in group["members"]] == [
        "has joined, waits for the others",
        "has to join again",
        "has joined, waits for the others",
    ]


async def test_members_that_have_no_assignment_yet_say_so(client: httpx.AsyncClient, coordinator: Coordinator) -> None:
    leader = coordinator.join(client_id="app-1", protocols=SUBSCRIBED)
    (member,) = (await get(client, "groups/billing"))["members"]
    assert (member["waits_for"], member["owned"]) == ("makes the assignment", [])
    coordinator.sync(leader.member_id, 1, {leader.member_id: b"\x00"})
    (member,) = (await get(client, "groups/billing"))["members"]
    assert (member["waits_for"], member["owned"]) == ("", None)  # its leader has sent no assignment of a consumer


@pytest.mark.parametrize("group_id", ["a/b/reset-offsets", "ü 😀?#%", " ", "delete"])
async def test_a_group_may_have_any_name(client: httpx.AsyncClient, coordinator: Coordinator, group_id: str) -> None:
    coordinator.commit(group_id, p0=1)
    path = httpx.URL("http://x/", params={"g": group_id}).query.decode()[2:].replace("+", "%20")
    assert (await get(client, f"groups/{path}"))["id"] == group_id
    assert (await post(client, f"groups/{path}/reset-offsets", RESET))[0] == 200
    assert await post(client, f"groups/{path}/delete") == (200, {"group": group_id, "state": "deleted"})


async def test_an_unknown_group_is_404(client: httpx.AsyncClient, coordinator: Coordinator) -> None:
    response = await client.get("/api/v1/groups/nobody")
    assert (response.status_code, response.json()) == (404, {"error": "there is no group nobody"})
    assert await post(client, "groups/nobody/delete") == (404, {"error": "there is no group nobody"})


async def test_a_misspelt_group_is_answered_with_the_near_one(
    client: httpx.AsyncClient, coordinator: Coordinator
) -> None:
    coordinator.commit("billing", p0=1)
    error = {"error": "there is no group biling; did you mean billing?"}
    assert (await client.get("/api/v1/groups/biling")).json() == error
    assert await post(client, "groups/biling/delete") == (404, error)


async def test_a_coordinator_that_does_not_run_is_503(
    client: httpx.AsyncClient, coordinator: Coordinator, cluster: Any
) -> None:
    await cluster.stop_broker(1)
    for response in (await client.get("/api/v1/groups/billing"), await client.post("/api/v1/groups/g/delete", json={})):
        assert response.status_code == 503
        assert "broker 1, the leader of __consumer_offsets-0, which keeps group" in response.json()["error"]


# --- changes ---


@pytest.mark.parametrize(
    ("target", "after"),
    [
        ({"to": "earliest"}, [0, 0]),
        ({"to": "latest"}, [3, 0]),
        ({"offset": 2}, [2, 0]),
        ({"offset": 99}, [3, 0]),
        ({"timestamp_ms": 0}, [0, 0]),
        ({"timestamp_ms": 2**50}, [3, 0]),
    ],
)
async def test_offsets_are_reset(
    client: httpx.AsyncClient, coordinator: Coordinator, target: dict[str, Any], after: list[int]
) -> None:
    coordinator.produce(records=batch(b"a", b"b", b"c"), acks=1)
    coordinator.commit("billing", p0=1)
    assert await post(client, "groups/billing/reset-offsets", {"topic": "orders", **target}) == (
        200,
        {
            "group": "billing",
            "offsets": [
                {"topic": "orders", "partition": 0, "before": 1, "after": after[0]},
                {"topic": "orders", "partition": 1, "before": None, "after": after[1]},
            ],
        },
    )
    offsets = (await get(client, "groups/billing"))["offsets"]
    assert [row["offset"] for row in offsets] == after


async def test_one_partition_can_be_reset_alone(client: httpx.AsyncClient, coordinator: Coordinator) -> None:
    status, reset = await post(client, "groups/new/reset-offsets", {**RESET, "partition": 1})
    assert (status, [row["partition"] for row in reset["offsets"]]) == (200, [1])


async def test_a_group_with_members_is_neither_reset_nor_deleted(
    client: httpx.AsyncClient, coordinator: Coordinator
) -> None:
    coordinator.consumers()
    refused = (409, {"error": "group billing has members; stop its consumers first"})
    assert await post(client, "groups/billing/reset-offsets", RESET) == refused
    assert await post(client, "groups/billing/delete") == refused


async def test_an_empty_group_is_deleted_with_its_offsets(client: httpx.AsyncClient, coordinator: Coordinator) -> None:
    coordinator.leave(*coordinator.consumers())
    coordinator.commit("billing", p0=1)
    assert (await post(client, "groups/billing/delete"))[0] == 200
    assert (await get(client, "groups"))["group_count"] == 0


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"topic": "orders"}, "give one of to, offset, timestamp_ms"),
        ({**RESET, "offset": 3}, "give one of to, offset, timestamp_ms"),
        ({"topic": "orders", "to": "middle"}, "to: Input should be earliest or latest"),
        ({"to": "earliest"}, "topic: Field required"),
        ({"topic": "orders", "offset": -1}, "offset: Input should be greater than or equal to 0"),
    ],
)
async def test_a_reset_that_makes_no_sense_is_400(
    client: httpx.AsyncClient, coordinator: Coordinator, body: dict[str, Any], error: str
) -> None:
    status, answer = await post(client, "groups/billing/reset-offsets", body)
    assert status == 400
    assert error in answer["error"]


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({**RESET, "topic": "none"}, "there is no topic none"),
        ({**RESET, "partition": 2}, "topic orders has no partition 2"),
    ],
)
async def test_a_reset_of_an_unknown_partition_is_404(
    client: httpx.AsyncClient, coordinator: Coordinator, body: dict[str, Any], error: str
) -> None:
    assert await post(client, "groups/billing/reset-offsets", body) == (404, {"error": error})


async def test_a_partition_without_a_leader_here_is_not_reset(
    client: httpx.AsyncClient, coordinator: Coordinator, cluster: Any, state_of: Callable[..., Any]
) -> None:
    cluster.has_topic("orders", state_of(1), state_of(-1, isr=()))
    assert await post(client, "groups/billing/reset-offsets", RESET) == (503, {"error": "orders-1 has no leader now"})


async def test_replicas_that_do_not_follow_in_time_are_503(
    client: httpx.AsyncClient, cluster: Any, state_of: Callable[..., Any]
) -> None:
    """The coordinator answers after offsets.commit.timeout.ms; here nothing runs its deadlines."""
    Coordinator(cluster, state_of, replicas=(1, 2))
    asked = asyncio.create_task(post(client, "groups/billing/reset-offsets", RESET))
    await cluster.clock.run_for(GROUP_TIME_LIMIT_MS)
    error = "the coordinator of billing does not answer; it may still do it"
    assert await asked == (503, {"error": error, "refusal": "MayBeDone"})


async def test_another_site_changes_no_group(client: httpx.AsyncClient, coordinator: Coordinator) -> None:
    for change in ("reset-offsets", "delete"):
        response = await client.post(
            f"/api/v1/groups/billing/{change}", json={}, headers={"origin": "http://evil.example"}
        )
        assert response.status_code == 403


# --- the page ---


async def test_the_page_shows_groups_that_rebalance_first_then_those_with_members(
    cluster: Any, coordinator: Coordinator
) -> None:
    coordinator.commit("a-simple", p0=1)
    for group_id in ("b-busy", "c-calm"):
        leader = coordinator.join(group_id=group_id)
        if group_id == "c-calm":
            coordinator.sync(leader.member_id, 1, {}, group_id=group_id)
    state = read_state(cluster, cluster.control, cluster.groups, cluster.transactions)
    assert [group["id"] for group in state["groups"]] == ["b-busy", "c-calm", "a-simple"]
    assert [len(group["members"]) for group in state["groups"]] == [1, 1, 0]
    assert state["group_count"] == 3


async def test_the_page_shows_so_many_groups_and_members_and_adds_up_so_many_lags(
    cluster: Any, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_state, "GROUPS", 2)
    monkeypatch.setattr(group_state, "MEMBERS", 1)
    coordinator.consumers()
    for number in range(3):
        coordinator.commit(f"g{number}", p0=1)
    state = read_state(cluster, cluster.control, cluster.groups, cluster.transactions)
    shown = [(group["id"], group["member_count"], len(group["members"])) for group in state["groups"]]
    assert (shown, state["group_count"]) == ([("billing", 2, 1), ("g0", 0, 0)], 4)
    ends = group_state.Ends(cluster.brokers, cluster.control.image, 1)
    assert [group["lag"] for group in group_state.read_groups(cluster.groups, ends, 10)[0]] == [None, 9, None, None]


def test_partitions_of_internal_topics_come_last_and_only_those_with_records(
    cluster: Any, fake_log: Callable[..., Any], state_of: Callable[..., Any]
) -> None:
    cluster.has_topic("__consumer_offsets", *[state_of(1)] * 3)
    cluster.has_topic("orders")
    for partition, end in ((0, 0), (1, 7)):
        cluster.brokers[0].holds("__consumer_offsets", partition, is_leader=True, log=fake_log(end))
    state = read_state(cluster, cluster.control, cluster.groups, cluster.transactions)
    shown = [(row["topic"], row["partition"], row["internal"]) for row in state["partitions"]]
    assert shown == [("orders", 0, False), ("__consumer_offsets", 1, True)]
    assert state["partition_count"] == 4


async def test_sessions_of_members_that_ended_are_shown_if_they_expired_and_crowd_out_nothing(
    cluster: Any, coordinator: Coordinator
) -> None:
    cluster.brokers[0].park_produce().expire()
    coordinator.heartbeat_purgatory.on_finished = cluster.brokers[0].finished.add
    stayed = [coordinator.join(group_id=f"g{number}") for number in range(200)]
    coordinator.leave(stayed[0].member_id, group_id="g0")
    coordinator.advance_ms(SESSION_MS)
    finished = read_state(cluster, cluster.control, cluster.groups, cluster.transactions)["finished"]
    sessions = [row for row in finished if row["kind"] == "heartbeat"]
    assert {row["outcome"] for row in sessions} == {"expired"}
    assert len(sessions) == FINISHED_OF_IDLE
    assert finished[-1]["kind"] == "produce"
