from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from purgatorio.admin.operations.reading import OPERATIONS_PER_PURGATORY, state
from purgatorio.admin.operations.reading.state import read_finished, read_partitions, read_state
from purgatorio.broker.causes.cause import FollowerBehind
from purgatorio.broker.log.topic_partition import TopicPartition


def test_a_parked_operation_is_shown_with_its_times_and_what_it_misses(cluster: Any) -> None:
    cluster.brokers[0].park_produce(causes=[FollowerBehind(TopicPartition("orders", 0), 3, 40, 42)]).client = "toy"
    cluster.clock.advance_ms(1_200)
    purgatory = read_state(cluster, cluster.control, cluster.groups, cluster.transactions)["brokers"][0]["purgatories"][
        0
    ]
    assert (purgatory["name"], purgatory["watched"], purgatory["num_delayed"]) == ("Produce", 1, 1)
    assert purgatory["operations"] == [
        {
            "id": 1,
            "kind": "produce",
            "keys": ["orders-0"],
            "key_count": 1,
            "parked_ms": 10_000,
            "deadline_ms": 40_000,
            "waited_ms": 1_200,
            "remaining_ms": 28_800,
            "checks": 2,
            "missing": "orders-0: broker 3 is at 40 of 42",
            "causes": [
                {"kind": "FollowerBehind", "tp": "orders-0", "broker_id": 3, "at_offset": 40, "wanted_offset": 42}
            ],
            "client": "toy",
        }
    ]
    assert purgatory["watch_lists"] == [{"key": "orders-0", "watched": 1}]


def test_fetches_of_followers_and_of_consumers_are_told_apart(cluster: Any) -> None:
    cluster.brokers[0].park_fetch(follower=2)
    cluster.brokers[0].park_fetch()
    operations = read_state(cluster, cluster.control, cluster.groups, cluster.transactions)["brokers"][0][
        "purgatories"
    ][1]["operations"]
    assert [(row["kind"], row["keys"]) for row in operations] == [
        ("follower fetch", ["orders-0", "follower 2"]),
        ("consumer fetch", ["orders-0"]),
    ]


def test_the_wheel_is_shown_by_level_with_its_buckets(cluster: Any) -> None:
    cluster.brokers[0].park_produce(delay_ms=7)
    cluster.brokers[0].park_produce(delay_ms=30_000)
    wheel = read_state(cluster, cluster.control, cluster.groups, cluster.transactions)["brokers"][0]["purgatories"][0][
        "wheel"
    ]
    assert [level["tick_ms"] for level in wheel] == [1, 20, 400, 8_000]
    assert wheel[0]["buckets"] == [{"expiration_ms": 10_007, "entries": 1}]
    assert wheel[3]["buckets"] == [{"expiration_ms": 40_000, "entries": 1}]


def test_a_partition_is_shown_as_its_leader_knows_it_and_as_each_replica_is(
    cluster: Any, fake_log: Callable[..., Any], fake_follower: Callable[..., Any]
) -> None:
    """Broker 3 has records that it has not acknowledged: the leader does not know of them yet."""
    cluster.has_topic("orders")
    followers = {2: fake_follower(42), 3: fake_follower(40)}
    cluster.brokers[2].holds("orders", high_watermark=38, log=fake_log(41))
    cluster.brokers[0].holds("orders", is_leader=True, high_watermark=40, log=fake_log(42), followers=followers)
    partitions, total = read_partitions(cluster.brokers, cluster.control.image, cluster.transactions, 0)
    assert total == 1
    assert (partitions[0]["leader"], partitions[0]["high_watermark"], partitions[0]["log_end_offset"]) == (1, 40, 42)
    shown = [
        (row["broker"], row["leader"], row["acknowledged_offset"], row["log_end_offset"], row["lag"])
        for row in partitions[0]["replicas"]
    ]
    assert shown == [(1, True, 42, 42, 0), (2, False, 42, None, 0), (3, False, 40, 41, 2)]


def test_a_replica_that_cannot_append_says_why(
    cluster: Any, fake_log: Callable[..., Any], fake_follower: Callable[..., Any]
) -> None:
    cluster.has_topic("orders")
    cluster.brokers[2].holds("orders", high_watermark=38, log=fake_log(41))
    cluster.brokers[2].partitions[0].refusal = "the memory is full"
    followers = {2: fake_follower(42), 3: fake_follower(40)}
    cluster.brokers[0].holds("orders", is_leader=True, high_watermark=40, log=fake_log(42), followers=followers)
    partitions, _ = read_partitions(cluster.brokers, cluster.control.image, cluster.transactions, 0)
    assert [row["refusal"] for row in partitions[0]["replicas"]] == [None, None, "the memory is full"]


def test_a_partition_whose_leader_is_elsewhere_is_shown_as_a_follower_knows_it(
    cluster: Any, fake_log: Callable[..., Any], state_of: Callable[..., Any]
) -> None:
    cluster.has_topic("orders", state_of(9, replicas=(9, 2)))
    cluster.brokers[1].holds("orders", replicas=(9, 2), isr=(9, 2), high_watermark=5, log=fake_log(6))
    (partition,), _ = read_partitions(cluster.brokers, cluster.control.image, cluster.transactions, 0)
    assert (partition["leader"], partition["high_watermark"]) == (9, 5)
    assert [row["log_end_offset"] for row in partition["replicas"]] == [None, 6]


def test_a_partition_that_nobody_leads_is_shown_as_offline_with_who_could_lead_it(
    cluster: Any, state_of: Callable[..., Any]
) -> None:
    """None of its replicas runs in this process, so its log is not known."""
    state = state_of(-1, isr=(), elr=(3,), leader_epoch=4, partition_epoch=7, adding=(2,))
    cluster.has_topic("orders", state)
    (partition,), _ = read_partitions(cluster.brokers, cluster.control.image, cluster.transactions, 0)
    assert partition["offline"]
    assert (partition["leader"], partition["leader_epoch"], partition["partition_epoch"]) == (-1, 4, 7)
    assert (partition["isr"], partition["elr"]) == ([], [3])
    assert partition["reassignment"] == {"adding": [2], "removing": []}
    assert partition["min_in_sync_replicas"] is None
    assert [(row["in_sync"], row["eligible"]) for row in partition["replicas"]] == [
        (False, False),
        (False, False),
        (False, True),
    ]


def test_of_many_partitions_those_that_are_offline_or_wait_for_a_replica_are_kept(
    cluster: Any, fake_log: Callable[..., Any], state_of: Callable[..., Any]
) -> None:
    cluster.has_topic("orders", *(state_of(-1 if index == 8 else 1) for index in range(10)))
    for index in range(10):
        log = fake_log(5)
        cluster.brokers[0].holds("orders", index, is_leader=True, log=log, high_watermark=4 if index in (7, 9) else 5)
    partitions, total = read_partitions(cluster.brokers, cluster.control.image, cluster.transactions, 0, limit=4)
    assert ([row["partition"] for row in partitions], total) == ([0, 7, 8, 9], 10)


def test_internal_partitions_hide_no_others_when_a_broker_is_down(cluster: Any, state_of: Callable[..., Any]) -> None:
    """All partitions lack a replica then; of the internal ones those with records are shown, or without any replica."""
    cluster.has_topic("__consumer_offsets", *(state_of(-1 if each == 9 else 1, isr=(1, 2)) for each in range(10)))
    cluster.has_topic("orders", *(state_of(1, isr=(1, 2)) for _ in range(3)))
    partitions, total = read_partitions(cluster.brokers, cluster.control.image, cluster.transactions, 0, limit=6)
    shown = [(row["topic"], row["partition"]) for row in partitions]
    assert (shown, total) == ([("orders", 0), ("orders", 1), ("orders", 2), ("__consumer_offsets", 9)], 13)


def test_a_finished_operation_says_who_asked_and_whom_it_waited_for_last(cluster: Any) -> None:
    operation = cluster.brokers[0].park_produce()
    operation.client, operation.held_by = "toy", lambda: (2, "no broker")
    operation.force_complete()
    (row,) = read_finished(cluster.brokers, 10)
    assert (row["client"], row["held_by"]) == ("toy", [2])


def test_finished_operations_of_all_brokers_come_newest_first(cluster: Any) -> None:
    for wait_ms, broker in ((5, 0), (10, 2), (20, 1)):
        cluster.clock.advance_ms(wait_ms)
        cluster.brokers[broker].park_produce(causes=["a"]).expire()
    rows = read_finished(cluster.brokers, 2)
    assert [(row["broker"], row["done_ms"], row["outcome"], row["detail"]) for row in rows] == [
        (2, 10_035, "expired", "a"),
        (3, 10_015, "expired", "a"),
    ]


def test_follower_fetches_do_not_crowd_out_what_else_finished(cluster: Any) -> None:
    broker = cluster.brokers[0]
    broker.park_produce().expire()
    for _ in range(200):
        cluster.clock.advance_ms(1)
        broker.park_fetch(follower=2).force_complete()
    kinds = [
        row["kind"] for row in read_state(cluster, cluster.control, cluster.groups, cluster.transactions)["finished"]
    ]
    assert kinds.count("follower fetch") == state.FINISHED_OF_IDLE
    assert kinds[-1] == "produce"


def test_only_what_finished_since_then_is_told_if_one_asks_so(cluster: Any) -> None:
    for _ in range(3):
        cluster.clock.advance_ms(10)
        cluster.brokers[0].park_produce().expire()
    assert [
        row["done_ms"]
        for row in read_state(cluster, cluster.control, cluster.groups, cluster.transactions, since_ms=10_020)[
            "finished"
        ]
    ] == [
        10_030,
        10_020,
    ]


def test_the_document_stays_small_whatever_waits(cluster: Any, fake_log: Callable[..., Any]) -> None:
    """A thousand parked operations on each broker with a thousand keys and long names, and as many partitions."""
    keys = [TopicPartition("t" * 249, index) for index in range(1_000)]
    cluster.has_topic("orders", count=1_000)
    for broker in cluster.brokers:
        broker.park_produce(*keys, causes=["x" * 100_000])
        for _ in range(1_000):
            broker.park_produce()
            broker.park_produce().expire()
        for index in range(1_000):
            broker.holds("orders", index, log=fake_log(1))
    document = read_state(cluster, cluster.control, cluster.groups, cluster.transactions)
    purgatory = document["brokers"][0]["purgatories"][0]
    first = purgatory["operations"][0]
    assert (purgatory["num_delayed"], len(purgatory["operations"])) == (1_001, OPERATIONS_PER_PURGATORY)
    assert (len(first["keys"]), first["key_count"], len(first["missing"])) == (state.KEYS, 1_000, state.TEXT_CHARS)
    assert len(purgatory["watch_lists"]) == state.WATCH_LISTS_PER_PURGATORY
    assert (len(document["partitions"]), document["partition_count"]) == (state.PARTITIONS, 1_000)
    assert len(document["finished"]) == state.FINISHED
    assert len(json.dumps(document)) < 250_000


def test_a_broker_is_shown_with_its_role_and_its_hold(cluster: Any) -> None:
    broker = cluster.brokers[1]
    broker.gate.hold()
    broker.gate.delay_ms = 300
    broker.metrics.connection_opened()
    first, second, third = read_state(cluster, cluster.control, cluster.groups, cluster.transactions)["brokers"]
    assert (second["id"], second["port"], second["connections"]) == (2, 9093, 1)
    assert second["follower"] == {"held": True, "delay_ms": 300}
    assert [row["controller"] for row in (first, second, third)] == [True, False, False]
    assert first["registered"]
    assert first["state"] == "running"
    assert (first["broker_epoch"], first["fenced"], first["lease"]) == (11, False, {"id": 21, "held": True})


def test_a_fenced_broker_is_shown_as_such(cluster: Any) -> None:
    cluster.change_image(lambda image: image.with_broker(replace(image.brokers[2], fenced=True)))
    cluster.brokers[1].lifecycle.lease_lasts = False
    second = read_state(cluster, cluster.control, cluster.groups, cluster.transactions)["brokers"][1]
    assert (second["state"], second["registered"], second["fenced"]) == ("running", True, True)
    assert second["lease"] == {"id": 22, "held": False}


async def test_a_broker_that_does_not_run_is_shown_where_it_was(cluster: Any) -> None:
    await cluster.stop_broker(2)
    cluster.change_image(lambda image: image.without_broker(2))
    second = read_state(cluster, cluster.control, cluster.groups, cluster.transactions)["brokers"][1]
    assert (second["id"], second["state"], second["host"], second["port"]) == (2, "stopped", "127.0.0.1", 9093)
    assert (second["registered"], second["broker_epoch"], second["lease"]) == (False, -1, {"id": -1, "held": False})
    assert (second["follower"], second["purgatories"]) == (None, [])
