"""What waits, by its cause: in the state of one process, and of several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from purgatorio.admin.operations.reading import waits
from purgatorio.admin.operations.reading.state import read_state
from purgatorio.admin.operations.reading.waits import LOOKED_AT, NAMES, merged_waits, read_waits
from purgatorio.broker.causes.cause import (
    DeadLettersNotWritten,
    FaultActs,
    FetchPosition,
    FollowerBehind,
    MarkersMissing,
    NoRecordsYet,
    NoShareRecordsYet,
    NotLeading,
    OpenTransaction,
    QuotaExceeded,
    RecordsLocked,
    ReplicationThrottled,
    ShareCoordinatorFailed,
    SharePosition,
    TooFewInSync,
    UnwrittenMarker,
)
from purgatorio.broker.log.topic_partition import TopicPartition

T0, T1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def read(cluster: Any) -> list[dict[str, Any]]:
    return read_waits(cluster.brokers, cluster.control.image)


def parked(cluster: Any, *causes: Any, client: str = "shop", broker: int = 1) -> None:
    cluster.brokers[broker - 1].park_produce(causes=causes).client = client


def test_requests_that_wait_for_one_follower_are_one_group(cluster: Any) -> None:
    parked(cluster, FollowerBehind(T0, 3, 40, 42), FollowerBehind(T1, 3, 7, 8), client="a")
    cluster.clock.advance_ms(1_000)
    parked(cluster, FollowerBehind(T0, 3, -1, 5), client="b", broker=2)
    parked(cluster, FollowerBehind(T0, 2, 41, 42), client="b")
    first, second = read(cluster)
    assert (first["kind"], first["actor"], first["broker_ids"]) == ("FollowerBehind", "3", [3])
    assert (first["counts"], first["estimated"], first["behind"]) == ({"produce": 2}, False, 5)
    assert (first["clients"], first["client_count"]) == (["a", "b"], 2)
    assert (first["partitions"], first["partition_count"]) == (["orders-0", "orders-1"], 2)
    assert (first["waited_ms"], first["remaining_ms"], first["ordinary"]) == (1_000, 29_000, False)
    assert first["cause"] == {
        "kind": "FollowerBehind", "tp": "orders-0", "broker_id": 3, "at_offset": 40, "wanted_offset": 42
    }  # fmt: skip
    assert second["actor"] == "2"


def test_the_state_says_each_group_and_how_it_ends(cluster: Any) -> None:
    parked(cluster, FollowerBehind(T0, 3, 41, 42))
    cluster.brokers[2].gate.hold()
    (wait,) = read_state(cluster, cluster.control, cluster.groups, cluster.transactions)["waits"]
    assert wait["says"] == (
        "1 produce request of shop waits for broker 3, whose fetches are held: 1 record behind on orders-0."
    )
    assert [way["does"] for way in wait["ways"]] == ["Release fetches"]


def test_a_fetch_waits_for_what_holds_it_back_or_else_as_long_polls_do(cluster: Any) -> None:
    transaction = OpenTransaction(T1, "billing", 7, 40, 100)
    quota = ReplicationThrottled(T1, 2e6, 1_000_000)
    for follower, held_back_by in ((None, None), (None, transaction), (2, None), (2, quota)):
        positions = (FetchPosition(T0, 4, None), FetchPosition(T1, 4, held_back_by))
        parked(cluster, NoRecordsYet(follower, 0, 1, positions, 0))
    groups = [(each["kind"], each["actor"], each["partitions"], each["ordinary"]) for each in read(cluster)]
    assert groups == [
        ("OpenTransaction", "billing", ["orders-1"], False),
        ("ReplicationThrottled", "2", ["orders-1"], False),
        ("NoRecordsYet", "consumer", ["orders-0", "orders-1"], True),
        ("NoRecordsYet", "follower", ["orders-0", "orders-1"], True),
    ]


def test_fetches_that_wait_for_more_bytes_say_how_many_are_there_whatever_each_wants(cluster: Any) -> None:
    """One cause for all of them, which is none of a long poll: there are records."""
    positions = (FetchPosition(T0, 4, None),)
    for available, wanted in ((0, 1_000), (300, 300), (312, 100_000)):
        parked(cluster, NoRecordsYet(None, available, wanted, positions, 0))
    parked(cluster, NoShareRecordsYet("jobs", 7, 9, (SharePosition(T1, 4, None),), 0))
    waits = read_state(cluster, cluster.control, cluster.groups, cluster.transactions)["waits"]
    assert [(each["kind"], each["actor"], each["ordinary"], each["says"]) for each in waits] == [
        (
            "NoRecordsYet",
            "consumer-fetch.min.bytes",
            False,
            "1 produce request of shop waits for more bytes of orders-0: 312 are there, fetch.min.bytes is 100,000.",
        ),
        (
            "NoShareRecordsYet",
            "jobs-fetch.min.bytes",
            False,
            "1 produce request of shop waits for more bytes of orders-1: 7 are there, fetch.min.bytes is 9.",
        ),
        (
            "NoRecordsYet",
            "consumer",
            True,
            "2 produce requests of shop wait for new records, as long polls do.",
        ),
    ]
    parked(cluster, NoRecordsYet(None, 1, 2_000, positions, 0))
    worst, *_ = read_state(cluster, cluster.control, cluster.groups, cluster.transactions)["waits"]
    assert (worst["available_bytes"], worst["wanted_bytes"]) == ([1, 312], [2_000, 100_000])
    assert worst["says"] == (
        "2 produce requests of shop wait for more bytes of orders-0: 1 to 312 are there, "
        "fetch.min.bytes is 2,000 to 100,000."
    )


def test_a_share_fetch_waits_for_the_members_that_have_the_records_or_else_as_long_polls_do(cluster: Any) -> None:
    transaction = OpenTransaction(T1, "billing", 7, 40, 100)
    for held_back_by in (None, RecordsLocked(2_000), transaction):
        parked(cluster, NoShareRecordsYet("jobs", 0, 1, (SharePosition(T1, 4, held_back_by),), 0))
    waits = read_state(cluster, cluster.control, cluster.groups, cluster.transactions)["waits"]
    assert [(each["kind"], each["actor"], each["ordinary"]) for each in waits] == [
        ("RecordsLocked", "jobs", False),
        ("OpenTransaction", "billing", False),
        ("NoShareRecordsYet", "jobs", True),
    ]
    assert waits[0]["says"] == (
        "1 produce request of shop waits for members of group jobs: they have as many records as they may have, "
        "of orders-1."
    )
    assert waits[0]["ways"] == [
        {"does": "Let their locks run out", "path": "share-groups/jobs/expire-locks", "body": {}}
    ]


def test_absent_replicas_are_those_for_which_min_insync_replicas_waits(
    cluster: Any, state_of: Callable[..., Any]
) -> None:
    cluster.has_topic("orders", state_of(1, isr=[1]))
    parked(cluster, TooFewInSync(T0, 1, 2))
    parked(cluster, TooFewInSync(TopicPartition("gone", 0), 1, 2))
    assert [each["broker_ids"] for each in read(cluster)] == [[2, 3], []]


@pytest.mark.parametrize(
    ("cause", "actor", "broker_ids"),
    [
        (NotLeading(T0, 2), "2", [2]),
        (MarkersMissing("t", (UnwrittenMarker(T0, 2, ""), UnwrittenMarker(T1, None, "")), 0), "t", [2]),
        (ShareCoordinatorFailed(T0, "g", "read", 2, "NOT_COORDINATOR", 4), "2", [2]),
        (ShareCoordinatorFailed(T0, "g", "read", None, "", 4), "", []),
        (DeadLettersNotWritten(T0, "g", "orders-0", 2, "lost", 4), "2", [2]),
        (DeadLettersNotWritten(T0, "g", "orders-0", None, "no leader", 4), "", []),
        (FaultActs(5, "slow", "Fetch", "hold"), "5 Fetch", []),
        (QuotaExceeded("Produce", "u", "", "user u", 10, 2.0, 1.0), "Produce quota of user u", []),
        ("something", "", []),
    ],
)
def test_each_cause_has_an_actor(cluster: Any, cause: Any, actor: str, broker_ids: list[int]) -> None:
    parked(cluster, cause)
    (wait,) = read(cluster)
    assert (wait["kind"], wait["actor"], wait["broker_ids"]) == (type(cause).__name__, actor, broker_ids)


def test_an_operation_that_tells_nothing_waits_in_the_name_of_its_purgatory(cluster: Any) -> None:
    cluster.brokers[0].park_produce()
    (wait,) = read(cluster)
    assert (wait["kind"], wait["actor"], wait["missing"]) == ("", "Produce", "an event on its keys")


@pytest.mark.parametrize("name", ["Heartbeat", "TransactionTimeout", "AcquisitionLock"])
def test_what_may_last_until_a_deadline_is_no_request_that_waits(cluster: Any, name: str) -> None:
    cluster.brokers[0].park_produce()
    cluster.brokers[0].purgatories[0].name = name
    assert read(cluster) == []


def test_of_many_operations_the_oldest_stand_for_all(cluster: Any) -> None:
    for number in range(3 * LOOKED_AT):
        parked(cluster, FollowerBehind(TopicPartition("orders", number), 3, 0, 1), client=f"shop-{number}")
    (wait,) = read(cluster)
    assert (wait["counts"], wait["estimated"]) == ({"produce": 3 * LOOKED_AT}, True)
    assert (len(wait["partitions"]), wait["partition_count"]) == (NAMES, LOOKED_AT)
    assert (len(wait["clients"]), wait["client_count"]) == (NAMES, LOOKED_AT)


def test_fewer_operations_are_looked_at_if_each_waits_for_very_much(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waits, "FIRST", 2)
    monkeypatch.setattr(waits, "CAUSES_OF_FIRST", 9)
    for _ in range(4):
        parked(cluster, *(FollowerBehind(TopicPartition("orders", each), 3, 0, 1) for each in range(5)))
    (wait,) = read(cluster)
    assert (wait["counts"], wait["estimated"]) == ({"produce": 4}, True)


def test_groups_of_several_processes_are_put_together() -> None:
    one = {
        "kind": "FollowerBehind", "actor": "3", "ordinary": False, "counts": {"produce": 2}, "estimated": False,
        "clients": ["a", "b"], "client_count": 2, "partitions": ["t-0"], "partition_count": 1, "behind": 4,
        "waited_ms": 10, "remaining_ms": 50, "available_bytes": None, "wanted_bytes": None,
    }  # fmt: skip
    other = one | {
        "counts": {"produce": 1, "fetch": 1}, "estimated": True, "clients": ["b"], "client_count": 1,
        "partitions": [f"u-{each}" for each in range(NAMES)], "partition_count": 70, "behind": 1, "waited_ms": 20,
        "remaining_ms": 40,
    }  # fmt: skip
    poll = one | {"kind": "NoRecordsYet", "actor": "consumer", "ordinary": True, "counts": {"consumer fetch": 9}}
    some, others = (
        {"available_bytes": [4, 8], "wanted_bytes": [7, 7]},
        {"available_bytes": [3, 5], "wanted_bytes": [9, 9]},
    )
    merged, ordinary = merged_waits([poll, one | some, other | others])
    assert (merged["available_bytes"], merged["wanted_bytes"]) == ([3, 8], [7, 9])
    assert ordinary == poll
    assert (merged["counts"], merged["estimated"]) == ({"produce": 3, "fetch": 1}, True)
    assert (merged["clients"], merged["client_count"]) == (["a", "b"], 2)
    assert (len(merged["partitions"]), merged["partition_count"], merged["behind"]) == (NAMES, 71, 4)
    assert (merged["waited_ms"], merged["remaining_ms"]) == (20, 40)
