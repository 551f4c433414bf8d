"""Sentences and ways out of groups of waits, from the documents that pages get."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.causes.answers import explain
from purgatorio.broker.causes.cause import (
    AwaitedMember,
    FaultActs,
    FollowerBehind,
    MembersToJoin,
    MembersToSync,
    NoLeader,
    NotDecided,
    OpenTransaction,
    TierLookUp,
    TierNotListed,
    TierRead,
    TooFewInSync,
)
from purgatorio.broker.causes.words import as_document
from purgatorio.broker.log.topic_partition import TopicPartition

TP = TopicPartition("orders", 0)


def broker(broker_id: int = 3, *, held: bool = False, delay_ms: int = 0, **facts: Any) -> dict[str, Any]:
    row = {
        "id": broker_id,
        "state": "running",
        "paused": False,
        "cut_off_from": [],
        "fenced": False,
        "lease": {"held": True},
        "follower": {"held": held, "delay_ms": delay_ms},
    }
    return row | facts


def told(
    cause: Any, *brokers: dict[str, Any], transactions: Any = (), tier: Any = None, **facts: Any
) -> tuple[str, list[Any]]:
    """The sentence and the ways out for a wait of one request, unless the facts say else."""
    wait = {
        "kind": type(cause).__name__,
        "actor": "",
        "broker_ids": [3] if isinstance(cause, FollowerBehind) else [],
        "cause": as_document(cause, 100),
        "missing": "it misses this",
        "counts": {"produce": 1},
        "estimated": False,
        "clients": ["shop"],
        "client_count": 1,
        "partitions": ["orders-0"],
        "partition_count": 1,
        "behind": 1,
    } | facts
    explain({"waits": [wait], "brokers": brokers, "transactions": transactions, "tier": tier})
    return wait["says"], wait["ways"]


def test_many_requests_that_wait_for_a_follower_whose_fetches_are_held() -> None:
    many = {"counts": {"produce": 134}, "client_count": 12, "partition_count": 60}
    says, ways = told(FollowerBehind(TP, 3, 0, 1), broker(held=True), **many)
    assert says == (
        "134 produce requests of 12 clients wait for broker 3, whose fetches are held: "
        "1 record behind on 60 partitions."
    )
    assert ways == [{"does": "Release fetches", "path": "brokers/3/follower", "body": {"held": False}}]


@pytest.mark.parametrize(
    ("row", "says", "ways"),
    [
        (broker(held=True), "whose fetches are held", ["Release fetches"]),
        (broker(delay_ms=300), "whose fetches are delayed by 300 ms", ["End the delay"]),
        (broker(state="stopped", follower=None), "which is down", ["Start broker 3"]),
        (broker(state="stopping"), "which stops", ["Start broker 3"]),
        (broker(state="starting"), "which starts", []),
        (broker(paused=True), "which stands still", ["Resume it"]),
        (broker(cut_off_from=[1, 2]), "which is cut off from broker 1 and 2", ["Heal the network"]),
        (broker(fenced=True), "which has lost its lease", []),
        (broker(lease={"held": False}), "which has lost its lease", []),
        (
            broker(process={"id": 7, "trouble": "stands still (SIGSTOP)"}, paused=True),
            "whose process stands still (SIGSTOP)",
            ["Resume it"],
        ),
        (
            broker(process={"id": None, "trouble": "has not answered for 4 s"}),
            "whose process has not answered for 4 s",
            [],
        ),
        (
            broker(process={"id": 0, "trouble": "has ended: SIGKILL"}, state="stopped"),
            "which is down",
            ["Start broker 3"],
        ),
        (broker(process={"id": None, "trouble": "holds no lease"}, state="stopped"), "which is down", []),
        (broker(process={"id": 7, "trouble": ""}, held=True), "whose fetches are held", ["Release fetches"]),
        (broker(), "which has not fetched the records yet", []),
    ],
)
def test_what_is_the_matter_with_a_broker(row: Any, says: str, ways: list[str]) -> None:
    sentence, ways_out = told(FollowerBehind(TP, 3, 40, 42), row, behind=2)
    assert sentence == f"1 produce request of shop waits for broker 3, {says}: 2 records behind on orders-0."
    assert [way["does"] for way in ways_out] == ways


def test_a_broker_that_is_not_listed_is_named_all_the_same() -> None:
    says, ways = told(FollowerBehind(TP, 3, 40, 42), behind=5, partition_count=2, clients=[""], estimated=True)
    assert says == (
        "About 1 produce request waits for broker 3, which has not fetched the records yet: "
        "up to 5 records behind on 2 partitions."
    )
    assert ways == []


def test_too_few_replicas_are_in_sync_since_brokers_are_down() -> None:
    down = [broker(each, state="stopped", follower=None) for each in (2, 3)]
    says, ways = told(TooFewInSync(TP, 1, 2), *down, broker_ids=[2, 3])
    assert says == (
        "1 produce request of shop waits for broker 2, which is down and broker 3, which is down: "
        "1 replica is in sync on orders-0, min.insync.replicas is 2."
    )
    assert [way["path"] for way in ways] == ["brokers/2/start", "brokers/3/start"]


def test_a_transaction_is_named_with_its_time_and_can_be_aborted() -> None:
    cause = OpenTransaction(TP, "billing/1", 7, 40, 2_100)
    row = {"id": "billing/1", "timeout_left_ms": 57_900}
    fetches = {"counts": {"consumer fetch": 2}, "partition_count": 3}
    assert told(cause, transactions=[row], **fetches) == (
        "2 consumer fetches of shop wait for the transaction of billing/1, which has been open for 2.1 s on 3 "
        "partitions, and will be aborted in 58 s.",
        [{"does": "Abort it", "path": "transactions/billing%2F1/abort", "body": {}}],
    )
    unknown = told(OpenTransaction(TP, "", 7, 40, 2_100), **fetches)
    assert unknown == (
        "2 consumer fetches of shop wait for the transaction of producer 7, which has been open for 2.1 s on 3 "
        "partitions.",
        [],
    )
    says, ways = told(OpenTransaction(TP, "billing", 7, 40, None))
    assert says == "1 produce request of shop waits for the end of the transaction of billing to be committed."
    assert ways == []


def test_a_group_waits_for_members_and_can_go_on_without_them() -> None:
    members = (AwaitedMember("a-1", "a"), AwaitedMember("b-1", "b"))
    says, ways = told(MembersToJoin("g/1", members, 3, 1))
    assert says == "The rebalance of group g/1 waits for members a, b and 3 more and for 1 new member to join."
    assert ways == [{"does": "Go on without a", "path": "groups/g%2F1/expire-member", "body": {"member": "a-1"}}]
    says, ways = told(MembersToJoin("g", (), 0, 2))
    assert (says, ways) == ("The rebalance of group g waits for 2 new members to join.", [])
    says, ways = told(MembersToSync("g", 4, members[0], members, 0))
    assert says == "Generation 4 of group g waits for its leader a, to send the assignment."
    assert [way["body"] for way in ways] == [{"member": "a-1"}]
    says, _ = told(MembersToSync("g", 4, None, members[:1], 0))
    assert says == "Generation 4 of group g waits for member a to ask for the assignment."


@pytest.mark.parametrize(
    ("action", "many", "says"),
    [
        ("hold", 1, "1 Fetch request of shop waits for fault rule 9 (slow), which holds it until it is released."),
        ("delay_ms", 2, "2 Fetch requests of shop wait for fault rule 9 (slow), which delays them by 50 ms."),
        ("answer_delay_ms", 2, "2 Fetch requests of shop wait for fault rule 9 (slow), which delays their answers by 50 ms."),  # noqa: E501
        ("drop", 1, "1 Fetch request of shop waits for fault rule 9 (slow), which never answers it."),
    ],
)  # fmt: skip
def test_a_fault_rule_acts(action: Any, many: int, says: str) -> None:
    told_of_it, ways = told(FaultActs(9, "slow", "Fetch", action, 50), counts={"fault": many})
    assert told_of_it == says
    assert ways == [{"does": "Remove the rule", "path": "faults/9/release", "body": {}}]


def test_others_say_what_one_of_them_misses() -> None:
    assert told(NotDecided(), counts={"topic": 2})[0] == (
        "2 requests for topics of shop wait for the metadata store to decide."
    )
    assert told(NoLeader(TP), counts={"elect leader": 1})[0] == (
        "1 ElectLeaders request of shop waits for a leader of orders-0."
    )
    assert told("anything", counts={"toy": 2, "produce": 1})[0] == (
        "2 toy operations and 1 produce request of shop wait: it misses this."
    )


@pytest.mark.parametrize(
    ("cause", "says"),
    [
        (
            TierRead(TP, 0, 9, "/tier", 340, 3, "503"),
            "1 fetch from the tier of shop waits for orders-0 [0, 9) to come back from /tier: 340 ms, third try (503).",
        ),
        (
            TierLookUp(TP, 43_200_000, 0, 9, "/tier", ""),
            "1 fetch from the tier of shop waits: "
            "offset for 1970-01-01 12:00 UTC waits for the look-up in orders-0 [0, 9) in /tier.",
        ),
        (
            TierNotListed(TP, "/tier", ""),
            "1 fetch from the tier of shop waits to hear what /tier has of orders-0.",
        ),
    ],
)
def test_what_waits_for_the_tier(cause: Any, says: str) -> None:
    assert told(cause, counts={"remote fetch": 1}, missing=str(cause)) == (says, [])


def test_many_that_wait_for_the_tier_hear_of_what_they_have_in_common() -> None:
    many = {"counts": {"remote fetch": 2}, "client_count": 2}
    says, _ = told(TierRead(TP, 0, 9, "/tier", 340, 3, "503"), **many)
    assert says == "2 fetches from the tier of 2 clients wait for /tier to give back records of orders-0: 503."
    says, _ = told(TierLookUp(TP, 5, 0, 9, "/tier", ""), **many)
    assert says == "2 fetches from the tier of 2 clients wait for /tier to give back records of orders-0."


def test_the_rule_that_holds_a_read_is_named_and_can_be_removed() -> None:
    cause = TierRead(TP, 0, 9, "/tier", 340, 1, "", held_by=4)
    removal = [{"does": "Remove the rule", "path": "faults/4/release", "body": {}}]
    says, ways = told(cause, counts={"remote fetch": 1}, missing=str(cause))
    assert says.endswith("waits for orders-0 [0, 9) to come back from /tier: 340 ms, held by rule 4.")
    assert ways == removal
    says, ways = told(cause, counts={"remote fetch": 2})
    assert says.endswith("wait for /tier to give back records of orders-0: held by rule 4.")
    assert ways == removal


@pytest.mark.parametrize(
    ("timestamp_ms", "says"),
    [
        (43_201_000, "1970-01-01 12:00:01 UTC"),
        (43_201_002, "1970-01-01 12:00:01.002 UTC"),
        (2**62, str(2**62)),
    ],
)
def test_the_timestamp_of_a_look_up_is_a_time(timestamp_ms: int, says: str) -> None:
    assert str(TierLookUp(TP, timestamp_ms, 0, 9, "/tier", "")).startswith(f"offset for {says} waits ")


def test_a_follower_that_begins_behind_the_tier_is_said_to() -> None:
    tier: dict[str, Any] = {"location": "/tier", "strips": [], "brokers": [tier_row(3, rebuilding=["orders-0"])]}
    says, _ = told(TooFewInSync(TP, 1, 2), broker(), tier=tier, broker_ids=[3])
    assert "for broker 3, which rebuilds orders-0 from the tier: 1 replica" in says
    assert tier["says"] == ["Broker 3 rebuilds orders-0 from the tier."]


def tier_row(broker_id: int, trouble: str = "", away_ms: int | None = None, **facts: Any) -> dict[str, Any]:
    return {"id": broker_id, "trouble": trouble, "away_ms": away_ms, "rebuilding": []} | facts


def strip(partition: int, uncopied: int, *, leader: int = 1, refused: bool = False, runs: Any = ()) -> dict[str, Any]:
    facts = {"uncopied_bytes": uncopied, "refused": refused, "runs": list(runs)}
    return {"topic": "orders", "partition": partition, "leader": leader, **facts}


@pytest.mark.parametrize(
    ("rows", "strips", "says"),
    [
        ([tier_row(1)], [strip(0, 14_000_000)], []),
        (
            [tier_row(1, "503", 40_000)],
            [strip(0, 14_000_000, refused=True)],
            ["14 MB of orders-0 are not copied: s3://shop has not worked for 40 s (503); producers are refused."],
        ),
        (
            [tier_row(1, "503", 39_000), tier_row(2, "503", 40_000)],
            [strip(0, 14_000_000, refused=True), strip(1, 2_000_000, leader=2)],
            [
                "16 MB of orders-0 and orders-1 are not copied: s3://shop has not worked for 40 s (503); "
                "producers to orders-0 are refused."
            ],
        ),
        ([tier_row(1, "503", 500)], [strip(0, 0)], ["s3://shop has not worked for 0.5 s (503)."]),
        (
            [tier_row(1)],
            [strip(0, 1_500, refused=True)],
            ["1.5 kB of orders-0 are not copied yet, and producers are refused."],
        ),
        (
            [tier_row(1)],
            [strip(0, 0, runs=[{"kind": "damaged", "start": 2, "end": 4, "trouble": "another CRC"}] * 2)],
            ["orders-0 [2, 4) and 1 more cannot be read from s3://shop: another CRC."],
        ),
    ],
)
def test_what_is_the_matter_with_the_tier(rows: Any, strips: Any, says: list[str]) -> None:
    tier = {"location": "s3://shop", "brokers": rows, "strips": strips}
    explain({"waits": [], "brokers": [], "transactions": [], "tier": tier})
    assert tier["says"] == says
