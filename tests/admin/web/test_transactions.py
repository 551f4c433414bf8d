"""Transactions in the JSON API: a real coordinator over one broker's replicas, in a cluster that stands still."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from purgatorio.admin.operations.reading import transaction_state
from purgatorio.admin.operations.reading.state import read_partitions, read_state
from purgatorio.broker.causes.cause import FetchPosition, NoRecordsYet, OpenTransaction
from purgatorio.broker.log.topic_partition import TopicPartition
from purgatorio.broker.metadata.topic_name import TRANSACTION_STATE_TOPIC
from purgatorio.broker.time import long_work
from purgatorio.broker.txn.marker_writer import MarkerWriter
from purgatorio.broker.txn.producers import ProducerIdAndEpoch
from purgatorio.broker.txn.requests import PATIENCE_MS
from purgatorio.protocol.record import Record
from purgatorio.protocol.records import build_batch
from tests.broker.replica.harness import topic
from tests.broker.txn.harness import TIMEOUT_MS, TransactionHarness, state_topic

ORDERS = TopicPartition("orders", 0)
OTHER = TopicPartition("orders", 1)


class Coordinator(TransactionHarness):
    """Broker 1 as the coordinator of all transactional ids, and as the leader of orders with two partitions."""

    def __init__(self, cluster: Any, state_of: Callable[..., Any], replicas: tuple[int, ...] = (1,)) -> None:
        super().__init__(replicas)
        self.set_topics(state_topic(replicas), topic("orders", partitions=2, replicas=(1,)))
        cluster.has_topic(TRANSACTION_STATE_TOPIC, state_of(1))
        cluster.has_topic("orders", state_of(1), state_of(1))
        cluster.clock = self.clock
        broker = cluster.brokers[0]
        broker.coordinates_transactions(self)
        broker.replicas = self.replicas
        writer = MarkerWriter(self.replicas, self.clock, timeout_ms=TIMEOUT_MS)
        broker.coordinators = SimpleNamespace(marker_writer=writer)
        broker.partitions = [self.partition(tp) for tp in (ORDERS, OTHER)]

    def begin(self, transactional_id: str, *partitions: TopicPartition) -> ProducerIdAndEpoch:
        """Open a transaction; returns its producer."""
        producer = self.init(transactional_id=transactional_id).producer
        assert not self.add(producer, *(partitions or (ORDERS,)), transactional_id=transactional_id).error
        return producer

    def write(
        self, producer_id: int, epoch: int = 0, *, transactional_id: str = "", tp: TopicPartition = ORDERS
    ) -> None:
        """Append a record of a transaction, which its coordinator need not know."""
        record = Record(0, self.clock.wall_ms(), None, b"value")
        batch = build_batch(
            [record], producer_id=producer_id, producer_epoch=epoch, base_sequence=0, transactional=True
        )
        self.replicas.append([(tp, batch)], acks=1, timeout_ms=0, done=lambda _: None, from_client=False)
        self.partition(tp).log.producers.name(producer_id, transactional_id)


@pytest.fixture
def coordinator(cluster: Any, state_of: Callable[..., Any]) -> Coordinator:
    return Coordinator(cluster, state_of)


async def get(client: httpx.AsyncClient, path: str, status: int = 200) -> Any:
    response = await client.get(f"/api/v1/{path}")
    assert response.status_code == status, response.text
    return response.json()


async def post(client: httpx.AsyncClient, path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
    response = await client.post(f"/api/v1/{path}", json=body or {})
    return response.status_code, response.json()


def ids(listed: dict[str, Any]) -> list[str]:
    return [row["id"] for row in listed["transactions"]]


# --- listing ---


async def test_transactions_are_listed_with_their_times_and_coordinator(
    client: httpx.AsyncClient, coordinator: Coordinator
) -> None:
    producer = coordinator.begin("billing", ORDERS, OTHER)
    coordinator.advance_ms(2_100)
    listed = await get(client, "transactions")
    assert listed == {
        "transactions": [
            {
                "id": "billing",
                "state": "Ongoing",
                "producer_id": producer.producer_id,
                "producer_epoch": 0,
                "coordinator": 1,
                "open_ms": 2_100,
                "timeout_ms": 60_000,
                "timeout_left_ms": 57_900,
                "idle_ms": 2_100,
                "partition_count": 2,
                "missing_markers": 0,
                "waits_for": "",
                "causes": [],
            }
        ],
        "transaction_count": 1,
        "loading_partition_count": 0,
    }


async def test_the_oldest_open_transaction_is_listed_first(client: httpx.AsyncClient, coordinator: Coordinator) -> None:
    coordinator.init(transactional_id="a-idle")
    for each in ("c-old", "b-young"):
        coordinator.begin(each)
        coordinator.advance_ms(10)
    listed = await get(client, "transactions?limit=2")
    assert (ids(listed), listed["transaction_count"]) == (["c-old", "b-young"], 3)
    assert ids(await get(client, "transactions")) == ["c-old", "b-young", "a-idle"]


async def test_a_list_is_filtered_by_state_producer_and_duration(
    client: httpx.AsyncClient, coordinator: Coordinator
) -> None:
    coordinator.init(transactional_id="idle")
    old = coordinator.begin("old")
    coordinator.advance_ms(1_000)
    ending = coordinator.begin("ending")
    coordinator.end(ending, transactional_id="ending")
    assert ids(await get(client, "transactions?state=Empty")) == ["idle"]
    assert ids(await get(client, "transactions?state=PrepareCommit")) == ["ending"]
    assert ids(await get(client, f"transactions?producer_id={old.producer_id}")) == ["old"]
    assert ids(await get(client, "transactions?open_longer_than_ms=999")) == ["old"]
    assert ids(await get(client, "transactions?open_longer_than_ms=1000")) == []
    refused = await get(client, "transactions?state=ongoing", 400)
    assert refused["error"].startswith("state must be one of Empty, Ongoing, PrepareCommit")


async def test_without_transactions_the_list_is_empty(client: httpx.AsyncClient) -> None:
    assert ids(await get(client, "transactions")) == []
    assert (await get(client, "transactions/billing", 404))["error"] == "there is no transactional id billing"


async def test_ids_that_are_being_loaded_are_told_of(
    client: httpx.AsyncClient, cluster: Any, state_of: Callable[..., Any]
) -> None:
    coordinator = Coordinator(cluster, state_of)
    coordinator.begin("billing")
    coordinator.elect(1, 1, (1,))
    assert (await get(client, "transactions"))["loading_partition_count"] == 1
    refused = await get(client, "transactions/billing", 503)
    assert refused["error"] == "broker 1, the coordinator of billing: __transaction_state-0 is being loaded"


async def test_ids_of_a_former_coordinator_are_not_listed(
    client: httpx.AsyncClient, coordinator: Coordinator, cluster: Any, state_of: Callable[..., Any]
) -> None:
    coordinator.begin("billing")
    cluster.has_topic(TRANSACTION_STATE_TOPIC, state_of(2, leader_epoch=1))
    assert ids(await get(client, "transactions")) == []


# --- one ---


async def test_a_transaction_is_described_with_its_partitions_and_missing_markers(
    client: httpx.AsyncClient, coordinator: Coordinator
) -> None:
    producer = coordinator.begin("a/b", OTHER, ORDERS)
    coordinator.end(producer, transactional_id="a/b")
    coordinator.ends.write(ORDERS)
    described = await get(client, "transactions/a%2Fb")
    assert (described["state"], described["missing_markers"], described["timeout_left_ms"]) == (
        "PrepareCommit",
        1,
        None,
    )
    assert described["waits_for"] == "the transaction of a/b waits for its markers"
    assert described["partitions"] == [
        {"topic": "orders", "partition": 0, "leader": 1, "marker_missing": False},
        {"topic": "orders", "partition": 1, "leader": 1, "marker_missing": True},
    ]


# --- abort ---


async def test_an_abort_fences_the_producer(client: httpx.AsyncClient, coordinator: Coordinator) -> None:
    coordinator.ends.is_instant = True
    producer = coordinator.begin("billing")
    status, answer = await post(client, "transactions/billing/abort")
    assert (status, answer) == (
        200,
        {"id": "billing", "state": "aborted", "producer_id": producer.producer_id, "producer_epoch": 2},
    )
    assert coordinator.add(producer, transactional_id="billing").error == 90
    assert coordinator.transactions.completion.aborted_count == 1


async def test_an_abort_keeps_the_timeout_of_the_id(client: httpx.AsyncClient, coordinator: Coordinator) -> None:
    coordinator.ends.is_instant = True
    producer = coordinator.init(transactional_id="billing", timeout_ms=1_234).producer
    coordinator.add(producer, transactional_id="billing")
    await post(client, "transactions/billing/abort")
    assert coordinator.value("billing").timeout_ms == 1_234


async def test_without_an_open_transaction_there_is_nothing_to_abort(
    client: httpx.AsyncClient, coordinator: Coordinator
) -> None:
    coordinator.init(transactional_id="billing")
    refused = {"error": "billing has no open transaction: its state is Empty"}
    assert await post(client, "transactions/billing/abort") == (409, refused)
    assert coordinator.value("billing").producer_epoch == 0
    assert await post(client, "transactions/biling/abort") == (404, {"error": "there is no transactional id biling"})


async def test_a_producer_that_is_being_initialised_is_not_fenced_by_an_abort(
    client: httpx.AsyncClient, cluster: Any, state_of: Callable[..., Any]
) -> None:
    coordinator = Coordinator(cluster, state_of, replicas=(1, 2))
    coordinator.init(transactional_id="billing")
    refused = {"error": "billing has no open transaction: its state is Empty"}
    assert await post(client, "transactions/billing/abort") == (409, refused)


async def test_a_transaction_that_is_being_committed_cannot_be_aborted(
    client: httpx.AsyncClient, coordinator: Coordinator
) -> None:
    coordinator.end(coordinator.begin("billing"), transactional_id="billing")
    refused = {"error": "the transaction of billing is being ended already: its state is PrepareCommit"}
    assert await post(client, "transactions/billing/abort") == (409, refused)


async def test_an_abort_whose_markers_take_long_is_told_of(client: httpx.AsyncClient, coordinator: Coordinator) -> None:
    coordinator.begin("billing")
    asking = asyncio.create_task(post(client, "transactions/billing/abort"))
    for _ in range(100):
        await asyncio.sleep(0)
    assert coordinator.ends.endings
    coordinator.advance_ms(PATIENCE_MS)
    status, answer = await asking
    assert status == 503
    assert answer["error"].startswith("billing is not aborted yet, but will be")


async def test_another_site_aborts_nothing(client: httpx.AsyncClient, coordinator: Coordinator) -> None:
    coordinator.begin("billing")
    headers = {"Origin": "http://evil.example"}
    response = await client.post("/api/v1/transactions/billing/abort", json={}, headers=headers)
    assert response.status_code == 403
    assert coordinator.value("billing").state.state_name == "Ongoing"


# --- hanging ---


async def test_a_transaction_that_no_coordinator_knows_hangs(
    client: httpx.AsyncClient, coordinator: Coordinator
) -> None:
    known = coordinator.begin("billing", ORDERS)
    coordinator.write(known.producer_id, transactional_id="billing")
    assert ids(await get(client, "hanging-transactions")) == []
    coordinator.write(known.producer_id, tp=OTHER, transactional_id="billing")
    coordinator.write(7)
    coordinator.advance_ms(500)
    listed = await get(client, "hanging-transactions")
    assert [(row["topic"], row["partition"], row["producer_id"], row["id"]) for row in listed["transactions"]] == [
        ("orders", 0, 7, ""),
        ("orders", 1, known.producer_id, "billing"),
    ]
    assert (listed["transactions"][0]["start_offset"], listed["transactions"][0]["open_ms"]) == (1, 500)


async def test_a_hanging_transaction_is_ended_by_a_bare_marker(
    client: httpx.AsyncClient, coordinator: Coordinator
) -> None:
    coordinator.write(7, 3)
    assert coordinator.partition(ORDERS).last_stable_offset == 0
    body = {"topic": "orders", "partition": 0, "producer_id": 7}
    assert await post(client, "hanging-transactions/abort", body) == (200, {**body, "state": "aborted"})
    partition = coordinator.partition(ORDERS)
    assert (partition.last_stable_offset, len(partition.log.producers.aborted)) == (2, 1)
    assert await post(client, "hanging-transactions/abort", body) == (
        404,
        {"error": "producer 7 has no open transaction in orders-0"},
    )


async def test_a_transaction_that_its_coordinator_knows_is_not_ended_by_a_bare_marker(
    client: httpx.AsyncClient, coordinator: Coordinator
) -> None:
    producer = coordinator.begin("billing")
    coordinator.write(producer.producer_id)
    body = {"topic": "orders", "partition": 0, "producer_id": producer.producer_id}
    status, answer = await post(client, "hanging-transactions/abort", body)
    assert status == 409
    assert answer["error"] == (
        f"the transaction of producer {producer.producer_id} in orders-0 does not hang: the coordinator of billing "
        "knows it, in state Ongoing; abort billing instead"
    )
    assert coordinator.partition(ORDERS).last_stable_offset == 0


async def test_while_a_coordinator_loads_no_transaction_is_known_to_hang(
    client: httpx.AsyncClient, coordinator: Coordinator
) -> None:
    coordinator.begin("billing")
    coordinator.write(7)
    coordinator.set_topics(state_topic(leader_epoch=1), topic("orders", partitions=2, replicas=(1,)))
    body = {"topic": "orders", "partition": 0, "producer_id": 7}
    status, answer = await post(client, "hanging-transactions/abort", body)
    assert status == 503
    assert "so that no transaction can be known to hang" in answer["error"]
    assert (await get(client, "hanging-transactions", 503))["error"] == answer["error"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"topic": "orders", "partition": 9, "producer_id": 7}, 404),
        ({"topic": "orders", "partition": 0}, 400),
        ({"topic": "orders", "partition": 0, "producer_id": -1}, 400),
    ],
)
async def test_wrong_bodies_are_refused(
    client: httpx.AsyncClient, coordinator: Coordinator, body: dict[str, Any], status: int
) -> None:
    assert (await post(client, "hanging-transactions/abort", body))[0] == status


# --- the page ---


def state(cluster: Any) -> Any:
    return read_state(cluster, cluster.control, cluster.groups, cluster.transactions)


def test_the_page_shows_open_transactions_first_with_counts(cluster: Any, coordinator: Coordinator) -> None:
    coordinator.ends.is_instant = True
    done = coordinator.begin("done")
    coordinator.end(done, transactional_id="done")
    coordinator.advance_ms(5)
    coordinator.begin("open", ORDERS, OTHER)
    shown = state(cluster)
    assert [(row["id"], row["partitions"]) for row in shown["transactions"]] == [
        ("open", ["orders-0", "orders-1"]),
        ("done", []),
    ]
    assert shown["transaction_counts"] == {"ids": 2, "open": 1, "committed": 1, "aborted": 0, "timed_out": 0}
    coordinator.advance_ms(60_000)
    assert state(cluster)["transaction_counts"] == {"ids": 2, "open": 0, "committed": 1, "aborted": 1, "timed_out": 1}


def test_the_page_stays_small_whatever_is_open(cluster: Any, coordinator: Coordinator) -> None:
    many = [TopicPartition("orders", each) for each in range(50)]
    for number in range(transaction_state.TRANSACTIONS + 5):
        coordinator.begin(f"id-{number:02}", *many)
        coordinator.advance_ms(1)
    shown = state(cluster)["transactions"]
    assert [row["id"] for row in shown] == [f"id-{number:02}" for number in range(transaction_state.TRANSACTIONS)]
    assert {(len(row["partitions"]), row["partition_count"]) for row in shown} == {(transaction_state.PARTITIONS, 50)}


def test_a_partition_tells_when_the_transaction_that_holds_it_is_aborted(
    cluster: Any, coordinator: Coordinator
) -> None:
    producer = coordinator.begin("billing")
    coordinator.write(producer.producer_id, transactional_id="billing")
    coordinator.advance_ms(2_100)
    partitions, _ = read_partitions(
        cluster.brokers, cluster.control.image, cluster.transactions, coordinator.clock.wall_ms()
    )
    holding = partitions[0]["held_by"]
    assert holding is not None
    assert holding["timeout_left_ms"] == 57_900
    assert holding["says"] == "held by the transaction of `billing`, open 2.1 s, times out in 57.9 s"


@pytest.mark.parametrize(
    ("transactional_id", "says"),
    [("biling", "unknown to its coordinator"), ("idle", "unknown to its coordinator"), ("other", "unknown to its")],
)
def test_a_partition_tells_of_a_transaction_that_hangs(
    cluster: Any, coordinator: Coordinator, transactional_id: str, says: str
) -> None:
    coordinator.init(transactional_id="idle")
    coordinator.begin("other", OTHER)
    coordinator.write(7, transactional_id=transactional_id)
    partitions, _ = read_partitions(cluster.brokers, cluster.control.image, cluster.transactions, 0)
    assert partitions[0]["held_by"] is not None
    assert partitions[0]["held_by"]["says"].endswith(f", {says}") or says in partitions[0]["held_by"]["says"]


def test_a_parked_fetch_tells_when_the_transaction_is_aborted(cluster: Any, coordinator: Coordinator) -> None:
    producer = coordinator.begin("billing (1)")
    coordinator.advance_ms(2_100)
    waits = "consumer has 0 of 1 bytes: orders-0 from 0 waits for the transaction of `billing (1)` (open 2.1 s)"
    orders = TopicPartition("orders", 0)
    transaction = OpenTransaction(orders, "billing (1)", 7, 3, 2_100)
    position = FetchPosition(orders, 0, transaction)
    cluster.brokers[0].park_produce(causes=[NoRecordsYet(None, 0, 1, (position,), 0)])
    (operation,) = state(cluster)["brokers"][0]["purgatories"][0]["operations"]
    assert operation["missing"] == f"{waits[:-1]}, times out in 57.9 s)"
    assert operation["causes"] == [
        {
            "kind": "NoRecordsYet",
            "follower_id": None,
            "available_bytes": 0,
            "wanted_bytes": 1,
            "positions": [
                {
                    "kind": "FetchPosition",
                    "tp": "orders-0",
                    "offset": 0,
                    "held_back_by": {
                        "kind": "OpenTransaction",
                        "tp": "orders-0",
                        "transactional_id": "billing (1)",
                        "producer_id": 7,
                        "first_offset": 3,
                        "open_ms": 2_100,
                    },
                }
            ],
            "more_count": 0,
        }
    ]
    coordinator.end(producer, transactional_id="billing (1)")
    (operation,) = state(cluster)["brokers"][0]["purgatories"][0]["operations"]
    assert operation["missing"] == f"{waits[:-1]}, being committed)"


def test_the_longest_open_transaction_is_on_the_page_however_many_ids_there_are(
    cluster: Any, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction_state, "IDS_LOOKED_AT", 1)
    for number in range(5):
        coordinator.init(transactional_id=f"idle-{number}")
    coordinator.begin("open")
    assert [row["id"] for row in state(cluster)["transactions"]] == ["open", "idle-0"]


async def test_a_list_of_many_transactions_is_made_in_steps(
    client: httpx.AsyncClient, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction_state, "IDS_TOGETHER", 2)
    monkeypatch.setattr(long_work, "SLICE", 2)
    for number in range(5):
        coordinator.init(transactional_id=f"id-{4 - number}")
    listed = await get(client, "transactions?limit=3")
    assert (ids(listed), listed["transaction_count"]) == (["id-0", "id-1", "id-2"], 5)


def test_deadlines_of_transactions_are_told_of_only_if_they_came(cluster: Any, coordinator: Coordinator) -> None:
    """A producer may end a hundred transactions a second."""
    coordinator.timeouts.on_finished = cluster.brokers[0].finished.add
    coordinator.end(coordinator.begin("done"), transactional_id="done")
    coordinator.begin("late")
    coordinator.advance_ms(60_000)
    assert [(row["kind"], row["outcome"], row["keys"]) for row in state(cluster)["finished"]] == [
        ("transaction timeout", "expired", ["late"])
    ]
