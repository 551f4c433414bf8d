"""What the page says of transactions that hold a partition's last stable offset."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from purgatorio.admin.operations.reading.state import read_partitions, read_state
from tests.broker.transacting import begin, end


def test_a_partition_names_the_transaction_that_holds_its_last_stable_offset(
    cluster: Any, fake_log: Callable[..., Any]
) -> None:
    cluster.has_topic("orders")
    replica = cluster.brokers[0].holds("orders", is_leader=True, high_watermark=40, log=fake_log(40))
    begin(replica.log.producers, 7, 30, 1_000)
    begin(replica.log.producers, 8, 35, 2_000)
    (partition,), _ = read_partitions(cluster.brokers, cluster.control.image, cluster.transactions, 3_140)
    assert (partition["high_watermark"], partition["last_stable_offset"]) == (40, 30)
    assert partition["held_by"] == {
        "producer_id": 7,
        "transactional_id": "",
        "open_ms": 2_140,
        "timeout_left_ms": None,
        "says": "held by the transaction of producer 7, open 2.1 s",
    }


def test_an_ended_transaction_holds_it_until_its_marker_is_committed(
    cluster: Any, fake_log: Callable[..., Any]
) -> None:
    cluster.has_topic("orders")
    replica = cluster.brokers[0].holds("orders", is_leader=True, high_watermark=40, log=fake_log(41))
    begin(replica.log.producers, 7, 30, 1_000)
    end(replica.log.producers, 7, 40, 1_500)
    (partition,), _ = read_partitions(cluster.brokers, cluster.control.image, cluster.transactions, 3_140)
    assert partition["last_stable_offset"] == 30
    assert partition["held_by"] is not None
    assert partition["held_by"]["open_ms"] is None
    assert partition["held_by"]["says"] == "held by the transaction of producer 7, whose end is not committed yet"
    replica.high_watermark = 41
    (partition,), _ = read_partitions(cluster.brokers, cluster.control.image, cluster.transactions, 3_140)
    assert (partition["last_stable_offset"], partition["held_by"]) == (41, None)


def test_a_partition_without_a_replica_here_is_held_by_nothing(cluster: Any) -> None:
    cluster.has_topic("orders")
    (partition,) = read_state(cluster, cluster.control, cluster.groups, cluster.transactions)["partitions"]
    assert (partition["last_stable_offset"], partition["held_by"]) == (0, None)


def test_of_many_partitions_those_that_wait_for_a_transaction_are_kept(
    cluster: Any, fake_log: Callable[..., Any]
) -> None:
    cluster.has_topic("orders", count=50)
    for index in range(50):
        cluster.brokers[0].holds("orders", index, is_leader=True, high_watermark=40, log=fake_log(40))
    begin(cluster.brokers[0].partitions[47].log.producers, 7, 30, 1_000)
    partitions, _ = read_partitions(cluster.brokers, cluster.control.image, cluster.transactions, 0, limit=3)
    assert [each["partition"] for each in partitions] == [0, 1, 47]
