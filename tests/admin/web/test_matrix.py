"""Partitions × replicas, in few bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from purgatorio.admin.operations.reading import matrix
from purgatorio.admin.operations.reading.matrix import merged_matrix, read_matrix


def rows(cluster: Any) -> list[Any]:
    found: list[Any] = read_matrix(cluster, cluster.control.image)["rows"]
    return found


def test_a_row_says_what_each_replica_lacks(
    cluster: Any, fake_log: Callable[..., Any], fake_follower: Callable[..., Any], state_of: Callable[..., Any]
) -> None:
    cluster.has_topic("orders", state_of(1, isr=[1, 2], leader_epoch=7), state_of(1))
    followers = {2: fake_follower(40), 3: fake_follower(-1)}
    log = fake_log(42, log_start_offset=30)
    cluster.brokers[0].holds("orders", is_leader=True, high_watermark=40, log=log, followers=followers)
    assert rows(cluster) == [
        ["orders", 0, 1, 7, "waits", [[1, 0, 1], [2, 2, 1], [3, 12, 0]]],
        ["orders", 1, 1, 0, "", [[1, -1, 1], [2, -1, 1], [3, -1, 1]]],
    ]


def test_offline_partitions_come_first_then_those_that_wait(
    cluster: Any, fake_log: Callable[..., Any], state_of: Callable[..., Any]
) -> None:
    cluster.has_topic("a", state_of(1), state_of(1), state_of(-1, isr=[]))
    cluster.brokers[0].holds("a", 0, is_leader=True, high_watermark=2, log=fake_log(2))
    cluster.brokers[0].holds("a", 1, is_leader=True, high_watermark=1, log=fake_log(2))
    assert [(row[1], row[4]) for row in rows(cluster)] == [(2, "offline"), (1, "waits"), (0, "")]


def test_a_partition_whose_last_stable_offset_is_held_back_is_unstable(
    cluster: Any, fake_log: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.has_topic("a")
    held = cluster.brokers[0].holds("a", is_leader=True, high_watermark=2, log=fake_log(2))
    monkeypatch.setattr(type(held), "last_stable_offset", 1)
    assert [row[4] for row in rows(cluster)] == ["unstable"]


def test_there_are_at_most_so_many_rows(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix, "ROWS", 5)
    cluster.has_topic("orders", count=9)
    answer = read_matrix(cluster, cluster.control.image)
    assert ([row[1] for row in answer["rows"]], answer["partition_count"]) == ([0, 1, 2, 3, 4], 9)
    assert len(merged_matrix([answer, answer])["rows"]) == 5


def test_the_leader_knows_best_and_a_newer_epoch_better() -> None:
    def answer(*found: Any) -> dict[str, Any]:
        return {"cluster_id": "c", "now_ms": 1, "partition_count": 1, "rows": list(found)}

    unknown = ["t", 0, 1, 4, "", [[1, -1, 1]]]
    led = ["t", 0, 1, 4, "waits", [[1, 0, 1]]]
    newer = ["t", 0, 2, 5, "", [[1, -1, 1]]]
    assert merged_matrix([answer(unknown), answer(led)])["rows"] == [led]
    assert merged_matrix([answer(led), answer(unknown)])["rows"] == [led]
    assert merged_matrix([answer(led), answer(newer)])["rows"] == [newer]


async def test_the_state_has_the_partitions_that_are_named(client: httpx.AsyncClient, cluster: Any) -> None:
    cluster.has_topic("a-b", count=3)

    async def named(names: str) -> list[Any]:
        state = (await client.get("/api/v1/state", params={"partitions": names})).json()
        return [(row["topic"], row["partition"]) for row in state["partitions"]]

    assert await named("a-b-2,a-b-0,a-b-9,gone-0") == [("a-b", 0), ("a-b", 2)]
    assert await named("") == []


@pytest.mark.parametrize(
    ("names", "error"),
    [
        ("orders", "orders is no partition: give names such as orders-0,orders-1"),
        ("orders-x", "orders-x is no partition: give names such as orders-0,orders-1"),
        ("-1", "-1 is no partition: give names such as orders-0,orders-1"),
        (",".join(f"a-{each}" for each in range(41)), "41 partitions are too many: give up to 40"),
    ],
)
async def test_what_is_no_partition_is_refused(client: httpx.AsyncClient, names: str, error: str) -> None:
    answer = await client.get("/api/v1/state", params={"partitions": names})
    assert (answer.status_code, answer.json()["error"]) == (400, error)
