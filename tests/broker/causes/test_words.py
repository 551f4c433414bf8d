"""What an operation waits for is said in words that are made of data."""

from __future__ import annotations

from typing import Any

import pytest

from purgatorio.broker.causes.cause import (
    AwaitedMember,
    Cause,
    DeadLettersNotWritten,
    FaultActs,
    FetchPosition,
    FirstMembersToJoin,
    FollowerBehind,
    LogStartBehind,
    MarkersMissing,
    MembersToJoin,
    MembersToSync,
    NoHeartbeat,
    NoLeader,
    NoRecordsYet,
    NotAcknowledged,
    NotDecided,
    NotInitialized,
    NotLeading,
    OpenTransaction,
    QuotaExceeded,
    ReplicationThrottled,
    ShareCoordinatorFailed,
    StateNotCommitted,
    TooFewInSync,
    TransactionNotConfirmed,
    TransactionNotEnded,
    UnwrittenMarker,
)
from purgatorio.broker.causes.words import as_document, in_words, listed, plural, seconds
from purgatorio.broker.log.topic_partition import TopicPartition

ORDERS, BILLS = TopicPartition("orders", 0), TopicPartition("bills", 1)
ADA, BOB = AwaitedMember("ada-1", "ada"), AwaitedMember("bob-2", "bob")


def test_a_sentence_names_each_partition_once() -> None:
    causes: list[Cause] = [
        FollowerBehind(ORDERS, 2, -1, 42),
        TooFewInSync(BILLS, 1, 2),
        FollowerBehind(ORDERS, 3, 40, 42),
    ]
    assert in_words(causes) == (
        "orders-0: broker 2 has not fetched yet, broker 3 is at 40 of 42; bills-1: 1 in-sync replicas, 2 needed"
    )


def test_partitions_that_wait_for_the_same_are_named_together() -> None:
    causes: list[Cause] = [
        FollowerBehind(TopicPartition("orders", partition), broker_id, 0, 1)
        for partition in range(8)
        for broker_id in (2, 3)
    ]
    causes.insert(6, NoLeader(BILLS))
    assert in_words(causes) == (
        "orders-0, orders-1, orders-2, orders-3, orders-4 and 3 more: broker 2 is at 0 of 1, broker 3 is at 0 of 1; "
        "bills-1: no leader yet"
    )


def test_a_fetch_says_what_holds_it_back_on_each_partition() -> None:
    positions = (
        FetchPosition(ORDERS, 5, OpenTransaction(ORDERS, "", 7, 5, 1_500)),
        FetchPosition(BILLS, 0, OpenTransaction(BILLS, "billing", 7, 0, None)),
    )
    assert in_words([NoRecordsYet(None, 0, 1, positions, 3)]) == (
        "consumer has 0 of 1 bytes: orders-0 from 5 waits for the transaction of producer 7 (open 1.5 s), "
        "bills-1 from 0 waits for the end of the transaction of `billing` to be committed and 3 more"
    )
    throttled = (FetchPosition(ORDERS, 5, ReplicationThrottled(ORDERS, 3_000, 1_000)),)
    assert in_words([NoRecordsYet(2, 0, 1, throttled, 0)]) == (
        "follower 2 has 0 of 1 bytes: orders-0 from 5 waits, out of sync: replication of 3 kB/s of 1 kB/s"
    )


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (LogStartBehind(ORDERS, 2, 0, 5), "orders-0: broker 2 starts at 0 of 5"),
        (LogStartBehind(ORDERS, 2, -1, 5), "orders-0: broker 2 has not fetched yet"),
        (NotDecided(), "the metadata store has not decided yet"),
        (NotLeading(ORDERS, 2), "orders-0: broker 2 does not lead yet"),
        (MembersToJoin("app", (ADA, BOB), 0, 0), "rebalance of app waits for members ada and bob"),
        (MembersToJoin("app", (), 0, 2), "rebalance of app waits for 2 new member ids to join"),
        (MembersToJoin("app", (ADA,), 0, 1), "rebalance of app waits for member ada and for 1 new member id to join"),
        (FirstMembersToJoin("app", 2), "first rebalance of app waits for more members; 2 joined so far"),
        (MembersToSync("app", 3, None, (ADA, BOB), 7), "generation 3 of app waits for members ada, bob and 7 more"),
        (MembersToSync("app", 3, ADA, (BOB, ADA), 0), "generation 3 of app waits for the assignment of leader ada"),
        (NoHeartbeat("app", "m" * 200), f"no heartbeat of member {'m' * 100}… of app yet"),
        (
            NotInitialized("app", (ORDERS,), 0, ""),
            "app waits for orders-0: the share coordinator has not initialized its state yet",
        ),
        (
            NotInitialized("app", (ORDERS, BILLS), 3, "FENCED_STATE_EPOCH"),
            "app waits for orders-0, bills-1 and 3 more: the share coordinator could not initialize its state "
            "(FENCED_STATE_EPOCH), and will be asked again",
        ),
        (NotAcknowledged("app", "ada", ORDERS, 5, 5, 1, 1), "orders-0: member ada of app has not acknowledged 5"),
        (NotAcknowledged("app", "ada", ORDERS, 5, 9, 5, 1), "orders-0: member ada of app has not acknowledged 5 to 9"),
        (
            NotAcknowledged("a" * 200, "ada", ORDERS, 5, 9, 2, 3),
            f"orders-0: member ada of {'a' * 100}… has not acknowledged 5 to 9 (2 of 5 left, delivery 3)",
        ),
        (
            TransactionNotConfirmed("pay", (ORDERS, BILLS), 2),
            "the coordinator of `pay` has not confirmed that its transaction includes orders-0, bills-1 and 2 more",
        ),
        (TransactionNotEnded("pay", 1), "the transaction of pay is open, with 1 partition"),
        (StateNotCommitted("pay", "Empty"), "the transaction of pay becomes Empty when the replicas have it"),
        (
            MarkersMissing("pay", (UnwrittenMarker(ORDERS, 2, "NOT_LEADER"), UnwrittenMarker(BILLS, None, "")), 1),
            "the transaction of pay waits for the markers of orders-0 (broker 2: NOT_LEADER), bills-1 (no leader) "
            "and 1 more",
        ),
        (MarkersMissing("pay", (), 0), "the transaction of pay waits for its markers"),
        (
            ShareCoordinatorFailed(ORDERS, "app", "write", 2, "NOT_COORDINATOR", 4),
            "orders-0: the call to write the state of share group app failed at broker 2 (NOT_COORDINATOR), "
            "with 4 retries left",
        ),
        (
            ShareCoordinatorFailed(ORDERS, "app", "read", None, "", 5),
            "orders-0: the call to read the state of share group app has no broker to go to",
        ),
        (
            DeadLettersNotWritten(BILLS, "app", "orders-0", 2, "NOT_LEADER_OR_FOLLOWER", 3),
            "bills-1: the dead letters of share group app from orders-0 could not be written by broker 2 "
            "(NOT_LEADER_OR_FOLLOWER), with 3 tries left",
        ),
        (
            DeadLettersNotWritten(BILLS, "app", "orders-0", None, "no leader", 4),
            "bills-1: the dead letters of share group app from orders-0 could not be written (no leader), "
            "with 4 tries left",
        ),
        (FaultActs(3, "slow", "Produce", "delay_ms", 200), "Produce: slow delays it by 200 ms"),
        (FaultActs(3, "slow", "Produce", "answer_delay_ms", 200), "Produce: slow delays its answer by 200 ms"),
        (FaultActs(3, "fault 3", "Fetch", "hold"), "Fetch: fault 3 holds it until it is released"),
        (FaultActs(3, "fault 3", "Fetch", "drop"), "Fetch: fault 3 never answers it"),
        (
            QuotaExceeded("Produce", "", "billing", "default client", 99, 7_010, 1_000),
            "client `billing` is muted for 99 ms: 7.01 kB/s of 1 kB/s, rule: default client",
        ),
        (
            QuotaExceeded("Request", "alice", "", "user `alice`", 1_500, 250, 100),
            "user `alice` is muted for 1.5 s: request time of 250 % of 100 %, rule: user `alice`",
        ),
        (
            QuotaExceeded("ControllerMutation", "alice", "b", "user `alice`", 1_500, 3, 1),
            "user `alice` with client `b` is muted for 1.5 s: overdrawn by 3 partitions/s of 1 partitions/s, "
            "rule: user `alice`",
        ),
        ("any other object says itself", "any other object says itself"),
    ],
    ids=lambda each: "" if isinstance(each, str) else type(each).__name__,
)
def test_a_cause_in_words(cause: Any, words: str) -> None:
    assert in_words([cause]) == words


def test_the_fate_of_an_open_transaction_is_asked_for_by_its_data() -> None:
    transaction = OpenTransaction(ORDERS, "transaction of `x` (open 1 s)", 7, 5, 1_500)
    cause = NoRecordsYet(None, 0, 1, (FetchPosition(ORDERS, 5, transaction),), 0)
    assert in_words([cause], lambda asked: f"times out, {asked is transaction}").endswith(
        "(open 1.5 s, times out, True)"
    )


def test_names_in_a_sentence() -> None:
    assert listed(["a"]) == "a"
    assert listed(["a", "b"]) == "a and b"
    assert listed(["a", "b"], 7) == "a, b and 7 more"
    assert listed("abcdefgh") == "a, b, c, d, e and 3 more"


def test_a_cause_as_json_has_its_kind_and_texts_that_are_cut() -> None:
    assert as_document(MembersToSync("group", 3, AwaitedMember("member", "name"), (), 0), 4) == {
        "kind": "MembersToSync",
        "group_id": "grou",
        "generation": 3,
        "leader": {"kind": "AwaitedMember", "member_id": "memb", "name": "name"},
        "members": [],
        "more_count": 0,
    }
    assert as_document(ReplicationThrottled(ORDERS, 1.5, 1), 4) == {
        "kind": "ReplicationThrottled",
        "tp": "orders-0",
        "bytes_per_second": 1.5,
        "limit": 1,
    }


def test_a_number_has_its_noun_and_a_time_its_unit() -> None:
    assert [plural(1, "record"), plural(2, "record"), plural(0, "has", "have")] == ["1 record", "2 records", "0 have"]
    assert [seconds(ms) for ms in (0, 1_460, 9_949, 10_000, 61_700)] == ["0.0 s", "1.5 s", "9.9 s", "10 s", "62 s"]
