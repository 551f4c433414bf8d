"""What an operation waits for is said in words that are made of data."""

from __future__ import annotations

from purgatorio.broker.causes.cause import (
    Cause,
    FetchPosition,
    FollowerBehind,
    NoRecordsYet,
    OpenTransaction,
    ReplicationThrottled,
    TooFewInSync,
)
from purgatorio.broker.causes.words import as_document, in_words
from purgatorio.broker.log.topic_partition import TopicPartition

ORDERS, BILLS = TopicPartition("orders", 0), TopicPartition("bills", 1)


def test_a_sentence_names_each_partition_once() -> None:
    causes: list[Cause] = [
        FollowerBehind(ORDERS, 2, -1, 42),
        FollowerBehind(ORDERS, 3, 40, 42),
        TooFewInSync(BILLS, 1, 2),
    ]
    assert in_words(causes) == (
        "orders-0: broker 2 has not fetched yet, broker 3 is at 40 of 42; bills-1: 1 in-sync replicas, 2 needed"
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
    throttled = (FetchPosition(ORDERS, 5, ReplicationThrottled(ORDERS, "10 bytes/s")),)
    assert in_words([NoRecordsYet(2, 0, 1, throttled, 0)]) == (
        "follower 2 has 0 of 1 bytes: orders-0 from 5 waits, out of sync: replication of 10 bytes/s"
    )


def test_the_fate_of_an_open_transaction_is_asked_for_by_its_data() -> None:
    transaction = OpenTransaction(ORDERS, "transaction of `x` (open 1 s)", 7, 5, 1_500)
    cause = NoRecordsYet(None, 0, 1, (FetchPosition(ORDERS, 5, transaction),), 0)
    assert in_words([cause], lambda asked: f"times out, {asked is transaction}").endswith(
        "(open 1.5 s, times out, True)"
    )


def test_a_cause_as_json_has_its_kind_and_texts_that_are_cut() -> None:
    assert as_document(ReplicationThrottled(ORDERS, "x" * 9), 4) == {
        "kind": "ReplicationThrottled",
        "tp": "orders-0",
        "quota": "xxxx",
    }
